"""What only real processes show: several at once, closed pipes, encodings, signals, what is imported."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_helpers import environment, fill, process

PLANCTL = [sys.executable, '-m', 'planctl']


def test_eight_processes_add_forty_steps_each(folder: Path) -> None:
    script = (
        'import sys; from planctl.cli import main\n'
        'for at in range(40): assert main(["add", f"{sys.argv[1]} {at:02}", "--quiet"]) == 0\n'
    )
    adders = [
        subprocess.Popen(
            [sys.executable, '-c', script, name], cwd=folder, env=environment(), stdout=-1, stderr=-1, text=True
        )
        for name in 'abcdefgh'
    ]
    printed: list[str] = []
    said: list[str] = []
    for adder in adders:
        out, err = adder.communicate(timeout=120)
        assert adder.returncode == 0, err
        said += err.splitlines()
        printed += out.split()
    assert said == ['planctl: new database plan.db']
    items = process('show', '--json', cwd=folder).document['items']
    ids = [item['id'] for item in items]
    assert len(set(ids)) == 320
    assert set(ids) == set(printed)
    for name in 'abcdefgh':
        own = [item['content'] for item in items if item['content'].startswith(name)]
        assert own == [f'{name} {at:02}' for at in range(40)]
    connection = sqlite3.connect(folder / 'plan.db')
    assert connection.execute('SELECT count(*), count(DISTINCT seq) FROM plan_items').fetchone() == (320, 320)
    connection.close()


def test_one_of_many_processes_gets_a_step(folder: Path) -> None:
    fill(folder / 'plan.db', 'Only one')
    racers = [
        subprocess.Popen([*PLANCTL, 'next', '--claim', '-q'], cwd=folder, env=environment(), stdout=-1, stderr=-1)
        for _ in range(6)
    ]
    ended = [(racer.communicate(timeout=60), racer.returncode) for racer in racers]
    assert sorted(status for _, status in ended) == [0, 3, 3, 3, 3, 3]
    assert sorted(out for (out, _), _ in ended) == [b''] * 5 + [b'1\n']


@pytest.mark.parametrize('words', [('show',), ('show', '--json'), ('show', '-o', 'ids')])
@pytest.mark.parametrize('unbuffered', ['', '1'])
def test_a_reader_that_goes_is_no_error(folder: Path, words: tuple[str, ...], unbuffered: str) -> None:
    fill(folder / 'plan.db', *(f'Step {number} ' + 'x' * 100 for number in range(5_000)))
    command = subprocess.Popen(
        [*PLANCTL, *words],
        cwd=folder,
        env=environment({'PYTHONUNBUFFERED': unbuffered}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    assert command.stderr is not None
    assert len(command.stdout.read(10)) == 10
    command.stdout.close()
    assert command.stderr.read() == b''
    command.stderr.close()
    assert command.wait(timeout=30) == 0


def test_help_may_be_read_by_nobody(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([*PLANCTL, '--help'], cwd=folder, env=environment(), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b'')


@pytest.mark.parametrize(('closed', 'status'), [('>&-', 0), ('2>&-', 0), ('>&- 2>&- <&-', 0)])
def test_closed_files(folder: Path, closed: str, status: int) -> None:
    ended = subprocess.run(
        ['sh', '-c', f'"{sys.executable}" -m planctl add x {closed}'],
        cwd=folder,
        env=environment(),
        capture_output=True,
    )
    assert ended.returncode == status
    assert [item['content'] for item in process('show', '--json', cwd=folder).document['items']] == ['x']
    failed = subprocess.run(
        ['sh', '-c', f'"{sys.executable}" -m planctl done nope {closed}'], cwd=folder, env=environment()
    )
    assert failed.returncode == 3


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='/dev/full, which is always full, is not here')
def test_an_answer_that_cannot_be_written_is_an_error(folder: Path) -> None:
    with open('/dev/full', 'w') as full:
        ended = subprocess.run(
            [*PLANCTL, 'add', 'x', '--json'],
            cwd=folder,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 5
    assert json.loads(ended.stderr.splitlines()[-1])['error']['code'] == 'output'
    assert ended.stderr.splitlines()[:-1] == ['planctl: new database plan.db']
    with open('/dev/full', 'w') as full:
        ended = subprocess.run([*PLANCTL, 'done', 'nope'], cwd=folder, env=environment(), stderr=full)
    assert ended.returncode == 3


@pytest.mark.parametrize('encoding', ['ascii', 'cp1252', 'utf-8'])
def test_every_encoding_carries_the_answer(folder: Path, encoding: str) -> None:
    text = '日本 é · — 👩‍👩‍👧'
    env = {'PYTHONIOENCODING': encoding}
    added = subprocess.run([*PLANCTL, 'add', text], cwd=folder, env=environment(env), capture_output=True)
    assert (added.returncode, added.stderr) == (0, b'planctl: new database plan.db\n')
    if encoding == 'utf-8':
        assert added.stdout.decode() == f'added 1  {text}\n'
    else:
        assert added.stdout.startswith(b'added 1  \\u65e5\\u672c')
    for words in (['show'], ['show', '1'], ['show', '-o', 'md'], ['show', '-o', 'prompt'], ['--help'], ['done', '1']):
        ended = subprocess.run([*PLANCTL, *words], cwd=folder, env=environment(env), capture_output=True)
        assert (ended.returncode, ended.stderr) == (0, b'')
        ended.stdout.decode(encoding)
    shown = subprocess.run([*PLANCTL, 'show', '--json'], cwd=folder, env=environment(env), capture_output=True)
    assert json.loads(shown.stdout)['items'][0]['content'] == text
    failed = subprocess.run([*PLANCTL, 'done', text], cwd=folder, env=environment(env), capture_output=True)
    assert failed.returncode == 2
    assert failed.stderr.count(b'\n') == 1


def test_the_c_locale(folder: Path) -> None:
    outcome = process('add', '日本', cwd=folder, env={'LC_ALL': 'C', 'LANG': 'C'})
    assert outcome.status == 0
    assert process('show', '--json', cwd=folder).document['items'][0]['content'] == '日本'


def test_words_that_are_not_utf8(folder: Path) -> None:
    subprocess.run([*PLANCTL, 'add', b'a\xff\xfe b'], cwd=folder, env=environment(), check=True, capture_output=True)
    assert process('show', '--json', cwd=folder).document['items'][0]['content'] == 'a\ufffd\ufffd b'


@pytest.mark.parametrize(
    ('given', 'contents'),
    [
        (b'One\n\n  Two  \r\n\tThree\rFour', ['One', 'Two', 'Three', 'Four']),
        (b'\xef\xbb\xbfMarked', ['Marked']),
        (b'\xff\xfe\n-x\n', ['\ufffd\ufffd', '-x']),
        ('日本\u2028語\n'.encode(), ['日本\ufffd語']),
    ],
)
def test_stdin_gives_a_step_a_line(folder: Path, given: bytes, contents: list[str]) -> None:
    outcome = process('add', '-', '--quiet', cwd=folder, stdin=given)
    assert outcome.lines == [str(number) for number in range(1, len(contents) + 1)]
    items = process('show', '--json', cwd=folder).document
    assert [item['content'] for item in items['items']] == contents
    assert items['revision'] == 1


@pytest.mark.parametrize('given', [b'', b'\n', b' \r\n\t\n'])
def test_no_step_in_stdin(folder: Path, given: bytes) -> None:
    assert process('add', '-', cwd=folder, stdin=given).status == 2
    assert not (folder / 'plan.db').exists()


def test_an_interrupt_ends_it_quietly(folder: Path) -> None:
    command = subprocess.Popen(
        [*PLANCTL, 'add', '-'],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert command.stdin is not None
    # It waits for input once a full pipe has been taken off our hands.
    command.stdin.write(b'x' * 1_000_000)
    command.stdin.flush()
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out, err) == (130, b'', b'')
    assert not (folder / 'plan.db').exists()


def test_it_waits_for_another_process_that_writes(folder: Path) -> None:
    fill(folder / 'plan.db', 'One')
    other = sqlite3.connect(folder / 'plan.db', isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    adding = subprocess.Popen([*PLANCTL, 'add', 'Two'], cwd=folder, env=environment(), stdout=-1, stderr=-1)
    assert process('show', cwd=folder).status == 0  # Readers need not wait.
    with pytest.raises(subprocess.TimeoutExpired):
        adding.wait(timeout=0.5)
    other.execute('COMMIT')
    other.close()
    out, err = adding.communicate(timeout=30)
    assert (adding.returncode, out, err) == (0, b'added 2  Two\n', b'')


def test_reads_leave_everything_as_it_was(folder: Path) -> None:
    fill(folder / 'plan.db', 'One', 'Two')
    before = ((folder / 'plan.db').read_bytes(), (folder / 'plan.db').stat().st_mtime_ns, os.listdir(folder))
    for words in (['show'], ['show', '1', '--json'], ['next'], ['where'], [], ['done', 'nope'], ['start', '9']):
        process(*words, cwd=folder)
        after = ((folder / 'plan.db').read_bytes(), (folder / 'plan.db').stat().st_mtime_ns, os.listdir(folder))
        assert after == before, words


# --- What a plan command costs ------------------------------------------------------------------------------------

DEAR = {'pydantic', 'pydantic_ai', 'httpx', 'asyncpg', 'redis', 'rich', 'asyncio', 'aiosqlite', 'yaml', 'unicodedata'}


@pytest.mark.parametrize(
    'words',
    [
        [],
        ['show', '--json'],
        ['show', '1', '-o', 'md'],
        ['show', '-o', 'prompt'],
        ['next'],
        ['next', '--claim'],
        ['add', 'x'],
        ['edit', '1', '--content', 'y'],
        ['start', '1'],
        ['done', '1'],
        ['cancel', '1'],
        ['block', '1'],
        ['reopen', '1'],
        ['rm', '1'],
        ['where'],
        ['--help'],
        ['add', '--help'],
        ['done', 'nope'],
        ['bogus'],
    ],
    ids=' '.join,
)
def test_a_plan_command_in_a_pipe_imports_nothing_dear(folder: Path, words: list[str]) -> None:
    fill(folder / 'plan.db', 'One')
    script = (
        'import sys; from planctl.cli import main\n'
        f'main({words!r})\n'
        'sys.stderr.write("\\n" + " ".join({name.partition(".")[0] for name in sys.modules}))'
    )
    ended = subprocess.run(
        [sys.executable, '-c', script], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert DEAR & set(ended.stderr.splitlines()[-1].split()) == set()


def test_showing_starts_within_ten_times_doing_nothing(folder: Path) -> None:
    fill(folder / 'plan.db', *(f'Step {number}' for number in range(20)))

    def seconds(*command: str) -> float:
        begun = time.perf_counter()
        subprocess.run(command, cwd=folder, env=environment(), capture_output=True, check=True)
        return time.perf_counter() - begun

    nothing, showing = [], []
    for _ in range(12):  # Side by side, so that a busy machine is busy for both.
        nothing.append(seconds(sys.executable, '-c', 'pass'))
        showing.append(seconds(*PLANCTL, 'show'))
    assert min(showing) <= 10 * min(nothing)


def test_a_terminal_is_needed_for_nothing(folder: Path) -> None:
    controller, terminal = pty.openpty()
    # A terminal that nobody types on: whatever asks a question would wait for ever.
    for words in (['add', 'x'], ['done', '1'], ['rm', '1']):
        ended = subprocess.run(
            [*PLANCTL, *words], cwd=folder, env=environment(), stdin=terminal, capture_output=True, timeout=30
        )
        assert ended.returncode == 0
    os.close(terminal)
    os.close(controller)
