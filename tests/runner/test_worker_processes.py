"""Workers in processes of their own on one plan, on every store: each step once, whoever is killed or frozen."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from process_helpers import AGENT, environment, started, until
from runner_helpers import Scripted, stored
from servers import postgres, postgres_server, valkey, valkey_server  # noqa: F401
from worker_helpers import COUNT, SHORT, diligent, forty, opened, worked_exactly_once, working

from planctl.agent.outcome import StopReason
from planctl.core import apply, log
from planctl.errors import LostClaim
from planctl.operations import Add, Claim, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.base import BaseStore

on_every_store = pytest.mark.parametrize('kind', ['sqlite', 'postgres', 'valkey'])


def db(kind: str, request: pytest.FixtureRequest) -> str:
    return 'plan.db' if kind == 'sqlite' else request.getfixturevalue(kind).db


@on_every_store
async def test_four_processes_share_forty_steps(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / 'agents.py').write_text(AGENT, encoding='utf-8')
    words = ('--db', db(kind, request), '--session', 's', '--agent', 'agents:agent', '--quiet')
    async with opened(kind, request, tmp_path) as store:
        # Long enough that the first of the processes does not do it all while the others start.
        await forty(store, ' `sleep 0.3`')
        with ExitStack() as all_of_them:
            processes = [
                all_of_them.enter_context(started(tmp_path, *words, *more))
                for more in (('--workers', '2'), ('--worker',), ('--worker',), ('--worker', '--workers', '2'))
            ]
            ended = [await asyncio.to_thread(process.communicate, timeout=120) for process in processes]
            assert [process.returncode for process in processes] == [0] * 4, ended
        by = await worked_exactly_once(store)
    assert sum(by.values()) == COUNT
    assert len({actor.partition('.')[0] for actor in by}) >= 2


class Nursery:
    """Starts workers by forking a process that has imported everything: real processes, at once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name('worker_process.py'))],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, folder: Path, database: str, seconds: float, every: float) -> int:
        """Start a worker in a folder and return its process id when it is at work on a step."""
        pid = self._asked(start=[str(folder), database, seconds, every])
        until((folder / 'working').exists)
        return pid

    def status(self, pid: int) -> int:
        """Wait for a worker to end and return its exit status, or the negative number of the signal that ended it."""
        return self._asked(wait=pid)

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=30)

    def _asked(self, **order: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + '\n')
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@pytest.fixture(scope='module')
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


async def completions(store: BaseStore) -> list[tuple[str, str]]:
    return [(row.id, row.actor) for row in await log(store) if row.after and '"completed"' in row.after]


@on_every_store
async def test_the_step_of_one_that_was_killed_is_finished_by_another(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, nursery: Nursery
) -> None:
    async with opened(kind, request, tmp_path) as store:
        await forty(store)
        worker = nursery.start(tmp_path, db(kind, request), 1.0, 0.25)
        held = (await store.read()).step('1')
        assert held.status is TaskStatus.in_progress
        os.kill(worker, signal.SIGKILL)
        assert nursery.status(worker) == -signal.SIGKILL
        result = await asyncio.wait_for(working(store, Scripted(diligent), 3, helps=True, lease=SHORT), 60)
        assert result.stop_reason is StopReason.finished
        done = await completions(store)
    assert len(done) == len(dict(done)) == COUNT
    assert held.owner not in dict(done).values()


@on_every_store
@pytest.mark.parametrize('every', [0.25, 60.0], ids=['renewing', 'before it renews'])
async def test_one_that_wakes_after_its_lease_cannot_complete_the_step(
    every: float, kind: str, request: pytest.FixtureRequest, tmp_path: Path, nursery: Nursery
) -> None:
    async with opened(kind, request, tmp_path) as store:
        await stored(Add('one'), Add('two'), store=store)
        worker = nursery.start(tmp_path, db(kind, request), 1.0, every)
        os.kill(worker, signal.SIGSTOP)
        late = (await store.read()).step('1').owner
        while True:
            try:
                await apply(store, Claim('second', 60.0, '1'))
                break
            except LostClaim:
                await asyncio.sleep(0.02)
        (tmp_path / 'go').touch()
        os.kill(worker, signal.SIGCONT)
        # It wakes, is refused, and goes on with the step that nobody has.
        while (await store.read()).step('2').status is not TaskStatus.completed:
            await asyncio.sleep(0.02)
        first = (await store.read()).step('1')
        assert (first.status, first.owner) == (TaskStatus.in_progress, 'second')
        await apply(store, SetStatus('1', TaskStatus.completed), actor='second')
        assert await asyncio.to_thread(nursery.status, worker) == 0
        assert await completions(store) == [('2', late), ('1', 'second')]
    assert (tmp_path / 'said').read_text().splitlines()[-1] == 'finished the plan is finished: 2 of 2 steps completed'
