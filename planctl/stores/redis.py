"""A plan in Redis or Valkey, over a client that the caller owns. All of a session is in one slot of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import planctl
from planctl.change import Change
from planctl.errors import DamagedStore, InputError, StorageError, StoreUnavailable
from planctl.journal import OTHER, LogRow, chosen, dump_reply, load_reply, log_rows
from planctl.plan import Plan, check_session
from planctl.sanitize import clean
from planctl.stores.base import BaseStore, EditFunction, deprecated_emitter
from planctl.stores.redis_document import (
    FIELDS,
    Document,
    dump,
    dump_entry,
    dump_steps,
    load,
    load_entry,
    reply_field,
)
from planctl.stores.redis_keys import Keys
from planctl.stores.server_calls import GRACE, Interfered, ServerCalls, Waiting, decide, driver_names, is_network_error

if TYPE_CHECKING:
    from planctl.items import PlanEventEmitter

LOG_LIMIT = 1_000
"""How many transactions the log of a session keeps at least, and the replies of keyed operations with it."""


@runtime_checkable
class RedisPipeline(Protocol):
    """What the store needs of a pipeline; that of `redis.asyncio` has it."""

    async def watch(self, *names: Any) -> Any:
        """Let the transaction fail when one of the keys changes; commands are then run at once until `multi`."""
        ...

    def multi(self) -> Any:
        """Collect the commands that follow."""
        ...

    def execute_command(self, *args: Any) -> Any:
        """Run a command, or collect it."""
        ...

    async def execute(self) -> Any:
        """Run what was collected as one transaction and return the answers."""
        ...

    async def reset(self) -> Any:
        """Forget what is watched and collected, and give the connection back."""
        ...


@runtime_checkable
class RedisClient(Protocol):
    """What the store needs of a client; `redis.asyncio.Redis` has it, whatever its `decode_responses`."""

    def pipeline(self, transaction: Any = ...) -> Any:
        """Return a `RedisPipeline`."""
        ...


class RedisPlanStore(BaseStore):
    """Keeps one session's plan in Redis, shared with any number of processes.

    The client belongs to the caller. The list of steps is the harness's, at `PREFIX:{SESSION}`; what is planctl's is
    in a hash and a log beside it, which keeps the last `log_limit` transactions. With `expire_seconds` each write lets
    all of it live that long from then; without, a time to live that was set is kept. An operation that cannot be done
    within `wait` seconds is `StoreUnavailable`; so long it waits for a server that was there before. A cancelled call
    is stored whole or not at all.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        session: str = 'default',
        key_prefix: str = 'plan',
        expire_seconds: int | None = None,
        event_emitter: PlanEventEmitter | None = None,
        wait: float = 10.0,
        log_limit: int = LOG_LIMIT,
    ) -> None:
        if expire_seconds is not None and (type(expire_seconds) is not int or expire_seconds < 1):
            raise InputError('expire_seconds is a whole number of seconds from 1, or None')
        self._client = client
        self._session = check_session(session)
        self._keys = Keys(key_prefix, session)
        self._expire = expire_seconds
        self._calls = ServerCalls(wait, server='Redis', lost=_is_lost, typed=_typed)
        self._log_limit = log_limit
        self._emitter = deprecated_emitter(event_emitter)

    async def read(self) -> Plan:
        """Return one snapshot; see `BaseStore.read`."""

        async def once(_: Waiting) -> Plan:
            async with self._pipeline() as pipe:
                pipe.execute_command('GET', self._keys.steps)
                pipe.execute_command('HMGET', self._keys.own, *FIELDS)
                raw, own = await pipe.execute()
            return load(self._session, _text(raw), [_text(value) for value in own]).found.plan

        return await self._calls.do(once)

    async def log(self, *, since: int = 0, limit: int | None = None, step_id: str | None = None) -> list[LogRow]:
        """Return what the log keeps of the session, the newest last; see `BaseStore.log`."""

        async def once(_: Waiting) -> list[LogRow]:
            async with self._pipeline() as pipe:
                pipe.execute_command('LRANGE', self._keys.log, 0, -1)
                (entries,) = await pipe.execute()
            rows = (row for entry in entries for row in load_entry(_text(entry) or '')[0])
            return chosen(rows, since=since, limit=limit, step_id=step_id)

        return await self._calls.do(once)

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit` in one transaction; see `BaseStore.update`. It runs again when somebody else wrote meanwhile."""
        call = _Call(edit, clean(actor), clean(label), now, None if key is None else clean(key))
        change = await self._calls.do(lambda waiting: self._transact(call, waiting))
        await self._announce(change, label)
        return change

    async def _transact(self, call: _Call, waiting: Waiting) -> Change:
        """Read, decide and write what nobody else touched in between."""
        async with self._pipeline() as pipe:
            await pipe.watch(self._keys.steps, self._keys.own)
            raw = _text(await pipe.execute_command('GET', self._keys.steps))
            fields = FIELDS if call.key is None else (*FIELDS, reply_field(call.key))
            own = [_text(value) for value in await pipe.execute_command('HMGET', self._keys.own, *fields)]
            document = load(self._session, raw, own[: len(FIELDS)])
            stored = document.found
            if call.key is not None and (reply := own[-1]) is not None:
                return load_reply(reply, stored.plan)
            change = decide(call.edit, stored.base)
            if call.key is None and change.after == change.before:
                return replace(change, before=stored.plan, after=stored.plan)
            commands = await self._commands(pipe, document, raw, change, call)
            pipe.multi()
            for command in commands:
                pipe.execute_command(*command)
            waiting.unconfirmed = True
            try:
                await pipe.execute()
            except Exception as error:
                if 'WatchError' in _names(error) and not _is_lost(error):
                    raise Interfered from None
                raise
        return change

    async def _commands(
        self, pipe: RedisPipeline, document: Document, raw: str | None, change: Change, call: _Call
    ) -> list[tuple[str | int, ...]]:
        """Return what stores a change. What still has to be looked at for it is read here."""
        stored, keys = document.found, self._keys
        rows = [] if stored.other is None else log_rows(stored.other, actor=OTHER, operation='write', at=call.now)
        rows += log_rows(change, actor=call.actor, operation=call.label, at=call.now)
        unread = {problem.id: document.unread[problem.id] for problem in change.after.problems}
        text = dump_steps(change.after.steps, unread)
        entries = [dump_entry(rows, call.key)] if rows or call.key is not None else []
        oldest = await self._oldest(pipe, document.logged)
        logged = document.logged - len(oldest) + len(entries)
        fields = dump(change.after, text, logged=logged, written_by=planctl.__version__)
        if call.key is not None:
            fields[reply_field(call.key)] = dump_reply(change)
        changed = [(name, value) for name, value in fields.items() if document.written.get(name) != value]
        forgotten = [reply_field(key) for entry in oldest if (key := load_entry(entry)[1]) is not None]

        commands: list[tuple[str | int, ...]] = []
        if self._expire is not None:
            commands.append(('SET', keys.steps, text, 'EX', self._expire))
        elif text != raw:
            commands.append(('SET', keys.steps, text, 'KEEPTTL'))
        if changed:
            commands.append(('HSET', keys.own, *(part for pair in changed for part in pair)))
        if forgotten:
            commands.append(('HDEL', keys.own, *forgotten))
        if oldest:
            commands.append(('LTRIM', keys.log, len(oldest), -1))
        commands.extend(('RPUSH', keys.log, entry) for entry in entries)
        if self._expire is not None:
            commands.extend(('EXPIRE', key, self._expire) for key in (keys.own, keys.log))
        elif not document.ours or not document.logged:
            # Another program gave the list its time, or ours has none yet: both go at the same moment.
            left = int(await pipe.execute_command('PTTL', keys.steps))
            if left > 0:
                commands.extend(('PEXPIRE', key, left) for key in (keys.own, keys.log))
        return commands

    @asynccontextmanager
    async def _pipeline(self) -> AsyncGenerator[RedisPipeline]:
        pipe = self._client.pipeline(transaction=True)
        try:
            yield pipe
        finally:
            # It lets go of what it watches, for which it waits for an answer.
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await pipe.reset()

    async def _oldest(self, pipe: RedisPipeline, logged: int) -> list[str]:
        """Return the entries that have to go from the log."""
        # Some more may gather until they go together, so that not every write has to look for the oldest.
        if logged < self._log_limit * 1.1:
            return []
        entries = await pipe.execute_command('LRANGE', self._keys.log, 0, logged - self._log_limit)
        return [_text(entry) or '' for entry in entries]


@dataclass(frozen=True, slots=True)
class _Call:
    edit: EditFunction
    actor: str
    label: str
    now: float
    key: str | None


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    assert isinstance(value, bytes)
    return value.decode()


def _names(error: BaseException | None) -> set[str]:
    return driver_names(error, 'redis', 'valkey')


_NOT_LET_IN = {'AuthenticationError', 'AuthorizationError'}
"""Which redis-py takes for connections that failed."""


def _is_lost(error: Exception) -> bool:
    """Whether the connection is gone, or was gone before.

    A connection that is lost while it watches is a `WatchError` too, with the cause as its context.
    """
    names = _names(error)
    if 'WatchError' in names and not error.__suppress_context__:
        names |= _names(error.__context__)
    if names & _NOT_LET_IN:
        return False
    return bool(names & {'ConnectionError', 'TimeoutError'}) or is_network_error(error)


def _typed(error: Exception) -> StorageError | None:
    """Return the error that planctl raises for one of the driver's; `None` when it is not the driver's."""
    # Before what the server said, redis-py repeats the command, and with it the plan.
    said = str(error).rpartition('of pipeline caused error: ')[2].strip('("\',)')
    reason = clean(said.partition('\n')[0])[:300] or type(error).__name__
    names = _names(error)
    if isinstance(error, UnicodeDecodeError):
        return DamagedStore('what is stored of this plan is not UTF-8')
    if names & _NOT_LET_IN:
        return StorageError(f'Redis refused: {reason}')
    if _is_lost(error) or 'ReadOnlyError' in names:
        return StoreUnavailable(f'the connection to Redis failed: {reason}')
    if 'WRONGTYPE' in reason and names:
        return DamagedStore(f'a key of this plan holds something else: {reason}')
    return StorageError(f'Redis refused: {reason}') if names else None
