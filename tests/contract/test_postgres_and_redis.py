"""What both stores on a server promise where several programs meet, on real servers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from replay import replay, without_leases
from servers import Place, new_place

from planctl import Change, Plan, PlanEvent, PlanEventEmitter, PlanItem, TaskStatus, apply, read
from planctl.errors import InvalidName, LostClaim, OpenPrerequisite, Refused, StorageError, StoreUnavailable
from planctl.journal import OTHER
from planctl.operations import Add, Claim, Depend, Describe, Edit, Move, Note, Remove, Renew, SetStatus
from planctl.plan import Step

HERE = Path(__file__).parent


async def consistent(store: Any) -> Plan:
    """Return the plan after holding it against its own log."""
    plan = await read(store)
    rows = await store.log()
    assert replay(rows) == without_leases(plan)
    assert plan.revision == (rows[-1].revision if rows else 0)
    return plan


# --- Several processes ------------------------------------------------------------------------------------------


@contextmanager
def workers(task: str, place: Place, count: int, *rest: str) -> Iterator[list[subprocess.Popen[str]]]:
    path = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get('PYTHONPATH', '')])
    started = [
        subprocess.Popen(
            [sys.executable, str(HERE / 'server_worker.py'), task, place.kind, place.url, place.room, f'w{n}', *rest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': path},
        )
        for n in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.communicate(timeout=60)
            assert process.returncode == 0


def tell(processes: list[subprocess.Popen[str]], **values: object) -> list[dict[str, Any]]:
    """Say the same to all, then return what each answers."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(json.dumps(values) + '\n')
        process.stdin.flush()
    return [hear(process) for process in processes]


