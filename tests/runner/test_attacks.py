"""What agents, models and people do to a run that nobody meant: no work is lost, and what went wrong is said."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from process_helpers import Terminal, plan_in, planctl, started, under_way, until
from pydantic_ai import Agent
from runner_helpers import Scripted, lines, moving, running, statuses, stored, three_steps, write, writing

from planctl.agent.job import Stop
from planctl.agent.outcome import STATUS, StopReason
from planctl.agent.watch import PlanChanged, PlanSeen
from planctl.cli.app import run
from planctl.core import apply
from planctl.errors import ModelError, ToolError
from planctl.operations import Add, Describe
from planctl.plan import TaskStatus
from planctl.stores.base import BaseStore
from planctl.stores.memory import InMemoryPlanStore
from planctl.stores.sqlite_file import PlanFile

SCRIPT = """
import asyncio, os, subprocess, sys, time
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
print('noise')
subprocess.run(['echo', 'noise of a child'], check=True)

def agent_of(*turns):
    left = iter(turns)
    async def respond(messages, info):
        turn = next(left, 'end')
        turn = turn() if callable(turn) else turn
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(parts=[ToolCallPart(*call) for call in turn])
    return Agent(FunctionModel(respond, model_name='scripted'))

def block():
    open('blocking', 'w').close()
    time.sleep(100)

WRITE = [('write_plan', {'items': [{'content': 'a', 'status': 'in_progress'}]})]
blocking = agent_of(WRITE, block)
waiting = agent_of(WRITE, [('wait', {})])

@waiting.tool_plain
async def wait() -> str:
    open('blocking', 'w').close()
    await asyncio.sleep(100)
