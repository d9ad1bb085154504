"""The view of a plan on a terminal: a real one, as wide and as plain as the test says."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from cli_helpers import environment, fill, store
from rich.cells import cell_len

from planctl.core import apply, drive
from planctl.operations import Add, Describe, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.sqlite_file import SqliteFile


def on_terminal(folder: Path, columns: int, *words: str, **env: str) -> str:
    """Return what the command writes to a terminal of this width."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    command = subprocess.Popen(
        [sys.executable, '-m', 'planctl', *words],
        cwd=folder,
        env={**environment({'TERM': 'xterm-256color', **env}), **env},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    written = b''
    while True:
        try:
            block = os.read(controller, 65_536)
        except OSError:  # Linux says so when the last one who could write has gone.
            break
        if not block:
            break
        written += block
    os.close(controller)
    assert command.wait(timeout=30) == 0, written
    return written.decode().replace('\r\n', '\n')


def plain(text: str) -> str:
    """Return the text without colours; anything else that steers a terminal stays."""
    return re.sub(r'\x1b\[[\d;]*m', '', text)


@pytest.fixture
def plan(folder: Path) -> Path:
    path = folder / 'plan.db'
    store(
        path,
        Describe('Ship the release with every check of the list green'),
        Add('Versions agree'),
        Add('Tests'),
        Add('Quick ones that need no database and are over in a moment', parent_id='2', active_form='Running them'),
        Add('Slow [bold]ones[/bold]', parent_id='2', depends_on=('3',)),
        Add('日本語のテキスト と 絵文字'),
        Add('Old idea'),
    )
    store(path, SetStatus('1', TaskStatus.completed), SetStatus('6', TaskStatus.cancelled, note='nobody wants it'))
    started = time.time() - 12 * 60
    drive(apply(SqliteFile(path), SetStatus('3', TaskStatus.in_progress), actor='ada', now=started))
    return folder


def test_a_plan_on_a_terminal(plan: Path) -> None:
    assert plain(on_terminal(plan, 100, 'show')).splitlines() == [
        'Ship the release with every check of the list green',
        '██████████░░░░░░░░░░░░░░░░░░░░  2 of 6 resolved · 1 in progress · 1 blocked · 1 cancelled',
        '',
        '✓ 1  Versions agree  completed',
        '○ 2  Tests  pending',
        '  ● 3  Running them  in progress 12 min · ada',
        '  ⊘ 4  Slow [bold]ones[/bold]  blocked · waits for 3',
        '○ 5  日本語のテキスト と 絵文字  pending',
        '✗ 6  Old idea  cancelled · nobody wants it',
    ]


def test_a_narrow_terminal_wraps_below_the_text(plan: Path) -> None:
    assert plain(on_terminal(plan, 32, 'show')).splitlines() == [
        'Ship the release with every ',
        'check of the list green',
        '██████████░░░░░░░░░░░░░░░░░░░░',
        '2 of 6 resolved · 1 in progress ',
        '· 1 blocked · 1 cancelled',
        '',
        '✓ 1  Versions agree  completed',
        '○ 2  Tests  pending',
        '  ● 3  Running them  in progress',
        '       12 min · ada',
        '  ⊘ 4  Slow [bold]ones[/bold]',
        '       blocked · waits for 3',
        '○ 5  日本語のテキスト と 絵文字',
        '     pending',
        '✗ 6  Old idea  cancelled ·',
        '     nobody wants it',
    ]


