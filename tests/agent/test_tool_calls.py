"""What a model calls and what it is answered: order, slips, refusals, notes."""

from __future__ import annotations

import json
import re
from unittest.mock import MagicMock

import pytest
from agent_scripts import Script, answers, call
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, Hooks

from planctl import (
    InMemoryPlanStore,
    PlanCreatedEvent,
    PlanItem,
    Planning,
    PlanningToolset,
    PlanStatusUpdate,
    SqlitePlanStore,
)
from planctl.agent.prompts import CORE_TOOLS, SUBTASK_TOOLS
from planctl.core import apply
from planctl.operations import Add
from planctl.plan import TaskStatus

REPEATS = 50


def statuses(plan) -> dict[str, str]:
    return {step.id: step.status.value for step in plan.steps}


async def outcomes(script: Script, *capabilities, prompt: str = 'go') -> list[tuple[str, str]]:
    result = await script.agent(*capabilities).run(prompt)
    return answers(result.all_messages())


@pytest.fixture(params=['memory', 'sqlite'])
def make_store(request, tmp_path):
    def make(name: str):
        if request.param == 'memory':
            return InMemoryPlanStore(session=name)
        return SqlitePlanStore(tmp_path / 'plan.db', session=name)

    return make


async def test_six_status_changes_of_one_response_are_all_applied(make_store):
    for repeat in range(REPEATS):
        store = make_store(f's{repeat}')
        await apply(store, *(Add(f'step {number}') for number in range(1, 7)))
        script = Script([[call('update_task_status', task_id=str(n), status='completed') for n in range(1, 7)]])
        told = await outcomes(script, Planning(store=store, inject=False))
        assert statuses(await store.read()) == dict.fromkeys('123456', 'completed')
        assert [text.splitlines()[0] for _, text in told] == [f'Step {n} (step {n}) is completed.' for n in range(1, 7)]
        # Each answer tells the truth about its own call.
        assert [text.splitlines()[-1].split(' resolved')[0] for _, text in told] == [
            f'Plan: {n} of 6' for n in range(1, 7)
        ]


async def test_of_two_dependencies_that_close_a_circle_exactly_the_second_is_refused(make_store):
    for repeat in range(REPEATS):
        store = make_store(f's{repeat}')
        await apply(store, Add('a'), Add('b'))
        script = Script(
            [
                [
                    call('set_dependency', task_id='1', depends_on_id='2'),
                    call('set_dependency', task_id='2', depends_on_id='1'),
                ]
            ]
        )
        told = await outcomes(script, Planning(store=store, enable_subtasks=True))
        assert [outcome for outcome, _ in told] == ['success', 'failed']
        assert [step.depends_on for step in (await store.read()).steps] == [('2',), ()]


async def test_calls_of_one_response_take_effect_in_their_order(make_store):
    store = make_store('order')
    script = Script(
        [
            [
                call('write_plan', items=[{'content': 'a'}, {'content': 'b'}]),
                call('update_task_status', task_id='2', status='in_progress'),
                call('add_task', content='c'),
                call(
                    'write_plan',
                    items=[{'id': '2', 'content': 'b'}, {'id': '1', 'content': 'a'}, {'id': '3', 'content': 'c'}],
                ),
                call('remove_task', task_id='1'),
            ]
        ]
    )
    told = await outcomes(script, Planning(store=store))
    assert [outcome for outcome, _ in told] == ['success'] * 5
    plan = await store.read()
    assert [(step.id, step.status.value) for step in plan.steps] == [('2', 'in_progress'), ('3', 'pending')]
    assert not any('Kept' in text or 'somebody' in text.lower() for _, text in told)


