"""`show --watch` and `log --follow`: on real terminals and in real pipes, while other processes change the plan."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from cli_helpers import Terminal, environment, fill, process, store

from planctl.operations import Add, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.sqlite_file import SqliteFile

DONE = TaskStatus.completed


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows after what was written to it: erasing and moving up are carried out."""
    lines, row = [''], 0
    for part in re.findall(r'\x1b\[\??[\d;]*[A-Za-z]|\r\n|\r|\n|[^\x1b\r\n]+', text):
        if part in ('\r\n', '\n'):
            row += 1
            if row == len(lines):
                lines.append('')
        elif part == '\x1b[2K':
            lines[row] = ''
        elif match := re.fullmatch(r'\x1b\[(\d+)A', part):
            row -= int(match[1])
        elif not part.startswith(('\x1b', '\r')):
            lines[row] += part
    return [line.rstrip() for line in lines]


def test_a_plan_is_redrawn_in_place(folder: Path) -> None:
    fill(folder / 'plan.db', 'Build', 'Test')
    terminal = Terminal(folder, 80, 'show', '--watch')
    terminal.until('Build', 'Test', 'pending')
    assert process('start', '1', '--actor', 'ada', cwd=folder).status == 0
    terminal.until('in progress', 'ada')
    store(folder / 'plan.db', Add('A [third] one', before='2'))
    terminal.until('A [third] one')
    # Time goes on although nothing changes.
    terminal.until('in progress 2 s')
    terminal.type('\x03')
    assert terminal.end() == 130
    assert screen(terminal.written)[:5] == [
        '░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  0 of 3 resolved · 1 in progress',
        '',
        screen(terminal.written)[2],
        '○ 3  A [third] one  pending',
        '○ 2  Test  pending',
    ]
    assert screen(terminal.written)[2].startswith('● 1  Build  in progress ')
    assert terminal.written.count('\x1b[?25l') == terminal.written.count('\x1b[?25h') == 1
    assert 'Traceback' not in terminal.written


def test_a_terminal_that_became_narrower_shows_nothing_twice(folder: Path) -> None:
    fill(folder / 'plan.db', 'A step with a text that fits in sixty columns', 'Short')
    terminal = Terminal(folder, 60, 'show', '--watch')
    drawn = terminal.until('Short  \x1b[2mpending\x1b[0m')
    before = screen(drawn + terminal.resize(25))
    after = terminal.until('Short  \x1b[2mpending\x1b[0m')
    terminal.type('\x03')
    terminal.end()
    # What the terminal makes of the lines that no longer fit, before anything is drawn.
    wrapped = [line[at : at + 25] for line in before for at in range(0, max(1, len(line)), 25)]
    assert len(wrapped) == len(before) + 3
    assert screen('\n'.join(wrapped) + after)[:7] == [
        '░░░░░░░░  0 of 2 resolved',
        '',
        '○ 1  A step with a text',
        '     that fits in sixty',
        '     columns  pending',
        '○ 2  Short  pending',
        '',
    ]


def test_a_session_that_is_gone_is_not_shown_and_comes_back_without_a_trace(folder: Path) -> None:
    fill(folder / 'plan.db', 'one', 'two')
    terminal = Terminal(folder, 60, 'show', '--watch', '--check')
    drawn = terminal.until('two  \x1b[2mpending\x1b[0m')
    os.rename(folder / 'plan.db', folder / 'aside')
    drawn += terminal.until("session 'default' is gone\x1b[0m")
    assert screen(drawn)[0] == "planctl: session 'default' is gone"
    assert 'two' not in ''.join(screen(drawn))
    os.rename(folder / 'aside', folder / 'plan.db')
    drawn += terminal.until('two  \x1b[2mpending\x1b[0m')
    assert 'gone' not in ''.join(screen(drawn))
    store(folder / 'plan.db', SetStatus('1', DONE), SetStatus('2', DONE))
    assert terminal.end() == 0


def test_where_nothing_can_be_redrawn_the_plan_is_printed_again(folder: Path) -> None:
    fill(folder / 'plan.db', 'one')
    terminal = Terminal(folder, 60, 'show', '--watch', '--check', TERM='dumb')
    terminal.until('one', 'pending')
    store(folder / 'plan.db', SetStatus('1', DONE))
    assert terminal.end() == 0
    assert '\x1b' not in terminal.written
    assert terminal.written.count('1  one') == 2


