"""A plan in a SQLite file, without an event loop: what plan commands use, and what the async store runs on a thread."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from planctl.change import Change
from planctl.errors import InvalidName, StorageError
from planctl.journal import LogRow
from planctl.plan import Plan, check_session
from planctl.stores.base import BaseStore, EditFunction
from planctl.stores.sqlite_open import (
    Journal,
    Patience,
    copy_to,
    explained,
    identity,
    is_blank,
    leave,
    open_for_writing,
    read_from,
    stamp,
)
from planctl.stores.sqlite_reading import Made
from planctl.stores.sqlite_rows import Rows
from planctl.stores.sqlite_tables import HARNESS_TABLE, check_own_table

if TYPE_CHECKING:
    from typing import Self

T = TypeVar('T')

WAIT = 10.0
"""Seconds to wait for another process that holds the database."""


class PlanFile:
    """One session's plan in one file. For one thread at a time.

    A connection for reading lives as long as a read; what it read counts until the file or its log is written to. The
    one for writing stays open, and is read from, until `close`.
    """

    def __init__(
        self,
        database: str | os.PathLike[str],
        *,
        session: str = 'default',
        table: str = HARNESS_TABLE,
        wait: float = WAIT,
        journal: Journal | None = None,
    ) -> None:
        name = os.fspath(database)
        if name in ('', ':memory:') or '\0' in name:
            raise InvalidName(
                f'{name!r} names no file: a plan that need not be kept belongs in an InMemoryPlanStore'
                if name == ':memory:'
                else 'the name of the database is empty or holds a NUL'
            )
        # What is beside a file (its log) is beside what a link points to; a later chdir must not change what is meant.
        self.path = os.path.abspath(name)
        self.session = check_session(session)
        self.table = check_own_table(table)
        self._wait = wait
        self._journal: Journal | None = journal
        self._writer: _Writer | None = None
        self._seen: tuple[object, Plan] | None = None
        self._made: Made = {}

    def read(self, given_up: Callable[[], bool] | None = None) -> Plan:
        """Return one snapshot; an empty plan of revision 0 when the session was never written.

        Creates and changes nothing. Raises `DatabaseNotFound` and `StorageError`.
        """
        found = stamp(os.path.realpath(self.path)) if self._writer is None else None
        if found is not None and self._seen is not None and self._seen[0] == found:
            return self._seen[1]
        plan = self._look(Rows.read, given_up)
        self._seen = None if found is None else (found, plan)
        return plan

    def log(
        self,
        *,
        since: int = 0,
        limit: int | None = None,
        step_id: str | None = None,
        given_up: Callable[[], bool] | None = None,
    ) -> list[LogRow]:
        """Return rows of the log, the newest last; see `BaseStore.log`. Creates and changes nothing."""
        return self._look(lambda rows: rows.log(since=since, limit=limit, step_id=step_id), given_up)

    def transact(
        self,
        edit: EditFunction,
        *,
        actor: str,
        label: str,
        now: float,
        key: str | None = None,
        given_up: Callable[[], bool] | None = None,
    ) -> Change:
        """Call `edit` on the stored plan and store the change in one transaction; see `BaseStore.update`.

        Makes the file when it is not there and there is something to store. `given_up` is asked while the lock is
        waited for; once it is held the transaction ends, one way or the other.
        """
        with explained(self.path, self._wait):
            patience = Patience(self._wait, given_up)
            if self._writer is None and is_blank(self.path):
                change = edit(Plan(session=self.session))
                if key is None and change.after == change.before:
                    return change
            try:
                writer = self._begin(patience)
                change = writer.rows.transact(edit, actor=actor, label=label, now=now, key=key)
                if writer.rows.wrote:
                    patience.attempt(lambda: writer.connection.execute('COMMIT'), begun=True)
                    writer.rows.committed()
                return change
            finally:
                self._roll_back()

    def backup(self, target: str | os.PathLike[str]) -> None:
        """Copy the whole database, all sessions and tables, as it is at one moment, into a new file.

        Others may write meanwhile. `StorageError` when the target is there already; after an error it is not.
        """
        name: str = os.fspath(target)
        place = os.path.abspath(name)
        with explained(self.path, self._wait):
            read_from(os.path.realpath(self.path), Patience(self._wait), lambda db: copy_to(db, place))

    def close(self) -> None:
        """Close what is open and forget what was read. The next call opens again what it needs."""
        self._seen = None
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                if writer.file != identity(self.path):
                    leave(writer.connection, writer.place, writer.log)
            finally:
                writer.connection.close()

    def _look(self, work: Callable[[Rows], T], given_up: Callable[[], bool] | None) -> T:
        with explained(self.path, self._wait):
            patience = Patience(self._wait, given_up)
            if (writer := self._current()) is not None:
                return patience.attempt(lambda: _read(writer.connection, writer.rows, work))
            return read_from(os.path.realpath(self.path), patience, lambda db: _read(db, self._rows(db), work))

    def _roll_back(self) -> None:
        if self._writer is not None and self._writer.connection.in_transaction:
            self._writer.connection.execute('ROLLBACK')

    def _rows(self, connection: sqlite3.Connection) -> Rows:
        return Rows(connection, self.table, self.session, self.path, self._made)

    def _begin(self, patience: Patience) -> _Writer:
        """Return the connection for writing, with the write lock of the file that is at the path now."""
        while True:
            writer = self._current()
            if writer is None:
                place = os.path.realpath(self.path)
                connection = open_for_writing(place, self._journal, patience)
                writer = self._writer = _Writer(connection, self._rows(connection), place, identity(self.path))
            connection = writer.connection
            patience.attempt(lambda connection=connection: connection.execute('BEGIN IMMEDIATE'))
            if writer.file is not None and writer.file == identity(self.path):
                # From the first lock on until it is closed, the log ahead is the same one.
                writer.log = writer.log or identity(f'{writer.place}-wal')
                patience.check()
                return writer
            # Somebody removed or replaced the file while we waited.
            self._roll_back()

    def _current(self) -> _Writer | None:
        """Return the open connection if its file is still the one at the path; SQLite itself would write into nothing.

        One that was replaced is let go. One that was removed is an error: to begin anew would lose a plan silently.
        """
        writer = self._writer
        if writer is None:
            return None
        now = identity(self.path)
        if now is None:
            raise StorageError(f'{self.path} was removed while it was in use')
        if now != writer.file:
            self.close()
            return None
        return writer


@dataclass(slots=True)
class _Writer:
    """An open connection for writing, where it was opened, and which file and which log ahead it is on."""

    connection: sqlite3.Connection
    rows: Rows
    place: str
    file: tuple[int, int] | None
    log: tuple[int, int] | None = None


def _read(connection: sqlite3.Connection, rows: Rows, work: Callable[[Rows], T]) -> T:
    connection.execute('BEGIN')
    try:
        return work(rows)
    finally:
        if connection.in_transaction:
            connection.execute('ROLLBACK')


class SqliteFile(BaseStore):
    """One session's plan in a SQLite file, for code without an event loop: its methods never suspend.

    Drive `planctl.apply` on it with `planctl.core.drive`. A coroutine that never suspends blocks its thread: in an
    event loop use `SqlitePlanStore`. Safe to use from several threads and processes at once. `async with` keeps the
    connection open; otherwise each call opens and closes it.
    """

    def __init__(
        self,
        database: str | os.PathLike[str],
        *,
        session: str = 'default',
        table: str = HARNESS_TABLE,
        wait: float = WAIT,
        journal: Journal | None = None,
    ) -> None:
        self._file = PlanFile(database, session=session, table=table, wait=wait, journal=journal)
        self.path, self.session, self.table = self._file.path, self._file.session, self._file.table
        self._lock = threading.Lock()
        self._held = 0

    async def read(self) -> Plan:
        """Return the plan; `DatabaseNotFound` when there is no file."""
        with self._lock:
            try:
                return self._file.read()
            finally:
                self._rest()

    async def log(self, *, since: int = 0, limit: int | None = None, step_id: str | None = None) -> list[LogRow]:
        """Return rows of the log; `DatabaseNotFound` when there is no file. See `BaseStore.log`."""
        with self._lock:
            try:
                return self._file.log(since=since, limit=limit, step_id=step_id)
            finally:
                self._rest()

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit`; see `BaseStore.update`. `StoreUnavailable` when another process holds the file too long."""
        with self._lock:
            try:
                return self._file.transact(edit, actor=actor, label=label, now=now, key=key)
            finally:
                self._rest()

    async def aclose(self) -> None:
        """Close the connection."""
        with self._lock:
            self._file.close()

    async def __aenter__(self) -> Self:
        with self._lock:
            self._held += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._held -= 1
            self._rest()

    def _rest(self) -> None:
        if self._held == 0:
            self._file.close()