def hear(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


async def test_the_very_first_write_from_two_processes_at_once(request: Any, place: Place) -> None:
    server = request.getfixturevalue('postgres_server' if place.kind == 'postgres' else 'valkey_server')
    with workers('first', place, 2) as both:
        for number in range(20):
            # In every other round the tables are there and only the session is new.
            with new_place(server) as fresh:
                there = place if number % 2 else fresh
                await asyncio.to_thread(tell, both, room=there.room, session=f's{number}')
                answers = await asyncio.to_thread(tell, both, go=True)
                assert sorted(a.get('id', a.get('error')) for a in answers) == ['1', '2']
                async with there.open(f's{number}') as store:
                    plan = await consistent(store)
                    assert sorted(step.content for step in plan.steps) == ['w0', 'w1']
                    assert plan.revision == 2


async def test_eight_processes_of_mixed_operations_lose_nothing(place: Place) -> None:
    async with place.open() as store:
        await apply(store, *(Add(f'start {n}') for n in range(10)))
        with workers('mixed', place, 8, '200') as all_of_them:
            for process in all_of_them:
                hear(process)
            answers = await asyncio.to_thread(tell, all_of_them, go=True)
        assert [a['failures'] for a in answers] == [[]] * 8
        plan = await consistent(store)
        added = [i for a in answers for i in a['added']] + [str(n) for n in range(1, 11)]
        removed = [i for a in answers for i in a['removed']]
        assert len(added) == len(set(added))
        assert {step.id for step in plan.steps} == set(added) - set(removed)
        assert sum(a['refused'] for a in answers) < 800
        assert {row.actor for row in await store.log()} == {'python', *(f'w{n}' for n in range(8))}


# --- Several stores at the same moment --------------------------------------------------------------------------


async def test_two_changes_of_different_fields_at_the_same_moment_both_survive(place: Place) -> None:
    async with place.open() as one, place.open() as other:
        await apply(one, Add('step'))
        for n in range(200):
            await asyncio.gather(
                apply(one, Edit('1', content=f'content {n}')), apply(other, Edit('1', active_form=f'form {n}'))
            )
            step = (await read(one)).step('1')
            assert (step.content, step.active_form) == (f'content {n}', f'form {n}')
        assert (await consistent(one)).revision == 401


async def test_calls_on_one_store_take_effect_in_the_order_in_which_they_were_made(place: Place) -> None:
    async with place.open() as store:
        for _ in range(5):
            await asyncio.gather(*(apply(store, Add(f'{n}')) for n in range(20)))
        contents = [step.content for step in (await read(store)).steps]
        assert contents == [f'{n}' for _ in range(5) for n in range(20)]
        _, plan, _ = await asyncio.gather(
            apply(store, Edit('1', content='written')), read(store), apply(store, Edit('1', content='later'))
        )
        assert plan.step('1').content == 'written'


async def test_of_two_edges_that_close_a_loop_the_second_is_refused(place: Place) -> None:
    async with place.open() as one, place.open() as other:
        await apply(one, Add('a'), Add('b'))
        for _ in range(20):
            results = await asyncio.gather(
                apply(one, Depend('1', '2')), apply(other, Depend('2', '1')), return_exceptions=True
            )
            assert sorted(isinstance(result, Refused) for result in results) == [False, True]
            await one.set_items([PlanItem(id='1', content='a'), PlanItem(id='2', content='b')])


async def test_claims_of_many_workers_never_meet(place: Place) -> None:
    async with place.connect() as connected:
        stores = [place.store(connected) for _ in range(8)]
        await apply(stores[0], *(Add(f'{n}') for n in range(24)))

        async def work(number: int) -> list[str]:
            return [(await apply(stores[number], Claim(f'w{number}', 60))).remark('claimed')[0] for _ in range(3)]

        claimed = [step_id for ids in await asyncio.gather(*map(work, range(8))) for step_id in ids]
        assert sorted(claimed, key=int) == [f'{n}' for n in range(1, 25)]
        plan = await consistent(stores[0])
        before = plan.revision
        renewed = await apply(stores[0], Renew(plan.steps[0].owner or '', 600, '1'))
        assert not renewed.changed
        assert (await read(stores[1])).steps[0].lease == renewed.after.steps[0].lease
        assert (await read(stores[1])).revision == before


# --- Cancellation -----------------------------------------------------------------------------------------------


async def test_cancelled_calls_leave_nothing_half_done(place: Place) -> None:
    dice = random.Random(7)
    async with place.connect() as connected:
        store = place.store(connected)
        took: list[float] = []
        for n in range(6):
            began = time.perf_counter()
            await apply(store, Add(f'first {n}'))
            took.append(time.perf_counter() - began)
        cancelled, n = 0, 0
        while n < 60 or cancelled <= 10:  # A busy machine is late with most of them.
            n += 1
            task = asyncio.create_task(apply(store, Add(f'{n}'), Add(f'{n} too', depends_on=('1',)), key=f'k{n}'))
            await asyncio.sleep(dice.uniform(0, min(took) * 1.2))
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                cancelled += 1
            assert n < 2000
        plan = await consistent(store)
        assert len(plan.steps) % 2 == 0
        await asyncio.wait_for(apply(store, Add('after')), 5)
        if place.kind == 'postgres':
            assert connected.get_idle_size() == connected.get_size()
            async with connected.acquire() as connection:
                assert await connection.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        else:
            assert not connected.connection_pool._in_use_connections


async def test_a_cancelled_call_that_waits_for_its_turn_leaves_the_turn_to_the_next(place: Place) -> None:
    async with place.open() as store:
        calls = [asyncio.create_task(apply(store, Add(f'{n}'))) for n in range(10)]
        await asyncio.sleep(0)
        for call in calls[1:9]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        contents = [step.content for step in (await read(store)).steps]
        assert contents == ['0', '9']


async def test_a_cancelled_call_is_cancelled_also_when_it_is_refused(place: Place) -> None:
    dice = random.Random(7)

    async def go_on_asking(store: Any) -> None:
        while True:
            with suppress(LostClaim):
                await apply(store, Renew('nobody', 60, '1'))

    async with place.open() as store:
        await apply(store, Add('first'))
        for _ in range(100):
            task = asyncio.create_task(go_on_asking(store))
            await asyncio.sleep(dice.uniform(0, 0.01))
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=5)
            assert task in done
            assert task.cancelled()


# --- Faults -----------------------------------------------------------------------------------------------------


async def test_a_connection_dropped_between_read_and_write(place: Place) -> None:
    async with place.open() as store, place.open() as another:
        await apply(store, Add('first'))
        before = await read(store)

        def cut(plan: Plan) -> list[Any]:
            place.cut_connections()
            return [Add('never')]

        with pytest.raises(StoreUnavailable):
            await apply(another, cut)
        assert await read(store) == before
        await apply(store, Add('next'))
        assert [step.content for step in (await consistent(store)).steps] == ['first', 'next']


async def test_idle_connections_that_were_dropped_do_no_harm(place: Place) -> None:
    async with place.open() as store:
        await apply(store, Add('first'))
        place.cut_connections()
        await asyncio.sleep(0)
        await apply(store, Add('next'))
        place.cut_connections()
        assert len((await consistent(store)).steps) == 2


