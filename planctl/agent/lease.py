"""Who runs a session: the name of this process, the lease that it renews, and what a dead predecessor left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Self

from planctl.change import Change
from planctl.claims import session_held
from planctl.core import apply
from planctl.errors import SessionHeld, StorageError, Unsupported
from planctl.operations import Claim, Operation, Release, Renew
from planctl.plan import Plan
from planctl.stores.base import BaseStore

SECONDS = 60.0
"""How long a session stays held without a renewal."""

EVERY = 20.0
"""Seconds between renewals."""

INTERRUPTED = 'interrupted'
"""The note of a step that was given back because its run ended."""

_HOLDER = re.compile(r'(?P<run>[0-9a-f]{8})@(?P<host>[^:\s]+):(?P<pid>\d+):(?P<started>\d+):(?P<machine>[0-9a-f]{8})')


@dataclass(frozen=True, slots=True)
class Holder:
    """One run in one process, written into the session that it holds.

    `started` tells two processes of one number apart, `machine` two machines (or containers) of one name.
    """

    run: str
    host: str
    pid: int
    started: int
    machine: str

    @classmethod
    def here(cls) -> Self:
        """Return the name of a new run in this process."""
        pid = os.getpid()
        return cls(secrets.token_hex(4), _host(), pid, _started(pid), _machine())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the holder that a session names, or `None` when planctl did not write it."""
        match = _HOLDER.fullmatch(text)
        if match is None:
            return None
        return cls(match['run'], match['host'], int(match['pid']), int(match['started']), match['machine'])

    def __str__(self) -> str:
        return f'{self.run}@{self.host}:{self.pid}:{self.started}:{self.machine}'

    @property
    def described(self) -> str:
        """The run in words."""
        return f'run {self.run}, process {self.pid} on {self.host}'

    @property
    def actors(self) -> tuple[str, str]:
        """The names under which the run's planner and executor write."""
        return (f'planner:{self.run}', f'executor:{self.run}')

    def worker(self, number: int) -> str:
        """Return the name under which one of several executors of the run writes."""
        return f'{self.actors[1]}.{number}'

    @property
    def dead(self) -> bool:
        """Whether the process is known to have ended; never for one on another machine."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        started = _started(self.pid)
        return 0 not in (started, self.started) and started != self.started


@asynccontextmanager
async def session_lease(
    store: BaseStore,
    holder: Holder,
    *,
    lost: Callable[[Exception], None],
    taken: Callable[[str], None],
    given: Callable[[Change], None] = lambda _: None,
) -> AsyncGenerator[None]:
    """Hold the session for the length of the block and give back, at its end, what the run still has in progress.

    Raises `SessionHeld` when another run holds it. One whose process is dead, or whose lease has ended, is taken over:
    its steps in progress become pending, and `taken` is told of it; `given` is told what was given back.
    `lost` is called when the lease could not be kept.
    A store that cannot hold a claim is used without one.
    """
    try:
        await _claim(store, holder, taken)
    except Unsupported:
        yield
        return
    renewing = asyncio.create_task(_renew(store, holder, lost))
    try:
        yield
    finally:
        renewing.cancel()
        try:
            await asyncio.wait([renewing])
        finally:
            given(await apply(store, *given_back(holder), actor=holder.actors[1], label='release'))


def given_back(holder: Holder, plan: Plan | None = None) -> list[Operation]:
    """Return the operations that give back everything a run holds; with a plan also what its workers hold there."""
    steps = plan.steps if plan is not None else ()
    workers = {owner for step in steps if (owner := step.owner or '').startswith(f'{holder.actors[1]}.')}
    releases = [Release(owner=actor, note=INTERRUPTED) for actor in (*holder.actors, *sorted(workers))]
    return [*releases, Release(owner=str(holder), scope='session')]


async def _claim(store: BaseStore, holder: Holder, taken: Callable[[str], None]) -> None:
    predecessor: list[str] = []

    def claim(plan: Plan) -> Iterable[Operation]:
        predecessor[:] = []
        if plan.owner is not None and plan.owner != str(holder):
            other = Holder.parse(plan.owner)
            now = time.time()
            if session_held(plan, now) and (other is None or not other.dead):
                seconds = (plan.lease or now) - now
                raise SessionHeld(
                    f'another run works on session {plan.session!r}: {other.described if other else plan.owner}',
                    hint=f'its lease ends in {seconds:.0f} s unless it renews it; --session names another session',
                )
            predecessor.append(other.described if other else plan.owner)
            yield Release(owner=plan.owner, scope='session')
            if other is not None:
                yield from given_back(other, plan)
        yield Claim(owner=str(holder), seconds=SECONDS, scope='session')

    await apply(store, claim, actor=holder.actors[1], label='claim')
    if predecessor:
        taken(predecessor[0])


async def _renew(store: BaseStore, holder: Holder, lost: Callable[[Exception], None]) -> None:
    """Renew until cancelled. A store that fails is asked again until the lease would have ended."""
    kept_until = time.monotonic() + SECONDS
    while True:
        await asyncio.sleep(EVERY)
        asked = time.monotonic()
        try:
            await apply(store, Renew(owner=str(holder), seconds=SECONDS, scope='session'), actor=holder.actors[1])
        except StorageError as error:
            if time.monotonic() + EVERY > kept_until:
                lost(error)
                return
        except Exception as error:  # `LostClaim`, or whatever a store of somebody's own raises.
            lost(error)
            return
        else:
            kept_until = asked + SECONDS


def _host() -> str:
    return re.sub(r'[^\w.-]', '_', socket.gethostname())[:60] or 'localhost'


def _machine() -> str:
    """Return what this process shares with those whose numbers it can look up: boot and process namespace."""
    known = [_host()]
    with contextlib.suppress(OSError):
        known.append(Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii').strip())
    with contextlib.suppress(OSError):
        known.append(str(Path('/proc/self/ns/pid').readlink()))
    return blake2b('\0'.join(known).encode(), digest_size=4).hexdigest()


def _started(pid: int) -> int:
    """Return when a process started, in ticks since boot; 0 where the system does not tell, -1 when it has ended."""
    try:
        stat = Path(f'/proc/{pid}/stat').read_text(encoding='utf-8', errors='replace')
        fields = stat.rpartition(')')[2].split()
        # One that has ended stays in the table until its parent asks for its status.
        return -1 if fields[0] in 'ZX' else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0
