"""What crosses the boundary to an engine: every operation and every result survives JSON and pickle, on any worker."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from agent_scripts import Script, call
from pydantic_ai import Agent, RunContext
from pydantic_ai.durable_exec import JSON_CODEC
from pydantic_ai.durable_exec._capability_operation import collect_capability_operations
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from planctl import InMemoryPlanStore, Planning, PlanningToolset, SqlitePlanStore
from planctl.agent.access import perform, view
from planctl.agent.answers import Applied, Refusal, View
from planctl.agent.arguments import operations_of
from planctl.agent.mode import mode_of
from planctl.agent.seen import Seen
from planctl.operations import (
    Add,
    Claim,
    Depend,
    Describe,
    Draft,
    Edit,
    Move,
    Note,
    Operation,
    Release,
    Remove,
    Renew,
    Replace,
    Restore,
    SetStatus,
    Undepend,
)
from planctl.plan import Step, TaskStatus

GIVEN: list[Operation] = [
    Add('a'),
    Add('b "quoted" \u2028 ünïcode 日本', active_form='doing b', parent_id='1', depends_on=('1', 'x')),
    Replace(()),
    Replace((Draft('a'), Draft('b', id='1', status=TaskStatus.blocked, active_form='', parent_id='', depends_on=()))),
    Replace((Draft('a', depends_on=('1',)),), plain=True, base=(('1', 'aa.pending...bb.'), ('2', ''))),
    SetStatus('1', TaskStatus.completed),
    SetStatus('1', TaskStatus.blocked, note='why'),
    Edit('1', content='x'),
    Depend('1', '2'),
    Undepend('1', '2'),
    Remove('1', cascade=True),
    Move('1', after='2'),
    Claim('me', 60.0),
    Renew('me', 60.0),
    Release('me'),
    Note('1', 'why'),
    Describe(objective='o', brief='b\nb'),
    Restore((Step('1', 'a', TaskStatus.in_progress, depends_on=('2',), owner='me', lease=1.5),), placed=(('1', None),)),
]
DECLARED = collect_capability_operations(Planning())


async def results() -> list[Any]:
    """Return what the two durable operations return, of every sort."""
    store = InMemoryPlanStore()
    requests: list[list[Operation]] = [
        [Replace((Draft('a'), Draft('b', depends_on=('1',), id='1x'), Draft('c \ufffd')))],
        [SetStatus('1', TaskStatus.completed)],
        [SetStatus('99', TaskStatus.completed)],
        [Replace(())],
        [Replace((Draft('c', id='3'),), base=())],
        [Remove('3', cascade=True)],
    ]
    found: list[Any] = [await perform(store, requested, actor='me', key=None) for requested in requests]
    for what in ('reminder', 'available', 'tree', 'flat'):
        found += [await view(store, what, actor='me', tools={}, known={'gone': ''}, seen=Seen())]
    return found


def test_the_durable_operations_keep_their_names():
    # They are part of what engines have stored.
    assert set(DECLARED) == {'read', 'apply'}
    assert Planning().id == 'planning'


def test_every_operation_survives_both_codecs():
    kinds = {kind for kind in get_args(Operation) if not get_args(kind)}
    assert {type(operation) for operation in GIVEN} == kinds
    for operation in GIVEN:
        assert pickle.loads(pickle.dumps(operation)) == operation
        again = JSON_CODEC.load(list[Operation], JSON_CODEC.dump(list[Operation], [operation]))
        assert again == [operation]
        # Those with the same fields would be taken for each other without their kind.
        assert type(again[0]) is type(operation)


async def test_every_result_survives_both_codecs():
    found = await results()
    assert {type(result) for result in found} == {Applied, Refusal, View}
    for result in found:
        declared: Any = DECLARED['read' if isinstance(result, View) else 'apply'].result_type
        assert pickle.loads(pickle.dumps(result)) == result
        again = JSON_CODEC.load(declared, JSON_CODEC.dump(declared, result))
        assert again == result
        assert type(again) is type(result)


def test_what_is_recorded_holds_no_plan():
    seen: set[str] = set()

    def look(kind: Any) -> None:
        for inner in get_args(kind):
            look(inner)
        if inspect.isclass(kind) and is_dataclass(kind) and kind.__name__ not in seen:
            seen.add(kind.__name__)
            for annotation in inspect.get_annotations(kind, eval_str=True).values():
                look(annotation)

    for declaration in DECLARED.values():
        look(declaration.result_type)
    assert {'Applied', 'Refusal', 'View', 'StepChange', 'Step'} <= seen
    assert 'Plan' not in seen


@pytest.mark.parametrize('text', ['\ud800', 'a\x00b', 'x \udfff y'])
def test_half_characters_of_a_model_never_reach_an_engine(text):
    mode = mode_of(subtasks=True, blocking=True, tools=None)
    for tool, arguments in (
        ('add_task', {'content': f'a{text}', 'active_form': text}),
        ('add_subtask', {'parent_id': f'1{text}', 'content': 'b'}),
        ('write_plan', {'items': [{'id': f'1{text}', 'content': f'a{text}', 'depends_on': [f'2{text}']}]}),
        ('update_task_status', {'task_id': f'1{text}', 'status': 'blocked', 'note': text}),
        ('set_dependency', {'task_id': f'1{text}', 'depends_on_id': text + '2'}),
        ('remove_task', {'task_id': f'1{text}'}),
    ):
        operations = list(operations_of(tool, arguments, mode))
        assert JSON_CODEC.load(list[Operation], JSON_CODEC.dump(list[Operation], operations)) == operations


# --- A worker that has nothing but the run context ----------------------------------------------------------------


def bare_context(**known: Any) -> Any:
    """Return a context as a worker in another process has it: no root capability, no memory of the run."""
    return SimpleNamespace(run_id='run-1', run_step=1, tool_call_id='call-1', root_capability=None, agent=None, **known)


async def test_a_worker_without_the_runs_memory_resolves_the_store_again(tmp_path):
    def resolve(ctx: Any) -> SqlitePlanStore:
        return SqlitePlanStore(tmp_path / f'{ctx.deps}.db')

    planning = Planning[Any](store_resolver=resolve)
    for tenant in ('one', 'two'):
        ctx = bare_context(deps=tenant)
        clone = await planning.for_run(ctx)
        outcome = await clone._apply.__wrapped__(clone, ctx, [Add(f'of {tenant}')], 'run-1:1:call-1')
        assert isinstance(outcome, Applied)
        # The same operation again, as a retry on another worker: the first answer, and nothing twice.
        other = await planning.for_run(ctx)
        assert await other._apply.__wrapped__(other, ctx, [Add(f'of {tenant}')], 'run-1:1:call-1') == outcome
        shown = await other._read.__wrapped__(other, ctx, 'reminder', {}, None)
        assert f'[ ] 1 of {tenant}' in shown.text
        # And outside any run, as a toolset does when its methods are called by hand.
        assert (await planning._read.__wrapped__(planning, ctx, 'tree', {}, None)).text.startswith(f'[ ] 1 of {tenant}')


async def test_a_rebuilt_context_names_the_same_writer(tmp_path):
    store = SqlitePlanStore(tmp_path / 'plan.db')
    planning = Planning[Any](store=store)
    script = Script([[call('add_task', content='a')]])
    result = await script.agent(planning).run('go', run_id='run-12345678')
    assert result.output == 'done'
    ctx = bare_context(deps=None)
    ctx.run_id = 'run-12345678'
    worker = await planning.for_run(ctx)
    await worker._apply.__wrapped__(worker, ctx, [Add('b')], None)
    assert {row.actor for row in await store.log()} == {'agent:12345678'}


async def test_a_tool_call_that_a_worker_carries_out_again_changes_the_plan_once(tmp_path):
    engine = pytest.importorskip('pydantic_ai.durable_exec.dbos')
    store = SqlitePlanStore(tmp_path / 'plan.db')
    planning = Planning[Any](store=store)
    agent = Agent(TestModel(), name='worker', capabilities=[planning.prefix_tools('p'), engine.DBOSDurability()])
    toolset = planning.get_toolset()
    assert isinstance(toolset, PlanningToolset)
    told: list[str] = []
    for _ in range(2):
        ctx = RunContext[Any](
            deps=None,
            model=TestModel(),
            usage=RunUsage(),
            run_id='run-1',
            tool_call_id='call-1',
            agent=agent,
            root_capability=agent.root_capability,
        )
        tool = (await toolset.get_tools(ctx))['add_task']
        told.append(await toolset.call_tool('add_task', {'content': 'a'}, ctx, tool))
    assert told[0] == told[1]
    assert '`p_remove_task`' in await toolset.write_plan(ctx, [])
    # What a tool of the agent does to the plan has no call of its own, and is done each time.
    await toolset.add_task(ctx, 'b')
    await toolset.add_task(ctx, 'c')
    assert [step.content for step in (await store.read()).steps] == ['a', 'b', 'c']
