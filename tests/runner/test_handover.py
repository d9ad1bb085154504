"""What crosses from planner to executor, what either is offered, and what becomes of the plan that was there."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.capabilities import CombinedCapability, Thinking
from pydantic_ai.tools import Tool
from runner_helpers import Scripted, lines, moving, running, statuses, stored, writing

from planctl import Planning
from planctl.agent.limits import Limits
from planctl.agent.outcome import STATUS, StopReason
from planctl.core import apply
from planctl.errors import NotFound, SpecError, UnfinishedPlan
from planctl.operations import Add, Describe, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.base import BaseStore
from planctl.stores.memory import InMemoryPlanStore

WORKING = {'update_task_status', 'update_task_statuses'}


def note(text: str) -> str:
    return text


def agent_with_tools(script: Scripted, **options: Any) -> Agent[Any, Any]:
    reading = Tool(note, name='look_up', metadata={'read_only': True})
    mcp_like = Tool(note, name='mcp_read', metadata={'annotations': {'readOnlyHint': True}})
    writing_tools = [Tool(note, name=name) for name in ('write_file', 'run_command')]
    hinted = Tool(note, name='mcp_write', metadata={'annotations': {'readOnlyHint': False}})
    return Agent(script.model, tools=[reading, mcp_like, *writing_tools, hinted], **options)


async def test_the_planner_is_offered_reading_and_plan_tools_alone_and_the_executor_everything() -> None:
    planner, executor = Scripted(writing('a'), 'the brief'), Scripted(moving('completed', '1'), 'done')
    agent = agent_with_tools(planner, capabilities=[Planning(enable_subtasks=True)])
    events: list[Any] = []
    result = await running(
        InMemoryPlanStore(), executor, planner=planner, agent=agent, objective='X', plan_first=True, events=events
    )
    assert result.stop_reason is StopReason.finished
    offered = planner.tools()
    assert {'look_up', 'mcp_read', 'write_plan', 'add_task', 'set_dependency'} <= offered
    assert not offered & ({'write_file', 'run_command', 'mcp_write'} | WORKING)
    assert 'left out while planning: write_file, run_command, mcp_write' in lines(events)
    assert {'look_up', 'write_file', 'run_command', 'mcp_write', *WORKING} <= executor.tools()


async def test_the_first_request_of_the_executor_has_objective_brief_and_plan_and_nothing_of_the_planner() -> None:
    planner = Scripted([('look_up', {'text': 'SECRET FINDING'})], writing('a'), 'Mind the gap.')
    executor = Scripted(moving('completed', '1'), 'done')
    agent = agent_with_tools(planner, instructions='You are kind.')
    result = await running(
        InMemoryPlanStore(), executor, planner=planner, agent=agent, objective='Cross the street', plan_first=True
    )
    messages, info = executor.asked[0]
    assert len(messages) == 1
    said = executor.said()
    assert 'Cross the street' in said
    assert 'Mind the gap.' in said
    assert '[ ] 1 a' in said
    assert said.count('<plan-reminder>') == 1
    assert 'SECRET FINDING' not in repr(messages)
    assert 'You are kind.' in (info.instructions or '')
    instructions = planner.asked[0][1].instructions or ''
    assert 'You plan; you carry nothing out.' in instructions
    assert 'first lay out the steps with `write_plan`' in instructions
    # Whoever cannot start a step is not told to keep one in progress.
    assert ('in_progress' in instructions, 'in_progress' in (info.instructions or '')) == (False, True)
    assert (result.plan.objective, result.plan.brief) == ('Cross the street', 'Mind the gap.')


async def test_a_plan_can_be_carried_out_later_by_another_run() -> None:
    store = InMemoryPlanStore()
    planned = await running(store, planner=Scripted(writing('a'), 'brief'), objective='X', plan_only=True)
    assert (planned.stop_reason, STATUS[planned.stop_reason], planned.output) == (StopReason.planned, 0, 'brief')
    executor = Scripted(moving('completed', '1'), 'done')
    assert (await running(store, executor)).stop_reason is StopReason.finished
    assert 'brief' in executor.said()


async def test_the_planner_uses_its_own_model_and_the_options_of_the_agents_own_planning() -> None:
    planner, executor = Scripted(writing('a'), 'brief'), Scripted(moving('completed', '1'), 'done')
    own = Planning[Any](tools=['read_plan', 'update_task_status'], guidance='MY OWN GUIDANCE')
    result = await running(
        InMemoryPlanStore(),
        executor,
        planner=planner,
        agent=Agent(executor.model, capabilities=[own]),
        objective='X',
        plan_first=True,
    )
    assert result.stop_reason is StopReason.finished
    assert 'write_plan' in planner.tools()
    assert executor.tools() == {'read_plan', 'update_task_status'}
    assert 'MY OWN GUIDANCE' in (executor.asked[0][1].instructions or '')
    assert own.store is None


async def test_an_executor_without_subtasks_can_still_say_that_it_cannot() -> None:
    executor = Scripted(moving('blocked', '1', note='no way'), 'sorry')
    agent = Agent(executor.model, capabilities=[Planning()])
    result = await running(await stored(Add('a')), executor, agent=agent)
    assert (result.stop_reason, result.plan.step('1').note) == (StopReason.waiting, 'no way')


@pytest.mark.parametrize('others', [[], [Thinking()]], ids=['alone', 'in a combination'])
async def test_a_prefixed_planning_is_used_where_it_is(others: list[Any]) -> None:
    planner = Scripted([('p_write_plan', {'items': [{'content': 'a'}]})], 'brief')
    executor = Scripted([('p_update_task_status', {'task_id': '1', 'status': 'completed'})], 'done')
    prefixed = CombinedCapability([Planning[Any](), *others]).prefix_tools('p')
    agent = Agent(executor.model, capabilities=[prefixed])
    store = InMemoryPlanStore()
    result = await running(store, executor, planner=planner, agent=agent, objective='X', plan_first=True)
    assert result.stop_reason is StopReason.finished
    assert 'p_update_task_status' not in planner.tools()


async def test_a_planner_that_completes_or_starts_steps_is_refused_them() -> None:
    items = [{'content': 'a', 'status': 'completed'}, {'content': 'b'}]
    refused = Scripted([('write_plan', {'items': items})], writing('a', 'b'), 'brief')
    result = await running(InMemoryPlanStore(), planner=refused, objective='X', plan_only=True)
    assert statuses(result.plan) == {'1': 'pending', '2': 'pending'}
    answer = refused.asked[1][0][-1].parts[0]
    assert 'planning only' in str(answer.content)  # type: ignore[union-attr]


async def test_a_planner_without_a_plan_ends_the_run_and_one_that_finds_nothing_to_do_says_so() -> None:
    for turns, reason, status in (
        (['It would be best to begin.'], StopReason.no_plan, 6),
        ([[('write_plan', {'items': []})], 'Nothing to do.'], StopReason.nothing_to_do, 0),
    ):
        executor = Scripted('?')
        store = InMemoryPlanStore()
        result = await running(store, executor, planner=Scripted(*turns), objective='X', plan_first=True)
        assert (result.stop_reason, STATUS[result.stop_reason], executor.asked) == (reason, status, [])
        assert result.plan.steps == ()


@pytest.mark.parametrize(
    ('wanted', 'words'), [({'limits': Limits(max_requests=3)}, 'planner-max-requests'), ({'max_idle': 3}, 'max-idle')]
)
async def test_a_planner_has_limits_of_its_own_and_leaves_everything_as_it_was(wanted: Any, words: str) -> None:
    planner = Scripted(writing('a', 'b'), [('read_plan', {})])
    store = await stored(Add('old'), Describe(objective='old'))
    before = await store.read()
    result = await running(store, planner=planner, objective='X', replan=True, **wanted)
    assert result.stop_reason in (StopReason.limit, StopReason.stalled)
    assert words in result.message
    assert (result.plan.steps, result.plan.objective) == (before.steps, 'old')


# --- Planning over a plan -------------------------------------------------------------------------------------------


async def mixed() -> BaseStore:
    store = await stored(Add('done'), Add('parent'), Add('child', parent_id='2'), Add('open', depends_on=('1',)))
    await apply(store, Describe(objective='old', brief='old brief'))
    for step_id in ('1', '3'):
        await apply(store, SetStatus(step_id, TaskStatus.completed))
    return store


async def test_open_steps_are_never_planned_over_silently() -> None:
    store, planner = await mixed(), Scripted('?')
    for wanted in ({'plan_first': True}, {'plan_only': True}):
        with pytest.raises(UnfinishedPlan) as caught:
            await running(store, planner=planner, objective='new', **wanted)
        assert caught.value.ids == ('2', '4')
    assert planner.asked == []


async def test_replanning_drops_open_steps_and_keeps_resolved_ones_in_one_operation() -> None:
    store = await mixed()
    before = await store.read()
    planner = Scripted(writing('fresh one', 'fresh two'), 'new brief')
    result = await running(store, planner=planner, objective='new', replan=True, plan_only=True)
    plan = result.plan
    assert [(step.id, step.content, step.status.value) for step in plan.steps] == [
        ('1', 'done', 'completed'),
        ('3', 'child', 'completed'),
        ('5', 'fresh one', 'pending'),
        ('6', 'fresh two', 'pending'),
    ]
    assert (plan.objective, plan.brief, plan.revision) == ('new', 'new brief', before.revision + 1)
    assert plan.step('3').parent_id is None
    assert '[x] 1 done' in planner.said()


async def test_replanning_without_a_new_objective_is_for_the_old_one() -> None:
    store = await mixed()
    planner = Scripted(writing('fresh'), 'brief')
    result = await running(store, planner=planner, replan=True, plan_only=True)
    assert result.plan.objective == 'old'
    assert planner.said().startswith('old\n')


async def test_a_replanning_that_fails_changes_nothing() -> None:
    def raising(*_: Any) -> Any:
        raise ConnectionError('gone')

    for turns in ((writing('fresh'), raising), ('no plan',)):
        store = await mixed()
        before = await store.read()
        result = await running(store, planner=Scripted(*turns), objective='new', replan=True)
        assert result.stop_reason in (StopReason.error, StopReason.no_plan)
        assert (result.plan.steps, result.plan.objective, result.plan.brief) == (before.steps, 'old', 'old brief')


async def test_replanning_keeps_what_somebody_adds_meanwhile_and_mixes_up_no_ids() -> None:
    store = await mixed()

    async def meanwhile(*_: Any) -> Any:
        await apply(store, Add('by hand'), actor='ann')
        return writing('fresh')

    result = await running(store, planner=Scripted(meanwhile, 'brief'), objective='new', replan=True, plan_only=True)
    assert {step.id: step.content for step in result.plan.steps if not step.resolved} == {'5': 'by hand', '6': 'fresh'}


async def test_appending_keeps_everything_and_lets_new_steps_depend_on_old_ones() -> None:
    store = await mixed()
    before = await store.read()
    planner = Scripted(
        [('add_task', {'content': 'extra'})],
        [('set_dependency', {'task_id': '5', 'depends_on_id': '4'})],
        [('add_subtask', {'parent_id': '2', 'content': 'another child'})],
        'not kept',
    )
    result = await running(store, planner=planner, objective='more', append=True, plan_only=True)
    plan = result.plan
    assert plan.steps[:4] == before.steps
    assert [(s.content, s.parent_id, s.depends_on) for s in plan.steps[4:]] == [
        ('extra', None, ('4',)),
        ('another child', '2', ()),
    ]
    assert (plan.objective, plan.brief) == ('old', 'old brief')
    assert '[ ] 4 open' in planner.said()


@pytest.mark.parametrize(
    'call',
    [
        ('write_plan', {'items': [{'content': 'only this'}]}),
        ('remove_task', {'task_id': '4'}),
        ('set_dependency', {'task_id': '4', 'depends_on_id': '2'}),
    ],
)
async def test_an_appending_planner_cannot_touch_what_is_there(call: Any) -> None:
    store = await mixed()
    before = await store.read()
    planner = Scripted([call], 'brief')
    result = await running(store, planner=planner, append=True, plan_only=True)
    assert result.stop_reason is StopReason.no_plan
    assert result.plan.steps == before.steps
    assert 'only added to' in str(planner.asked[1][0][-1].parts[0].content)  # type: ignore[union-attr]


async def test_planning_after_a_finished_plan_replaces_it_in_one_operation_and_says_so() -> None:
    store = await stored(Add('same text', status=TaskStatus.completed), Describe(objective='old', brief='old brief'))
    before = await store.read()
    events: list[Any] = []
    planner = Scripted(writing('same text', 'new'), 'new brief')
    result = await running(store, planner=planner, objective='new', plan_only=True, events=events)
    plan = result.plan
    assert statuses(plan) == {'2': 'pending', '3': 'pending'}
    assert (plan.objective, plan.brief, plan.revision) == ('new', 'new brief', before.revision + 1)
    assert 'the plan that was here is finished; its step leaves when' in lines(events)


async def test_planning_needs_an_objective() -> None:
    store = await stored(Add('a', status=TaskStatus.completed))
    with pytest.raises(NotFound):
        await running(store, planner=Scripted('?'), plan_first=True)


async def test_the_planning_of_the_harness_is_refused() -> None:
    harness = pytest.importorskip('pydantic_ai_harness')
    script = Scripted('?')
    with pytest.raises(SpecError, match='harness') as caught:
        await running(await stored(Add('a')), script, agent=Agent(script.model, capabilities=[harness.Planning()]))
    assert 'from planctl import Planning' in (caught.value.hint or '')


async def test_a_planner_reads_files_in_a_workspace_that_it_cannot_change(tmp_path: Any) -> None:
    harness = pytest.importorskip('pydantic_ai_harness')
    from pydantic_ai.capabilities import LocalWorkspace

    (tmp_path / 'here.txt').write_text('found', encoding='utf-8')
    planner = Scripted([('read_file', {'path': 'here.txt'})], writing('a'), 'brief')
    executor = Scripted([('write_file', {'path': 'new.txt', 'content': 'x'})], moving('completed', '1'), 'done')
    agent = Agent(executor.model, capabilities=[LocalWorkspace(str(tmp_path)), harness.FileSystem(), harness.Shell()])
    result = await running(InMemoryPlanStore(), executor, planner=planner, agent=agent, objective='X', plan_first=True)
    assert result.stop_reason is StopReason.finished
    assert {'read_file', 'list_directory', 'search_files', 'find_files'} <= planner.tools()
    assert not planner.tools() & {'write_file', 'edit_file', 'create_directory', 'run_command', 'start_command'}
    assert 'found' in str(planner.asked[1][0][-1].parts[0].content)  # type: ignore[union-attr]
    assert (tmp_path / 'new.txt').read_text(encoding='utf-8') == 'x'


async def test_a_brief_that_grew_is_bounded_when_it_is_handed_over() -> None:
    store = await stored(Add('a'), Describe(objective='X', brief='word ' * 10_000))
    executor = Scripted(moving('completed', '1'), 'done')
    await running(store, executor)
    said = executor.said()
    assert len(said) < 14_000
    assert 'more characters]' in said


async def test_a_store_of_six_methods_is_planned_and_carried_out_with_what_it_cannot_keep_kept_here() -> None:
    class Six:
        def __init__(self) -> None:
            self._inner = InMemoryPlanStore()

        def __getattr__(self, name: str) -> Any:
            if name in ('get_items', 'set_items', 'get_item', 'add_item', 'update_item', 'remove_item'):
                return getattr(self._inner, name)
            raise AttributeError(name)

    from planctl.stores.adapter import inner

    planner, executor = Scripted(writing('a'), 'THE BRIEF'), Scripted(moving('completed', '1'), 'done')
    events: list[Any] = []
    store = inner(Six())  # type: ignore[arg-type]
    result = await running(store, executor, planner=planner, objective='THE OBJECTIVE', plan_first=True, events=events)
    assert result.stop_reason is StopReason.finished
    assert 'THE BRIEF' in executor.said()
    assert 'THE OBJECTIVE' in executor.said()
    assert 'keeps neither objective nor brief' in lines(events)
