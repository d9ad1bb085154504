"""A person between planning and carrying out, and before a tool that needs approval."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from process_helpers import AGENT, Terminal, plan_in, planctl
from pydantic_ai import Agent
from pydantic_ai.tools import Tool
from runner_helpers import Scripted, moving, running, statuses, stored, three_steps, write, writing

from planctl.agent.limits import Limits
from planctl.agent.outcome import STATUS, StopReason
from planctl.agent.person import Again, Go, Keep, Verdict
from planctl.agent.watch import Decided
from planctl.cli.asking import Asking
from planctl.cli.live import reporter
from planctl.cli.settings import Settings
from planctl.core import apply, read
from planctl.errors import NotFound
from planctl.operations import Add, Describe, Remove, SetStatus
from planctl.plan import Plan, TaskStatus
from planctl.stores.base import BaseStore
from planctl.stores.memory import InMemoryPlanStore


class Reviewer:
    """Somebody who decides by a script; a store and operations among it are done by them meanwhile."""

    def __init__(self, *verdicts: Any, store: BaseStore | None = None, allows: Sequence[bool] = ()) -> None:
        self._verdicts = iter(verdicts)
        self._allows = iter(allows)
        self._store = store
        self.saw: list[tuple[Plan, bool]] = []
        self.asked: list[tuple[str, str]] = []

    async def review(self, plan: Plan, *, can_plan: bool) -> Verdict:
        self.saw.append((plan, can_plan))
        verdict = next(self._verdicts)
        if isinstance(verdict, tuple):
            assert self._store is not None
            *operations, verdict = verdict
            await apply(self._store, *operations, actor='ann@desk')
        return verdict

    async def allow(self, tool: str, arguments: str) -> bool:
        self.asked.append((tool, arguments))
        return next(self._allows)


async def test_what_is_approved_is_carried_out() -> None:
    reviewer, executor = Reviewer(Go()), Scripted(moving('completed', '1'), 'done')
    planner = Scripted(writing('a'), 'brief')
    result = await running(
        InMemoryPlanStore(), executor, planner=planner, objective='X', plan_first=True, person=reviewer
    )
    assert result.stop_reason is StopReason.finished
    plan, can_plan = reviewer.saw[0]
    assert ([step.content for step in plan.steps], plan.brief, can_plan) == (['a'], 'brief', True)


async def test_what_is_not_approved_is_kept_for_later() -> None:
    store, executor = InMemoryPlanStore(), Scripted('?')
    planner = Scripted(writing('a'), 'brief')
    result = await running(store, executor, planner=planner, objective='X', plan_first=True, person=Reviewer(Keep()))
    assert (result.stop_reason, STATUS[result.stop_reason], executor.asked) == (StopReason.planned, 0, [])
    assert (await running(store, Scripted(moving('completed', '1'), 'done'))).stop_reason is StopReason.finished


async def test_the_planner_is_asked_again_in_the_same_conversation_and_sees_what_the_person_changed() -> None:
    store = InMemoryPlanStore()
    reviewer = Reviewer((Add('by hand'), Again('also the roof')), Go(), store=store)
    planner = Scripted(writing('walls'), 'first brief', [('add_task', {'content': 'roof'})], 'second brief')
    executor = Scripted(moving('completed', '1', '2', '3'), 'done')
    result = await running(store, executor, planner=planner, objective='X', plan_first=True, person=reviewer)
    assert result.stop_reason is StopReason.finished
    assert [step.content for step in reviewer.saw[1][0].steps] == ['walls', 'by hand', 'roof']
    assert (result.plan.brief, 'second brief' in executor.said()) == ('second brief', True)
    assert 'also the roof' in planner.said(2)
    assert '[ ] 2 by hand' in planner.said(2)
    assert 'first brief' in repr(planner.asked[2][0])
    assert 'walls' not in repr(executor.asked[0][0][:-1])
    assert [phase.name for phase in result.phases] == ['plan', 'execute']
    assert result.phases[0].requests == 4


async def test_a_planner_that_is_asked_again_still_carries_nothing_out() -> None:
    planner = Scripted(
        writing('a'), 'brief', [('write_plan', {'items': [{'content': 'a', 'status': 'completed'}]})], 'brief again'
    )
    store = InMemoryPlanStore()
    reviewer = Reviewer(Again('do it yourself'), Keep())
    result = await running(store, planner=planner, objective='X', plan_first=True, person=reviewer)
    assert statuses(result.plan) == {'1': 'pending'}
    assert 'planning only' in str(planner.asked[3][0][-1].parts[0].content)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ('mode', 'kept'), [('append', ['old done', 'old open', 'new']), ('replan', ['old done', 'new'])]
)
async def test_what_stays_when_planning_stays_when_the_planner_is_asked_again(mode: str, kept: list[str]) -> None:
    store = await stored(Add('old done'), Add('old open'), Describe(objective='X', brief='old'))
    await apply(store, SetStatus('1', TaskStatus.completed))
    wrong = [('remove_task', {'task_id': '1'})]
    planner = Scripted([('add_task', {'content': 'new'})], 'brief', wrong, 'brief again')
    reviewer = Reviewer(Again('less'), Keep())
    wanted: dict[str, Any] = {mode: True}
    result = await running(store, planner=planner, person=reviewer, **wanted)
    assert [step.content for step in result.plan.steps] == kept
    assert 'stays as it is' in str(planner.asked[3][0][-1].parts[0].content)  # type: ignore[union-attr]
    assert result.plan.brief == ('old' if mode == 'append' else 'brief again')


async def test_a_limit_while_the_planner_is_asked_again_keeps_the_plan() -> None:
    store = InMemoryPlanStore()
    planner = Scripted(writing('a'), 'brief', [('add_task', {'content': 'b'})], [('read_plan', {})])
    result = await running(
        store,
        planner=planner,
        objective='X',
        plan_first=True,
        person=Reviewer(Again('more')),
        limits=Limits(max_requests=4),
    )
    assert (result.stop_reason, result.limit) == (StopReason.limit, 'max_requests')
    assert 'the plan is kept as it is now' in result.message
    assert [step.content for step in result.plan.steps] == ['a', 'b']


async def test_a_plan_that_is_there_is_approved_as_well_and_an_emptied_one_is_not_carried_out() -> None:
    store = await three_steps()
    reviewer = Reviewer((Remove('1'), Remove('2'), Remove('3'), Go()), store=store)
    executor = Scripted('?')
    result = await running(store, executor, person=reviewer)
    assert (result.stop_reason, executor.asked, reviewer.saw[0][1]) == (StopReason.planned, [], False)
    assert result.message == 'the plan is kept; it is empty'


@pytest.mark.parametrize('finished', [False, True])
async def test_what_has_no_plan_yet_is_not_carried_out_unseen(finished: bool) -> None:
    store = InMemoryPlanStore()
    if finished:
        await apply(store, Describe(objective='before'), Add('a', status=TaskStatus.completed))
    before = await read(store)
    executor, reviewer = Scripted('?'), Reviewer(Go())
    with pytest.raises(NotFound, match='there is no plan to approve yet'):
        await running(store, executor, objective='X', person=reviewer)
    assert (executor.asked, reviewer.saw, await read(store)) == ([], [], before)


# --- Tools that need approval ---------------------------------------------------------------------------------------


def launching(script: Scripted) -> Agent[Any, Any]:
    def launch(where: str) -> str:
        return f'launched to {where}'

    return Agent(script.model, tools=[Tool(launch, requires_approval=True)])


LAUNCH = [('launch', {'where': 'moon'})]


async def test_a_tool_that_needs_approval_is_denied_where_nobody_is_and_the_run_goes_on() -> None:
    script = Scripted(LAUNCH, moving('blocked', '1', '2', '3', note='needs approval'), 'cannot')
    events: list[Any] = []
    result = await running(await three_steps(), script, agent=launching(script), events=events)
    assert result.stop_reason is StopReason.waiting
    assert 'nobody is there to give it' in repr(script.asked[1][0][-1])
    assert result.document()['denied'] == [{'tool': 'launch', 'arguments': '{"where":"moon"}', 'asked': False}]
    assert [event.allowed for event in events if isinstance(event, Decided)] == [False]


async def test_a_person_is_asked_and_their_word_counts() -> None:
    script = Scripted(LAUNCH, LAUNCH, moving('completed', '1', '2', '3'), 'done')
    reviewer = Reviewer(Go(), allows=[False, True])
    result = await running(await three_steps(), script, agent=launching(script), person=reviewer)
    assert result.stop_reason is StopReason.finished
    assert reviewer.asked == [('launch', '{"where":"moon"}')] * 2
    assert 'A person denied this call' in repr(script.asked[1][0][-1])
    assert 'launched to moon' in repr(script.asked[2][0][-1])
    assert result.document()['denied'] == [{'tool': 'launch', 'arguments': '{"where":"moon"}', 'asked': True}]


async def test_the_time_that_a_person_takes_is_not_the_runs() -> None:
    class Slow(Reviewer):
        async def allow(self, tool: str, arguments: str) -> bool:
            await asyncio.sleep(2.2)
            return await super().allow(tool, arguments)

    script = Scripted(LAUNCH, moving('completed', '1', '2', '3'), 'done')
    slow, limits = Slow(Go(), allows=[True]), Limits(timeout=2)
    result = await running(await three_steps(), script, agent=launching(script), person=slow, limits=limits)
    assert (result.stop_reason, result.phases[0].seconds < 2) == (StopReason.finished, True)


async def test_a_handler_of_the_agents_own_decides_first() -> None:
    from pydantic_ai.capabilities import HandleDeferredToolCalls

    def launch(where: str) -> str:
        return f'launched to {where}'

    script = Scripted(LAUNCH, moving('completed', '1', '2', '3'), 'done')
    own: Any = HandleDeferredToolCalls(handler=lambda ctx, requests: requests.build_results(approve_all=True))
    agent = Agent(script.model, tools=[Tool(launch, requires_approval=True)], capabilities=[own])
    result = await running(await three_steps(), script, agent=agent)
    assert result.stop_reason is StopReason.finished
    assert ('launched to moon' in repr(script.asked[1][0][-1]), result.denied) == (True, [])


# --- At a terminal --------------------------------------------------------------------------------------------------


async def test_what_was_typed_before_a_question_answers_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyboard, terminal = os.openpty()
    with os.fdopen(keyboard, 'wb', 0) as typing, os.fdopen(terminal, 'rb', 0) as stdin:
        monkeypatch.setattr(sys, 'stdin', stdin)
        typing.write(b'y\n')
        select.select([stdin], [], [], 10)
        with reporter(Settings(quiet=True)) as watch:
            asked = asyncio.create_task(Asking(watch, InMemoryPlanStore(), 'ann').allow('launch', '{}'))
            while 'Allow it?' not in capsys.readouterr().err:
                await asyncio.sleep(0.01)
            typing.write(b'n\n')
            assert await asyncio.wait_for(asked, 10) is False


LAUNCHING = (
    AGENT
    + """
