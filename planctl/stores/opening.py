"""Databases on servers, by URL: the one place that opens them for callers that have no pool or client of their own.

No error that leaves here holds the password of the URL, nor do the errors that caused it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from planctl.errors import DriverMissing, InputError, PlanctlError, StorageError, StoreUnavailable
from planctl.locate import Place
from planctl.plan import Plan
from planctl.sanitize import clean
from planctl.stores.base import BaseStore

T = TypeVar('T')

WAIT = 10.0
"""Seconds to wait for a server to let us in."""


def run(place: Place, session: str, work: Callable[[BaseStore], Coroutine[Any, Any, T]]) -> T:
    """Open the session at the place in an event loop of its own, and return what `work` returns."""

    async def opened() -> T:
        async with open_store(place, session) as store:
            return await work(store)

    return asyncio.run(opened())


@contextmanager
def reading(place: Place, session: str) -> Generator[Callable[[], Plan]]:
    """Hold a connection open and yield a function that reads the plan through it."""
    with asyncio.Runner() as runner:
        opened = open_store(place, session)
        store = runner.run(opened.__aenter__())
        try:
            yield lambda: runner.run(store.read())
        finally:
            runner.run(opened.__aexit__(None, None, None))


@asynccontextmanager
async def open_store(place: Place, session: str) -> AsyncGenerator[BaseStore]:
    """Connect to the server that the place names, yield the store of a session, and disconnect.

    Raises `DriverMissing`, which names the extra to install, and `StoreUnavailable`.
    """
    assert place.url is not None
    is_redis = place.url.lower().startswith('redis')
    opening = (_redis if is_redis else _postgres)(place, place.url, session)
    try:
        async with opening as store:
            yield store
    except PlanctlError as error:
        secrets = _secrets(place.url)
        if any(secret in text for secret in secrets for text in _texts(error)):
            hint = None if error.hint is None else _hidden(error.hint, secrets)
            clone = type(error)(_hidden(error.message, secrets), ids=error.ids, hint=hint)
            raise clone from None
        raise


@asynccontextmanager
async def _postgres(place: Place, url: str, session: str) -> AsyncGenerator[BaseStore]:
    try:
        import asyncpg  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise _missing('postgresql', 'asyncpg', 'postgres') from None
    from planctl.stores.postgres import PostgresPlanStore

    async def leave(connection: Any) -> None:
        """Leave it as it is: nothing of ours outlasts a transaction, and a reset is asked of the server each time.

        It also goes on when a call was cancelled, into a pool that is gone by then.
        """

    # One command is one connection, and a pooler in front of the server may not know prepared statements.
    creating: Any = asyncpg.create_pool(  # pyright: ignore[reportUnknownMemberType]
        url, min_size=0, max_size=2, timeout=WAIT, command_timeout=WAIT, statement_cache_size=0, reset=leave
    )
    try:
        pool = await creating
        async with pool.acquire():  # One that keeps a connection ready complains when it cannot, beside our own words.
            pass
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _unreachable(place, error) from None
    except ValueError as error:
        raise InputError(f'{place.path} is no URL that Postgres understands: {_said(place, error)}') from None
    try:
        yield PostgresPlanStore(pool, session=session, table=place.table)
    finally:
        pool.terminate()


@asynccontextmanager
async def _redis(place: Place, url: str, session: str) -> AsyncGenerator[BaseStore]:
    try:
        from redis import RedisError
        from redis.asyncio import Redis
    except ImportError:
        raise _missing('redis', 'redis', 'redis') from None
    from planctl.stores.redis import RedisPlanStore

    try:
        made: Any = Redis.from_url(url, socket_connect_timeout=WAIT)  # pyright: ignore[reportUnknownMemberType]
        # An option that there is not would come out of the first call, in the middle of somebody's work.
        made.connection_pool.connection_class(**made.connection_pool.connection_kwargs)
    except (TypeError, ValueError, RedisError) as error:
        raise InputError(f'{place.path} is no URL that Redis understands: {_said(place, error)}') from None
    try:
        yield RedisPlanStore(made, session=session, key_prefix=place.table)
    except RedisError as error:
        raise _unreachable(place, error) from None
    finally:
        await made.aclose()


def _missing(scheme: str, driver: str, extra: str) -> DriverMissing:
    return DriverMissing(
        f'a database at {scheme}:// needs the package {driver}, which is not installed',
        hint=f"pip install 'planctl[{extra}]'",
    )


def _unreachable(place: Place, error: BaseException) -> StorageError:
    message = f'{place.path} cannot be reached: {_said(place, error)}'
    # A server that answered, and that is not just busy, says the same the next time: no such database, user, password.
    answered = getattr(error, 'sqlstate', None) or ''
    may_pass = not answered or answered.startswith(('08', '53', '57'))
    return StoreUnavailable(message) if may_pass else StorageError(message)


def _said(place: Place, error: BaseException) -> str:
    text = clean(str(error).partition('\n')[0]) or type(error).__name__
    if isinstance(error, TimeoutError):
        text = f'no answer in {WAIT:g} seconds'
    return _hidden(text, _secrets(place.url or ''))


def _secrets(url: str) -> set[str]:
    """Return the password of a URL, as it is written and as it is meant."""
    rest, _, query = url.partition('?')
    found = [value for key, value in parse_qsl(query) if 'password' in key]
    login = rest.partition('://')[2].rpartition('@')[0]
    found.append(login.partition(':')[2])
    with suppress(ValueError):
        found.append(urlsplit(url).password or '')
    return {form for secret in found for form in (secret, unquote(secret)) if form}


def _hidden(text: str, secrets: set[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, '***')
    return text


def _texts(error: BaseException | None) -> list[str]:
    """Return what an error and those that caused it say. One may have caused another that caused it again."""
    found: dict[int, str] = {}
    while error is not None and id(error) not in found:
        found[id(error)] = f'{error} {getattr(error, "hint", None) or ""}'
        error = error.__cause__ or error.__context__
    return list(found.values())