async def test_reading_waits_its_turn_among_the_calls_of_a_response(make_store):
    adds = [call('add_task', content=text) for text in 'abcd']
    script = Script([[adds[0], call('read_plan'), *adds[1:3], call('get_available_tasks'), adds[3], call('read_plan')]])
    told = await outcomes(script, Planning(store=make_store('reads'), enable_subtasks=True))
    assert [text.count('[ ]') for _, text in told] == [0, 1, 0, 0, 3, 0, 4]


async def test_what_earlier_calls_of_a_response_did_counts_as_seen(make_store):
    store = make_store('own')
    await apply(store, Add('a'), Add('b'))
    script = Script(
        [
            [
                call('update_task_status', task_id='1', status='in_progress'),
                call('add_task', content='c'),
                call('write_plan', items=[{'id': '2', 'content': 'b'}]),
            ]
        ]
    )
    told = await outcomes(script, Planning(store=store))
    assert 'Removed although open, because the list left them out: 1 (a), 3 (c).' in told[2][1]
    assert [step.id for step in (await store.read()).steps] == ['2']


async def test_two_whole_plans_in_one_response_leave_the_second(make_store):
    store = make_store('two')
    script = Script([[call('write_plan', items=[{'content': 'a'}]), call('write_plan', items=[{'content': 'b'}])]])
    told = await outcomes(script, Planning(store=store))
    assert [step.content for step in (await store.read()).steps] == ['b']
    assert 'Ids in order: 1.' in told[0][1]
    assert 'Ids in order: 2.' in told[1][1]
    assert 'Removed although open, because the list left them out: 1 (a).' in told[1][1]


async def test_a_hook_of_another_capability_that_suspends_does_not_change_the_order():
    from dataclasses import dataclass

    import anyio

    @dataclass
    class Slow(AbstractCapability):
        async def before_tool_execute(self, ctx, *, call, tool_def, args):
            # The earlier the call, the longer it is held back.
            for _ in range(20 - 3 * len(args.get('content', ''))):
                await anyio.sleep(0)
            return args

    texts = ['a', 'bb', 'ccc', 'dddd']
    script = Script([[call('add_task', content=text) for text in texts]])
    store = InMemoryPlanStore()
    await outcomes(script, Slow(), Planning(store=store))
    assert [step.content for step in (await store.read()).steps] == texts
    assert all(tool.sequential for tool in script.requests[0][1].function_tools)


async def test_without_such_a_hook_plan_tools_are_no_barrier_for_others():
    script = Script([])
    agent = script.agent(Planning().prefix_tools('p'), Hooks(before_model_request=lambda ctx, request: request))

    @agent.on_event(PlanCreatedEvent)
    async def listen(ctx, event): ...

    await agent.run('go')
    assert not any(tool.sequential for tool in script.requests[0][1].function_tools)


async def test_a_registered_hook_around_tools_makes_them_one():
    async def before(ctx, *, call, tool_def, args):
        return args

    script = Script([])
    await outcomes(script, Planning(), Hooks(before_tool_execute=before))
    assert all(tool.sequential for tool in script.requests[0][1].function_tools)


# --- Slips ------------------------------------------------------------------------------------------------------