async def test_a_server_that_restarts(request: Any, place: Place) -> None:
    server = request.getfixturevalue('postgres_server' if place.kind == 'postgres' else 'valkey_server')
    if not server.own:
        pytest.skip('only a server that the tests started is stopped, not one that PLANCTL_TEST_… names')
    async with place.open(wait=1) as store, place.open(wait=60) as patient:
        await apply(patient, Add('first'), Describe(objective='kept'))
        await asyncio.to_thread(server.stop)
        waiting = asyncio.create_task(apply(patient, Add('waited for it')))
        try:
            with pytest.raises(StoreUnavailable) as caught:
                await read(store)
            assert isinstance(caught.value, ConnectionError)
            with pytest.raises(StoreUnavailable):
                await apply(store, Add('lost'))
        finally:
            await asyncio.to_thread(server.start)
        await waiting
        await apply(patient, Add('next'))
        plan = await consistent(patient)
        assert [step.content for step in plan.steps] == ['first', 'waited for it', 'next']
        assert plan.objective == 'kept'


async def test_what_edit_raises_comes_out_and_nothing_is_stored(place: Place) -> None:
    async with place.open() as store:
        await apply(store, Add('a'), Add('b', depends_on=('1',)))
        before = await read(store)
        with pytest.raises(OpenPrerequisite):
            await apply(store, Edit('1', content='x'), SetStatus('2', TaskStatus.completed))

        for error in (ZeroDivisionError(), FileNotFoundError('mine'), TimeoutError('mine')):
            asked = 0

            def broken(plan: Plan, error: Exception = error) -> list[Any]:
                nonlocal asked
                asked += 1
                raise error

            with pytest.raises(type(error)) as caught:
                await apply(store, broken)
            assert caught.value is error
            assert asked == 1
        assert await read(store) == before
        assert (await consistent(store)).revision == 1


# --- What is stored ---------------------------------------------------------------------------------------------


async def test_every_kind_of_operation_is_stored_as_it_was_decided(place: Place) -> None:
    async with place.open() as store, place.open() as reader:
        changes: list[Change] = []
        for operations in (
            [Add('a', active_form='doing a'), Add('b', depends_on=('1',)), Add('c', parent_id='1', note='why')],
            [Describe(objective='an objective', brief='a brief\nof two lines')],
            [Claim('run', 60, scope='session')],
            [SetStatus('3', TaskStatus.completed), SetStatus('1', TaskStatus.completed)],
            [Claim('worker', 60, id='2')],
            [Note('2', 'half way')],
            [Move('2', before='1')],
            [Add('between', after='2')],
            [Remove('1', cascade=True)],
            [SetStatus('2', TaskStatus.blocked, note='no power')],
        ):
            change = await apply(store, *operations, actor='test', now=1_800_000_000.5)
            changes.append(change)
            assert await read(reader) == change.after
        plan = await consistent(reader)
        assert [step.id for step in plan.steps] == ['2', '4']
        assert (plan.next_id, plan.owner, plan.lease) == (5, 'run', 1_800_000_060.5)
        again = await apply(store, SetStatus('2', TaskStatus.blocked, note='no power'))
        assert not again.changed
        assert await read(reader) == plan


async def test_a_key_gives_its_first_reply_again(place: Place) -> None:
    async with place.open() as store, place.open() as other:
        first = await apply(store, Add('once'), key='run:1')
        again = await apply(other, Add('once'), key='run:1')
        assert again.replayed
        assert not again.changed
        assert again.created == first.created
        results = await asyncio.gather(*(apply(s, Add('twice'), key='run:2') for s in (store, other) * 5))
        assert sum(not result.replayed for result in results) == 1
        assert [step.content for step in (await consistent(store)).steps] == ['once', 'twice']
        nothing = await apply(store, SetStatus('1', TaskStatus.pending), key='run:3')
        assert (nothing.changed, nothing.replayed) == (False, False)
        assert (await apply(store, Add('not again'), key='run:3')).replayed


async def test_a_deprecated_listener_hears_of_each_step_and_may_use_the_store(place: Place) -> None:
    async with place.connect() as connected:
        emitter = PlanEventEmitter()
        with pytest.warns(DeprecationWarning, match='event_emitter'):
            store = place.store(connected, event_emitter=emitter)
        heard: list[tuple[str, int]] = []

        @emitter.on_created
        @emitter.on_completed
        async def hear(event: PlanEvent) -> None:
            heard.append((event.event_type.value, len(await store.get_items())))

        await store.add_item(PlanItem(id='a', content='a'))
        await store.update_item('a', status=TaskStatus.completed)
        await store.set_items([])
        assert heard == [('created', 1), ('completed', 1)]


