"""What is particular to Redis: keys and slots, expiry, a capped log, conflicts, and what can go wrong with them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from replay import replay
from servers import Place, Proxy, ValkeyServer, new_place

from planctl import PlanItem, TaskStatus, apply, read
from planctl.errors import DamagedStore, InputError, InvalidName, NewerSchema, StorageError, StoreUnavailable
from planctl.operations import Add, Claim, Describe, Edit, Renew, SetStatus
from planctl.plan import Plan
from planctl.stores.redis import RedisClient, RedisPipeline, RedisPlanStore
from planctl.stores.redis_keys import Keys, slot_of
from planctl.testing.contract import Check, Store, checks

# A client belongs to one event loop.
CHECKS = checks(without=['loops'])


@asynccontextmanager
async def redis_client(url: str, **options: Any) -> AsyncIterator[Any]:
    from redis.asyncio import Redis as AsyncRedis

    async with AsyncRedis.from_url(url, **options) as client:
        yield client


@asynccontextmanager
async def valkey_client(url: str) -> AsyncIterator[Any]:
    valkey = pytest.importorskip('valkey.asyncio')
    client = valkey.Valkey.from_url(url)
    yield client
    await client.aclose()


CLIENTS = {
    'bytes': redis_client,
    'text': lambda url: redis_client(url, decode_responses=True, protocol=2),
    'valkey-py': valkey_client,
}


@pytest.mark.parametrize('check', CHECKS, ids=str)
@pytest.mark.parametrize('kind', CLIENTS)
async def test_contract(valkey: Place, kind: str, check: Check) -> None:
    async with CLIENTS[kind](valkey.url) as client:

        async def open_store(session: str) -> Store:
            return valkey.store(client, session)

        await check(open_store)


@asynccontextmanager
async def opened(place: Place, **options: Any) -> AsyncIterator[tuple[Any, RedisPlanStore]]:
    async with place.connect(decode_responses=True) as client:
        yield client, place.store(client, **options)


async def test_redis_py_is_what_the_protocols_ask_for(valkey: Place) -> None:
    async with valkey.connect() as client:
        assert isinstance(client, RedisClient)
        assert isinstance(client.pipeline(), RedisPipeline)


# --- Keys and slots ---------------------------------------------------------------------------------------------

NAMES = ['default', 'a}b', '}', '}x', '}}', '{', '{}', '{a}', '}{', '}{a}', 'a{b', '日本', ' ', 'x' * 200]


@pytest.mark.parametrize('prefix', ['plan', '', 'a:b', 'a{b', '{app}:plan', 'a}b', 'a}{b'])
@pytest.mark.parametrize('name', NAMES)
async def test_the_list_is_where_the_harness_has_it_and_all_is_in_one_slot(
    valkey: Place, prefix: str, name: str
) -> None:
    planning = pytest.importorskip('pydantic_ai_harness.planning')
    keys = Keys(prefix, name)
    async with valkey.connect() as client:
        assert keys.steps == planning.RedisPlanStore(client, session=name, key_prefix=prefix)._key
    assert len({keys.steps, keys.own, keys.log}) == 3
    with Redis.from_url(valkey.url) as client:
        slots = [client.cluster('KEYSLOT', key) for key in (keys.steps, keys.own, keys.log)]
    assert len(set(slots)) == 1
    assert slots[0] == slot_of(keys.steps)


@given(
    st.lists(st.text('{}:a', min_size=1, max_size=6), min_size=2, max_size=2, unique=True), st.text('{}:a', max_size=4)
)
def test_keys_of_different_sessions_never_meet(sessions: list[str], prefix: str) -> None:
    try:
        first, second = (Keys(prefix, session) for session in sessions)
    except InvalidName:
        return
    assert not {first.steps, first.own, first.log} & {second.steps, second.own, second.log}
    assert len({slot_of(key) for key in (first.steps, first.own, first.log)}) == 1


@pytest.mark.parametrize('prefix', ['{}', 'a{}b', 'a\nb', '\ud800'])
async def test_prefixes_that_are_refused(valkey: Place, prefix: str) -> None:
    async with valkey.connect() as client:
        with pytest.raises(InvalidName):
            valkey.store(client, key_prefix=prefix)


async def test_a_cluster_takes_every_transaction() -> None:
    """A node with cluster mode refuses a transaction whose keys are not in one slot."""
    server = ValkeyServer(**{'cluster-enabled': 'yes'})
    try:
        with Redis.from_url(server.url) as admin:
            admin.execute_command('CLUSTER', 'ADDSLOTSRANGE', 0, 16383)
            while b'cluster_state:ok' not in admin.execute_command('CLUSTER', 'INFO', NEVER_DECODE=True):
                await asyncio.sleep(0.01)
        with new_place(server) as place:
            async with place.connect() as client:
                for name in NAMES:
                    store = place.store(client, name)
                    await apply(store, Add('one'), key='k')
                    await apply(store, SetStatus('1', TaskStatus.completed))
                    assert replay(await store.log()) == (await read(store)).steps
    finally:
        server.close()


async def test_the_list_is_written_as_the_harness_writes_it(valkey: Place) -> None:
    planning = pytest.importorskip('pydantic_ai_harness.planning')
    async with opened(valkey) as (client, store):
        fields: dict[str, Any] = {'id': 'a', 'content': 'é "x" 日本', 'active_form': 'doing', 'parent_id': 'b'}
        more: dict[str, Any] = {'id': 'b', 'content': 'b', 'status': 'in_progress', 'depends_on': []}
        await store.set_items([PlanItem(**fields), PlanItem(**more)])
        ours = await client.get(f'{valkey.room}:{{default}}')
        theirs = planning.RedisPlanStore(client, key_prefix=valkey.room)
        await theirs.set_items([planning.PlanItem(**fields), planning.PlanItem(**more)])
        assert await client.get(f'{valkey.room}:{{default}}') == ours
        assert (await read(store)).revision == 1
        assert not (await apply(store, lambda plan: [])).changed


async def test_only_what_changed_is_written(valkey: Place) -> None:
    async with opened(valkey) as (client, store):
        await apply(store, Add('step'), Describe(objective='o'))
        async with client.monitor() as monitor:
            await apply(store, Claim('me', 60, scope='session'))
            await apply(store, Describe(brief='b'))
            await client.echo('end')
            commands = []
            while (command := (await monitor.next_command())['command']) != 'ECHO end':
                commands.append(command.split(' ', 3)[:3])
        written = [(name, arguments[-1]) for name, *arguments in commands if name in ('SET', 'HSET', 'RPUSH')]
        assert [name for name, _ in written] == ['HSET', 'HSET', 'RPUSH']


# --- Expiry -----------------------------------------------------------------------------------------------------


async def times_to_live(client: Any, place: Place) -> list[int]:
    keys = Keys(place.room, 'default')
    return [await client.pexpiretime(key) for key in (keys.steps, keys.own, keys.log)]


async def test_every_write_lets_all_keys_live_as_long(valkey: Place) -> None:
    async with opened(valkey, expire_seconds=1000) as (client, store):
        seen: list[int] = []
        for operation in (
            Add('one'),
            Describe(objective='o'),
            Claim('me', 60, id='1'),
            Renew('me', 90, '1'),
            Edit('1', content='two'),
        ):
            await asyncio.sleep(0.002)
            await apply(store, operation)
            times = await times_to_live(client, valkey)
            assert len(set(times)) == 1
            assert 990_000 < times[0] - time.time() * 1000 <= 1_000_100
            seen.append(times[0])
        assert seen == sorted(set(seen))


async def test_a_session_expires_as_a_whole(valkey: Place) -> None:
    async with opened(valkey, expire_seconds=1) as (client, store):
        await apply(store, Add('one'), Describe(objective='o'), key='k')
        while (await read(store)).steps:
            assert (await read(store)).objective in ('o', '')
            await asyncio.sleep(0.02)
        assert await read(store) == Plan()
        assert [key async for key in client.scan_iter(match=f'{valkey.room}*')] == []
        change = await apply(store, Add('anew'), key='k')
        assert (change.after.revision, change.created[0].id, change.replayed) == (1, '1', False)


async def test_without_expiry_a_time_to_live_is_kept(valkey: Place) -> None:
    async with opened(valkey) as (client, store):
        await apply(store, Add('for ever'))
        assert await times_to_live(client, valkey) == [-1, -1, -1]
        expiring = valkey.store(client, expire_seconds=500)
        await apply(expiring, Add('for a while'))
        before = await times_to_live(client, valkey)
        await apply(store, Add('no longer than that'))
        assert await times_to_live(client, valkey) == before


async def test_what_we_add_to_a_list_that_expires_goes_with_it(valkey: Place) -> None:
    async with opened(valkey) as (client, store):
        item = {'id': 'a', 'content': 'theirs', 'status': 'pending', 'active_form': '', 'depends_on': []}
        await client.set(f'{valkey.room}:{{default}}', json.dumps([item]), ex=300)
        await apply(store, Claim('me', 60, scope='session'))
        await apply(store, Add('ours'))
        times = await times_to_live(client, valkey)
        assert min(times) > 0
        assert max(times) - min(times) < 100


@pytest.mark.parametrize('seconds', [0, -1, 1.5, True])
async def test_an_expiry_that_is_refused(valkey: Place, seconds: Any) -> None:
    async with valkey.connect() as client:
        with pytest.raises(InputError):
            valkey.store(client, expire_seconds=seconds)


# --- The log ----------------------------------------------------------------------------------------------------


async def test_the_log_keeps_the_last_transactions_and_their_replies(valkey: Place) -> None:
    async with opened(valkey, log_limit=50) as (client, store):
        for n in range(120):
            await apply(store, Add(f'{n}'), key=f'k{n}')
        revisions = [row.revision for row in await store.log()]
        assert revisions == [*range(revisions[0], 121)]
        assert 50 <= len(revisions) <= 55
        assert await client.llen(Keys(valkey.room, 'default').log) == len(revisions)
        kept = [name for name in await client.hkeys(Keys(valkey.room, 'default').own) if name.startswith('reply:')]
        assert {*kept} == {f'reply:k{n}' for n in range(120 - len(revisions), 120)}
        assert (await apply(store, Add('119'), key='k119')).replayed
        assert (await read(store)).revision == 120


# --- Conflicts --------------------------------------------------------------------------------------------------


def meddle(place: Place, times: int, command: Any) -> Any:
    """Return an operation that lets another program write each of the first times that it is decided."""
    left = times

    def decide(plan: Plan) -> list[Any]:
        nonlocal left
        if left:
            left -= 1
            with Redis.from_url(place.url) as client:
                command(client, left)
        return [Add(f'after {len(plan.steps)}')]

    return decide


async def test_twenty_conflicts_in_a_row(valkey: Place) -> None:
    key = f'{valkey.room}:{{default}}'

    def append(client: Any, n: int) -> None:
        items = [*json.loads(client.get(key)), {'id': f't{n}', 'content': 'theirs', 'status': 'pending'}]
        client.set(key, json.dumps(items))

    async with opened(valkey) as (_, store):
        await apply(store, Add('one'))
        change = await apply(store, meddle(valkey, 20, append))
        assert change.after.steps[-1].content == 'after 21'
        assert await read(store) == change.after
        assert [row.actor for row in await store.log()] == ['python', *(['other'] * 20), 'python']
        assert replay(await store.log()) == change.after.steps


async def test_a_conflict_over_what_is_ours_alone(valkey: Place) -> None:
    own = Keys(valkey.room, 'default').own
    async with opened(valkey) as (_, store):
        await apply(store, Add('one'))
        await apply(store, meddle(valkey, 5, lambda client, n: client.hset(own, 'unknown', n)))
        assert [step.content for step in (await read(store)).steps] == ['one', 'after 1']


async def test_somebody_who_never_stops_meddling(valkey: Place) -> None:
    own = Keys(valkey.room, 'default').own
    async with opened(valkey, wait=0.3) as (_, store):
        await apply(store, Add('one'))
        before = await read(store)
        began = time.perf_counter()
        with pytest.raises(StoreUnavailable, match=r'left no moment for us within 0\.3 seconds'):
            await apply(store, meddle(valkey, 100_000, lambda client, n: client.hset(own, 'unknown', n)))
        assert time.perf_counter() - began < 3
        assert await read(store) == before
        await apply(store, Add('two'))


async def test_a_conflict_while_an_unrelated_error_is_handled(valkey: Place) -> None:
    """The driver says of a lost connection what it says of a conflict, and tells them apart by the error before."""
    from redis.exceptions import ConnectionError as Lost

    own = Keys(valkey.room, 'default').own
    async with opened(valkey) as (_, store):
        await apply(store, Add('one'))
        try:
            raise Lost
        except Lost:
            await apply(store, meddle(valkey, 3, lambda client, n: client.hset(own, 'unknown', n)))
        assert len((await read(store)).steps) == 2


# --- Old, new, broken -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'stored',
    [
        *('', 'not JSON', '{}', '"text"', '[' * 100_000),
        b'\xff\xfe',
    ],
    ids=lambda stored: repr(stored)[:30],
)
@pytest.mark.parametrize('decode', [True, False])
async def test_a_list_that_is_none_is_refused_and_left_alone(valkey: Place, stored: Any, decode: bool) -> None:
    key = f'{valkey.room}:{{default}}'
    with Redis.from_url(valkey.url) as admin:
        admin.set(key, stored)
        async with valkey.connect(decode_responses=decode) as client:
            store = valkey.store(client)
            for call in (read(store), apply(store, Add('step'))):
                with pytest.raises(DamagedStore):
                    await call
            assert admin.get(key) == (stored if isinstance(stored, bytes) else stored.encode())
            admin.set(key, '[]')
            await apply(store, Add('step'))


async def test_keys_that_hold_something_else_are_refused_and_left_alone(valkey: Place) -> None:
    keys = Keys(valkey.room, 'default')
    async with opened(valkey) as (client, store):
        for key in (keys.steps, keys.own):
            await client.rpush(key, 'theirs')
            for call in (read(store), apply(store, Add('step'))):
                with pytest.raises(DamagedStore):
                    await call
            assert await client.lrange(key, 0, -1) == ['theirs']
            await client.delete(key)
        await client.rpush(keys.log, 'theirs')
        with pytest.raises(DamagedStore):
            await store.log()
        await client.set(keys.log, 'theirs')
        with pytest.raises(DamagedStore):
            await store.log()


async def test_what_is_ours_when_damaged_is_refused(valkey: Place) -> None:
    own = Keys(valkey.room, 'default').own
    async with opened(valkey) as (client, store):
        await apply(store, Add('step'))
        for field, value in (('session', '{'), ('session', '[]'), ('session', '{}'), ('steps', '{'), ('steps', '[1]')):
            good = await client.hget(own, field)
            await client.hset(own, field, value)
            with pytest.raises(DamagedStore):
                await read(store)
            await client.hset(own, field, good)
        assert len((await read(store)).steps) == 1


async def test_a_plan_of_a_newer_planctl_is_refused(valkey: Place) -> None:
    own = Keys(valkey.room, 'default').own
    async with opened(valkey) as (client, store):
        await apply(store, Add('step'))
        state = json.loads(await client.hget(own, 'session'))
        await client.hset(own, 'session', json.dumps(state | {'version': 2, 'by': '7.0'}))
        for call in (read(store), apply(store, Add('never'))):
            with pytest.raises(NewerSchema) as caught:
                await call
            assert caught.value.hint == 'install planctl 7.0 or newer'


async def test_an_id_that_a_list_holds_twice_is_kept_as_two_steps(valkey: Place) -> None:
    async with opened(valkey) as (client, store):
        items = [{'id': 'a', 'content': content, 'status': 'pending'} for content in ('one', 'two', 'three')]
        await client.set(f'{valkey.room}:{{default}}', json.dumps([*items, {'id': 'a-2', 'content': 'four'}]))
        change = await apply(store, Add('ours'))
        assert [(step.id, step.content) for step in change.after.steps] == [
            *(('a', 'one'), ('a-2', 'two'), ('a-3', 'three'), ('a-2-2', 'four'), ('1', 'ours')),
        ]
        assert await read(store) == change.after


async def test_a_list_that_somebody_deleted_is_a_change_like_any_other(valkey: Place) -> None:
    async with opened(valkey) as (client, store):
        await apply(store, Add('one'), Describe(objective='o'))
        await client.delete(f'{valkey.room}:{{default}}')
        plan = await read(store)
        assert (plan.steps, plan.objective) == ((), 'o')
        change = await apply(store, Add('two'))
        assert [(step.id, step.content) for step in change.after.steps] == [('2', 'two')]
        assert [(row.actor, row.id) for row in await store.log()][-2:] == [('other', '1'), ('python', '2')]


# --- Faults -----------------------------------------------------------------------------------------------------


def through(place: Place, proxy: Proxy) -> Place:
    return replace(place, url=f'redis://127.0.0.1:{proxy.port}')


async def test_an_answer_that_is_lost_is_said_to_be_unsure_and_not_done_twice(
    valkey_server: ValkeyServer, valkey: Place
) -> None:
    if not valkey_server.own:
        pytest.skip('only the way to a server that the tests started is cut, not to one that PLANCTL_TEST_… names')
    async with Proxy(urlsplit(valkey.url).port or 0) as proxy, through(valkey, proxy).connect() as client:
        store = valkey.store(client)
        await apply(store, Add('one'))
        proxy.cut_after(b'EXEC')
        with pytest.raises(StoreUnavailable, match='the change may be stored or not') as caught:
            await apply(store, Add('two'), key='k')
        assert caught.value.hint == 'look at the plan before it is done again'
        assert (await apply(store, Add('two'), key='k')).replayed
        assert [step.content for step in (await read(store)).steps] == ['one', 'two']


@pytest.mark.parametrize('word', [b'WATCH', b'HMGET', b'PTTL'])
async def test_a_connection_dropped_before_anything_was_written_is_made_anew(
    valkey_server: ValkeyServer, valkey: Place, word: bytes
) -> None:
    if not valkey_server.own:
        pytest.skip('only the way to a server that the tests started is cut, not to one that PLANCTL_TEST_… names')
    async with Proxy(urlsplit(valkey.url).port or 0) as proxy, through(valkey, proxy).connect() as client:
        store = valkey.store(client)
        proxy.cut_after(word)
        await apply(store, Add('one'))
        assert [step.content for step in (await read(store)).steps] == ['one']


async def test_a_server_that_no_longer_answers_is_not_waited_for(valkey_server: ValkeyServer, valkey: Place) -> None:
    if not valkey_server.own:
        pytest.skip('only the way to a server that the tests started is cut, not to one that PLANCTL_TEST_… names')
    async with Proxy(urlsplit(valkey.url).port or 0) as proxy, through(valkey, proxy).connect() as client:
        store = valkey.store(client, wait=0.3)
        await apply(store, Add('one'))
        proxy.hold()
        began = time.perf_counter()
        for call in (apply(store, Add('two')), read(store)):
            with pytest.raises(StoreUnavailable, match=r'did not answer within 0\.3 seconds'):
                await call
        assert time.perf_counter() - began < 5
        proxy.release()
        await apply(store, Add('three'))
        assert [step.content for step in (await read(store)).steps] == ['one', 'three']


async def test_a_server_without_memory_left_changes_nothing() -> None:
    server = ValkeyServer(**{'maxmemory-policy': 'noeviction'})
    try:
        with new_place(server) as place, Redis.from_url(server.url) as admin:
            async with place.connect() as client:
                store = place.store(client)
                await apply(store, Add('one'))
                before = await read(store)
                admin.config_set('maxmemory', '1')
                with pytest.raises(StorageError, match='maxmemory'):
                    await apply(store, Add('two'))
                assert await read(store) == before
                admin.config_set('maxmemory', '0')
                await apply(store, Add('two'))
    finally:
        server.close()


async def test_a_wrong_password_is_not_something_that_passes(valkey: Place) -> None:
    parts = urlsplit(valkey.url)
    async with redis_client(f'redis://somebody:hunter2@{parts.hostname}:{parts.port}') as client:
        with pytest.raises(StorageError) as caught:
            await read(valkey.store(client))
    assert not isinstance(caught.value, StoreUnavailable)
    assert 'hunter2' not in str(caught.value)