MALFORMED = [
    call('write_plan', '{"items": [{"content": "a"'),
    call('write_plan', 'a plan'),
    call('write_plan', '[]'),
    call('write_plan', '[{"content": "a"}]'),
    call('write_plan', 'null'),
    call('write_plan', '"text"'),
    call('write_plan', '{"items": "first a, then b"}'),
    call('write_plan', '{"items": [{"task_id": "1", "content": "a"}]}'),
    call('write_plan', '{"items": [{"content": "a"}]}]'),
    call('write_plan', '{"items": 3}'),
    call('write_plan', '{"items": [null]}'),
    call('write_plan', '{"items": [{"content": "a", "status": "failed"}]}'),
    call('write_plan', '{"items": [{"content": "a", "depends_on": ["1"]}]}'),
    call('write_plan', '{"plan": []}'),
    call('write_plan', '[' * 100_000),
    call('write_plan', '{"items": [{"content": {"a": 1}}]}'),
    call('write_plan', '{"items": [{"content": "a", "id": true}]}'),
    call('add_task', '{}'),
    call('add_task', '{"content": " "}'),
    call('add_task', '{"content": "a", "parent_id": "1"}'),
    call('update_task_status', '{"task_id": "1"}'),
    call('update_task_status', '{"task_id": "1", "status": "blocked"}'),
    call('update_task_status', '{"task_id": "1", "status": ""}'),
    call('update_task_status', '{"task_id": ["1"], "status": "completed"}'),
    call('update_task_status', '{"task_id": "\\ud800", "status": "completed"}'),
    call('update_task_statuses', '{"updates": []}'),
    call('update_task_statuses', '{"updates": "1 completed"}'),
    call(
        'update_task_statuses',
        '{"updates": [{"task_id": "1", "status": "completed"}, {"task_id": "7", "status": "completed"}]}',
    ),
    call('remove_task', '{"task_id": ""}'),
    call('read_plan', '{"verbose": true}'),
]


async def test_slips_in_a_row_are_answered_and_the_run_goes_on():
    store = InMemoryPlanStore()
    await apply(store, Add('keep me'))
    before = await store.read()
    script = Script([[slip] for slip in MALFORMED])
    told = await outcomes(script, Planning(store=store))
    assert len(told) == len(MALFORMED)
    assert [
        (outcome, slip.args) for (outcome, _), slip in zip(told, MALFORMED, strict=True) if outcome != 'failed'
    ] == []
    assert (await store.read()) == before
    for _, text in told:
        text.encode()
        assert len(text) < 400
        assert '\n' not in text
        # Braces are doubled only where a text is filled in.
        assert '{{' not in text


REFUSED = [
    call('write_plan', items=[]),
    call('add_subtask', parent_id='9', content='a'),
    call('set_dependency', task_id='2', depends_on_id='1'),
    call('set_dependency', task_id='1', depends_on_id='2'),
    call('update_task_status', task_id='2', status='completed'),
    call('get_available_tasks', depth=1),
]


async def test_no_answer_names_a_tool_as_the_request_does_not():
    store = InMemoryPlanStore()
    await apply(store, Add('a'), Add('b'))
    slips = [call(f'p_{slip.tool_name}', slip.args) for slip in (*MALFORMED, *REFUSED)]
    told = await outcomes(
        Script([[slip] for slip in slips]), Planning(store=store, enable_subtasks=True).prefix_tools('p')
    )
    bare = re.compile(rf'\b({"|".join((*CORE_TOOLS, *SUBTASK_TOOLS))})\b')
    assert len(told) == len(slips)
    assert [text for _, text in told if bare.search(text)] == []
    assert sum('`p_' in text for _, text in told) > 1


@pytest.mark.parametrize(
    ('arguments', 'expected'),
    [
        ({'items': json.dumps([{'content': 'a'}, {'content': 'b'}])}, ['a', 'b']),
        ({'items': {'content': 'a'}}, ['a']),
        ({'items': [json.dumps({'content': 'a'})]}, ['a']),
        ({'items': ['a', 'b']}, ['a', 'b']),
        ({'items': [{'content': 'a', 'parent_id': None, 'depends_on': []}]}, ['a']),
        ({'items': [{'content': 'a', 'id': 7, 'active_form': None, 'status': None}]}, ['a']),
        ({'items': None}, []),
    ],
)
async def test_slips_of_form_are_taken(arguments, expected):
    store = InMemoryPlanStore()
    told = await outcomes(Script([[call('write_plan', arguments)]]), Planning(store=store))
    assert [outcome for outcome, _ in told] == ['success']
    assert [step.content for step in (await store.read()).steps] == expected


