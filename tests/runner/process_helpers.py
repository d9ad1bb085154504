"""Real runs in real processes, with steps that are real processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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


def planctl(folder: Path, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, '-m', 'planctl', *words],
        cwd=folder,
        env=environment(),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
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