leaving = agent_of('end')
leaving.output_validator(lambda output: sys.exit(0))
escaping = agent_of([('no\\x1b[2Jsuch', {'a': '\\x1b]0;own\\x07'})], '\\x1b[2J\\x9b1mhi')
"""


async def finished_plan() -> BaseStore:
    return await stored(Add('old', status=TaskStatus.completed), Describe(objective='that', brief='the brief'))


# --- Nothing is lost ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('turn', ['4', lambda *_: 1 / 0])
async def test_a_new_objective_that_comes_to_no_plan_leaves_the_finished_one(turn: Any) -> None:
    store = await finished_plan()
    before = await store.read()
    result = await running(store, Scripted(turn), objective='what is 2+2')
    assert result.stop_reason is (StopReason.answered if turn == '4' else StopReason.error)
    after = await store.read()
    assert (after.steps, after.objective, after.brief) == (before.steps, 'that', 'the brief')


async def test_a_run_that_is_stopped_before_its_new_plan_leaves_the_finished_one() -> None:
    store, stop = await finished_plan(), Stop()

    async def hang(*_: Any) -> Any:
        stop.request(StopReason.interrupted)
        await asyncio.sleep(600)

    result = await running(store, Scripted(hang), objective='new', stop=stop)
    assert (result.plan.objective, statuses(result.plan)) == ('that', {'1': 'completed'})
    assert 'planctl run' not in result.message


async def test_an_empty_plan_over_open_steps_is_no_plan() -> None:
    store = await three_steps()
    before = await store.read()
    result = await running(store, planner=Scripted([('write_plan', {'items': []})], 'none'), objective='n', replan=True)
    assert (result.stop_reason, STATUS[result.stop_reason]) == (StopReason.no_plan, 6)
    assert '3 open steps' in result.message
    assert (await store.read()).steps == before.steps


async def test_open_steps_that_leave_for_a_new_plan_are_named() -> None:
    store, events = await three_steps(), list[Any]()
    planner = Scripted(writing('z'), 'brief')
    result = await running(store, planner=planner, objective='n', replan=True, plan_only=True, events=events)
    assert [step['content'] for step in result.document()['removed']] == ['one', 'two', 'three']
    told = [
        entry.step.content for e in events if isinstance(e, PlanChanged) for entry in e.change.steps if not entry.after
    ]
    assert told == ['one', 'two', 'three']


@pytest.mark.parametrize('first', [{'plan_only': True}, {}])
async def test_a_long_objective_is_handed_over_whole(first: dict[str, Any]) -> None:
    objective = '\n'.join(f'- step number {at}' for at in range(2_000)) + '\n- the last one'
    script = Scripted('brief')
    await running(InMemoryPlanStore(), script, planner=script, objective=objective, **first)
    assert '- the last one' in script.said()


async def test_the_planner_knows_its_steps_by_the_ids_that_are_stored() -> None:
    store, events = await finished_plan(), list[Any]()
    items = [{'id': '1', 'content': 'p1'}, {'id': '2', 'content': 'p2', 'depends_on': ['1']}]
    planner = Scripted([('write_plan', {'items': items})], 'Step 1 needs root')
    result = await running(store, planner=planner, objective='n', plan_only=True, events=events)
    assert [(step.id, step.depends_on) for step in result.plan.steps] == [('3', ()), ('4', ('3',))]
    assert '[ ] 3 p1' in planner.said(1)
    assert result.plan.brief == '[In the plan, what is called step 1 is 3.]\nStep 1 needs root'
    assert [e.change.created[0].id for e in events if isinstance(e, PlanChanged) and e.change.created] == ['3']


async def test_a_number_that_a_person_took_meanwhile_is_said_and_put_right_in_the_brief() -> None:
    store, events = InMemoryPlanStore(), list[Any]()

    async def meanwhile(*_: Any) -> str:
        await apply(store, Add('by hand'), actor='ann')
        return 'Step 1 needs root'

    planner = Scripted(writing('p1'), meanwhile)
    result = await running(store, planner=planner, objective='n', plan_only=True, events=events)
    assert {step.id: step.content for step in result.plan.steps} == {'1': 'by hand', '2': 'p1'}
    assert 'step 1 is 2' in result.plan.brief
    assert 'numbers were taken meanwhile: step 1 is 2' in lines(events)


# --- What agents do -------------------------------------------------------------------------------------------------


async def test_a_model_that_turns_a_step_back_and_forth_stalls() -> None:
    flipping = [moving('in_progress', '1'), moving('pending', '1')] * 50
    result = await running(await three_steps(), Scripted(*flipping), max_idle=5)
    assert result.stop_reason is StopReason.stalled
    assert result.phases[0].requests <= 8


@pytest.mark.parametrize('error', [asyncio.CancelledError(), SystemExit(3)])
async def test_a_tool_that_would_end_more_than_its_call_is_named(error: BaseException) -> None:
    script = Scripted([('boom', {})])
    agent = Agent(script.model)

    @agent.tool_plain
    async def boom() -> str:
        raise error

    result = await running(await three_steps(), script, agent=agent)
    assert isinstance(result.error, ToolError)
    assert result.message.startswith('tool boom: it ')


async def test_the_error_of_a_tool_is_not_said_to_be_the_models() -> None:
    script = Scripted([('boom', {})])
    agent = Agent(script.model)

    @agent.tool_plain
    def boom() -> str:
        raise RuntimeError('no such host')

    result = await running(await three_steps(), script, agent=agent)
    assert (result.message, result.error and result.error.code) == ('tool boom: RuntimeError: no such host', 'tool')


async def test_a_model_that_raises_a_cancellation_is_an_error() -> None:
    def raising(*_: Any) -> Any:
        raise asyncio.CancelledError

    result = await running(await three_steps(), Scripted(moving('in_progress', '1'), raising))
    assert isinstance(result.error, ModelError)
    assert result.plan.step('1').status is TaskStatus.pending


async def test_what_the_run_gives_back_is_its_own_change() -> None:
    events: list[Any] = []
    await running(await three_steps(), Scripted(moving('in_progress', '1'), 'end'), max_nudges=0, events=events)
    assert not [event for event in events if isinstance(event, PlanSeen)]
    assert isinstance(events[-1], PlanChanged)
    assert events[-1].change.after.step('1').note == 'interrupted'


async def test_what_is_left_out_is_said_before_the_planner_is_asked() -> None:
    planner, events = Scripted(writing('a'), 'brief'), list[Any]()
    agent = Agent(planner.model)

    @agent.tool_plain
    def write_file() -> str:
        return ''

    asked: list[int] = []
    said = 'left out while planning: write_file'
    planner.turns = (lambda *_: asked.append(lines(events).count(said)) or writing('a'), 'brief')
    await running(InMemoryPlanStore(), planner=planner, agent=agent, objective='n', plan_only=True, events=events)
    assert (asked, lines(events).count(said)) == ([1], 1)


# --- Files and options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('capabilities: [{Planning: {tools: []}}]', 'add update_task_status to `tools`'),
        ('capabilities: [{Planning: {tools: [update_task_status]}}]', 'plan with --plan-first'),
        ('capabilities: [{LocalWorkspace: {working_dir: nope}}]', 'LocalWorkspace: there is no folder '),
        (
            'capabilities: [{Planning: {tools: [nope]}}]',
            'a.yaml:2: capabilities.Planning: tools names unknown tools: nope',
        ),
    ],
)
def test_an_agent_that_could_not_do_it_is_refused_before_anything_is_stored(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, 'a.yaml', f'model: offline\n{text}')
    assert run(['run', '* a', '--agent', 'a.yaml']) == 7
    err = capsys.readouterr().err
    assert (err.count('\n'), words in err) == (1, True), err
    assert not (tmp_path / 'plan.db').exists() or not plan_in(tmp_path).objective


def test_an_agent_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(['run', '* a', '--agent', '']) == 7
    assert '--agent: it is empty' in capsys.readouterr().err


def test_another_database_leaves_the_session_of_the_agent_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, 'a.yaml', 'model: offline\ncapabilities: [{Planning: {backend: sqlite, session: mine}}]')
    assert run(['--db', 'other.db', 'run', '* a', '--plan-only', '--agent', 'a.yaml', '--quiet']) == 0
    assert PlanFile(tmp_path / 'other.db', session='mine').read().steps
    assert not PlanFile(tmp_path / 'other.db').read().steps


def test_offline_adds_to_a_plan_what_has_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(['add', 'a', '--quiet']) == run(['done', '1', '--quiet']) == 0
    assert run(['run', '1. a\n2. b (depends on: 1)', '--append', '--plan-only', '--model', 'offline', '--quiet']) == 0
    assert [(s.id, s.content, s.depends_on) for s in plan_in(tmp_path).steps] == [
        ('1', 'a', ()),
        ('2', 'a', ()),
        ('3', 'b', ('2',)),
    ]


# --- Processes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, 'agents.py', SCRIPT)
    return tmp_path


@pytest.mark.parametrize(
    ('number', 'status'), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (getattr(signal, 'SIGHUP', None), 129)]
)
def test_a_second_signal_ends_a_run_whose_loop_is_blocked(folder: Path, number: int, status: int) -> None:
    with started(folder, 'x', '--agent', 'agents:blocking') as process:
        until((folder / 'blocking').exists)
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(number)
        assert process.wait(10) == status
    assert plan_in(folder).step('1').content == 'a'


def test_a_terminal_that_is_closed_ends_the_run_and_gives_back_its_step(folder: Path) -> None:
    words = ('--plan-first', '1. a `sleep 60`', '--model', 'offline', '--agent', 'shell.yaml')
    write(folder, 'shell.yaml', 'capabilities: [{LocalWorkspace: {working_dir: .}}, Shell]')
    pytest.importorskip('pydantic_ai_harness')
    with started(folder, *words) as process:
        until(under_way(folder, '1'))
        process.send_signal(signal.SIGHUP)
        assert process.wait(20) == 129
    assert plan_in(folder).step('1').status is TaskStatus.pending


def test_what_is_drawn_on_a_terminal_that_was_closed_does_not_end_the_run_otherwise(folder: Path) -> None:
    with Terminal(folder, 'run', 'x', '--agent', 'agents:waiting') as terminal:
        until((folder / 'blocking').exists)
        terminal.hang_up()
        assert terminal.process.wait(20) == 129
    assert plan_in(folder).step('1').status is TaskStatus.pending


def test_stdout_is_the_answer_alone_and_what_ends_the_process_is_said(folder: Path) -> None:
    ended = planctl(folder, 'run', 'x', '--agent', 'agents:leaving', '--json')
    assert (ended.returncode, json.loads(ended.stdout)['stop_reason']) == (7, 'error')
    assert 'sys.exit(0)' in json.loads(ended.stderr.splitlines()[-1])['error']['message']
    assert {'noise', 'noise of a child'} <= {*ended.stderr.splitlines()}


def test_nothing_that_a_model_says_moves_the_cursor(folder: Path) -> None:
    done = planctl(folder, 'run', 'x', '--agent', 'agents:escaping')
    assert done.returncode == 0
    assert done.stdout == '\ufffd[2J\ufffd1mhi\n'
    assert 'such' in done.stderr
    assert not set('\x1b\x07\x9b') & set(done.stderr)
