"""Several executors on one plan, in one process and in many: every step once, in order, whoever dies or sleeps."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from process_helpers import planctl
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo
from runner_helpers import Scripted, lines, moving, statuses, stored
from servers import postgres, postgres_server, valkey, valkey_server  # noqa: F401
from worker_helpers import COUNT, assigned, diligent, forty, opened, worked_exactly_once, working

from planctl.agent.job import Job, Stop, Wanted
from planctl.agent.lease import Holder, session_lease
from planctl.agent.limits import Limits
from planctl.agent.offline import offline_model
from planctl.agent.outcome import StopReason
from planctl.agent.own_step import OwnStepStore
from planctl.agent.runner import run
from planctl.agent.spec import LoadedAgent
from planctl.agent.watch import RunEvent, ToolReturned
from planctl.agent.workers import STOPPED_EARLY
from planctl.core import apply, log
from planctl.errors import LostClaim, NotFound, Refused, SpecError
from planctl.operations import Add, Claim, Describe, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.memory import InMemoryPlanStore


@pytest.mark.parametrize('kind', ['memory', 'sqlite', 'postgres', 'valkey'])
async def test_four_workers_share_forty_steps(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    model = Scripted(diligent)
    async with opened(kind, request, tmp_path) as store:
        await forty(store)
        result = await working(store, model)
        assert (result.stop_reason, result.message) == (
            StopReason.finished,
            'the plan is finished: 40 of 40 steps completed',
        )
        by = await worked_exactly_once(store)
    assert len(by) == 4
    # One phase, one budget: each step was one request, in a fresh context of its own.
    (phase,) = result.phases
    assert (phase.requests, phase.contexts, len(model.asked)) == (COUNT, COUNT, COUNT)
    assert all(len(messages) == 1 for messages, _ in model.asked)
    assert len(result.record.completed) == COUNT


async def test_a_worker_is_given_its_step_and_the_tools_for_it(tmp_path: Path) -> None:
    model = Scripted(diligent)
    store = await stored(
        Describe(objective='the whole', brief='the brief'), Add('part', id='p'), Add('leaf', parent_id='p')
    )
    result = await working(store, model, 2)
    assert result.stop_reason is StopReason.finished
    assert model.said(0).startswith(
        'Objective:\nthe whole\n\nBrief:\nthe brief\n\nWork on step 1, and on no other:\nleaf\nIt is a part of: part\n'
    )
    assert '[~] 1 leaf' in model.said(0)
    assert model.tools(0) == {'read_plan', 'add_task', 'add_subtask', 'update_task_status'}


async def test_the_limits_are_for_all_of_them_together() -> None:
    store = InMemoryPlanStore()
    await forty(store)
    result = await working(store, Scripted(diligent), executor=Limits(max_requests=10))
    assert (result.stop_reason, result.limit) == (StopReason.limit, 'max_requests')
    assert sum(phase.requests for phase in result.phases) == 10
    assert len(result.record.completed) == 10
    assert 'in_progress' not in statuses(result.plan).values()


async def test_a_worker_waits_for_others_no_longer_than_its_own_time() -> None:
    store = await stored(Add('one'), Claim('other', 600, id='1'))
    result = await working(store, Scripted('?'), 2, executor=Limits(timeout=0.3))
    assert (result.stop_reason, result.limit, result.plan.step('1').owner) == (StopReason.limit, 'timeout', 'other')


async def test_a_worker_leaves_the_steps_of_others_alone() -> None:
    def greedy(messages: list[ModelMessage], info: AgentInfo) -> Any:
        own = assigned(messages)
        return moving('cancelled', '2' if own == '1' else '1') + moving('completed', own)

    events: list[RunEvent] = []
    store = await stored(Add('one'), Add('two', depends_on=('1',)))
    result = await working(store, Scripted(greedy), 2, events=events)
    assert statuses(result.plan) == {'1': 'completed', '2': 'completed'}
    outcomes = [event.outcome for event in events if isinstance(event, ToolReturned)]
    assert outcomes == ['failed', 'success', 'failed', 'success']
    taken = [row.id for row in await log(store) if row.after and '"in_progress"' in row.after]
    assert taken == ['1', '2']


async def test_a_change_by_one_that_lost_its_step_is_refused() -> None:
    store = await stored(Add('one'), Add('two'))
    await apply(store, Claim('first', 1.0, '1'), now=100.0)
    late = OwnStepStore(store, 'first', '1')
    await apply(store, Claim('second', 60.0, '1'), now=102.0)
    with pytest.raises(LostClaim, match='no longer held by first: it is held by second'):
        await apply(late, SetStatus('1', TaskStatus.completed))
    with pytest.raises(LostClaim):
        await apply(late, Add('three'))
    own = OwnStepStore(store, 'second', '1')
    for operation in (SetStatus('2', TaskStatus.completed), SetStatus('2', TaskStatus.in_progress)):
        with pytest.raises(Refused, match='step 1 is yours; step 2 is not'):
            await apply(own, operation)
    await apply(own, Add('three', parent_id='1'), Add('four'))
    assert (await store.read()).step('1').owner == 'second'


async def test_a_step_that_was_split_comes_back_after_its_parts() -> None:
    def splitting(messages: list[ModelMessage], info: AgentInfo) -> Any:
        own = assigned(messages)
        if own != '1':
            return moving('completed', own)
        if len(messages) == 1 and 'whole\nNote' not in str(messages[0].parts) and '1.done' not in seen:
            seen.add('1.done')
            return [('add_subtask', {'parent_id': '1', 'content': 'a part'}), ('add_task', {'content': 'aside'})]
        return moving('completed', own) if len(messages) == 1 else 'it is split'

    seen: set[str] = set()
    store = await stored(Add('whole'))
    result = await working(store, Scripted(splitting), 2)
    assert result.stop_reason is StopReason.finished
    assert [step.content for step in result.plan.steps] == ['whole', 'a part', 'aside']
    order = [row.id for row in await log(store) if row.after and '"completed"' in row.after]
    assert order.index('2') < order.index('1')


async def test_one_that_stops_early_is_told_so_and_then_passed_over() -> None:
    def lazy(messages: list[ModelMessage], info: AgentInfo) -> Any:
        return 'no' if assigned(messages) == '1' else moving('completed', assigned(messages))

    events: list[RunEvent] = []
    store = await stored(Add('one'), Add('two'), Add('three'))
    model = Scripted(lazy)
    result = await working(store, model, 2, events=events, max_nudges=1)
    assert result.stop_reason is StopReason.stopped_early
    assert statuses(result.plan) == {'1': 'pending', '2': 'completed', '3': 'completed'}
    assert result.plan.step('1').note == STOPPED_EARLY
    assert 'the agent stopped with step 1 in progress and is told so' in lines(events)
    assert len([messages for messages, _ in model.asked if assigned(messages) == '1']) == 2


async def test_what_somebody_works_on_without_a_claim_is_neither_taken_nor_waited_for() -> None:
    store = await stored(Add('one'), Add('two'))
    await apply(store, SetStatus('1', TaskStatus.in_progress), actor='ann@desk')
    result = await working(store, Scripted(diligent), 2)
    assert (result.stop_reason, statuses(result.plan)) == (StopReason.waiting, {'1': 'in_progress', '2': 'completed'})
    assert result.message == 'step 1 in progress elsewhere; 1 step is open, `planctl run` goes on'


async def test_what_blocks_one_stops_no_other() -> None:
    def blocking(messages: list[ModelMessage], info: AgentInfo) -> Any:
        own = assigned(messages)
        return moving('blocked', own, note='no') if own == '1' else moving('completed', own)

    store = await stored(Add('one'), Add('two'), Add('three', depends_on=('1',)))
    result = await working(store, Scripted(blocking), 3)
    assert result.stop_reason is StopReason.waiting
    assert statuses(result.plan) == {'1': 'blocked', '2': 'completed', '3': 'blocked'}


async def test_a_failure_of_one_ends_all_and_gives_everything_back() -> None:
    async def failing(messages: list[ModelMessage], info: AgentInfo) -> Any:
        if assigned(messages) == '3':
            raise RuntimeError('it broke')
        await asyncio.sleep(30)

    store = await stored(Add('one'), Add('two'), Add('three'), Add('four'))
    result = await asyncio.wait_for(working(store, Scripted(failing), 3), 10)
    assert (result.stop_reason, 'it broke' in result.message) == (StopReason.error, True)
    assert set(statuses(result.plan).values()) == {'pending'}


async def test_an_interruption_gives_everything_back() -> None:
    stop = Stop()

    async def hanging(messages: list[ModelMessage], info: AgentInfo) -> Any:
        if len(model.asked) == 3:
            stop.request(StopReason.interrupted)
        await asyncio.sleep(30)

    model = Scripted(hanging)
    store = await stored(Add('one'), Add('two'), Add('three'), Add('four'))
    result = await asyncio.wait_for(working(store, model, 3, stop=stop), 10)
    assert result.stop_reason is StopReason.interrupted
    assert statuses(result.plan) == dict.fromkeys('1234', 'pending')
    assert result.plan.owner is None


async def test_a_session_without_a_plan_is_not_for_workers() -> None:
    with pytest.raises(NotFound, match='no plan for several workers'):
        await working(InMemoryPlanStore(), Scripted('x'), 2, objective='something')
    with pytest.raises(NotFound, match='has no plan'):
        await working(InMemoryPlanStore(), Scripted('x'), 1, helps=True)


async def test_a_plan_inside_of_another_capability_cannot_be_shared() -> None:
    from planctl import Planning

    agent = Agent('test', capabilities=[Planning().prefix_tools('p')])
    result = await working(await stored(Add('one')), Scripted('x'), 2, agent=agent)
    assert isinstance(result.error, SpecError)


async def test_a_helper_waits_for_the_plan_of_the_run_that_it_helps() -> None:
    store = InMemoryPlanStore()
    leader = Holder.here()
    async with session_lease(store, leader, lost=lambda _: None, taken=lambda _: None):
        helping = asyncio.create_task(working(store, Scripted(diligent), 1, helps=True))
        await asyncio.sleep(0)
        await apply(store, Add('one'), Add('two', depends_on=('1',)))
        result = await asyncio.wait_for(helping, 10)
    assert result.stop_reason is StopReason.finished


async def test_the_steps_of_the_workers_of_a_dead_run_are_taken_back_at_once() -> None:
    with subprocess.Popen([sys.executable, '-c', '']) as ended:
        pass
    here = Holder.here()
    dead = Holder('0badcafe', here.host, ended.pid, here.started, here.machine)
    store = await stored(Add('one'), Add('two'))
    await apply(store, Claim(str(dead), 60.0, scope='session'), Claim(dead.worker(2), 60.0, '1'))
    result = await asyncio.wait_for(working(store, Scripted(diligent), 2), 10)
    assert result.stop_reason is StopReason.finished


def test_a_worker_has_nothing_to_do_with_planning(tmp_path: Path) -> None:
    for words in (('--plan-first',), ('--replan',), ('an objective',), ('--approve',), ('--steps-per-context', '2')):
        done = planctl(tmp_path, 'run', '--worker', '--model', 'offline', *words)
        assert (done.returncode, 'exclude each other' in done.stderr) == (2, True)


async def test_the_offline_model_works_on_the_step_that_it_is_given() -> None:
    store = InMemoryPlanStore()
    await forty(store)
    model = offline_model()
    job = Job(store, LoadedAgent(Agent(model), 'test', model), Wanted(workers=3), lambda _: None)
    result = await run(job, planner=None, executor=model)
    assert result.stop_reason is StopReason.finished
    await worked_exactly_once(store)