@pytest.mark.parametrize(
    ('said', 'meant'),
    [
        ('done', 'completed'),
        ('Completed', 'completed'),
        ('in-progress', 'in_progress'),
        ('IN_PROGRESS', 'in_progress'),
        ('In Progress', 'in_progress'),
        ('canceled', 'cancelled'),
        ('todo', 'pending'),
    ],
)
async def test_obvious_spellings_of_a_status_are_taken(said, meant):
    store = InMemoryPlanStore()
    await apply(store, Add('a'))
    told = await outcomes(Script([[call('update_task_status', task_id=1, status=said)]]), Planning(store=store))
    assert told[0][0] == 'success'
    assert statuses(await store.read()) == {'1': meant}


@pytest.mark.parametrize('said', ['failed', 'skipped', 'blocked', '', 'in_progres', 'error', 3, None])
async def test_made_up_statuses_are_answered_with_those_there_are(said):
    store = InMemoryPlanStore()
    await apply(store, Add('a'))
    told = await outcomes(Script([[call('update_task_status', task_id='1', status=said)]]), Planning(store=store))
    assert told[0][0] == 'failed'
    if said is not None:
        assert 'Statuses: pending, in_progress, completed, cancelled.' in told[0][1]
    assert statuses(await store.read()) == {'1': 'pending'}


# --- Refusals and notes -----------------------------------------------------------------------------------------


async def test_an_unknown_id_is_answered_with_the_ids_there_are():
    store = InMemoryPlanStore()
    script = Script(
        [
            [call('update_task_status', task_id='1', status='completed')],
            [call('write_plan', items=[{'content': text} for text in 'abcde'] + [{'id': 'x1', 'content': 'f'}])],
            [call('remove_task', task_id='nope')],
        ]
    )
    told = await outcomes(script, Planning(store=store))
    assert told[0] == ('failed', "Not done: there is no step '1' in this plan. The plan has no steps.")
    assert told[2] == ('failed', "Not done: there is no step 'nope' in this plan. The ids are: 1 to 5, x1.")


async def test_refusals_name_a_way_out_among_the_tools_there_are():
    store = InMemoryPlanStore()
    await apply(store, Add('a'), Add('b', depends_on=('1',)))
    asked = [[call('update_task_status', task_id='2', status='completed')]]
    (told,) = await outcomes(Script(asked), Planning(store=store, enable_subtasks=True))
    assert told[1].startswith('Not done: step 2 waits for 1.')
    assert '`set_dependency`' in told[1]
    (told,) = await outcomes(Script(asked), Planning(store=store))
    assert 'set_dependency' not in told[1]
    assert 'Complete or cancel 1 first.' in told[1]
    asked = [[call('x_update_task_status', task_id='2', status='completed')]]
    (told,) = await outcomes(Script(asked), Planning(store=store, enable_subtasks=True).prefix_tools('x'))
    assert '`x_set_dependency`' in told[1]


async def test_a_circle_is_answered_with_what_can_be_taken_away_or_left_out():
    def items(*waits: list[str]) -> list[dict[str, object]]:
        return [{'id': str(at), 'content': f'step {at}', 'depends_on': on} for at, on in enumerate(waits, 1)]

    taking_away, leaving_out = '`set_dependency` with remove=true', 'Leave out what closes the circle.'
    for written, slip, way_out in (
        ([], call('write_plan', items=items(['1'])), leaving_out),
        ([], call('write_plan', items=items(['2'], ['1'])), leaving_out),
        (items([], []), call('set_dependency', task_id='1', depends_on_id='1'), leaving_out),
        (items([], ['1']), call('set_dependency', task_id='1', depends_on_id='2'), taking_away),
        (items([], ['1']), call('write_plan', items=items(['2'], ['1'])), taking_away),
    ):
        script = Script([[call('write_plan', items=written)], [slip]])
        told = await outcomes(script, Planning(enable_subtasks=True))
        assert told[1][0] == 'failed'
        assert [way in told[1][1] for way in (taking_away, leaving_out)] == [
            way_out is taking_away,
            way_out is leaving_out,
        ]


