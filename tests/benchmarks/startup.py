"""How long commands take from their start to their end, against `python -c pass` and against smaller plans."""

from __future__ import annotations

import itertools
import os
import pty
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from measure import Row, paired
from sides import Bench, environment

from planctl.core import apply, drive
from planctl.operations import Edit
from planctl.stores.sqlite_file import SqliteFile

SIZES = (10, 20, 100, 1000, 10_000)
COMMAND = 'import sys; from planctl.cli import main; sys.exit(main())'
"""What the script does that pip installs."""
PASS = [sys.executable, '-c', 'pass']
READING = """
import asyncio
from pydantic_ai_harness.planning import SqlitePlanStore, render_plan
print(render_plan(asyncio.run(SqlitePlanStore('plan.db').get_items())))
"""
IMPORTING = """
import socket
import pydantic_ai.models.openai
socket.create_connection(('127.0.0.1', {port})).close()
"""


class Folder:
    """A place where commands find a plan of so many steps."""

    def __init__(self, bench: Bench, steps: int, name: str = 'commands') -> None:
        self.path = bench.folder / f'{name}-{steps}'
        self.steps = steps
        if not self.path.exists():
            self.path.mkdir()
            (self.path / '.git').mkdir()
            bench.sides['ours'].ask('fill', path=str(self.path / 'plan.db'), steps=steps)

    def run(self, *words: str, terminal: bool = False, **variables: str) -> Callable[[], float]:
        """Return a measure of one command, to its end."""
        arguments = [sys.executable, '-c', COMMAND, *words]
        return (on_terminal if terminal else in_pipe)(arguments, self.path, variables)

    def moving(self) -> Callable[[], float]:
        """Return a measure of `done`, of another step each time, so that each changes something.

        A plan that is done is reopened step by step, which costs the same.
        """
        moves = itertools.cycle((verb, str(step)) for verb in ('done', 'reopen') for step in range(1, self.steps + 1))
        return lambda: self.run(*next(moves))()


def in_pipe(arguments: Sequence[str], folder: Path, variables: dict[str, str] | None = None) -> Callable[[], float]:
    def measure() -> float:
        start = time.perf_counter()
        ended = subprocess.run(
            arguments, cwd=folder, env=environment(**(variables or {})), stdin=subprocess.DEVNULL, capture_output=True
        )
        taken = time.perf_counter() - start
        require(ended.returncode, arguments, ended.stderr)
        return taken

    return measure


