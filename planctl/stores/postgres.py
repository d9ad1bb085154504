"""A plan in Postgres, over a pool that the caller owns. It asks nothing of a session, so any pooler will do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import planctl
from planctl.change import Change
from planctl.errors import DamagedStore, NewerSchema, StorageError, StoreUnavailable
from planctl.journal import OTHER, LogRow, dump_reply, load_reply, log_rows
from planctl.plan import Plan, check_session, check_table
from planctl.sanitize import clean
from planctl.stores.base import BaseStore, EditFunction, deprecated_emitter, positions
from planctl.stores.kept import row_of
from planctl.stores.mirror import Found, found
from planctl.stores.postgres_rows import Rows, rows_of, session_of
from planctl.stores.postgres_tables import SCHEMA_VERSION, Statement, Tables
from planctl.stores.server_calls import GRACE, Interfered, ServerCalls, Waiting, decide, driver_names, is_network_error

if TYPE_CHECKING:
    from planctl.items import PlanEventEmitter


@runtime_checkable
class PostgresConnection(Protocol):
    """What the store needs of a connection; asyncpg's has it."""

    def transaction(self, *, isolation: Any = None, readonly: bool = False) -> AbstractAsyncContextManager[Any]:
        """Return a transaction as an async context manager."""
        ...

    async def execute(self, query: str, *args: Any) -> Any:
        """Run a statement and return its status, which ends in the number of rows."""
        ...

    async def fetchval(self, query: str, *args: Any) -> Any:
        """Return the first column of the first row, or `None`."""
        ...

    async def fetchrow(self, query: str, *args: Any) -> Any:
        """Return the first row, or `None`."""
        ...

    async def fetch(self, query: str, *args: Any) -> Any:
        """Return all rows."""
        ...


