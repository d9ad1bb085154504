"""The capability in a run: the reminder in requests and nowhere else, options, isolation, tool schemas, agent files."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from unittest.mock import MagicMock

import pytest
from agent_scripts import Script, answers, call, has_point, reminders
from pydantic_ai import Agent, CachePoint
from pydantic_ai.agent.spec import AgentSpec
from pydantic_ai.capabilities import AbstractCapability, CombinedCapability, Thinking
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.test import TestModel

from planctl import InMemoryPlanStore, PlanItem, Planning, PlanningToolset, SqlitePlanStore
from planctl.agent.prompts import CORE_TOOLS, SUBTASK_TOOLS
from planctl.core import apply
from planctl.errors import StoreUnavailable
from planctl.operations import Add, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.base import BaseStore


async def filled(*texts: str) -> InMemoryPlanStore:
    store = InMemoryPlanStore()
    await apply(store, *(Add(text) for text in texts or ('a', 'b')))
    return store


# --- The reminder -----------------------------------------------------------------------------------------------


async def test_every_request_ends_with_one_reminder_and_no_history_has_any():
    script = Script(
        [
            [call('write_plan', items=[{'content': 'a'}, {'content': 'b'}])],
            [call('update_task_status', task_id='1', status='in_progress')],
            [call('update_task_status', task_id='1', status='completed')],
            [call('read_plan')],
            [call('nothing')],
            [call('add_task', content='c')],
            'done',
            [call('read_plan')],
        ]
    )
    planning = Planning(store=InMemoryPlanStore())
    agent = script.agent(planning, retries=3)
    first = await agent.run('go')
    second = await agent.run('again', message_history=first.all_messages())
    assert script.reminder(0) is None
    shown = [script.reminder(at) for at in range(1, len(script.requests))]
    assert all(shown)
    assert '[ ] 1 a\n[ ] 2 b\n' in shown[0]
    assert '[~] 1 a\n' in shown[1]
    assert '1 a' not in shown[2]
    assert '[ ] 3 c' in shown[-1]
    assert 'someone else' not in '\n'.join(shown)
    for result in (first, second):
        for messages in (result.all_messages(), result.new_messages()):
            assert reminders(messages) == []
            assert b'plan-reminder' not in result.all_messages_json()


async def test_the_messages_of_the_history_are_not_touched():
    store = await filled()
    history = [ModelRequest(parts=[UserPromptPart('hello')]), ModelResponse(parts=[TextPart('hi')])]
    kept = [replace(message, parts=[*message.parts]) for message in history]
    script = Script([])
    await script.agent(Planning(store=store)).run('go', message_history=history)
    assert history == kept
    assert script.reminder()


async def test_inject_off_shows_nothing_and_a_whole_plan_then_replaces_plainly():
    store = await filled()
    script = Script([[call('write_plan', items=[{'content': 'a'}])]])
    agent = script.agent(Planning(store=store, inject=False))
    result = await agent.run('go')
    assert [script.reminder(at) for at in range(len(script.requests))] == [None, None]
    assert 'Removed although open, because the list left them out: 2 (b).' in answers(result.all_messages())[0][1]


async def test_an_empty_store_has_no_reminder():
    script = Script([])
    await script.agent(Planning()).run('go')
    assert script.reminder() is None


async def test_what_others_did_between_two_requests_is_marked():
    store = await filled()
    script = Script([[call('update_task_status', task_id='1', status='in_progress')], [call('read_plan')]])
    agent = script.agent(Planning(store=store))
    async with agent.iter('go') as run:
        async for node in run:
            if type(node).__name__ == 'CallToolsNode' and len(script.requests) == 1:
                await apply(store, Add('by hand'), SetStatus('2', TaskStatus.completed), actor='mai')
    assert 'someone else' not in script.reminder(0)
    assert '[ ] 3 by hand (added by someone else)' in script.reminder(1)
    assert '[x] 2 b (changed by someone else)' in script.reminder(1)
    assert '[~] 1 a\n' in script.reminder(1)
    assert 'someone else' not in script.reminder(2)


async def test_a_store_that_fails_fails_the_run():
    class Broken(BaseStore):
        async def read(self):
            raise StoreUnavailable('no')

        async def update(self, edit, *, actor, label, now, key=None):
            raise StoreUnavailable('no')

    with pytest.raises(StoreUnavailable):
        await Script([]).agent(Planning(store=Broken())).run('go')
    # A tool that cannot reach the plan says nothing that could be taken for an answer.
    with pytest.raises(StoreUnavailable):
        await Script([[call('add_task', content='a')]]).agent(Planning(store=Broken(), inject=False)).run('go')


# --- The cache point --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('prompt', 'expected'),
    [
        ('go', True),
        (['go'], True),
        (['', 'go'], True),
        ('', False),
        ([''], False),
        ([CachePoint()], False),
        (['go', CachePoint()], False),
        (['go', CachePoint(), ''], False),
        ([CachePoint(ttl='1h'), 'go'], True),
        (None, False),
    ],
)
async def test_a_point_opens_the_reminder_only_where_something_stands_before_it(prompt, expected):
    script = Script([])
    agent = script.agent(Planning(store=await filled(), cache_ttl='1h'), instructions='Be brief.')
    await agent.run(prompt)
    assert script.reminder()
    assert has_point(script.requests[0][0]) is expected
    if expected:
        (part,) = reminders(script.requests[0][0])
        assert part.content[0] == CachePoint(ttl='1h')


async def test_tool_answers_and_earlier_messages_carry_the_point():
    store = await filled()
    script = Script([[call('read_plan')], 'done', 'done'])
    agent = script.agent(Planning(store=store), system_prompt='You plan.')
    result = await agent.run('go')
    assert has_point(script.requests[1][0])
    await agent.run('', message_history=result.all_messages())
    assert has_point(script.requests[2][0])
    await agent.run([CachePoint()], message_history=result.all_messages())
    assert not has_point(script.requests[3][0])


async def test_a_retried_answer_carries_the_point():
    script = Script([[call('no_such_tool')]])
    agent = script.agent(Planning(store=await filled()), retries=3)
    await agent.run(None, instructions='Begin.')
    assert not has_point(script.requests[0][0])
    assert has_point(script.requests[1][0])


# --- Runs and stores --------------------------------------------------------------------------------------------


async def test_runs_at_the_same_time_have_plans_of_their_own():
    both = asyncio.Barrier(2)

    @dataclass
    class Meet(AbstractCapability):
        async def before_model_request(self, ctx, request_context):
            await both.wait()
            return request_context

    def script(text: str) -> Script:
        return Script([[call('add_task', content=text)], [call('read_plan')]])

    one, two = script('one'), script('two')
    planning = Planning()
    agent = Agent('test', capabilities=[planning, Meet()])
    results = await asyncio.gather(agent.run('go', model=one.model), agent.run('go', model=two.model))
    assert [answers(result.all_messages())[1][1].splitlines()[0] for result in results] == ['[ ] 1 one', '[ ] 1 two']
    again = Script([[call('read_plan')]])
    result = await again.agent(planning).run('go')
    assert answers(result.all_messages())[0][1] == 'The plan has no steps.'


async def test_a_resolver_chooses_the_store_of_each_run():
    stores = {'a': await filled('of a'), 'b': await filled('of b')}
    script = Script([])
    agent = script.agent(Planning(store_resolver=lambda ctx: stores[ctx.deps]), deps_type=str)
    await agent.run('go', deps='a')
    await agent.run('go', deps='b')
    assert 'of a' in script.reminder(0)
    assert 'of b' in script.reminder(1)


async def test_a_store_is_held_open_for_the_length_of_a_run(tmp_path):
    entered: list[str] = []

    class Watched(SqlitePlanStore):
        async def __aenter__(self):
            entered.append('in')
            return await super().__aenter__()

        async def __aexit__(self, *error):
            entered.append('out')
            await super().__aexit__(*error)

    store = Watched(tmp_path / 'plan.db', session='s')
    script = Script([[call('add_task', content='a')], [call('read_plan')]])
    await script.agent(Planning(store=store)).run('go')
    assert entered == ['in', 'out']


async def test_a_run_writes_in_its_own_name_or_the_one_that_it_is_given():
    store = InMemoryPlanStore()
    script = Script([[call('write_plan', items=[{'content': 'a', 'status': 'in_progress'}])]])
    result = await script.agent(Planning(store=store)).run('go')
    assert (await store.read()).step('1').owner == f'agent:{result.run_id[-8:]}'
    script = Script([[call('write_plan', items=[{'content': 'a', 'status': 'in_progress'}])]])
    store = InMemoryPlanStore()
    await script.agent(Planning(store=store, actor='executor:r1')).run('go')
    assert (await store.read()).step('1').owner == 'executor:r1'


async def test_a_run_keeps_no_replies_where_no_engine_repeats_calls(tmp_path):
    store = SqlitePlanStore(tmp_path / 'plan.db')
    seen: list[str | None] = []

    class Spy(InMemoryPlanStore):
        async def update(self, edit, *, actor, label, now, key=None):
            seen.append(key)
            return await super().update(edit, actor=actor, label=label, now=now, key=key)

    store = Spy()
    await Script([[call('add_task', content='a')]]).agent(Planning(store=store)).run('go')
    assert seen == [None]


async def test_a_whole_plan_write_is_logged_as_one():
    seen: list[str] = []

    class Spy(InMemoryPlanStore):
        async def update(self, edit, *, actor, label, now, key=None):
            seen.append(label)
            return await super().update(edit, actor=actor, label=label, now=now, key=key)

    script = Script([[call('write_plan', items=['a', 'b'])], [call('update_task_status', task_id=1, status='done')]])
    await script.agent(Planning(store=Spy())).run('go')
    assert seen == ['replace', 'set_status']


# --- Options ----------------------------------------------------------------------------------------------------


def schema_of(**options) -> dict[str, dict]:
    model = TestModel(call_tools=[])
    asyncio.run(Agent(model, capabilities=[Planning(**options)]).run('go'))
    return {tool.name: tool.parameters_json_schema for tool in model.last_model_request_parameters.function_tools}


def test_a_mode_offers_its_tools_and_nothing_in_them_that_it_refuses():
    plain = schema_of()
    assert tuple(plain) == CORE_TOOLS
    for word in ('parent_id', 'depends_on', 'blocked', 'note', 'subtask'):
        assert word not in json.dumps(plain)
    full = schema_of(enable_subtasks=True)
    assert tuple(full) == CORE_TOOLS + SUBTASK_TOOLS
    assert set(full['write_plan']['properties']['items']['items']['properties']) == {
        'id',
        'content',
        'status',
        'active_form',
        'parent_id',
        'depends_on',
    }
    assert 'blocked' in full['update_task_status']['properties']['status']['enum']
    assert 'note' in full['update_task_status']['properties']


def test_the_six_schemas_are_small():
    model = TestModel(call_tools=[])

    def size(**options) -> int:
        asyncio.run(Agent(model, capabilities=[Planning(**options)]).run('go'))
        tools = model.last_model_request_parameters.function_tools
        as_sent = [
            {'name': tool.name, 'description': tool.description, 'input_schema': tool.parameters_json_schema}
            for tool in tools
        ]
        return len(json.dumps(as_sent))

    assert size() <= 1_700
    assert size(enable_subtasks=True) <= 2_800
    assert size(tools=['write_plan']) <= 500


def test_an_allowlist_narrows_the_tools_in_their_own_order():
    assert list(schema_of(tools=['read_plan', 'write_plan'])) == ['write_plan', 'read_plan']
    assert schema_of(tools=[]) == {}


def test_descriptions_can_be_replaced():
    model = TestModel(call_tools=[])
    planning = Planning(descriptions={'read_plan': 'Look.', 'add_task': ''})
    asyncio.run(Agent(model, capabilities=[planning]).run('go'))
    said = {tool.name: tool.description for tool in model.last_model_request_parameters.function_tools}
    assert (said['read_plan'], said['add_task']) == ('Look.', '')


@pytest.mark.parametrize(
    'options',
    [
        {'tools': ['write_plna']},
        {'tools': ['add_subtask']},
        {'tools': 'write_plan'},
        {'descriptions': {'write_plna': 'x'}},
        {'descriptions': {'add_subtask': 'x'}},
        {'cache_ttl': '9h'},
    ],
)
def test_options_that_cannot_be_are_refused_at_construction(options):
    (name,) = options
    with pytest.raises(ValueError, match=f'Planning: {name} '):
        Planning(**options)


@pytest.mark.parametrize('store', ['plan.db', SqlitePlanStore, object()])
async def test_what_is_no_store_is_refused_as_soon_as_it_is_seen(store):
    with pytest.raises(TypeError, match='Planning: store must be a plan store, such as '):
        Planning(store=store)
    with pytest.raises(TypeError, match='Planning: what store_resolver returns must be a plan store'):
        await Script([]).agent(Planning(store_resolver=lambda _: store)).run('go')


@pytest.mark.parametrize('subtasks', [False, True])
def test_the_guidance_names_only_tools_that_are_registered(subtasks):
    names = CORE_TOOLS + (SUBTASK_TOOLS if subtasks else ())
    sets = [[name] for name in names] + [[n for n in names if n != left_out] for left_out in names] + [list(names), []]
    for tools in sets:
        text = Planning(tools=tools, enable_subtasks=subtasks).get_instructions() or ''
        named = {name for name in CORE_TOOLS + SUBTASK_TOOLS if f'`{name}`' in text}
        assert named <= set(tools)
        assert bool(text) is bool(tools)
    assert '`write_plan`' in Planning().get_instructions()
    assert 'shown to you' not in Planning(inject=False).get_instructions()


def test_the_guidance_has_three_states():
    assert Planning(guidance='').get_instructions() is None
    assert Planning(guidance='Plan well.').get_instructions() == 'Plan well.'
    assert Planning(guidance=None).get_instructions() == Planning().get_instructions()


async def test_the_guidance_stays_the_same_from_request_to_request():
    script = Script([[call('add_task', content='a')], [call('read_plan')]])
    await script.agent(Planning()).run('go')
    assert len({info.instructions for _, info in script.requests}) == 1
    assert 'plan-reminder' not in script.requests[-1][1].instructions


@pytest.mark.parametrize(
    'wrapped',
    [
        lambda planning: planning.prefix_tools('p'),
        lambda planning: CombinedCapability([planning, Thinking()]).prefix_tools('p'),
        lambda planning: CombinedCapability([planning.prefix_tools('p'), Thinking()]),
    ],
    ids=['alone', 'in a combination', 'combined'],
)
async def test_prefixed_tools_are_named_by_their_names_everywhere(wrapped):
    script = Script([[call('p_add_task', content='a')], [call('p_update_task_status', task_id='1', status='x')]])
    result = await script.agent(wrapped(Planning())).run('go')
    assert [outcome for outcome, _ in answers(result.all_messages())] == ['success', 'failed']
    assert script.names() == [f'p_{name}' for name in CORE_TOOLS]
    assert '`p_write_plan`' in script.requests[0][1].instructions
    assert '`write_plan`' not in script.requests[0][1].instructions
    assert 'Keep it current with p_update_task_status.' in script.reminder(1)


async def test_a_plan_that_is_given_to_a_run_is_named_as_it_is_wrapped_there():
    script = Script([[call('r_add_task', content='a')]])
    agent = script.agent(Planning(guidance='unused'))
    await agent.run('go', capabilities=[Planning().prefix_tools('r')])
    first, second = (info.instructions for _, info in script.requests)
    assert first == second
    assert '`r_write_plan`' in first
    assert '`write_plan`' not in first
    assert 'Keep it current with r_update_task_status.' in script.reminder()
    plain = Script([])
    await plain.agent().run('go', capabilities=[Planning()])
    assert '`write_plan`' in plain.requests[0][1].instructions


@pytest.mark.parametrize(
    'capabilities',
    [
        [Planning(inject=False), Planning(enable_subtasks=True)],
        [Planning(inject=False), Planning(id='other', enable_subtasks=True)],
        [Planning(inject=False).prefix_tools('p'), Planning(id='other', enable_subtasks=True).prefix_tools('q')],
    ],
)
def test_two_plans_in_one_agent_are_refused_and_both_are_named(capabilities):
    with pytest.raises(UserError) as caught:
        Agent('test', capabilities=capabilities)
    assert 'Planning(inject=False)' in str(caught.value)
    assert 'enable_subtasks=True' in str(caught.value)


async def test_one_given_for_a_run_under_another_id_is_refused_before_anything_is_asked():
    script = Script([])
    agent = script.agent(Planning(tools=['write_plan']))
    for other in (Planning(id='other', tools=['add_task']), Planning(id='other').prefix_tools('p')):
        with pytest.raises(UserError, match=r"Planning\(tools=\['write_plan'\]\).*of that with its id"):
            await agent.run('go', capabilities=[other])
    assert script.requests == []


async def test_one_given_for_a_run_takes_the_place_of_the_own_one():
    store = await filled('of the run')
    script = Script([])
    await script.agent(Planning(store=await filled('own'))).run('go', capabilities=[Planning(store=store)])
    assert 'of the run' in script.reminder()
    assert 'own' not in script.reminder()


def test_the_toolset_is_the_same_one_for_every_copy():
    planning = Planning()
    toolset = planning.get_toolset()
    assert isinstance(toolset, PlanningToolset)
    assert toolset.id == 'planning'
    assert planning.get_toolset() is toolset
    assert replace(planning, inject=False).get_toolset() is not toolset


async def test_it_stands_beside_the_planning_of_the_harness():
    harness = pytest.importorskip('pydantic_ai_harness.planning')
    script = Script([[call('add_task', content='ours')], [call('h_add_task', content='theirs')]])
    agent = script.agent(Planning(), harness.Planning(id='harness').prefix_tools('h'))
    result = await agent.run('go')
    assert [outcome for outcome, _ in answers(result.all_messages())] == ['success', 'success']


# --- Agent files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        ({'session': 7}, 'session must be text, not 7: quote it'),
        ({'session': True}, 'session must be text, not true: quote it'),
        ({'session': None}, 'session must be text, not nothing: quote it'),
        ({'session': ''}, 'session must be text that is not empty'),
        ({'session': 'a\nb'}, 'session name'),
        ({'backend': 'postgres'}, 'backend must be memory or sqlite'),
        ({'backend': None}, 'backend must be memory or sqlite'),
        ({'database': 'x.db'}, 'database is only for backend: sqlite'),
        ({'backend': 'sqlite', 'database': 3}, 'database must be text, not 3: quote it'),
        ({'inject': 'nope'}, 'inject must be true or false'),
        ({'enable_subtasks': 1}, 'enable_subtasks must be true or false'),
        ({'cache_ttl': '9h'}, 'cache_ttl must be 5m or 1h'),
        ({'guidance': 3}, 'guidance must be text'),
        ({'tools': 'write_plan'}, 'tools must be a list of tool names'),
        ({'tools': [1]}, 'tools must be a list of tool names'),
        ({'tools': ['nope']}, 'tools names unknown tools: nope'),
        ({'sesion': 's', 'injekt': True}, 'unknown options: sesion, injekt; there are: backend, database, session,'),
    ],
)
def test_each_wrong_option_of_a_file_is_named_in_one_line(options, words):
    with pytest.raises(ValueError) as caught:
        Planning.from_spec(**options)
    assert words in str(caught.value)
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('written', ['', ' sqlite', ' [sqlite]'])
def test_options_that_are_no_mapping_are_refused(tmp_path, written):
    path = tmp_path / 'agent.yaml'
    path.write_text(f'model: test\ncapabilities:\n  - Planning:{written}\n')
    with pytest.raises(ValueError, match='the options are a mapping, not'):
        Agent.from_file(path, custom_capability_types=[Planning])


@pytest.mark.parametrize('options', [{'inject': 'no'}, {'enable_subtasks': 'false'}, {'tools': 'write_plan'}])
def test_an_option_of_the_wrong_type_is_refused_in_python_too(options):
    with pytest.raises(ValueError, match='must be'):
        Planning(**options)


@pytest.mark.parametrize(
    'written', ['session: 007', 'session: on', 'session: 2026-09-01', 'session: 1_000', 'session:']
)
def test_what_yaml_makes_of_a_name_is_refused(tmp_path, written):
    path = tmp_path / 'agent.yaml'
    path.write_text(f'model: test\ncapabilities:\n  - Planning:\n      {written}\n')
    with pytest.raises(Exception, match='quote it'):
        Agent.from_file(path, custom_capability_types=[Planning])


def test_a_quoted_name_is_the_session(tmp_path):
    path = tmp_path / 'agent.yaml'
    database = tmp_path / 'plan.db'
    path.write_text(
        f'model: test\ncapabilities:\n  - Planning: {{backend: sqlite, database: {database}, session: "007"}}\n'
    )
    agent = Agent.from_file(path, custom_capability_types=[Planning])
    (planning,) = [c for c in agent.root_capability.capabilities if isinstance(c, Planning)]
    assert isinstance(planning.store, SqlitePlanStore)
    assert planning.store.session == '007'
    assert not database.exists()


def test_an_editor_schema_knows_the_options():
    schema = AgentSpec.model_json_schema_with_capabilities([Planning])
    assert 'enable_subtasks' in json.dumps(schema)


def test_what_the_reference_takes_by_position_is_taken():
    store = InMemoryPlanStore()
    planning = Planning('g', '1h', store, None, True, False, ['write_plan'], {'write_plan': 'd'}, description='x')
    assert (planning.guidance, planning.cache_ttl, planning.store, planning.enable_subtasks, planning.inject) == (
        'g',
        '1h',
        store,
        True,
        False,
    )
    assert (planning.id, planning.description, planning.defer_loading) == ('planning', 'x', False)


async def test_a_deferred_plan_is_there_once_it_is_loaded():
    script = Script([[call('load_capability', id='planning')], [call('add_task', content='a')]])
    agent = script.agent(Planning(defer_loading=True, description='Plans.'))
    result = await agent.run('go')
    assert answers(result.all_messages())[-1][0] == 'success'
    assert script.reminder() is not None


def test_a_plan_in_a_second_event_loop(tmp_path):
    store = SqlitePlanStore(tmp_path / 'plan.db')
    script = Script([[call('add_task', content='a')], 'done', [call('add_task', content='b')]])
    agent = script.agent(Planning(store=store))
    asyncio.run(agent.run('go'))
    asyncio.run(agent.run('go'))
    assert [item.content for item in asyncio.run(store.get_items())] == ['a', 'b']


async def test_an_item_of_a_store_is_an_item_of_the_toolset():
    toolset = PlanningToolset(Planning(store=await filled(), enable_subtasks=True))
    items = await toolset.capability.store.get_items()
    items[1].depends_on = ['1']
    assert (await toolset.write_plan(MagicMock(), items)).startswith('Saved. Ids in order: 1, 2.')
    assert isinstance(items[0], PlanItem)