@pytest.mark.parametrize('columns', [10, 20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_id_is_cut(folder: Path, columns: int) -> None:
    ids = ['1', 'a-rather-long-id-of-some-other-program', 'x' * 64]
    store(folder / 'plan.db', *(Add('Some words and 日本語のテキスト ' * 5, id=step_id) for step_id in ids))
    text = plain(on_terminal(folder, columns, 'show'))
    assert all(cell_len(line.rstrip()) <= columns for line in text.splitlines())
    assert all(step_id in text.replace('\n', '') for step_id in ids)
    assert text.replace('\n', '').replace(' ', '').count('日本語のテキスト') == 15


def test_colour_carries_no_meaning_and_can_be_switched_off(plan: Path) -> None:
    coloured = on_terminal(plan, 80, 'show')
    assert '\x1b[32m✓' in coloured
    assert '\x1b[36m●' in coloured
    without = on_terminal(plan, 80, 'show', NO_COLOR='1')
    assert not re.search(r'\x1b\[(3|4|9)\d', without)
    assert plain(without) == plain(coloured)


def test_ascii_where_the_terminal_carries_no_more(plan: Path) -> None:
    text = plain(on_terminal(plan, 100, 'show', PYTHONIOENCODING='ascii'))
    assert text.isascii()
    assert (
        text.splitlines()[1] == '##########--------------------  2 of 6 resolved, 1 in progress, 1 blocked, 1 cancelled'
    )
    assert '[x] 1  Versions agree  completed' in text
    assert '  [!] 4  Slow [bold]ones[/bold]  blocked; waits for 3' in text
    assert '\\u65e5' in text


def test_what_is_next_is_marked_like_the_plan(plan: Path) -> None:
    assert plain(on_terminal(plan, 80, 'next', '--claim')) == '● 5 日本語のテキスト と 絵文字\n'
    assert plain(on_terminal(plan, 80, 'next', PYTHONIOENCODING='ascii')).startswith('[~] 3 ')


def test_what_was_done_is_told_in_whole_words(plan: Path) -> None:
    said = plain(on_terminal(plan, 40, 'add', 'Write down whatever somebody could ask for later'))
    assert said == 'added 7  Write down whatever somebody\ncould ask for later\n'
    assert plain(on_terminal(plan, 20, 'undo')) == 'undid 4: removed 7\n'


def test_what_matters_stands_out_on_its_own_words_alone(plan: Path) -> None:
    assert on_terminal(plan, 80, 'show').startswith(
        '\x1b[1mShip the release with every check of the list green\x1b[0m\n'
    )
    details = on_terminal(plan, 40, 'show', '3')
    assert details.startswith('\x1b[36m●\x1b[0m 3  \x1b[1mQuick ones that need no database\x1b[0m\n')
    assert '\x1b[2m    part of: \x1b[0m○ 2 Tests\n' in details


def test_an_objective_of_many_lines_leaves_the_screen_to_the_steps(plan: Path) -> None:
    store(plan / 'plan.db', Describe('Ship it\n\nAll of a long checklist\n- one\n- two'))
    assert plain(on_terminal(plan, 80, 'show')).startswith('Ship it …\n█')


def test_under_a_plan_that_is_taller_than_the_screen_there_is_the_bar_again(plan: Path) -> None:
    assert plain(on_terminal(plan, 80, 'show')).count('of 6 resolved') == 1
    store(plan / 'plan.db', *(Add(f'Step {at}') for at in range(20)))
    lines = plain(on_terminal(plan, 80, 'show')).splitlines()
    assert lines[-3:] == ['○ 26  Step 19  pending', '', lines[1]]
    assert '2 of 26 resolved' in lines[1]


def test_a_step_in_detail(plan: Path) -> None:
    assert plain(on_terminal(plan, 40, 'show', '3')).splitlines() == [
        '● 3  Quick ones that need no database',
        '     and are over in a moment',
        '    status: in progress for 12 min, ada',
        '    while in progress: Running them',
        '    part of: ○ 2 Tests',
        '    needed by: ⊘ 4 Slow',
        '               [bold]ones[/bold]',
    ]


def test_an_empty_plan(folder: Path) -> None:
    store(folder / 'plan.db', Describe('Something'))
    assert plain(on_terminal(folder, 80, 'show')).splitlines() == ['Something', 'no steps']


def test_hostile_text_never_steers_the_terminal(folder: Path) -> None:
    import sqlite3

    fill(folder / 'plan.db', 'x', 'y')
    connection = sqlite3.connect(folder / 'plan.db')
    hostile = '[red]\x1b]0;title\x07\x1b[2J\x9b31m\u202e\u2028\\[/] :smile: ' + '̈' * 50
    connection.execute('UPDATE plan_items SET content = ?, active_form = ?', (hostile, hostile))
    connection.commit()
    connection.close()
    for words in (['show'], ['show', '1'], ['next'], ['start', '2'], ['show'], ['done', '1']):
        text = plain(on_terminal(folder, 60, *words))
        assert all(char.isprintable() or char == '\n' for char in text), words
    assert '[red]' in text or '[red]' in plain(on_terminal(folder, 60, 'show'))
    assert ':smile:' in plain(on_terminal(folder, 60, 'show')).replace('\n', '')


def test_a_deep_plan_stays_on_the_screen(folder: Path) -> None:
    store(folder / 'plan.db', *(Add(f'Level {n}', parent_id=str(n - 1) if n > 1 else None) for n in range(1, 200)))
    lines = plain(on_terminal(folder, 40, 'show')).splitlines()
    assert len(lines) == 199 + 4  # With the bar and a blank line on each side of them.
    assert all(len(line) <= 40 for line in lines)


@pytest.mark.parametrize('columns', [20, 40])
def test_lines_are_wrapped_between_words(columns: int, folder: Path) -> None:
    words = ['each', 'word', 'in', 'here', 'stays', 'whole', '日本語']
    store(folder / 'plan.db', Add(' '.join(words)), Describe(objective=' '.join(words)))
    for command in (['next'], ['log', '1'], ['session']):
        lines = plain(on_terminal(folder, columns, *command)).splitlines()
        assert max(map(cell_len, lines)) <= columns
        assert [word for line in lines for word in line.split() if word in words] == words, command


def test_help_fits(plan: Path) -> None:
    for columns in (40, 200):
        lines = plain(on_terminal(plan, columns, 'show', '--help')).splitlines()
        assert max(map(cell_len, lines)) <= columns