async def test_what_a_tool_for_reading_does_not_take_is_answered_with_what_its_schema_has():
    for tool in ('read_plan', 'get_available_tasks'):
        (told,) = await outcomes(Script([[call(tool, depth=1)]]), Planning(enable_subtasks=True))
        assert told == ('failed', "Unknown field 'depth' in the arguments. Known fields: nothing, an empty object.")


async def test_an_empty_plan_over_open_steps_is_refused_and_names_them():
    store = InMemoryPlanStore()
    await apply(store, Add('a'), Add('b'))
    (told,) = await outcomes(Script([[call('write_plan', items=[])]]), Planning(store=store, tools=['write_plan']))
    assert told[0] == 'failed'
    assert '1, 2' in told[1]
    assert 'remove_task' not in told[1]


async def test_the_note_of_several_in_progress_is_the_same_from_every_tool():
    both = [{'content': 'a', 'status': 'in_progress'}, {'content': 'b', 'status': 'in_progress'}]
    note = 'Note: 1, 2 are all in progress; keep it to one.'
    (told,) = await outcomes(Script([[call('write_plan', items=both)]]), Planning())
    assert note in told[1]
    updates = [{'task_id': 1, 'status': 'in_progress'}, {'task_id': 2, 'status': 'in_progress'}]
    script = Script(
        [
            [call('add_task', content='a'), call('add_task', content='b')],
            [call('update_task_statuses', updates=updates)],
        ]
    )
    told = await outcomes(script, Planning())
    assert note in told[-1][1]


async def test_answers_say_what_else_happened():
    script = Script(
        [
            [call('write_plan', items=[{'content': 'parent'}, {'content': 'after', 'depends_on': ['1']}])],
            [call('add_subtask', parent_id='1', content='child')],
            [call('update_task_status', task_id='3', status='completed')],
            [call('update_task_status', task_id='1', status='completed')],
            [call('set_dependency', task_id='2', depends_on_id='1')],
            [call('set_dependency', task_id='2', depends_on_id='1', remove=True)],
            [call('update_task_status', task_id='2', status='blocked', note='no access')],
            [call('get_available_tasks')],
            [call('update_task_status', task_id='2', status='completed')],
            [call('update_task_status', task_id='2', status='completed')],
            [call('get_available_tasks')],
        ]
    )
    store = InMemoryPlanStore()
    told = [text for _, text in await outcomes(script, Planning(store=store, enable_subtasks=True, inject=False))]
    assert told[0].splitlines() == [
        'Saved. Ids in order: 1, 2.',
        'Blocked now, since they wait for open steps: 2.',
        'Plan: 0 of 2 resolved, 1 blocked.',
    ]
    assert told[1].startswith('Added step 3 under 1.\n')
    assert 'All subtasks of 1 (parent) are resolved, so it can be completed too.' in told[2]
    assert 'No longer blocked: 2 (after).' in told[3]
    assert told[4] == 'Not done: step 2 already waits for 1. There is nothing to do.'
    assert told[5].startswith('Step 2 no longer waits for 1 and is pending.')
    assert told[6].startswith('Step 2 (after) is blocked.')
    assert told[7] == 'No step can be worked on now: the open ones are blocked or held by somebody else.'
    assert told[8].endswith('Plan: 3 of 3 resolved, finished.')
    assert told[9].startswith('Already so: 2.')
    assert told[10] == 'Nothing is left to do: every step is resolved.'


async def test_an_answer_leaves_the_progress_to_the_reminder_that_follows_it():
    script = Script([[call('add_task', content='a')], [call('update_task_status', task_id='1', status='completed')]])
    told = await outcomes(script, Planning())
    assert told == [('success', 'Added step 1.'), ('success', 'Step 1 (a) is completed.')]
    assert '1 of 1 resolved, finished' in script.reminder()