async def test_reading_and_refusing_create_nothing(place: Place) -> None:
    async with place.connect() as connected:
        store = place.store(connected)
        assert await read(store) == Plan()
        assert await store.log() == []
        with pytest.raises(Refused):
            await apply(store, Add('a'), Depend('1', '1'))
        assert not (await apply(store, lambda plan: [])).changed
        if place.kind == 'postgres':
            async with connected.acquire() as connection:
                query = 'SELECT count(*) FROM pg_tables WHERE schemaname = $1'
                assert await connection.fetchval(query, place.room) == 0
        else:
            assert [key async for key in connected.scan_iter(match=f'{place.room}*')] == []


NAMES = [
    *('a}b', '}', '}x', '{}', '{', '{a}', '}{', 'a{b}c', '../x', '/', 'a/b', 'a:b', ':planctl', ':planctl:log'),
    *('日本', '👩‍💻', '\u202ex', "'; DROP TABLE plan_items; --", '%s $1 "x"', 'a b', ' a', 'a ', '*', '\\', 'x' * 200),
]


async def test_sessions_of_any_name_do_not_leak_into_each_other(place: Place) -> None:
    async with place.connect() as connected:
        stores = {name: place.store(connected, name) for name in NAMES}
        for name, store in stores.items():
            await apply(store, Add(f'of {name}'.replace('\u202e', '?'), id='same'), Describe(objective='o'))
        for name, store in stores.items():
            plan = await consistent(store)
            assert [step.content for step in plan.steps] == [f'of {name}'.replace('\u202e', '?').strip()]
            assert plan.session == name
        await apply(stores['}'], Remove('same'))
        assert len((await read(stores['}x'])).steps) == 1
        for name in ('', 'a\0b', 'a\nb', '\ud800', 'x' * 201):
            with pytest.raises(InvalidName):
                place.store(connected, name)


async def test_any_text_comes_out_as_it_was_stored(place: Place) -> None:
    async with place.open() as store, place.open() as reader:
        hostile = '\0 \ud800 \x1b[2J \x9b \u2028'
        text = ''.join(chr(plane * 0x10000 + 0x1234) for plane in range(17)) + ' "\\ \' %s $1 {} '
        change = await apply(
            store,
            Add(hostile, active_form=hostile, note=hostile),
            Add(text),
            Add('x' * 1_000_000),
            Describe(objective=hostile, brief=f'{text}\n{hostile}'),
            actor=hostile,
            label=hostile,
            key=hostile,
        )
        assert '\0' not in change.after.steps[0].content
        assert await read(reader) == change.after
        assert change.after.steps[1].content == text.strip()
        assert (await apply(reader, Add('again'), key=hostile)).replayed
        await reader.add_item(PlanItem(id='odd', content=hostile, parent_id='\0\ud800', depends_on=['\0', '\udfff']))
        assert len((await consistent(reader)).steps) == 4


async def test_ten_thousand_steps(place: Place) -> None:
    async with place.open() as store:
        await apply(store, *(Add(f'step {n}', depends_on=(str(n),) if n else ()) for n in range(10_000)))
        began = time.perf_counter()
        await apply(store, SetStatus('1', TaskStatus.completed))
        assert time.perf_counter() - began < 5
        plan = await read(store)
        assert len(plan.steps) == 10_000
        assert plan.step('2').status is TaskStatus.pending


# --- Other programs on the same plan ----------------------------------------------------------------------------


async def test_what_another_program_wrote_is_a_revision_of_its_own(place: Place) -> None:
    async with place.connect() as connected:
        ours, theirs = place.store(connected), place.theirs(connected)
        await theirs.add_item(item(id='a', content='theirs'))
        plan = await read(ours)
        assert (plan.revision, [step.id for step in plan.steps]) == (0, ['a'])
        change = await apply(ours, Add('ours'), Claim('me', 60, id='a'), actor='me')
        assert (change.after.revision, len(change.created)) == (2, 1)

        await theirs.update_item('1', content='changed')
        await theirs.update_item('a', status=their_status('completed'))
        assert (await read(ours)).step('a') == Step('a', 'theirs', TaskStatus.completed)
        await theirs.remove_item('1')
        await theirs.add_item(item(id='7', content='seventh'))
        change = await apply(ours, Add('eighth'), actor='me')
        assert [step.id for step in change.after.steps] == ['a', '7', '8']
        rows = await ours.log()
        assert [(row.revision, row.actor, row.id) for row in rows] == [
            *((1, OTHER, 'a'), (2, 'me', 'a'), (2, 'me', '1')),
            *((3, OTHER, 'a'), (3, OTHER, '7'), (3, OTHER, '1'), (4, 'me', '8')),
        ]
        await consistent(ours)