from pydantic_ai.tools import Tool

agent = Agent(offline_model(), tools=[Tool(run_command, requires_approval=True)])
"""
)


def test_at_a_terminal_the_plan_is_edited_asked_for_again_and_carried_out(tmp_path: Path) -> None:
    write(tmp_path, 'agents.py', AGENT)
    write(tmp_path, 'editor.sh', 'if mkdir failed; then exit 3; fi; sed -i "s/second/the second/" "$1"\n')
    (tmp_path / 'tmp').mkdir()
    words = ('run', '1. first\n2. second', '--plan-first', '--approve', '--agent', 'agents:agent', '--json')
    with Terminal(tmp_path, *words, EDITOR='sh editor.sh', TMPDIR=str(tmp_path / 'tmp')) as terminal:
        terminal.until('[s]top: ')
        terminal.type('what?\n')
        terminal.until('[s]top: ')
        terminal.type('e\n')
        terminal.until('planctl: the editor sh ended with status 3: nothing was changed\r\nCarry it out?')
        terminal.type('e\n')
        terminal.until('2  the second')
        terminal.until('[s]top: ')
        assert plan_in(tmp_path).step('2').content == 'the second'
        terminal.type('a\n')
        terminal.until('What should be different? ')
        terminal.type('nothing\n')
        terminal.until('[s]top: ')
        terminal.type('go\n')
        status, out = terminal.finish()
    assert (status, json.loads(out)['stop_reason']) == (0, 'finished')
    assert plan_in(tmp_path).progress.completed == 2
    assert not list((tmp_path / 'tmp').glob('planctl-*'))


def test_at_a_terminal_a_tool_is_allowed_once_or_always_and_stop_keeps_the_plan(tmp_path: Path) -> None:
    write(tmp_path, 'agents.py', LAUNCHING)
    checklist = '1. a `echo 1 >> log`\n2. b `echo 2 >> log`\n3. c `echo 3 >> log`'
    words = ('--approve', '--agent', 'agents:agent')
    with Terminal(tmp_path, 'run', checklist, '--plan-first', *words) as terminal:
        terminal.until('[s]top: ')
        terminal.type('\x04')
        assert terminal.finish() == (0, '')
    assert '[s]top: \r\nplanctl: planned: the plan is kept; `planctl run` carries it out' in terminal.shown
    assert plan_in(tmp_path).progress.open == 3
    with Terminal(tmp_path, 'run', *words) as terminal:
        terminal.until('Carry it out? [g]o, [e]dit, [s]top: ')
        terminal.type('g\n')
        terminal.until('The agent wants to call run_command {"command":"echo 1 >> log"}')
        terminal.until('[a]lways: ')
        terminal.type('n\n')
        terminal.until('echo 2 >> log')
        terminal.until('[a]lways: ')
        terminal.type('a\n')
        status, _ = terminal.finish()
    assert status == 6
    assert (tmp_path / 'log').read_text().split() == ['2', '3']
    assert statuses(plan_in(tmp_path)) == {'1': 'blocked', '2': 'completed', '3': 'completed'}


def test_without_a_terminal_nobody_can_approve(tmp_path: Path) -> None:
    done = planctl(tmp_path, 'run', '1. a', '--plan-first', '--approve', '--model', 'offline')
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr.startswith('planctl: --approve asks at a terminal, and here is none (--plan-only ')
    assert not (tmp_path / 'plan.db').exists()
    piped = planctl(tmp_path, 'run', '-', '--plan-first', '--approve', '--model', 'offline', stdin='1. a')
    assert piped.stderr.startswith('planctl: --approve asks on stdin, where the objective comes from (planctl run ')
    both = planctl(tmp_path, 'run', '1. a', '--plan-only', '--approve', '--model', 'offline')
    assert (both.returncode, both.stderr.count('\n')) == (2, 1)