async def test_a_plain_plan_takes_blocked_with_a_reason_where_that_is_enabled():
    store = InMemoryPlanStore()
    script = Script(
        [[call('add_task', content='a')], [call('update_task_status', task_id='1', status='blocked', note='why')]]
    )
    await outcomes(script, Planning(store=store, enable_blocking=True))
    step = (await store.read()).step('1')
    assert (step.status, step.note) == (TaskStatus.blocked, 'why')
    assert script.names() == list(CORE_TOOLS)


async def test_a_step_that_somebody_added_meanwhile_is_kept_and_named():
    store = InMemoryPlanStore()
    await apply(store, Add('a'))
    script = Script([[call('write_plan', items=[{'id': '1', 'content': 'a'}, {'content': 'b'}])]])
    planning = Planning(store=store)
    agent = script.agent(planning)

    async with agent.iter('go') as run:
        async for node in run:
            if type(node).__name__ == 'CallToolsNode' and len(script.requests) == 1:
                await apply(store, Add('by hand'), actor='mai')
    (told,) = answers(run.result.all_messages())
    assert 'Kept although the list left them out' in told[1]
    assert '2 (by hand)' in told[1]
    assert [step.content for step in (await store.read()).steps] == ['a', 'by hand', 'b']


async def test_what_a_model_was_shown_and_leaves_out_goes_and_is_named():
    store = InMemoryPlanStore()
    await apply(store, Add('a'), Add('b'))
    (told,) = await outcomes(Script([[call('write_plan', items=[{'id': '1', 'content': 'a'}])]]), Planning(store=store))
    assert 'Removed although open, because the list left them out: 2 (b).' in told[1]


async def test_restating_a_cut_line_keeps_the_whole_text():
    store = InMemoryPlanStore()
    long = 'Read ' + 'word ' * 100 + 'end'
    await apply(store, Add(long), Add('see <plan-reminder> here'))
    script = Script([[]])
    seen = Planning(store=store)
    await script.agent(seen).run('go')
    shown = [line.split(' ', 3)[3] for line in script.reminder(0).splitlines() if line.startswith('[ ]')]
    assert shown[0].endswith('…')
    items = [{'id': '1', 'content': shown[0]}, {'content': shown[1]}]
    (told,) = await outcomes(Script([[call('write_plan', items=items)]]), seen)
    assert told[0] == 'success'
    assert [(step.id, step.content) for step in (await store.read()).steps] == [
        ('1', long),
        ('2', 'see <plan-reminder> here'),
    ]


# --- The toolset as Python --------------------------------------------------------------------------------------


async def test_the_methods_of_the_toolset_return_their_answers():
    toolset = PlanningToolset(Planning(enable_subtasks=True))
    ctx = MagicMock()
    assert (await toolset.read_plan(ctx)) == 'The plan has no steps.'
    saved = await toolset.write_plan(
        ctx, [PlanItem(id='a', content='A'), PlanItem(id='b', content='B', depends_on=['a'])]
    )
    assert saved.startswith('Saved. Ids in order: a, b.')
    assert (await toolset.update_task_status(ctx, 'b', TaskStatus.completed)).startswith(
        'Not done: step b waits for a.'
    )
    batch = [
        PlanStatusUpdate(task_id='b', status=TaskStatus.completed),
        PlanStatusUpdate(task_id='a', status=TaskStatus.completed),
    ]
    assert 'Now completed: ' in await toolset.update_task_statuses(ctx, batch)
    assert (await toolset.add_task(ctx, 'C', 'Doing C')).startswith('Added step 1.')
    assert (await toolset.add_subtask(ctx, '1', 'D')).startswith('Added step 2 under 1.')
    assert (await toolset.set_dependency(ctx, '2', 'b')).startswith('Step 2 waits for b now and is pending.')
    assert (await toolset.set_dependency(ctx, '2', 'b', remove=True)).startswith('Step 2 no longer waits for b')
    assert '[ ] 2 D' in await toolset.get_available_tasks(ctx)
    assert '[ ] 2 D (part of 1)' in await toolset.read_plan_tree(ctx)
    assert '\n  [ ] 2 D\n' in await toolset.read_plan_tree(ctx, hierarchical=True)
    assert (await toolset.remove_task(ctx, '1')).startswith('Removed: 1, 2.')
    assert (await toolset.update_task_statuses(ctx, [])).startswith('updates is empty')


