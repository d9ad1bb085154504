"""A plan in a SQLite file, for event loops: `PlanFile` on a thread of aiosqlite, one whole transaction a hop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import finalize

import aiosqlite
from aiosqlite.core import _STOP_RUNNING_SENTINEL as STOP  # pyright: ignore[reportPrivateUsage]

from planctl.change import Change
from planctl.errors import DatabaseNotFound
from planctl.journal import LogRow
from planctl.plan import Plan
from planctl.stores.base import BaseStore, EditFunction, deprecated_emitter
from planctl.stores.sqlite_file import WAIT, PlanFile
from planctl.stores.sqlite_open import Journal
from planctl.stores.sqlite_tables import HARNESS_TABLE

if TYPE_CHECKING:
    from typing import Self

    from planctl.items import PlanEventEmitter

T = TypeVar('T')


class SqlitePlanStore(BaseStore):
    """One session's plan in a SQLite file, which any number of processes may read and write at once.

    The table is that of pydantic-ai-harness, so either reads and writes what the other stored. A store works in every
    event loop and thread, one after the other and at once; calls of one loop take effect in the order in which they
    were made. Inside `async with` a loop's connection stays open (it may be entered several times); otherwise one is
    opened and closed for each call. A store that was never closed keeps no process alive.

    A cancelled call that had not begun (it also waits for the lock) is not applied; one that had begun is stored.

    `wait` is how many seconds to wait while another process holds the file, before `StoreUnavailable`. `journal`
    changes how SQLite makes a change safe, `wal` or `delete`, also for a file that is there; by default only a new
    file gets `wal`. The file must be on this machine's disk or use `delete`.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] = '.agent-plan.db',
        *,
        session: str = 'default',
        table: str = HARNESS_TABLE,
        wait: float = WAIT,
        journal: Journal | None = None,
        event_emitter: PlanEventEmitter | None = None,
    ) -> None:
        def open_file() -> PlanFile:
            return PlanFile(database, session=session, table=table, wait=wait, journal=journal)

        file = open_file()
        self.path, self.session, self.table = file.path, file.session, file.table
        database = file.path  # A later chdir must not change what is meant.
        self._open_file = open_file
        self._emitter = deprecated_emitter(event_emitter)
        self._workers: dict[asyncio.AbstractEventLoop, _Worker] = {}
        self._guard = threading.Lock()

    async def read(self) -> Plan:
        """Return the plan; an empty one when there is no file yet."""
        try:
            return await self._call(lambda file, given_up: file.read(given_up))
        except DatabaseNotFound:
            return Plan(session=self.session)

    async def log(self, *, since: int = 0, limit: int | None = None, step_id: str | None = None) -> list[LogRow]:
        """Return rows of the log, none when there is no file yet; see `BaseStore.log`."""
        try:
            return await self._call(
                lambda file, given_up: file.log(since=since, limit=limit, step_id=step_id, given_up=given_up)
            )
        except DatabaseNotFound:
            return []

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit`; see `BaseStore.update`. It is called on another thread."""
        change = await self._call(
            lambda file, given_up: file.transact(edit, actor=actor, label=label, now=now, key=key, given_up=given_up)
        )
        if not change.replayed:
            await self._announce(change, label)
        return change

    async def aclose(self) -> None:
        """Close this loop's connection, however often the store was entered."""
        worker = self._workers.get(asyncio.get_running_loop())
        if worker is not None:
            worker.held = 0
            await self._call(lambda file, _: file.close())

    async def __aenter__(self) -> Self:
        self._worker().held += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        worker = self._workers.get(asyncio.get_running_loop())
        if worker is not None and worker.held > 0:
            worker.held -= 1
            if worker.held == 0:
                await self._call(lambda file, _: file.close())

    async def _call(self, work: Callable[[PlanFile, Callable[[], bool]], T]) -> T:
        worker = self._worker()
        worker.calls += 1
        try:
            # Nothing is awaited before the work is in the queue: that keeps the order in which calls were made.
            return await worker.call(work)
        finally:
            worker.calls -= 1
            if worker.calls == 0 and worker.held == 0:
                with self._guard:
                    if self._workers.get(worker.loop) is worker:
                        del self._workers[worker.loop]
                worker.stop()

    def _worker(self) -> _Worker:
        """Return the running loop's worker, started if need be; those of closed loops end."""
        loop = asyncio.get_running_loop()
        with self._guard:
            for other in [other for other in self._workers if other.is_closed()]:
                self._workers.pop(other).stop()
            worker = self._workers.get(loop)
            if worker is None:
                worker = self._workers[loop] = _Worker(self._open_file(), loop)
                # A store that is let go of, or alive when the interpreter ends, was not closed.
                worker.abandoned = finalize(self, worker.abandon)
            return worker


class _Worker(aiosqlite.Connection):
    """A thread that runs calls in order, with a plan file where aiosqlite has its connection.

    Results are handed over by our own function: aiosqlite's thread dies when the loop of a caller is closed, and
    everybody who waits for it then waits for ever.
    """

    def __init__(self, file: PlanFile, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(lambda: cast(sqlite3.Connection, file), 64)
        self.loop = loop
        self.held = 0
        """How often the store was entered in this loop."""
        self.calls = 0
        """How many callers wait."""
        self.abandoned: finalize[..., SqlitePlanStore] | None = None
        self._file = file
        self._queue = cast('SimpleQueue[tuple[None, Callable[[], object]]]', self._tx)  # pyright: ignore[reportUnknownMemberType]
        self._hurry = threading.Event()
        # It must not keep the interpreter alive.
        self._thread.daemon = True
        self._thread.start()

    async def call(self, work: Callable[[PlanFile, Callable[[], bool]], T]) -> T:
        """Run `work` on the thread after everything that was called before, and return what it returns."""
        future: asyncio.Future[T] = self.loop.create_future()
        dropped = threading.Event()

        def given_up() -> bool:
            return dropped.is_set() or self._hurry.is_set()

        def run() -> None:
            if given_up():
                return
            try:
                try:
                    result = work(self._file, given_up)
                finally:
                    if self.held == 0 and self._queue.empty():
                        self._file.close()
            except BaseException as error:
                # A future takes any exception but that one, which would end the coroutine that waits.
                given = RuntimeError('StopIteration') if isinstance(error, StopIteration) else error
                _hand_over(future, lambda: future.set_exception(given))
            else:
                _hand_over(future, lambda: future.set_result(result))

        self._queue.put_nowait((None, run))
        try:
            return await future
        finally:
            dropped.set()

    def stop(self) -> None:  # type: ignore[override]
        """End the thread when everything that was called is done. Waits for nothing."""

        def last() -> object:
            self._file.close()
            if self.abandoned is not None:
                self.abandoned.detach()
            return STOP

        self._queue.put_nowait((None, last))

    def abandon(self) -> None:
        """End the thread now: what has begun is stored, so that no log is left beside the file; the rest is not."""
        self._hurry.set()
        self.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)


def _hand_over(future: asyncio.Future[T], give: Callable[[], None]) -> None:
    def settle() -> None:
        if not future.done():
            give()

    with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
        future.get_loop().call_soon_threadsafe(settle)