@pytest.mark.parametrize(('status', 'ends'), [(TaskStatus.completed, 0), (TaskStatus.cancelled, 6)])
def test_it_waits_for_a_session_and_ends_when_every_step_is_resolved(
    folder: Path, status: TaskStatus, ends: int
) -> None:
    terminal = Terminal(folder, 60, 'show', '--watch', '--check', '--session', 'later')
    terminal.until("waiting for session 'later'")
    fill(folder / 'plan.db', 'elsewhere')
    fill(folder / 'plan.db', 'one', session='later')
    terminal.until('one', 'pending')
    store(folder / 'plan.db', SetStatus('1', status), session='later')
    assert terminal.end() == ends
    assert screen(terminal.written)[-2:] == [f'{"✓" if ends == 0 else "✗"} 1  one  {status.value}', '']


@pytest.mark.parametrize('columns', [20, 40, 200])
def test_more_steps_than_lines_show_those_around_the_open_ones(folder: Path, columns: int) -> None:
    path = folder / 'plan.db'
    store(path, *(Add(f'Step number {n} of many') for n in range(1, 101)))
    store(path, *(SetStatus(str(n), DONE) for n in range(1, 51)))
    terminal = Terminal(folder, columns, 'show', '--watch', '--check')
    shown = terminal.until('of 100', 'steps ')
    assert '51' in shown
    assert '100  ' not in shown
    assert len(screen(terminal.written)) <= 24
    store(path, *(SetStatus(str(n), DONE) for n in range(51, 101)))
    assert terminal.end() == 0
    # At the end there is all of it.
    assert '100  Step' in re.sub(r'\x1b\[[\d;]*m', '', terminal.written)


def test_a_step_in_detail_and_ascii(folder: Path) -> None:
    store(folder / 'plan.db', Add('日本 ✓'), Add('two', depends_on=('1',)))
    terminal = Terminal(folder, 60, 'show', '1', '--watch', '--check', PYTHONIOENCODING='ascii')
    assert '[ ] 1  \\u65e5\\u672c \\u2713' in re.sub(r'\x1b\[[\d;]*m', '', terminal.until('needed by'))
    store(folder / 'plan.db', SetStatus('1', DONE), SetStatus('2', DONE))
    assert terminal.end() == 0
    assert terminal.written.isascii()


def test_a_terminated_watch_leaves_the_terminal_as_it_was(folder: Path) -> None:
    fill(folder / 'plan.db', 'one')
    terminal = Terminal(folder, 60, 'show', '--watch')
    terminal.until('one')
    terminal.command.terminate()
    assert terminal.end() == 143
    assert terminal.written.endswith('\x1b[?25h')


# --- In a pipe ----------------------------------------------------------------------------------------------------


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = subprocess.Popen(
        [sys.executable, '-m', 'planctl', *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding='utf-8',
    )
    try:
        yield command
    finally:
        command.kill()
        command.communicate()


def lines_of(stream: IO[str] | None, count: int) -> list[str]:
    assert stream is not None
    return [stream.readline() for _ in range(count)]


def test_in_a_pipe_the_plan_is_printed_again(folder: Path) -> None:
    with running(folder, 'show', '--watch', '--check') as command:
        assert lines_of(command.stderr, 1) == ["planctl: waiting for session 'default'\n"]
        store(folder / 'plan.db', Add('one'))
        assert lines_of(command.stdout, 2) == ['[ ] 1 one\n', '0 of 1 resolved\n']
        store(folder / 'plan.db', SetStatus('1', TaskStatus.in_progress))
        assert lines_of(command.stdout, 2) == ['[~] 1 one\n', '0 of 1 resolved, 1 in progress\n']
        os.rename(folder / 'plan.db', folder / 'aside')
        assert lines_of(command.stderr, 1) == ["planctl: session 'default' is gone\n"]
        os.rename(folder / 'aside', folder / 'plan.db')
        assert lines_of(command.stdout, 2) == ['[~] 1 one\n', '0 of 1 resolved, 1 in progress\n']
        store(folder / 'plan.db', SetStatus('1', DONE))
        assert command.communicate(timeout=20) == ('[x] 1 one\n1 of 1 resolved, finished\n', '')
        assert command.returncode == 0


def test_as_json_each_change_is_a_document_on_its_line(folder: Path) -> None:
    fill(folder / 'plan.db', 'one')
    with running(folder, 'show', '--watch', '--json') as command:
        for count in (1, 2, 3):
            (line,) = lines_of(command.stdout, 1)
            assert json.loads(line)['counts']['total'] == count
            fill(folder / 'plan.db', 'more')
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=20)
        assert (command.returncode, err) == (130, '')


