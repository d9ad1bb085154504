"""Real runs in real processes, with steps that are real processes of their own."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from planctl.plan import Plan, TaskStatus
from planctl.stores.sqlite_file import PlanFile

ROOT = Path(__file__).resolve().parents[2]

# The shell of the workspace extra in a few lines, so that these tests need no extra: it ends its child when cancelled.
AGENT = '''
import asyncio
import time

from pydantic_ai import Agent

from planctl.agent.offline import offline_model


async def run_command(command: str) -> str:
    """Run a command."""
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out.decode() + (f'[exit code: {process.returncode}]' if process.returncode else '')


def blocking(command: str) -> str:
    """Do not return for a long time."""
    open('blocking', 'w').close()
    time.sleep(60)
    return ''


async def stubborn(command: str) -> str:
    """Do not even end when it is cancelled."""
    open('blocking', 'w').close()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


agent = Agent(offline_model(), tools=[run_command])
blocked = Agent(offline_model())
blocked.tool_plain(blocking, name='run_command')
hung = Agent(offline_model())
hung.tool_plain(stubborn, name='run_command')
'''


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith('PLANCTL_')}
    path = f'{Path(sys.executable).parent}{os.pathsep}{kept.get("PATH", "")}'
    return kept | {'PYTHONPATH': str(ROOT), 'PATH': path, 'PYTHONWARNINGS': 'default'}


def planctl(
    folder: Path, *words: str, stdin: str | None = None, stdout: IO[str] | int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, '-m', 'planctl', *words],
        cwd=folder,
        env=environment(),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run in a process group of its own; whatever is left of it at the end is killed."""
    process = subprocess.Popen(
        [sys.executable, '-m', 'planctl', 'run', *words],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def plan_in(folder: Path) -> Plan:
    return PlanFile(folder / 'plan.db').read()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'it did not happen in time'
        time.sleep(0.01)


def under_way(folder: Path, step_id: str) -> Callable[[], bool]:
    """Whether a step is in progress by now."""

    def look() -> bool:
        if not (folder / 'plan.db').exists():
            return False
        step = plan_in(folder).get(step_id)
        return step is not None and step.status is TaskStatus.in_progress

    return look


class Terminal:
    """A planctl whose stdin and stderr are a terminal of 80 by 24; stdout is a pipe."""

    def __init__(self, folder: Path, *words: str, **more: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'planctl', *words],
            cwd=folder,
            env=environment() | {'TERM': 'xterm-256color', 'COLUMNS': '80', 'LINES': '24'} | more,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            text=True,
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ''
        self._seen = 0

    def until(self, text: str, seconds: float = 60.0) -> None:
        """Read until the text was shown, after what was waited for before."""
        end = time.monotonic() + seconds
        while (at := self.shown.find(text, self._seen)) < 0:
            assert self._read(max(0.0, end - time.monotonic())), f'{text!r} was not shown, but {self.shown[-2000:]!r}'
        self._seen = at + len(text)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def hang_up(self) -> None:
        """Close the terminal; whoever leads its session is told by a signal."""
        os.close(self._master)
        self._master = os.open(os.devnull, os.O_RDWR)
        self.process.send_signal(signal.SIGHUP)

    def finish(self) -> tuple[int, str]:
        """Return the exit status and what is on stdout."""
        while self._read(60.0):
            pass
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(30), out

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self._master, 65_536)
        except OSError:  # Linux says so when the other side is closed.
            return False
        self.shown += piece.decode('utf-8', 'replace')
        return bool(piece)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._master)


ZYGOTE = """
import json, os, sys
import agents, planctl.agent.runner, planctl.agent.tracing, planctl.cli.casting, planctl.cli.live, planctl.cli.run
import planctl.cli.running
from planctl.cli.app import run
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        for number in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os._exit(run(json.loads(line)))
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Zygote:
    """Starts planctl by forking a process that has imported everything: a real process, at once, to be killed."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, '-c', ZYGOTE],
            cwd=folder,
            env=environment() | {'PYTHONPATH': f'{ROOT}{os.pathsep}{folder}'},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, *words: str) -> int:
        """Start a planctl and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + '\n')
        self._process.stdin.flush()
        return self._number()

    def status(self) -> int:
        """Wait for it to end and return its exit status, or the negative number of the signal that ended it."""
        return self._number()

    def _number(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=30)
