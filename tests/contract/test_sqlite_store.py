"""The SQLite store in event loops: several of them, cancelled, torn down, never closed, held open."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from planctl import PlanEventEmitter, PlanItem, SqlitePlanStore, TaskStatus, apply
from planctl.errors import InvalidName, StorageError, StoreUnavailable
from planctl.items import PlanEvent
from planctl.operations import Add, Edit, SetStatus

ROOT = Path(__file__).parents[2]


class Lock:
    """Another program that holds the write lock of a database."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
        self._connection.execute('BEGIN IMMEDIATE')

    def release(self) -> None:
        self._connection.execute('ROLLBACK')
        self._connection.close()


def names(store: SqlitePlanStore) -> list[str]:
    return [step.content for step in asyncio.run(store.read()).steps]


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread is not threading.main_thread()}


async def test_a_store_without_a_file_is_empty_and_makes_none(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'no' / 'plan.db')
    assert await store.get_items() == []
    assert await store.get_item('1') is None
    assert await store.remove_item('1') is False
    with pytest.raises(StorageError, match='there is no folder'):
        await store.add_item(PlanItem(content='one'))
    assert list(tmp_path.iterdir()) == []


def test_two_loops_one_after_the_other(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    asyncio.run(apply_async(store, 'one'))
    asyncio.run(apply_async(store, 'two'))
    assert names(store) == ['one', 'two']


async def apply_async(store: SqlitePlanStore, *texts: str) -> None:
    for text in texts:
        await apply(store, Add(text))


async def hold_and_apply(store: SqlitePlanStore, *texts: str) -> None:
    async with store:
        await apply_async(store, *texts)


@pytest.mark.parametrize('task', [apply_async, hold_and_apply])
def test_threads_with_loops_of_their_own(task: Any, tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    texts = {n: [f'{n}-{k}' for k in range(20)] for n in range(3)}
    running = [threading.Thread(target=lambda n=n: asyncio.run(task(store, *texts[n]))) for n in texts]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    found = names(store)
    assert sorted(found) == sorted(text for own in texts.values() for text in own)
    for n, own in texts.items():
        assert [text for text in found if text.startswith(f'{n}-')] == own
    assert os.listdir(tmp_path) == ['plan.db']


async def test_nothing_is_left_when_no_call_runs(tmp_path: Path) -> None:
    before = threads()
    store = SqlitePlanStore(tmp_path / 'plan.db')
    await asyncio.gather(*(apply(store, Add(f'{n}')) for n in range(20)))
    assert os.listdir(tmp_path) == ['plan.db']
    for thread in threads() - before:
        thread.join(5)
    assert threads() == before


async def test_a_connection_is_held_inside_async_with_as_often_as_it_is_entered(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    async with store:
        assert os.listdir(tmp_path) == []
        async with store as same:
            assert same is store
            await apply(store, Add('one'))
        assert (tmp_path / 'plan.db-wal').exists()
        await apply(store, Add('two'))
        await store.aclose()
        assert os.listdir(tmp_path) == ['plan.db']
        await apply(store, Add('three'))
    assert os.listdir(tmp_path) == ['plan.db']
    assert len((await store.read()).steps) == 3


async def test_calls_of_one_response_take_effect_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    for number in range(20):
        store = SqlitePlanStore(tmp_path / f'{number}.db')
        tasks = [asyncio.create_task(apply(store, Add(f'{n}'))) for n in range(6)]
        await asyncio.gather(*tasks)
        assert [step.content for step in (await store.read()).steps] == [f'{n}' for n in range(6)]


async def test_fifty_cancelled_waiters_leave_the_lock_free(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    await apply(store, Add('one'))
    for held in (False, True):
        async with store if held else SqlitePlanStore(tmp_path / 'unused.db'):
            lock = Lock(tmp_path / 'plan.db')
            waiting = [asyncio.create_task(apply(store, Add(f'waiter {n}'))) for n in range(50)]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            assert all(
                isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*waiting, return_exceptions=True)
            )
            lock.release()
            await apply(store, Add(f'after, held {held}'))
        Lock(tmp_path / 'plan.db').release()
    assert [s.content for s in (await store.read()).steps] == ['one', 'after, held False', 'after, held True']


async def test_a_waiter_that_is_cancelled_does_not_hold_up_the_next_call(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db', wait=60)
    await apply(store, Add('one'))
    lock = Lock(tmp_path / 'plan.db')
    async with store:
        for _ in range(50):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await apply(store, Add('never'))
        # Reading needs no lock, but the thread that waited for one.
        assert len((await asyncio.wait_for(store.read(), 10)).steps) == 1
        lock.release()
        await apply(store, Add('two'))
    assert [step.content for step in (await store.read()).steps] == ['one', 'two']


async def test_a_call_that_had_begun_when_it_was_cancelled_is_stored(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    await apply(store, Add('one'))
    begun, go_on = threading.Event(), threading.Event()

    def slow(plan: Any) -> list[Add]:
        begun.set()
        assert go_on.wait(10)
        return [Add('two')]

    task = asyncio.create_task(apply(store, slow))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    await apply(store, Add('three'))
    assert [step.content for step in (await store.read()).steps] == ['one', 'two', 'three']


@pytest.mark.parametrize('held', [False, True])
def test_a_loop_that_is_closed_in_the_middle_of_a_transaction(held: bool, tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    asyncio.run(apply_async(store, 'one'))
    begun, go_on = threading.Event(), threading.Event()

    def slow(plan: Any) -> list[Add]:
        begun.set()
        assert go_on.wait(10)
        return [Add('begun')]

    async def start() -> asyncio.Task[Any]:
        if held:
            await store.__aenter__()
        task = asyncio.create_task(apply(store, slow))
        await asyncio.to_thread(begun.wait, 10)
        return task

    task = asyncio.run(start())
    assert task.cancelled()
    go_on.set()
    asyncio.run(apply_async(store, 'after'))
    assert names(store) == ['one', 'begun', 'after']
    assert os.listdir(tmp_path) == ['plan.db']


def test_a_loop_that_is_closed_under_a_call_lets_the_store_go_on(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    asyncio.run(apply_async(store, 'one'))
    lock = Lock(tmp_path / 'plan.db')
    loop = asyncio.new_event_loop()
    call = apply(store, Add('never waited for'))
    task = loop.create_task(call)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    lock.release()
    asyncio.run(asyncio.wait_for(apply_async(store, 'two'), 10))
    # Calls of different loops have no order: what nobody waits for may be stored before, after, or not at all.
    assert [name for name in names(store) if name != 'never waited for'] == ['one', 'two']
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    call.close()


NEVER_CLOSED = {
    'held': 'async def main():\n await store.__aenter__()\n await apply(store, Add("x"))\nasyncio.run(main())',
    'not held': 'asyncio.run(apply(store, Add("x")))',
    'loop never closed': (
        'loop = asyncio.new_event_loop()\nloop.run_until_complete(store.__aenter__())\n'
        'loop.run_until_complete(apply(store, Add("x")))'
    ),
    'thread': (
        'import threading\nasync def main():\n await store.__aenter__()\n await apply(store, Add("x"))\n'
        't = threading.Thread(target=lambda: asyncio.run(main()))\nt.start(); t.join()'
    ),
    'cancelled while it waits': (
        'import sqlite3\nasyncio.run(apply(store, Add("x")))\n'
        'other = sqlite3.connect(sys.argv[1], isolation_level=None)\nother.execute("BEGIN IMMEDIATE")\n'
        'async def main():\n task = asyncio.create_task(apply(store, Add("y")))\n await asyncio.sleep(0)\n'
        'asyncio.run(main())\nother.close()'
    ),
    'let go of': (
        'async def main():\n global store\n await store.__aenter__()\n await apply(store, Add("x"))\n store = None\n'
        'asyncio.run(main())'
    ),
}


@pytest.mark.parametrize('name', NEVER_CLOSED)
def test_a_store_that_was_never_closed_ends_quietly_with_the_interpreter(name: str, tmp_path: Path) -> None:
    code = (
        'import asyncio, sys\nfrom planctl import SqlitePlanStore, apply\nfrom planctl.operations import Add\n'
        f'store = SqlitePlanStore(sys.argv[1])\n{NEVER_CLOSED[name]}'
    )
    ignored = ['-W', 'ignore:unclosed event loop'] if name == 'loop never closed' else []
    done = subprocess.run(
        [sys.executable, '-X', 'dev', '-W', 'error', *ignored, '-c', code, str(tmp_path / 'plan.db')],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr if name != 'loop never closed' else '') == (0, '')
    assert os.listdir(tmp_path) == ['plan.db']
    assert names(SqlitePlanStore(tmp_path / 'plan.db')) == ['x']


async def test_a_lock_that_is_not_given_back_in_time_is_said(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db', wait=0.05)
    await apply(store, Add('one'))
    lock = Lock(tmp_path / 'plan.db')
    with pytest.raises(StoreUnavailable, match='is locked'):
        await apply(store, Add('two'))
    lock.release()
    await apply(store, Add('two'))


async def test_a_held_file_that_was_removed_is_not_written_into(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    async with store:
        await apply(store, Add('one'))
        for file in tmp_path.iterdir():
            file.unlink()
        with pytest.raises(StorageError, match='was removed while it was in use'):
            await apply(store, Add('two'))
        with pytest.raises(StorageError, match='was removed while it was in use'):
            await store.get_items()
    assert list(tmp_path.iterdir()) == []


async def test_what_an_edit_raises_comes_out_of_the_thread(tmp_path: Path) -> None:
    store = SqlitePlanStore(tmp_path / 'plan.db')
    for error in (ZeroDivisionError('x'), StopIteration('x')):

        def broken(plan: Any, error: BaseException = error) -> list[Add]:
            raise error

        wanted = RuntimeError if isinstance(error, StopIteration) else type(error)
        with pytest.raises(wanted):
            await asyncio.wait_for(apply(store, broken), 10)
    assert list(tmp_path.iterdir()) == []


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(ValueError, match='InMemoryPlanStore') as caught:
        SqlitePlanStore(':memory:')
    assert isinstance(caught.value, InvalidName)


def test_a_relative_name_means_the_same_file_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path)
    store = SqlitePlanStore()
    monkeypatch.chdir(tmp_path / 'elsewhere')
    asyncio.run(apply_async(store, 'one'))
    assert (tmp_path / '.agent-plan.db').exists()
    assert list((tmp_path / 'elsewhere').iterdir()) == []


async def test_deprecated_callbacks_are_fired_for_single_changes_after_the_commit(tmp_path: Path) -> None:
    emitter = PlanEventEmitter()
    with pytest.warns(DeprecationWarning, match='event_emitter is deprecated') as caught:
        store = SqlitePlanStore(tmp_path / 'plan.db', event_emitter=emitter)
    assert caught[0].filename == __file__
    seen: list[tuple[str, str, int]] = []

    async def note(event: PlanEvent) -> None:
        seen.append((event.event_type.value, event.item.id, len(await store.get_items())))

    for subscribe in (emitter.on_created, emitter.on_status_changed, emitter.on_completed, emitter.on_deleted):
        subscribe(note)
    await store.set_items([PlanItem(id='a', content='a')])
    await store.add_item(PlanItem(id='b', content='b'))
    await store.update_item('b', status=TaskStatus.completed)
    await apply(store, SetStatus('a', TaskStatus.in_progress), key='k')
    await apply(store, SetStatus('a', TaskStatus.in_progress), key='k')
    await store.remove_item('b')
    assert seen == [
        ('created', 'b', 2),
        ('status_changed', 'b', 2),
        ('completed', 'b', 2),
        ('status_changed', 'a', 2),
        ('deleted', 'b', 1),
    ]


async def test_what_a_callback_raises_fails_the_call_and_not_the_change(tmp_path: Path) -> None:
    emitter = PlanEventEmitter()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', DeprecationWarning)
        store = SqlitePlanStore(tmp_path / 'plan.db', event_emitter=emitter)

    def broken(event: PlanEvent) -> None:
        raise ZeroDivisionError

    emitter.on_created(broken)
    with pytest.raises(ZeroDivisionError):
        await apply(store, Add('one'))
    await apply(store, Edit('1', 'changed'))
    assert [step.content for step in (await store.read()).steps] == ['changed']


def test_many_stores_leave_no_threads(tmp_path: Path) -> None:
    async def main() -> None:
        for number in range(30):
            store = SqlitePlanStore(tmp_path / 'plan.db', session=f's{number}')
            await store.__aenter__()
            await apply(store, Add('one'))

    before = threads()
    asyncio.run(main())
    gc.collect()
    assert threads() <= before
    assert os.listdir(tmp_path) == ['plan.db']