@pytest.mark.parametrize('words', [['show', '--watch'], ['log', '--follow']])
def test_it_ends_when_nobody_reads_on(folder: Path, words: list[str]) -> None:
    fill(folder / 'plan.db', 'one')
    with running(folder, *words) as command:
        lines_of(command.stdout, 1)
        assert command.stdout is not None
        command.stdout.close()
        assert command.wait(timeout=20) == 0
        assert command.stderr is not None
        assert command.stderr.read() == ''


def test_a_file_that_is_replaced_is_followed(folder: Path) -> None:
    fill(folder / 'plan.db', 'old')
    fill(folder / 'new.db', 'new', 'newer')
    with running(folder, 'show', '--watch', '-o', 'ids') as command:
        assert lines_of(command.stdout, 1) == ['1\n']
        os.replace(folder / 'new.db', folder / 'plan.db')
        assert lines_of(command.stdout, 2) == ['1\n', '2\n']
        (folder / 'plan.db').unlink()
        fill(folder / 'plan.db', 'a', 'b', 'c')
        assert lines_of(command.stdout, 3) == ['1\n', '2\n', '3\n']


def test_the_log_is_followed(folder: Path) -> None:
    fill(folder / 'plan.db', 'one')
    with running(folder, 'log', '1', '--follow') as command:
        assert lines_of(command.stdout, 1)[0].endswith('added 1 one\n')
        fill(folder / 'plan.db', 'another step')
        store(folder / 'plan.db', SetStatus('1', DONE))
        assert lines_of(command.stdout, 1)[0].endswith('1 pending → completed · one\n')


def test_the_log_of_a_file_that_is_replaced_goes_on_with_its_last_change(folder: Path) -> None:
    fill(folder / 'plan.db', 'one', 'two')
    store(folder / 'plan.db', SetStatus('1', DONE))
    fill(folder / 'earlier.db', 'as it was')
    with running(folder, 'log', '--follow') as command:
        lines_of(command.stdout, 3)
        os.replace(folder / 'earlier.db', folder / 'plan.db')
        assert lines_of(command.stdout, 1)[0].endswith('added 1 as it was\n')
        store(folder / 'plan.db', SetStatus('1', DONE))
        assert lines_of(command.stdout, 1)[0].endswith('1 pending → completed · as it was\n')


def test_watching_leaves_no_trace(folder: Path) -> None:
    fill(folder / 'plan.db', 'one')
    with SqliteWriter(folder / 'plan.db'):
        listing = sorted(os.listdir(folder))
        with running(folder, 'show', '--watch') as command:
            lines_of(command.stdout, 2)
            before = (folder / 'plan.db').read_bytes(), sorted(os.listdir(folder))
            # Longer than the time after which a file is read although nothing moved.
            time.sleep(2.5)
            assert ((folder / 'plan.db').read_bytes(), sorted(os.listdir(folder))) == before
        assert sorted(os.listdir(folder)) == listing
    fill(folder / 'plan.db', 'two')
    with running(folder, 'show', '--watch') as command:
        lines_of(command.stdout, 3)
        moment = (folder / 'plan.db').stat().st_mtime_ns
        time.sleep(2.5)
        assert sorted(os.listdir(folder)) == ['.git', 'plan.db']
        assert (folder / 'plan.db').stat().st_mtime_ns == moment


class SqliteWriter:
    """Somebody who holds the database open, so that there is a write-ahead log beside it."""

    def __init__(self, path: Path) -> None:
        self._store = SqliteFile(path)

    def __enter__(self) -> None:
        from planctl.core import apply, drive

        drive(self._store.__aenter__())
        drive(apply(self._store, Add('held')))

    def __exit__(self, *_: object) -> None:
        from planctl.core import drive

        drive(self._store.aclose())


def test_a_signal_whose_exception_is_lost_in_a_finalizer_ends_it_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planctl.cli import main
    from planctl.cli import watch as module

    fill(folder / 'plan.db', 'one')
    looks = iter(range(100))

    class Unlucky:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def look() -> bool:
        if next(looks) == 2:
            Unlucky()
        return False

    monkeypatch.setattr(module, 'reader_has_gone', look)
    before = signal.getsignal(signal.SIGINT)
    lost: list[object] = []
    monkeypatch.setattr(sys, 'unraisablehook', lambda raised: lost.append(raised.exc_type))
    assert main(['--db', str(folder / 'plan.db'), 'show', '--watch']) == 130
    assert lost == [KeyboardInterrupt]
    assert next(looks) < 10
    assert signal.getsignal(signal.SIGINT) is before