@runtime_checkable
class PostgresPool(Protocol):
    """What the store needs of a pool; asyncpg's has it."""

    def acquire(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection as an async context manager."""
        ...


class PostgresPlanStore(BaseStore):
    """Keeps one session's plan in a Postgres database, shared with any number of processes.

    The pool belongs to the caller, who opens it in the event loop that uses the store and closes it. Behind a pooler
    in transaction mode, make it with `statement_cache_size=0`. An operation that cannot be done within `wait` seconds
    is `StoreUnavailable`; so long it waits for a server that was there before. A cancelled call is stored whole or not
    at all.
    """

    def __init__(
        self,
        pool: PostgresPool,
        *,
        session: str = 'default',
        table: str = 'plan_items',
        event_emitter: PlanEventEmitter | None = None,
        wait: float = 10.0,
    ) -> None:
        self._pool = pool
        self._session = check_session(session)
        self._tables = Tables(check_table(table), session)
        self._calls = ServerCalls(wait, server='Postgres', lost=_is_lost, typed=_typed)
        self._ready = False
        self._emitter = deprecated_emitter(event_emitter)

    async def read(self) -> Plan:
        """Return one snapshot; see `BaseStore.read`. A database without tables is an empty plan and stays so."""

        async def once(waiting: Waiting) -> Plan:
            try:
                async with self._transaction(waiting, readonly=True) as connection:
                    return (await self._load(connection))[0].plan
            except Exception as error:
                if _state(error) != _UNDEFINED_TABLE:
                    raise
            async with self._transaction(waiting, readonly=True) as connection:
                return await self._load_shared(connection)

        return await self._calls.do(once)

    async def log(self, *, since: int = 0, limit: int | None = None, step_id: str | None = None) -> list[LogRow]:
        """Return rows of the session's log, the newest last; see `BaseStore.log`."""
        query = self._tables.read_log(since, limit, step_id)

        async def once(waiting: Waiting) -> list[LogRow]:
            try:
                async with self._transaction(waiting, readonly=True) as connection:
                    return [row_of(record) for record in reversed(await _fetch(connection, query))]
            except Exception as error:
                if _state(error) != _UNDEFINED_TABLE:
                    raise
                return []

        return await self._calls.do(once)

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit` in one transaction; see `BaseStore.update`."""
        call = _Call(edit, clean(actor), clean(label), now, None if key is None else clean(key))

        async def once(waiting: Waiting) -> Change:
            try:
                async with self._transaction(waiting) as connection:
                    change = await self._transact(connection, call, waiting)
                    waiting.unconfirmed = True
            except _NothingToStore as nothing:
                return nothing.change
            except Exception as error:
                if _state(error) not in _AGAIN:
                    raise
                self._ready = False  # Somebody dropped the tables, or makes them at this moment.
                raise Interfered from error
            self._ready = True
            return change

        change = await self._calls.do(once)
        await self._announce(change, label)
        return change

    async def _transact(self, connection: PostgresConnection, call: _Call, waiting: Waiting) -> Change:
        waiting.what = 'another writer did not let go of this plan'
        await _fetchval(connection, self._tables.lock)
        waiting.what = _SILENT
        if not self._ready and await _fetchval(connection, self._tables.missing):
            for statement in self._tables.create(planctl.__version__):
                await _execute(connection, statement)
        stored, rows, new = await self._load(connection)
        if call.key is not None and (reply := await _fetchval(connection, self._tables.read_reply(call.key))):
            raise _NothingToStore(load_reply(reply, stored.plan))
        change = decide(call.edit, stored.base)
        if call.key is None and change.after == change.before:
            raise _NothingToStore(replace(change, before=stored.plan, after=stored.plan))
        log = [] if stored.other is None else log_rows(stored.other, actor=OTHER, operation='write', at=call.now)
        log += log_rows(change, actor=call.actor, operation=call.label, at=call.now)
        steps = change.after.steps
        placed = positions({i: at for i, (at, _) in rows.shared.items()}, [step.id for step in steps])
        after = {step.id: (placed[step.id], step) for step in steps}
        for statement in (
            *self._tables.write_steps(rows, after, {problem.id for problem in change.after.problems}),
            *self._tables.write_session(stored.known, change.after, new=new),
            *self._tables.write_log(log),
        ):
            await _execute(connection, statement)
        if call.key is not None:
            await _execute(connection, self._tables.write_reply(call.key, dump_reply(change), call.now))
        return change

    async def _load(self, connection: PostgresConnection) -> tuple[Found, Rows, bool]:
        """Return what is stored, the rows that it is made of, and whether the session is new to planctl."""
        record = await _fetchrow(connection, self._tables.read_session)
        if record is None:
            raise DamagedStore('the database does not say of which version the tables of planctl are')
        if record[0] > SCHEMA_VERSION:
            raise NewerSchema(
                f'this database was written by a newer planctl (tables of version {record[0]}, this one knows '
                f'{SCHEMA_VERSION})',
                hint=f'install planctl {record[1]} or newer',
            )
        session = session_of(record, self._session)
        rows = rows_of(await _fetch(connection, self._tables.read_rows))
        known = tuple(step for _, step in sorted(rows.own.values(), key=itemgetter(0)))
        plan = replace(session or Plan(self._session), steps=known)
        if (record[2] or 0) > plan.revision:
            # A counter that was set back would give a revision to two changes.
            plan = replace(plan, revision=record[2])
        return found(plan, [step for _, step in rows.shared.values()], rows.problems), rows, session is None

    async def _load_shared(self, connection: PostgresConnection) -> Plan:
        if not await _fetchval(connection, self._tables.shared_exists):
            return Plan(self._session)
        rows = rows_of(await _fetch(connection, self._tables.read_shared))
        return found(Plan(self._session), [step for _, step in rows.shared.values()], rows.problems).plan

    @asynccontextmanager
    async def _transaction(self, waiting: Waiting, *, readonly: bool = False) -> AsyncGenerator[PostgresConnection]:
        """Lend a connection inside a transaction: of one snapshot to read, else one that sees what others committed.

        The isolation is always said, because a default of the server or the role may be any.
        """
        waiting.what = 'the pool had no connection to lend'
        with ExitStack() as at_the_end:
            async with self._pool.acquire() as connection:
                waiting.what = _SILENT
                if (terminate := getattr(connection, 'terminate', None)) is not None:
                    # Even a rollback waits for its answer.
                    last = asyncio.get_running_loop().call_at(waiting.deadline + GRACE, terminate)
                    at_the_end.callback(last.cancel)
                isolation = 'repeatable_read' if readonly else 'read_committed'
                async with connection.transaction(isolation=isolation, readonly=readonly):
                    yield connection


@dataclass(frozen=True, slots=True)
class _Call:
    edit: EditFunction
    actor: str
    label: str
    now: float
    key: str | None


class _NothingToStore(Exception):
    """Ends the transaction without a trace: tables made for it are not kept either."""

    def __init__(self, change: Change) -> None:
        self.change = change


_SILENT = 'Postgres did not answer'
_UNDEFINED_TABLE = '42P01'
# Serialization failure, deadlock, a key or table that somebody else made first, a table that is gone.
_AGAIN = {'40001', '40P01', '23505', '42P07', _UNDEFINED_TABLE}
# Connection, resources, shutdown, a lock or a statement that took too long.
_UNAVAILABLE = ('08', '53', '57', '55P03')
# The same of a server that ends, begins, or has no connection left for us.
_LOST = ('08', '57P01', '57P02', '57P03', '53300')
_NOT_A_PLAN = ('42703', '42804', '42809', '42883')


def _state(error: Exception) -> str:
    return getattr(error, 'sqlstate', None) or ''


def _is_lost(error: Exception) -> bool:
    """Whether the connection is gone, or was gone before."""
    # asyncpg calls it an internal error when a connection got its notice, but not yet the end of its stream.
    names = driver_names(error, 'asyncpg') & {'InterfaceError', 'InternalClientError'}
    return _state(error).startswith(_LOST) or is_network_error(error) or bool(names)


def _typed(error: Exception) -> StorageError | None:
    """Return the error that planctl raises for one of the driver's; `None` when it is not the driver's."""
    reason = clean(str(error).partition('\n')[0]) or type(error).__name__
    state = _state(error)
    if _is_lost(error):
        return StoreUnavailable(f'the connection to Postgres failed: {reason}')
    if state.startswith(_UNAVAILABLE):
        return StoreUnavailable(f'Postgres is not available: {reason}')
    if state in _NOT_A_PLAN:
        return DamagedStore(f'a table is not one that holds plans: {reason}')
    return StorageError(f'Postgres refused: {reason}') if state else None


async def _fetch(connection: PostgresConnection, statement: Statement) -> Sequence[Any]:
    return await connection.fetch(statement.text, *statement.arguments)


async def _fetchrow(connection: PostgresConnection, statement: Statement) -> Any:
    return await connection.fetchrow(statement.text, *statement.arguments)


async def _fetchval(connection: PostgresConnection, statement: Statement) -> Any:
    return await connection.fetchval(statement.text, *statement.arguments)


async def _execute(connection: PostgresConnection, statement: Statement) -> None:
    status = await connection.execute(statement.text, *statement.arguments)
    if statement.rows is not None and str(status).rpartition(' ')[2] != str(statement.rows):
        raise Interfered