def item(**fields: Any) -> Any:
    return pytest.importorskip('pydantic_ai_harness.planning').PlanItem(**fields)


def their_status(name: str) -> Any:
    return pytest.importorskip('pydantic_ai_harness.planning').TaskStatus(name)


async def test_the_harness_and_planctl_write_one_plan_in_turn_and_agree(place: Place) -> None:
    dice = random.Random(11)
    async with place.connect() as connected:
        ours, theirs = place.store(connected), place.theirs(connected)
        expected: list[dict[str, Any]] = []
        for n in range(200):
            store: Any = (ours, theirs)[n % 2]
            make = PlanItem if store is ours else item
            at = dice.randrange(len(expected)) if expected else 0
            kind = dice.randrange(6) if expected else 0
            if kind <= 1:
                fields = {
                    'id': f'i{n}',
                    'content': f'content {n} é "x"',
                    'status': 'pending',
                    'active_form': dice.choice(['', 'doing']),
                    'parent_id': None,
                    'depends_on': [entry['id'] for entry in expected[:2]],
                }
                await store.add_item(make(**fields))
                expected.append(fields)
            elif kind == 2:
                await store.update_item(expected[at]['id'], content=f'edited {n}')
                expected[at]['content'] = f'edited {n}'
            elif kind == 3:
                status = dice.choice(['pending', 'in_progress', 'completed', 'blocked', 'cancelled'])
                await store.update_item(
                    expected[at]['id'], status=TaskStatus(status) if store is ours else their_status(status)
                )
                expected[at]['status'] = status
            elif kind == 4:
                assert await store.remove_item(expected.pop(at)['id'])
            else:
                dice.shuffle(expected)
                await store.set_items([make(**fields) for fields in expected])
            for reader in (ours, theirs):
                assert [entry.model_dump(mode='json') for entry in await reader.get_items()] == expected
        await apply(ours, Describe(objective='seen'))
        assert len({row.actor for row in await ours.log()}) == 2
        plan = await read(ours)
        assert replay(await ours.log()) == plan.steps


async def test_the_harness_and_planctl_write_at_the_same_time_and_nothing_of_either_is_lost(place: Place) -> None:
    """As long as each has steps of its own; the harness overwrites whole plans on Redis, so there it only reads."""
    async with place.connect(max_size=8) if place.kind == 'postgres' else place.connect() as connected:
        ours, theirs = place.store(connected), place.theirs(connected)

        async def write_theirs() -> None:
            for n in range(60):
                if place.kind == 'postgres':
                    await theirs.add_item(item(id=f't{n}', content=f'theirs {n}'))
                    await theirs.update_item(f't{n}', content=f'theirs {n} changed')
                else:
                    await theirs.get_items()

        async def write_ours() -> None:
            for n in range(60):
                await apply(ours, Add(f'ours {n}'))
                await apply(ours, SetStatus(str(n + 1), TaskStatus.in_progress))

        await asyncio.gather(write_theirs(), write_ours())
        await apply(ours, Describe(objective='done'))
        plan = await consistent(ours)
        contents = {step.content for step in plan.steps}
        assert contents >= {f'ours {n}' for n in range(60)}
        assert place.kind == 'redis' or contents >= {f'theirs {n} changed' for n in range(60)}


async def test_an_error_never_shows_the_password(place: Place) -> None:
    import traceback

    if place.kind == 'postgres':
        import asyncpg

        pool = asyncpg.create_pool('postgresql://me:hunter2@127.0.0.1:9/x', min_size=0)
        async with pool:
            store = place.store(pool, wait=2)
            with pytest.raises(StorageError) as caught:
                await read(store)
    else:
        from redis.asyncio import Redis

        async with Redis.from_url('redis://me:hunter2@127.0.0.1:9/0') as client:
            store = place.store(client, wait=2)
            with pytest.raises(StorageError) as caught:
                await read(store)
    assert 'hunter2' not in ''.join(traceback.format_exception(caught.value))
    assert '\n' not in str(caught.value)