async def test_items_made_in_python_keep_their_ids_and_what_they_leave_out():
    toolset = PlanningToolset(Planning())
    ctx = MagicMock()
    item = PlanItem(content='A')
    await toolset.write_plan(ctx, [item])
    await toolset.update_task_status(ctx, item.id, TaskStatus.in_progress)
    await toolset.write_plan(ctx, [PlanItem(id=item.id, content='A', active_form='Doing A')])
    assert f'[~] {item.id} A' in await toolset.read_plan(ctx)
    refused = await toolset.write_plan(ctx, [PlanItem(id=item.id, content='A', depends_on=['x'])])
    assert refused == 'depends_on cannot be used here: this plan has no subtasks and no dependencies.'
    refused = await toolset.update_task_status(ctx, item.id, TaskStatus.blocked)
    assert 'Statuses: pending, in_progress, completed, cancelled.' in refused


async def test_the_bare_toolset_works_without_the_capability_and_each_run_has_its_own_plan():
    script = Script([[call('add_task', content='a')], [call('read_plan')]])
    agent = Agent(script.model, toolsets=[PlanningToolset(Planning())])
    result = await agent.run('go')
    assert [outcome for outcome, _ in answers(result.all_messages())] == ['success', 'success']
    script.turns, script.requests = [[call('read_plan')]], []
    result = await agent.run('again')
    assert answers(result.all_messages()) == [('success', 'The plan has no steps.')]
    assert script.reminder() is None


async def test_a_bare_toolset_resolves_its_store_for_each_run():
    stores = {'a': InMemoryPlanStore(), 'b': InMemoryPlanStore()}
    script = Script([[call('add_task', content='one')], 'done', [call('add_task', content='two')]])
    toolset = PlanningToolset(Planning(store_resolver=lambda ctx: stores[ctx.deps]))
    agent = Agent(script.model, toolsets=[toolset], deps_type=str)
    await agent.run('go', deps='a')
    await agent.run('go', deps='b')
    assert [[step.content for step in (await store.read()).steps] for store in stores.values()] == [['one'], ['two']]


async def test_a_plan_of_a_thousand_steps_is_answered_in_few_words():
    store = InMemoryPlanStore()
    await apply(store, *(Add(f'step {number}') for number in range(1000)))
    told = await outcomes(
        Script([[call('update_task_status', task_id='500', status='done')], [call('remove_task', task_id='no')]]),
        Planning(store=store, enable_subtasks=True),
    )
    assert all(len(text) < 500 for _, text in told)
    (told,) = await outcomes(Script([[call('get_available_tasks')]]), Planning(store=store, enable_subtasks=True))
    assert told[1].splitlines()[-1] == 'and 959 more.'


async def test_a_note_that_a_store_cannot_keep_is_refused_with_a_way_out():
    class Six:
        def __init__(self) -> None:
            self.inner = InMemoryPlanStore()

        def __getattr__(self, name):
            return getattr(self.inner, name)

    store = Six()
    await store.add_item(PlanItem(id='1', content='a'))
    asked = [
        [call('update_task_status', task_id='1', status='blocked', note='why')],
        [call('update_task_status', task_id='1', status='blocked')],
    ]
    told = await outcomes(Script(asked), Planning(store=store, enable_subtasks=True))
    assert [outcome for outcome, _ in told] == ['failed', 'success']
    assert 'Leave the note out.' in told[0][1]