def on_terminal(arguments: Sequence[str], folder: Path, variables: dict[str, str] | None = None) -> Callable[[], float]:
    def measure() -> float:
        ours, theirs = pty.openpty()
        start = time.perf_counter()
        with subprocess.Popen(
            arguments,
            cwd=folder,
            env=environment(TERM='xterm-256color', COLUMNS='100', LINES='40', **(variables or {})),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as command:
            os.close(theirs)
            output = b''
            try:
                while read := os.read(ours, 65536):
                    output += read
            except OSError:  # Linux says so when the other end was closed.
                pass
            command.wait()
            taken = time.perf_counter() - start
        os.close(ours)
        require(command.returncode, arguments, output)
        return taken

    return measure


@contextmanager
def watching(folder: Folder) -> Iterator[Callable[[], float]]:
    """Yield a measure of the time from a change by another process until a terminal that watches shows it."""
    ours, theirs = pty.openpty()
    arguments = [sys.executable, '-c', COMMAND, 'show', '--watch']
    variables = environment(TERM='xterm-256color', COLUMNS='100', LINES='40')
    marks = itertools.count(1)
    with subprocess.Popen(
        arguments, cwd=folder.path, env=variables, stdin=theirs, stdout=theirs, stderr=theirs
    ) as command:
        os.close(theirs)

        def until(text: str) -> None:
            shown = b''
            while text.encode() not in shown:
                shown = shown[-100:] + os.read(ours, 65536)

        def measure() -> float:
            mark = f'Change number {next(marks)}.'
            drive(apply(SqliteFile(folder.path / 'plan.db'), Edit('1', content=mark), actor='benchmark'))
            start = time.perf_counter()
            until(mark)
            return time.perf_counter() - start

        try:
            until('resolved')
            yield measure
        finally:
            command.kill()
            os.close(ours)


def require(status: int, arguments: Sequence[str], said: bytes) -> None:
    if status != 0:
        raise RuntimeError(f'{arguments[3:]} ended with {status}: {said.decode(errors="replace")[-500:]}')


def until_connected(server: socket.socket, arguments: Sequence[str], folder: Path) -> Callable[[], float]:
    """Return a measure of a command up to its first connection to the server; then it is ended."""
    port = server.getsockname()[1]
    variables = {'OPENAI_API_KEY': 'none', 'OPENAI_BASE_URL': f'http://127.0.0.1:{port}/v1'}

    def measure() -> float:
        start = time.perf_counter()
        with subprocess.Popen(
            arguments,
            cwd=folder,
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as command:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                command.kill()
                assert command.stderr is not None
                raise RuntimeError(f'{arguments[3:]} connects to nothing: {command.stderr.read().decode()}') from None
            taken = time.perf_counter() - start
            command.kill()
            connection.close()
        return taken

    return measure


def rows(bench: Bench) -> Iterator[Row]:
    """Yield what is measured."""
    yield from against_pass(bench)
    yield from against_small_plans(bench)
    yield from of_watching(bench)
    yield from of_run(bench)


def against_pass(bench: Bench) -> Iterator[Row]:
    small = Folder(bench, 20)
    floor = in_pipe(PASS, small.path)
    commands = {
        'show': small.run('show'),
        'show, on a terminal': small.run('show', terminal=True),
        'show --json': small.run('show', '--json'),
        'next': small.run('next'),
        'done': small.moving(),
        'add': small.run('add', 'One more step'),
        '--help': small.run('--help'),
        'completion of a command': small.run(
            _PLANCTL_COMPLETE='complete_bash', COMP_WORDS='planctl sh', COMP_CWORD='1'
        ),
    }
    goals = {'show': 10, 'show, on a terminal': 14}
    passed, *taken = paired(bench.rounds, floor, *commands.values())
    found = dict(zip(commands, taken, strict=True))
    theirs = ()
    if bench.reference.python is not None:
        script = [bench.reference.python, '-c', READING]
        (theirs,) = paired(bench.rounds, in_pipe(script, small.path))
    for name, samples in found.items():
        reference = theirs if name == 'show' else ()
        yield Row(f'{name}, 20 steps', 'ms', samples, reference, passed, 'python -c pass', goals.get(name))
    yield Row('add, 20 steps', 'ms', found['add'], (), found['show'], 'show', 1.3)


def against_small_plans(bench: Bench) -> Iterator[Row]:
    folders = {steps: Folder(bench, steps) for steps in SIZES}
    limits = {1000: 1.3, 10_000: 6.0}
    for name, measure in (
        ('show', lambda folder: folder.run('show')),
        ('show, on a terminal', lambda folder: folder.run('show', terminal=True)),
        ('next', lambda folder: folder.run('next')),
        ('done', lambda folder: folder.moving()),
    ):
        taken = dict(zip(SIZES, paired(bench.rounds, *(measure(folder) for folder in folders.values())), strict=True))
        for steps in SIZES:
            if steps != 20:
                limit = limits.get(steps) if name == 'show' or steps == 10_000 else None
                yield Row(f'{name}, {steps:,} steps', 'ms', taken[steps], (), taken[20], '20 steps', limit)


def of_watching(bench: Bench) -> Iterator[Row]:
    with ExitStack() as stack:
        folders = (Folder(bench, steps, 'watched') for steps in (20, 10_000))
        few, many = paired(bench.rounds, *(stack.enter_context(watching(folder)) for folder in folders))
    yield Row('show --watch redraws, 10,000 steps', 'ms', many, (), few, '20 steps', 6)


def of_run(bench: Bench) -> Iterator[Row]:
    folder = Folder(bench, 20)
    with closing(socket.create_server(('127.0.0.1', 0))) as server:
        server.settimeout(60)
        port = server.getsockname()[1]
        running = [sys.executable, '-c', COMMAND, 'run', '--model', 'openai:gpt-5-mini']

        def afresh() -> float:
            # A run that was killed leaves its session held for a while.
            copy = folder.path / 'run.db'
            shutil.copy(folder.path / 'plan.db', copy)
            for end in ('-wal', '-shm'):
                Path(f'{copy}{end}').unlink(missing_ok=True)
            return until_connected(server, [*running, '--db', str(copy)], folder.path)()

        importing = [sys.executable, '-c', IMPORTING.format(port=port)]
        ours, floor = paired(max(3, bench.rounds // 2), afresh, until_connected(server, importing, folder.path))
    yield Row('run until its first request', 'ms', ours, (), floor, 'import pydantic_ai and openai', 1.2)
