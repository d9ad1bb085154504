"""What a person sees of a run."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from process_helpers import AGENT, environment
from rich.cells import cell_len
from rich.console import Console
from runner_helpers import write

from planctl.agent.watch import Answered, PhaseStarted, PlanChanged, PlanSeen, Said, ToolCalled, ToolReturned
from planctl.cli.live import _Live, _Plain, change_lines, tool_line
from planctl.cli.view import PlanView, window
from planctl.operations import Add, Edit, Note, Operation, Remove, SetStatus
from planctl.plan import Plan, Step, TaskStatus
from planctl.rules import apply


def changed(plan: Plan, *operations: Operation) -> PlanChanged:
    return PlanChanged(apply(plan, operations, actor='me', now=0.0))


def test_every_change_that_a_reader_sees_is_one_line() -> None:
    first = changed(Plan(), Add('a\x1b[2J'), Add('b', depends_on=('1',)))
    assert list(change_lines(first.change)) == ['added [ ] 1 a�[2J', 'added [!] 2 b (waits for 1)']
    second = changed(first.change.after, SetStatus('1', TaskStatus.completed, note='why'))
    assert list(change_lines(second.change)) == ['[x] 1 a�[2J -- why', '[ ] 2 b']
    third = changed(second.change.after, Remove('1'), Edit('2', 'c'), Note('2', 'n'))
    assert list(change_lines(third.change)) == ['[ ] 2 c -- n', 'removed [x] 1 a�[2J -- why']


def test_a_tool_call_is_one_line_with_its_command() -> None:
    assert tool_line(ToolCalled('run_command', '{"command": "ls\\n\\u001b[2J"}')) == 'run_command ls �[2J'
    assert tool_line(ToolCalled('look', '{"path": "x"}')) == 'look {"path": "x"}'
    assert tool_line(ToolCalled('look', 'no json')) == 'look no json'
    assert len(tool_line(ToolCalled('look', 'x' * 999))) == 105


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    watch = _Plain()
    watch(Said('hello'))
    watch(PhaseStarted('execute', 'm', Plan()))
    first = changed(Plan(), Add('a'))
    watch(first)
    other = changed(first.change.after, SetStatus('1', TaskStatus.completed))
    watch(PlanSeen(other.change.after))
    watch(ToolCalled('look', '{}'))
    out, err = capsys.readouterr()
    assert out == ''
    assert err.splitlines() == [
        'planctl: hello',
        'planctl: carrying out with m',
        'added [ ] 1 a',
        '[x] 1 a (by somebody else)',
        '    look {}',
    ]


@pytest.mark.parametrize(
    ('resolved', 'shown'), [(0, (0, 10)), (2, (0, 10)), (20, (17, 27)), (39, (30, 40)), (40, (30, 40))]
)
def test_a_small_terminal_shows_the_steps_around_the_first_open_one(resolved: int, shown: tuple[int, int]) -> None:
    steps = [Step(str(at), 'x', TaskStatus.completed if at < resolved else TaskStatus.pending) for at in range(40)]
    assert window(steps, lambda _: 1, 11) == shown


@pytest.mark.parametrize('width', [80, 40])
def test_what_all_workers_do_and_all_phases_used_is_shown_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv('COLUMNS', str(width))
    watch = _Live()

    def drawn() -> list[str]:
        watch._console.print(watch._frame())
        return capsys.readouterr().err.splitlines()

    with watch.aside():  # Nothing is drawn but what is asked for.
        watch(PhaseStarted('plan', 'a-model-with-a-long-name', Plan()))
        watch(Answered(2, 1_000, 100, Decimal('0.5')))
        watch(PhaseStarted('execute', 'a-model-with-a-long-name', Plan()))
        for call in ('1', '2'):
            watch(ToolCalled('look', f'{{"at": {call}}}', call))
        watch(Answered(3, 2_000, 200, Decimal('0.25')))
        assert [line.strip() for line in drawn() if 'look' in line] == ['look {"at": 1}', 'look {"at": 2}']
        watch(ToolReturned('look', '1', 'success'))
        lines = drawn()
        assert lines[-1].strip() == 'look {"at": 2}'
        assert max(map(len, lines)) <= width
        assert '5 requests · 3,300 tokens · $0.75' in ' '.join(line.strip() for line in lines)
    watch.close()
    (last,) = [line for line in drawn() if 'requests' in line]
    assert last.endswith(' s · 5 requests · 3,300 tokens · $0.75')


def test_a_step_that_takes_more_lines_than_there_are_is_shown_alone() -> None:
    assert window([Step('1', 'x' * 5_000), Step('2', 'y')], (63, 1).__getitem__, 10) == (0, 1)


def test_where_there_is_room_for_one_step_alone_it_is_named() -> None:
    stream = io.StringIO()
    plan = Plan(steps=tuple(Step(str(at), 'x') for at in range(1, 4)))
    Console(file=stream, width=60).print(PlanView(plan, 0.0, room=4))
    assert stream.getvalue().splitlines()[2:] == ['○ 1  x  pending', 'step 1 of 3']


@pytest.mark.parametrize('width', [80, 40, 20])
@pytest.mark.parametrize('resolved', [0, 25, 60])
def test_a_plan_fills_the_lines_that_there_are(width: int, resolved: int) -> None:
    done = TaskStatus.completed
    steps = tuple(
        Step(str(at), f'Step {"with a long text " * (at % 3)}', done if at <= resolved else TaskStatus.pending)
        for at in range(1, 61)
    )
    plan = Plan(steps=steps, objective='About it\n\nAnd a whole document on what that means')
    stream = io.StringIO()
    Console(file=stream, width=width).print(PlanView(plan, 0.0, room=30))
    lines = stream.getvalue().splitlines()
    assert lines[0] == 'About it …'
    assert max(map(cell_len, lines)) <= width
    assert lines[-1].startswith('steps ')
    # The next step may need more lines than are left: the longest takes seven at 20 columns.
    assert 30 - 7 < len(lines) <= 30
    assert any(f' {min(resolved + 1, 60):>2} ' in line for line in lines)


@pytest.mark.parametrize('encoding', ['ascii', 'cp1252', 'utf-8'])
def test_what_a_terminal_does_not_carry_is_laid_out_as_it_is_written(encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors='backslashreplace')
    plan = changed(Plan(), Add('日本語の長い' * 5), SetStatus('1', TaskStatus.completed, note='→ 終わり')).change.after
    Console(file=stream, width=40).print(PlanView(replace(plan, objective='目的' * 10), 0.0))
    stream.seek(0)
    lines = stream.read().splitlines()
    assert max(map(cell_len, lines)) <= 40
    joined = ''.join(line.strip() for line in lines)
    assert ('日' if encoding == 'utf-8' else '\\u65e5') in joined


def test_on_a_terminal_the_plan_is_drawn_while_it_changes_and_stdout_is_the_answer_alone(tmp_path: Path) -> None:
    write(tmp_path, 'agents.py', AGENT)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, '-m', 'planctl', 'run', '1. one `true`\n2. two', '--plan-first', '--agent', 'agents:agent'],
        cwd=tmp_path,
        env=environment() | {'TERM': 'xterm-256color', 'COLUMNS': '80', 'LINES': '24'},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    drawn = b''
    while True:
        try:
            piece = os.read(master, 65_536)
        except OSError:  # Linux says so when the other side is closed.
            break
        if not piece:
            break
        drawn += piece
    os.close(master)
    assert process.stdout is not None
    answer = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait(30) == 0
    text = drawn.decode()
    assert answer.startswith('This is the offline model')
    assert answer.count('\n') == 1
    assert 'carrying out with offline' in text
    assert '2 of 2 resolved' in text
    assert text.rstrip().endswith('planctl: the plan is finished: 2 of 2 steps completed')
    assert text.count('\x1b[?25l') == text.count('\x1b[?25h')
    assert 'pydantic-ai v' not in text
