"""How a run ends: the stored plan decides, never what the agent says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from runner_helpers import Scripted, lines, moving, running, statuses, stored, three_steps, writing

from planctl.agent.job import Stop
from planctl.agent.limits import Limits
from planctl.agent.outcome import STATUS, StopReason
from planctl.agent.watch import RunEvent, Said
from planctl.core import apply, undo
from planctl.errors import NotFound, StoreUnavailable, UnfinishedPlan
from planctl.operations import Add, Claim, Describe, Edit, Release, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.adapter import StoreWrapper
from planctl.stores.memory import InMemoryPlanStore
from planctl.stores.sqlite import SqlitePlanStore


async def test_an_executor_that_finishes() -> None:
    store = await three_steps()
    result = await running(store, Scripted(moving('in_progress', '1'), moving('completed', '1', '2', '3'), 'all done'))
    assert (result.stop_reason, STATUS[result.stop_reason], result.output) == (StopReason.finished, 0, 'all done')
    document = result.document()
    assert [step['id'] for step in document['completed']] == ['1', '2', '3']
    assert (document['open'], document['counts']['completed']) == ([], 3)
    assert document['phases'][0]['requests'] == document['usage']['requests'] == 3


async def test_one_that_stops_early_is_told_what_is_open_and_then_it_is_over() -> None:
    store = await three_steps()
    script = Scripted(moving('completed', '1'), 'I did what I could')
    result = await running(store, script, max_nudges=2)
    assert (result.stop_reason, STATUS[result.stop_reason]) == (StopReason.stopped_early, 6)
    # The round that resolved a step does not count: that makes three times.
    assert len(script.asked) == 5
    assert '[ ] 2 two\n[ ] 3 three' in script.said(4)
    assert [step['id'] for step in result.document()['open']] == ['2', '3']
    assert statuses(result.plan) == {'1': 'completed', '2': 'pending', '3': 'pending'}


async def test_one_that_lies_is_not_believed() -> None:
    script = Scripted('Everything is completed. The plan is finished.')
    result = await running(await three_steps(), script, max_nudges=0)
    assert (result.stop_reason, len(script.asked)) == (StopReason.stopped_early, 1)
    assert set(statuses(result.plan).values()) == {'pending'}


async def test_one_that_goes_on_when_it_is_told_finishes() -> None:
    script = Scripted('first?', moving('completed', '1', '2', '3'), 'done')
    result = await running(await three_steps(), script)
    assert result.stop_reason is StopReason.finished


async def test_one_that_reads_for_ever_stalls() -> None:
    script = Scripted(moving('in_progress', '1'), [('read_plan', {})])
    result = await running(await three_steps(), script, max_idle=7)
    assert (result.stop_reason, STATUS[result.stop_reason]) == (StopReason.stalled, 6)
    assert len(script.asked) == 8
    assert '7 requests (--max-idle)' in result.message
    assert (result.plan.step('1').status, result.plan.step('1').note) == (TaskStatus.pending, 'interrupted')


async def test_one_that_calls_tools_that_there_are_not_stalls_and_does_not_crash() -> None:
    result = await running(await three_steps(), Scripted([('no_such_tool', {})]), max_idle=12)
    assert result.stop_reason is StopReason.stalled


async def test_answers_that_say_nothing_cost_a_request_and_never_the_run() -> None:
    script = Scripted('', '', moving('completed', '1'), '', '', moving('completed', '2', '3'), '', 'done')
    result = await running(await three_steps(), script)
    assert (result.stop_reason, result.output, len(script.asked)) == (StopReason.finished, 'done', 8)
    silent = await running(await three_steps(), Scripted(''), max_idle=5)
    assert (silent.stop_reason, silent.phases[0].requests) == (StopReason.stalled, 5)


async def test_one_that_blocks_what_is_left_waits() -> None:
    script = Scripted(moving('completed', '1'), moving('blocked', '2', '3', note='no key'), 'cannot')
    result = await running(await three_steps(), script)
    assert (result.stop_reason, STATUS[result.stop_reason], len(script.asked)) == (StopReason.waiting, 6, 3)
    assert {step['note'] for step in result.document()['open']} == {'no key'}
    assert 'planctl reopen 2 3' in result.message


async def test_a_plan_with_nothing_but_blocked_steps_is_not_asked_about() -> None:
    script = Scripted('?')
    store = await stored(Add('a', status=TaskStatus.blocked, note='why'), Add('b', depends_on=('1',)))
    result = await running(store, script)
    assert (result.stop_reason, script.asked) == (StopReason.waiting, [])
    assert 'planctl reopen 1`' in result.message


async def test_steps_that_others_hold_are_waited_for_and_what_comes_back_is_worked_on() -> None:
    store = await stored(Add('a'), Add('b'), Add('c'), Claim('w', 600, id='1'), Claim('w', 600, id='2'))
    meanwhile: list[Any] = []

    class Hearing(list[RunEvent]):
        def append(self, event: RunEvent) -> None:
            super().append(event)
            if isinstance(event, Said) and event.text.startswith('waiting'):
                done = apply(store, SetStatus('1', TaskStatus.completed), Release('w', '2'), actor='w')
                meanwhile.append(asyncio.create_task(done))

    script = Scripted(moving('completed', '3'), 'the rest is for others', moving('completed', '2'), 'done')
    events = Hearing()
    result = await running(store, script, events=events, max_nudges=0)
    assert (result.stop_reason, [*result.record.completed]) == (StopReason.finished, ['3', '2'])
    assert 'waiting for what others hold: step 1, 2' in lines(events)
    assert 'can be worked on:\n[ ] 2 b\nGo on' in script.said(2)


async def test_who_has_to_wait_from_the_beginning_asks_nothing() -> None:
    store, script = await stored(Add('a'), Claim('w', 600, id='1')), Scripted('?')
    result = await running(store, script, limits=Limits(timeout=0.3))
    assert (result.stop_reason, result.limit, script.asked) == (StopReason.limit, 'timeout', [])
    assert (result.plan.step('1').owner, result.plan.step('1').status) == ('w', TaskStatus.in_progress)


async def test_what_a_person_has_in_progress_stays_theirs() -> None:
    store = await stored(Add('a'), Add('b'))
    await apply(store, SetStatus('1', TaskStatus.in_progress), actor='ann@desk')
    result = await running(store, Scripted(moving('in_progress', '2'), 'that is all'), max_nudges=0)
    assert (result.plan.step('1').status, result.plan.step('1').owner) == (TaskStatus.in_progress, 'ann@desk')
    assert (result.plan.step('2').status, result.plan.step('2').note) == (TaskStatus.pending, 'interrupted')


async def test_one_that_cancels_everything_abandons_the_plan() -> None:
    result = await running(await three_steps(), Scripted(moving('cancelled', '1', '2', '3'), 'not needed'))
    assert (result.stop_reason, STATUS[result.stop_reason]) == (StopReason.abandoned, 6)
    assert [step['id'] for step in result.document()['cancelled']] == ['1', '2', '3']


async def test_one_that_removes_everything_abandons_the_plan() -> None:
    removals = [('remove_task', {'task_id': str(step_id)}) for step_id in (1, 2, 3)]
    result = await running(await three_steps(), Scripted(removals, 'gone'))
    assert result.stop_reason is StopReason.abandoned
    assert [step['content'] for step in result.document()['removed']] == ['one', 'two', 'three']


async def test_a_model_that_raises_is_an_error_and_the_plan_stays_usable() -> None:
    def raising(*_: Any) -> Any:
        raise ConnectionError('the provider\nis gone')

    result = await running(await three_steps(), Scripted(moving('in_progress', '1'), raising))
    assert (result.stop_reason, result.error and result.error.code) == (StopReason.error, 'model')
    assert result.message == 'scripted: ConnectionError: the provider is gone'
    assert statuses(result.plan) == {'1': 'pending', '2': 'pending', '3': 'pending'}


async def test_a_model_that_fails_when_the_last_step_is_done_does_not_undo_that() -> None:
    def raising(*_: Any) -> Any:
        raise ConnectionError('too late')

    result = await running(await three_steps(), Scripted(moving('completed', '1', '2', '3'), raising))
    assert (result.stop_reason, result.message.endswith('too late')) == (StopReason.finished, True)


async def test_a_tool_that_raises_is_an_error() -> None:
    script = Scripted([('explode', {})])
    agent = Agent(script.model)

    @agent.tool_plain
    def explode() -> str:
        raise RuntimeError('boom')

    result = await running(await three_steps(), script, agent=agent)
    assert (result.stop_reason, result.message) == (StopReason.error, 'tool explode: RuntimeError: boom')


async def test_a_store_that_fails_in_the_middle_is_an_error_of_storage() -> None:
    class Failing(StoreWrapper):
        fails = False

        async def update(self, *args: Any, **options: Any) -> Any:
            if self.fails and options['label'] != 'release':
                raise StoreUnavailable('the disk is full')
            return await super().update(*args, **options)

    store = Failing(await three_steps())

    def fail(*_: Any) -> Any:
        store.fails = True
        return moving('completed', '1')

    result = await running(store, Scripted(fail))
    assert (result.stop_reason, result.error and result.error.code) == (StopReason.error, 'unavailable')


async def test_a_limit_names_itself_and_how_to_go_on() -> None:
    script = Scripted(*(moving('completed', str(at)) for at in (1, 2, 3)))
    result = await running(await three_steps(), script, limits=Limits(max_requests=2))
    assert (result.stop_reason, STATUS[result.stop_reason], len(script.asked)) == (StopReason.limit, 6, 2)
    assert '--max-requests' in result.message
    assert '`planctl run` goes on' in result.message


async def test_a_limit_that_is_hit_after_the_last_step_does_not_matter() -> None:
    result = await running(
        await three_steps(), Scripted(moving('completed', '1', '2', '3')), limits=Limits(max_requests=1)
    )
    assert result.stop_reason is StopReason.finished


async def test_there_is_no_hidden_limit_of_requests() -> None:
    store = await stored(*(Add(f'step {at}') for at in range(120)))
    turns = [turn for at in range(1, 121) for turn in (moving('in_progress', str(at)), moving('completed', str(at)))]
    script = Scripted(*turns, 'done')
    result = await running(store, script)
    assert (result.stop_reason, len(script.asked)) == (StopReason.finished, 241)


async def test_a_fresh_context_after_so_many_steps_starts_from_objective_brief_and_plan() -> None:
    store = await three_steps()
    await apply(store, Describe(objective='THE OBJECTIVE', brief='THE BRIEF'))
    script = Scripted(moving('completed', '1'), moving('completed', '2'), moving('completed', '3'), 'done')
    result = await running(store, script, steps_per_context=1)
    assert (result.stop_reason, result.phases[0].contexts) == (StopReason.finished, 3)
    assert [len(messages) for messages, _ in script.asked] == [1, 1, 1, 3]
    for request in range(3):
        assert 'THE OBJECTIVE' in script.said(request)
        assert 'THE BRIEF' in script.said(request)


async def test_an_objective_alone_may_be_answered_without_a_plan() -> None:
    script = Scripted('4')
    result = await running(InMemoryPlanStore(), script, objective='what is 2+2')
    assert (result.stop_reason, STATUS[result.stop_reason], result.output) == (StopReason.answered, 0, '4')
    assert script.said() == 'what is 2+2'
    assert result.plan.objective == 'what is 2+2'


async def test_an_objective_alone_may_be_planned_by_the_executor_and_then_the_plan_counts() -> None:
    script = Scripted(writing('a', 'b'), moving('completed', '1'), 'enough')
    result = await running(InMemoryPlanStore(), script, objective='work', max_nudges=0)
    assert result.stop_reason is StopReason.stopped_early
    script = Scripted(writing('a'), moving('completed', '1'), 'enough')
    assert (await running(InMemoryPlanStore(), script, objective='work')).stop_reason is StopReason.finished


async def test_a_finished_plan_is_said_and_nothing_is_asked() -> None:
    store = await stored(Add('a', status=TaskStatus.completed), Describe(objective='that'))
    script = Scripted('?')
    for objective in ('', 'that'):
        result = await running(store, script, objective=objective)
        assert (result.stop_reason, script.asked) == (StopReason.finished, [])
        assert 'nothing was asked' in result.message


async def test_another_objective_after_a_finished_plan_becomes_the_sessions_with_its_first_step() -> None:
    store = await stored(Add('old', status=TaskStatus.completed), Describe(objective='that', brief='old brief'))
    before = await store.read()
    script = Scripted([('add_task', {'content': 'new'})], moving('completed', '2'), 'done')
    result = await running(store, script, objective='something else')
    assert script.said().startswith('something else')
    assert (result.stop_reason, result.plan.objective, result.plan.brief) == (StopReason.finished, 'something else', '')
    assert statuses(result.plan) == {'1': 'completed', '2': 'completed'}
    await undo(store, before.revision + 2)
    await undo(store, before.revision + 1)
    assert (await store.read()).objective == 'that'


async def test_another_objective_over_open_steps_is_refused() -> None:
    store = await stored(Add('a'), Describe(objective='that'))
    before = await store.read()
    with pytest.raises(UnfinishedPlan):
        await running(store, Scripted('?'), objective='something else')
    assert (await store.read()).steps == before.steps


async def test_the_same_objective_goes_on_and_one_for_steps_without_any_is_taken() -> None:
    for first in ('that', ''):
        store = await stored(Add('a'), Describe(objective=first))
        result = await running(store, Scripted(moving('completed', '1'), 'done'), objective='that')
        assert (result.stop_reason, result.plan.objective) == (StopReason.finished, 'that')


async def test_no_plan_and_no_objective() -> None:
    store = InMemoryPlanStore()
    with pytest.raises(NotFound):
        await running(store, Scripted('?'))
    assert (await store.read()).owner is None


async def test_structured_output_is_kept_as_data() -> None:
    class Verdict(BaseModel):
        good: bool

    script = Scripted(moving('completed', '1', '2', '3'), [('final_result', {'good': True})])
    result = await running(await three_steps(), script, agent=Agent(script.model, output_type=Verdict))
    assert (result.document()['output'], result.text) == ({'good': True}, '{"good": true}')


async def test_what_others_change_meanwhile_is_seen_and_kept(tmp_path: Any) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    await three_steps(store)
    events: list[Any] = []

    async def meanwhile(*_: Any) -> Any:
        await apply(store, SetStatus('2', TaskStatus.completed), Edit('3', 'three, but better'), actor='ann')
        return moving('completed', '1')

    result = await running(store, Scripted(meanwhile, moving('completed', '3'), 'ok'), events=events)
    assert result.stop_reason is StopReason.finished
    assert result.plan.step('3').content == 'three, but better'
    assert [step['id'] for step in result.document()['completed']] == ['1', '3']
    assert any(type(event).__name__ == 'PlanSeen' for event in events)


async def test_a_run_that_is_stopped_gives_back_what_it_holds() -> None:
    store = await three_steps()
    stop = Stop()

    async def hang(*_: Any) -> Any:
        stop.request(StopReason.interrupted)
        await asyncio.sleep(600)

    result = await running(store, Scripted(moving('in_progress', '1'), hang), stop=stop)
    assert (result.stop_reason, STATUS[result.stop_reason]) == (StopReason.interrupted, 130)
    assert (result.plan.step('1').status, result.plan.step('1').note) == (TaskStatus.pending, 'interrupted')
    assert result.plan.owner is None
    assert result.message == '3 steps are open, `planctl run` goes on'
    stop = Stop()
    result = await running(store, Scripted(moving('completed', '1', '2', '3'), hang), stop=stop)
    assert (result.stop_reason, result.message) == (
        StopReason.interrupted,
        'the plan is finished: 3 of 3 steps completed',
    )


async def test_a_store_that_is_gone_in_the_middle_is_an_error_with_the_plan_as_it_was_known(tmp_path: Path) -> None:
    store = await three_steps(SqlitePlanStore(tmp_path / 'plan.db'))

    def removing(*_: Any) -> Any:
        (tmp_path / 'plan.db').unlink()
        return moving('completed', '2', '3')

    result = await running(store, Scripted(moving('completed', '1'), removing, 'done'))
    assert (result.stop_reason, result.error and result.error.code) == (StopReason.error, 'storage')
    document = result.document()
    assert [step['id'] for step in document['completed']] == ['1']
    assert [step['id'] for step in document['open']] == ['2', '3']
