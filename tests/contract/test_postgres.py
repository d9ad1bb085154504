"""What is particular to Postgres: tables, locks, isolation, poolers, and what can go wrong with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from replay import replay, without_leases
from servers import Place, PostgresServer, Proxy, aside

from planctl import PlanItem, TaskStatus, apply, read
from planctl.errors import DamagedStore, InvalidName, NewerSchema, StorageError, StoreUnavailable
from planctl.locate import parse
from planctl.operations import Add, Describe, Edit, Remove, SetStatus
from planctl.plan import Plan
from planctl.stores import opening
from planctl.stores.postgres import PostgresConnection, PostgresPlanStore, PostgresPool
from planctl.stores.postgres_tables import Tables
from planctl.testing.contract import Check, Store, checks

# A pool belongs to one event loop.
CHECKS = checks(without=['loops'])
POOLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    'default': ({}, {}),
    # A pooler in transaction mode, the least that a pool can be, and a table whose name is a word of SQL.
    'pooler': ({'statement_cache_size': 0, 'max_size': 1}, {'table': 'Order'}),
}


@pytest.mark.parametrize('check', CHECKS, ids=str)
@pytest.mark.parametrize('kind', POOLS)
async def test_contract(postgres: Place, kind: str, check: Check) -> None:
    pool_options, store_options = POOLS[kind]
    async with postgres.connect(**pool_options) as pool:

        async def open_store(session: str) -> Store:
            return postgres.store(pool, session, **store_options)

        await check(open_store)
        assert pool.get_idle_size() == pool.get_size()


@asynccontextmanager
async def opened(place: Place, **options: Any) -> AsyncIterator[tuple[Any, PostgresPlanStore]]:
    async with place.connect(max_size=8) as pool:
        yield pool, place.store(pool, **options)


async def query(pool: Any, text: str, *arguments: object) -> list[tuple[Any, ...]]:
    async with pool.acquire() as connection:
        return [tuple(row) for row in await connection.fetch(text, *arguments)]


async def test_asyncpg_is_what_the_protocols_ask_for(postgres: Place) -> None:
    async with postgres.connect() as pool, pool.acquire() as connection:
        assert isinstance(pool, PostgresPool)
        assert isinstance(connection, PostgresConnection)


# --- Tables -----------------------------------------------------------------------------------------------------


async def test_the_shared_table_is_the_one_of_the_harness(postgres: Place) -> None:
    columns = (
        'SELECT column_name, data_type, is_nullable FROM information_schema.columns '
        "WHERE table_schema = $1 AND table_name = 'plan_items' ORDER BY ordinal_position"
    )
    async with opened(postgres) as (pool, ours):
        await ours.add_item(PlanItem(id='a', content='ours', depends_on=['b']))
        made_by_us = await query(pool, columns, postgres.room)
        row = await query(pool, 'SELECT * FROM plan_items')
        assert row == [('default', 0, 'a', 'ours', 'pending', '', None, '["b"]')]
        await query(pool, 'DROP TABLE plan_items')
        await postgres.theirs(pool).get_items()
        assert await query(pool, columns, postgres.room) == made_by_us
        assert len(made_by_us) == 8


async def test_a_plan_of_the_harness_opens_and_stays_as_it_is_until_it_is_changed(postgres: Place) -> None:
    planning = pytest.importorskip('pydantic_ai_harness.planning')
    async with opened(postgres) as (pool, ours):
        theirs = postgres.theirs(pool)
        for n in range(3):
            await theirs.add_item(planning.PlanItem(id=f'{n + 7}', content=f'step {n}'))
        tables = 'SELECT tablename FROM pg_tables WHERE schemaname = $1'
        assert [step.content for step in (await read(ours)).steps] == ['step 0', 'step 1', 'step 2']
        assert await query(pool, tables, postgres.room) == [('plan_items',)]
        change = await apply(ours, Add('ours'))
        assert change.created[0].id == '10'
        assert {name for (name,) in await query(pool, tables, postgres.room)} == {
            *('plan_items', 'planctl_schema', 'planctl_sessions', 'planctl_steps', 'planctl_log', 'planctl_replies')
        }


async def test_only_what_changed_is_written(postgres: Place) -> None:
    async with opened(postgres) as (pool, store):
        await apply(store, *(Add(f'step {n}') for n in range(20)))
        versions = 'SELECT id, xmin::text FROM {} ORDER BY id'
        before = {name: await query(pool, versions.format(name)) for name in ('plan_items', 'planctl_steps')}
        await apply(store, SetStatus('7', TaskStatus.in_progress))
        for name, rows in before.items():
            changed = set(await query(pool, versions.format(name))) - set(rows)
            assert [step_id for step_id, _ in changed] == ['7']
        before = {name: await query(pool, versions.format(name)) for name in ('plan_items', 'planctl_steps')}
        await apply(store, Edit('9', content='edited'), Remove('3'), Add('new'))
        for name, rows in before.items():
            changed = set(await query(pool, versions.format(name))) - set(rows)
            assert {step_id for step_id, _ in changed} == {'9', '21'}


async def test_a_note_touches_nothing_that_others_read(postgres: Place) -> None:
    async with opened(postgres) as (pool, store):
        await apply(store, Add('step'))
        before = await query(pool, 'SELECT *, xmin::text FROM plan_items')
        await apply(store, Describe(objective='o', brief='b'))
        assert await query(pool, 'SELECT *, xmin::text FROM plan_items') == before


async def test_positions_that_two_rows_share_are_repaired(postgres: Place) -> None:
    async with opened(postgres) as (pool, store):
        await apply(store, Add('a'), Add('b'), Add('c'))
        await query(pool, 'UPDATE plan_items SET seq = 1')
        order = [step.id for step in (await read(store)).steps]
        await apply(store, Add('d'))
        rows = await query(pool, 'SELECT id, seq FROM plan_items ORDER BY seq')
        assert [step_id for step_id, _ in rows] == [*order, '4']
        assert len({seq for _, seq in rows}) == 4


async def test_two_tables_of_one_database_and_session_are_two_plans(postgres: Place) -> None:
    async with opened(postgres) as (pool, one):
        other = postgres.store(pool, table='another')
        await apply(one, Add('one'))
        assert await read(other) == Plan()
        await apply(other, Add('other'))
        assert [step.content for step in (await read(one)).steps] == ['one']
        same = postgres.store(pool, table='ANOTHER')
        assert await read(same) == await read(other)


@pytest.mark.parametrize('name', ['', '1a', 'a b', 'a"b', 'x' * 64, 'planctl_steps', 'a;b', 'é'])
async def test_table_names_that_are_refused(postgres: Place, name: str) -> None:
    async with postgres.connect() as pool:
        with pytest.raises(InvalidName):
            postgres.store(pool, table=name)


async def test_tables_that_are_dropped_under_our_feet_are_made_again(postgres: Place) -> None:
    async with opened(postgres) as (pool, store):
        await apply(store, Add('lost'))
        await query(pool, f'DROP SCHEMA {postgres.room} CASCADE')
        await query(pool, f'CREATE SCHEMA {postgres.room}')
        assert await read(store) == Plan()
        await apply(store, Add('new'))
        assert [step.content for step in (await read(store)).steps] == ['new']
        await query(pool, 'DROP TABLE plan_items')
        assert await read(store) == Plan()
        change = await apply(store, Add('after'))
        assert [step.content for step in change.after.steps] == ['after']
        assert [row.actor for row in await store.log()] == ['python', 'other', 'python']


async def test_a_role_that_may_not_create_tables_can_use_them(postgres: Place) -> None:
    async with opened(postgres) as (pool, store):
        await apply(store, Add('first'))
        role = f'{postgres.room}_role'
        await query(pool, f'CREATE ROLE {role}')
        try:
            for grant in ('USAGE ON SCHEMA', 'SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA'):
                await query(pool, f'GRANT {grant} {postgres.room} TO {role}')
            async with postgres.connect(server_settings={'role': role}) as limited:
                await apply(postgres.store(limited), Add('second'))
                with pytest.raises(StorageError, match='permission denied'):
                    await apply(postgres.store(limited, table='elsewhere'), Add('third'))
            assert len((await read(store)).steps) == 2
        finally:
            await query(pool, f'DROP OWNED BY {role}')
            await query(pool, f'DROP ROLE {role}')


# --- Old, new, broken -------------------------------------------------------------------------------------------


async def test_tables_of_a_newer_planctl_are_refused(postgres: Place) -> None:
    async with opened(postgres) as (pool, store):
        await apply(store, Add('first'))
        await query(pool, "UPDATE planctl_schema SET version = 2, written_by = '7.0'")
        for call in (read(store), apply(store, Add('second'))):
            with pytest.raises(NewerSchema) as caught:
                await call
            assert caught.value.hint == 'install planctl 7.0 or newer'
        await query(pool, 'DELETE FROM planctl_schema')
        for call in (store.read(), apply(store, Add('x'))):
            with pytest.raises(DamagedStore, match='does not say of which version'):
                await call
        await query(pool, "INSERT INTO planctl_schema VALUES (1, 'x')")
        assert len((await read(store)).steps) == 1


@pytest.mark.parametrize(
    'table',
    ['CREATE TABLE plan_items (id int)', 'CREATE TABLE plan_items (session int, seq text, id int, content int)'],
)
async def test_a_table_of_another_program_is_refused_and_left_alone(postgres: Place, table: str) -> None:
    async with opened(postgres) as (pool, store):
        await query(pool, table)
        for call in (read(store), apply(store, Add('step'))):
            with pytest.raises(DamagedStore):
                await call
        assert await query(pool, 'SELECT * FROM plan_items') == []
        assert await query(pool, 'SELECT count(*) FROM pg_tables WHERE schemaname = $1', postgres.room) == [(1,)]


# --- Waiting ----------------------------------------------------------------------------------------------------


async def test_a_writer_that_holds_the_plan_delays_writers_but_no_reader(postgres: Place) -> None:
    async with opened(postgres, wait=0.3) as (pool, impatient):
        patient = postgres.store(pool)
        await apply(patient, Add('first'))
        async with pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            lock = Tables('plan_items', 'default').lock
            await connection.execute(lock.text, *lock.arguments)
            writing = asyncio.create_task(apply(patient, Add('second')))
            began = time.perf_counter()
            with pytest.raises(StoreUnavailable, match=r'another writer did not let go of this plan within 0\.3 sec'):
                await apply(impatient, Add('never'))
            assert time.perf_counter() - began < 8
            assert len((await read(impatient)).steps) == 1
            await apply(postgres.store(pool, 'another'), Add('not held up'))
            assert not writing.done()
            await transaction.rollback()
        await writing
        assert [step.content for step in (await read(patient)).steps] == ['first', 'second']
        assert [
            state
            for (state,) in await query(
                pool,
                "SELECT state FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in %'",
                postgres.room,
            )
        ] == []


async def test_a_pool_without_a_free_connection(postgres: Place) -> None:
    async with postgres.connect(max_size=1) as pool:
        store = postgres.store(pool, wait=0.2)
        async with pool.acquire():
            with pytest.raises(StoreUnavailable, match='the pool had no connection to lend'):
                await read(store)
        await apply(store, Add('first'))


async def test_fifty_tasks_share_one_connection(postgres: Place) -> None:
    async with postgres.connect(max_size=1) as pool:
        stores = [postgres.store(pool) for _ in range(5)]
        await asyncio.gather(*(apply(stores[n % 5], Add(f'{n}')) for n in range(50)))
        plan = await read(stores[0])
        assert sorted(int(step.content) for step in plan.steps) == [*range(50)]
        assert plan.revision == 50


@pytest.mark.parametrize('isolation', ['repeatable read', 'serializable'])
async def test_any_default_isolation_will_do(postgres: Place, isolation: str) -> None:
    settings = {'default_transaction_isolation': isolation}
    async with postgres.connect(max_size=8, server_settings=settings) as pool:
        stores = [postgres.store(pool) for _ in range(8)]
        await asyncio.gather(
            *(apply(store, Add('a'), Edit('1', content='b') if n else Add('c')) for n, store in enumerate(stores))
        )
        plan = await read(stores[0])
        assert plan.revision == 8
        assert replay(await stores[0].log()) == plan.steps


async def test_nothing_of_a_session_is_left_behind(postgres: Place) -> None:
    """A pooler in transaction mode may give each transaction another server process."""
    async with postgres.connect(max_size=1, statement_cache_size=0) as pool:
        store = postgres.store(pool)
        async with pool.acquire() as connection:
            settings = await connection.fetch("SELECT name, setting FROM pg_settings WHERE source = 'session'")

            class Pool:
                @asynccontextmanager
                async def acquire(self) -> AsyncIterator[Any]:
                    yield connection  # Without the reset that asyncpg does when a connection is given back.

            direct = PostgresPlanStore(Pool())
            await apply(direct, Add('first'), key='k')
            await read(direct)
            await direct.log()
            assert await connection.fetchval('SELECT count(*) FROM pg_prepared_statements') == 0
            assert await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
            assert await connection.fetchval('SELECT count(*) FROM pg_listening_channels()') == 0
            now = await connection.fetch("SELECT name, setting FROM pg_settings WHERE source = 'session'")
            assert now == settings
        assert len((await read(store)).steps) == 1


async def test_a_command_asks_nothing_more_of_the_server_when_its_change_is_stored(postgres: Place) -> None:
    """What a pool does to reset a connection would go on after Ctrl-C, and complain of the connection that is gone."""
    async with opening.open_store(parse(f'{postgres.db}&application_name={postgres.room}c'), 's') as store:
        await apply(store, Add('first'))
        async with postgres.connect() as pool:
            query = 'SELECT query FROM pg_stat_activity WHERE application_name = $1'
            assert [row['query'] for row in await pool.fetch(query, f'{postgres.room}c')] == ['COMMIT;']


# --- Others between our read and our write ----------------------------------------------------------------------


def meddle(place: Place, times: int, *statements: str) -> Any:
    """Return an operation that lets another program write each of the first times that it is decided."""
    left = times

    async def write() -> None:
        connection = await asyncpg.connect(place.url, server_settings={'search_path': place.room})
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    def decide(plan: Plan) -> list[Any]:
        nonlocal left
        if left:
            left -= 1
            aside(write())
        return [SetStatus('1', TaskStatus.completed), Add(f'saw {plan.step("1").content}')]

    return decide


async def test_a_row_that_another_program_changes_meanwhile_is_read_again(postgres: Place) -> None:
    async with opened(postgres) as (_, store):
        await apply(store, Add('one'), Add('two'))
        change = await apply(
            store, meddle(postgres, 3, "UPDATE plan_items SET content = content || '!' WHERE id = '1'")
        )
        assert change.after.step('1').content == 'one!!!'
        assert change.after.steps[-1].content == 'saw one!!!'
        assert await read(store) == change.after
        assert [row.actor for row in await store.log()] == ['python', 'python', 'other', 'python', 'python']


async def test_a_row_that_another_program_removes_meanwhile_is_seen(postgres: Place) -> None:
    async with opened(postgres) as (_, store):
        await apply(store, Add('one'), Add('two'))
        with pytest.raises(Exception, match='no step'):
            await apply(store, meddle(postgres, 1, "DELETE FROM plan_items WHERE id = '1'"))
        assert [step.id for step in (await read(store)).steps] == ['2']


async def test_an_id_that_another_program_takes_meanwhile_is_given_to_it(postgres: Place) -> None:
    async with opened(postgres) as (_, store):
        await apply(store, Add('one'))
        taken = "INSERT INTO plan_items VALUES ('default', 1, '2', 'theirs', 'pending', '', NULL, '[]')"
        change = await apply(store, meddle(postgres, 1, taken))
        assert [(step.id, step.content) for step in change.after.steps] == [
            *(('1', 'one'), ('2', 'theirs'), ('3', 'saw one')),
        ]


async def test_somebody_who_never_stops_meddling(postgres: Place) -> None:
    async with opened(postgres, wait=0.5) as (_, store):
        await apply(store, Add('one'))
        with pytest.raises(StoreUnavailable, match='left no moment for us'):
            await apply(store, meddle(postgres, 10_000, "UPDATE plan_items SET content = content || '!'"))
        await apply(store, Add('two'))


# --- Faults -----------------------------------------------------------------------------------------------------


async def trap(pool: Any, name: str, when: str) -> None:
    """Let the server end the connection itself when the log is written, or at the commit."""
    await query(
        pool,
        f'CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS '
        '$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$',
    )
    deferred = 'DEFERRABLE INITIALLY DEFERRED' if when == 'commit' else ''
    await query(
        pool,
        f'CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON planctl_log {deferred} '
        f'FOR EACH ROW EXECUTE FUNCTION {name}()',
    )


@pytest.mark.parametrize('when', ['write', 'commit'])
async def test_a_connection_dropped_in_the_middle_of_a_transaction(postgres: Place, when: str) -> None:
    async with opened(postgres) as (pool, store):
        await apply(store, Add('one'))
        before = await read(store)
        await trap(pool, 'trap', when)
        with pytest.raises(StoreUnavailable) as caught:
            await apply(postgres.store(pool), Add('two'), SetStatus('1', TaskStatus.completed), key='k')
        unsure = 'may be stored or not' in str(caught.value)
        assert unsure == (caught.value.hint is not None) == (when == 'commit')
        assert await read(store) == before
        await query(pool, 'DROP TRIGGER trap ON planctl_log')
        change = await apply(store, Add('two'), SetStatus('1', TaskStatus.completed), key='k')
        assert not change.replayed
        assert replay(await store.log()) == without_leases(await read(store)) == change.after.steps


async def test_a_commit_whose_answer_is_lost_is_said_to_be_unsure_and_not_done_twice(
    postgres_server: PostgresServer, postgres: Place
) -> None:
    if not postgres_server.own:
        pytest.skip('only the way to a server that the tests started is cut, not to one that PLANCTL_TEST_… names')
    folder = postgres.url.partition('host=')[2]
    socket = next(path for path in Path(folder).iterdir() if path.name.startswith('.s.PGSQL.') and path.is_socket())
    async with Proxy(socket) as proxy:
        there = replace(postgres, url=postgres.url.replace(folder, str(proxy.path.parent)))
        async with there.connect(max_size=1) as pool:
            store = there.store(pool)
            await apply(store, Add('one'))
            proxy.cut_after(b'COMMIT;')
            with pytest.raises(StoreUnavailable, match='the change may be stored or not'):
                await apply(store, Add('two'), key='k')
            again = await apply(store, Add('two'), key='k')
            assert again.replayed
            assert [step.content for step in (await read(store)).steps] == ['one', 'two']


async def test_a_server_that_no_longer_answers_is_not_waited_for(
    postgres_server: PostgresServer, postgres: Place
) -> None:
    if not postgres_server.own:
        pytest.skip('only the way to a server that the tests started is cut, not to one that PLANCTL_TEST_… names')
    folder = postgres.url.partition('host=')[2]
    socket = next(path for path in Path(folder).iterdir() if path.name.startswith('.s.PGSQL.') and path.is_socket())
    async with Proxy(socket) as proxy:
        there = replace(postgres, url=postgres.url.replace(folder, str(proxy.path.parent)))
        async with there.connect(max_size=1) as pool:
            store = there.store(pool, wait=0.3)
            await apply(store, Add('one'))
            proxy.hold()
            began = time.perf_counter()
            with pytest.raises(StoreUnavailable, match=r'did not answer within 0\.3 seconds'):
                await apply(store, Add('two'))
            assert time.perf_counter() - began < 5
            proxy.release()
            await apply(store, Add('three'))
            assert [step.content for step in (await read(store)).steps] == ['one', 'three']
