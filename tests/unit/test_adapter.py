"""Stores that users wrote: six methods of any kind, wrappers, objects that cannot be hashed; and where steps stand."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planctl import (
    BaseStore,
    Change,
    InMemoryPlanStore,
    Plan,
    PlanItem,
    SqlitePlanStore,
    StoreWrapper,
    TaskStatus,
    apply,
    read,
)
from planctl.errors import DamagedStore, StepNotFound, StoreUnavailable, Unsupported
from planctl.operations import Add, Claim, Describe, Edit, Move, Note, Remove, SetStatus
from planctl.stores import adapter
from planctl.stores.base import inner, positions


class Six:
    """Six methods over a list, which count their calls and let every other task run in between."""

    def __init__(self) -> None:
        self.items: list[PlanItem] = []
        self.calls: list[str] = []

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        await asyncio.sleep(0)

    async def get_items(self) -> list[PlanItem]:
        await self._called('get_items')
        return [item.model_copy(deep=True) for item in self.items]

    async def set_items(self, items: list[PlanItem]) -> None:
        await self._called('set_items')
        self.items = list(items)

    async def get_item(self, item_id: str) -> PlanItem | None:
        await self._called('get_item')
        return next((item for item in self.items if item.id == item_id), None)

    async def add_item(self, item: PlanItem) -> PlanItem:
        await self._called('add_item')
        self.items.append(item)
        return item

    async def update_item(self, item_id: str, **fields: Any) -> PlanItem | None:
        await self._called(f'update_item {", ".join(fields)}')
        for at, item in enumerate(self.items):
            if item.id == item_id:
                self.items[at] = item.model_copy(update={k: v for k, v in fields.items() if v is not None})
                return self.items[at]
        return None

    async def remove_item(self, item_id: str) -> bool:
        await self._called('remove_item')
        self.items = [item for item in self.items if item.id != item_id]
        return True


# --- Which way in ---------------------------------------------------------------------------------------------


class Forwards:
    """A wrapper of a user's that knows nothing of the store but the two methods that it changes."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.seen: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_items(self) -> list[PlanItem]:
        self.seen.append('get_items')
        return await self._store.get_items()

    async def add_item(self, item: PlanItem) -> PlanItem:
        self.seen.append('add_item')
        return await self._store.add_item(item)


async def test_a_wrapper_that_forwards_unknown_names_is_never_bypassed() -> None:
    store = Forwards(InMemoryPlanStore())
    await apply(store, Add('one'))
    assert [step.content for step in (await read(store)).steps] == ['one']
    assert store.seen == ['get_items', 'add_item', 'get_items']


async def test_a_method_that_a_subclass_or_an_object_overrides_is_never_bypassed() -> None:
    seen: list[str] = []

    class Audited(InMemoryPlanStore):
        async def add_item(self, item: PlanItem) -> PlanItem:
            seen.append(item.content)
            return await super().add_item(item)

    await apply(Audited(), Add('by the class'))
    store = InMemoryPlanStore()
    store.add_item = Audited().add_item  # type: ignore[method-assign]
    await apply(store, Add('by the object'))
    assert seen == ['by the class', 'by the object']


def test_a_store_that_overrides_nothing_is_used_as_it_is() -> None:
    class Own(InMemoryPlanStore):
        pass

    for store in (InMemoryPlanStore(), Own(), StoreWrapper(Six())):
        assert inner(store) is store


# --- Six methods ----------------------------------------------------------------------------------------------


async def test_one_call_reads_and_one_call_writes() -> None:
    store = Six()
    for operations, calls in [
        ([Add('one')], ['add_item']),
        ([Add('two', id='b'), Add('three', id='c')], ['set_items']),
        ([Edit('b', 'changed')], ['update_item content']),
        ([SetStatus('c', TaskStatus.completed)], ['update_item status']),
        ([Move('c', before='b')], ['set_items']),
        ([Move('b', under='1')], ['update_item parent_id']),
        ([Move('b', top=True)], ['set_items']),
        ([SetStatus('c', TaskStatus.completed)], []),
        ([Remove('c')], ['remove_item']),
        ([Add('four', before='1')], ['set_items']),
    ]:
        del store.calls[:]
        await apply(store, *operations)
        assert store.calls == ['get_items', *calls]
    assert [(item.id, item.content, item.parent_id) for item in store.items] == [
        ('2', 'four', None),
        ('1', 'one', None),
        ('b', 'changed', None),
    ]


async def test_what_six_methods_cannot_hold_is_refused_and_nothing_is_written() -> None:
    store = Six()
    await apply(store, Add('one'))
    del store.calls[:]
    for operation in (
        SetStatus('1', TaskStatus.blocked, note='why'),
        Note('1', 'why'),
        Claim('me', 60, id='1'),
        Claim('me', 60, scope='session'),
        Describe(objective='win'),
        Add('two', note='why'),
    ):
        with pytest.raises(Unsupported, match='this store keeps'):
            await apply(store, operation)
    assert set(store.calls) == {'get_items'}
    await apply(store, SetStatus('1', TaskStatus.in_progress), actor='me')
    assert store.items[0].status is TaskStatus.in_progress


async def test_a_key_is_taken_but_cannot_be_kept() -> None:
    store = Six()
    for _ in range(2):
        assert not (await apply(store, Add('one'), key='k')).replayed
    assert len(store.items) == 2


async def test_status_from_another_library_or_as_text_is_understood() -> None:
    store = Six()
    store.items = [
        PlanItem.model_construct(id='a', content='x', status='completed', active_form='', parent_id=None, depends_on=[])
    ]
    assert (await read(store)).step('a').status is TaskStatus.completed
    store.items[0].status = 'done'  # type: ignore[assignment]
    with pytest.raises(DamagedStore, match="step 'a' has the status 'done'"):
        await read(store)


class BestEffort:
    """Serves the last known plan when the store behind cannot be reached."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._last: list[PlanItem] = []

    async def get_items(self) -> list[PlanItem]:
        with suppress(ConnectionError):
            self._last = await self._store.get_items()
        return self._last

    async def set_items(self, items: list[PlanItem]) -> None:
        await self._store.set_items(items)

    async def get_item(self, item_id: str) -> PlanItem | None:
        return await self._store.get_item(item_id)

    async def add_item(self, item: PlanItem) -> PlanItem:
        return await self._store.add_item(item)

    async def update_item(self, item_id: str, **fields: Any) -> PlanItem | None:
        return await self._store.update_item(item_id, **fields)

    async def remove_item(self, item_id: str) -> bool:
        return await self._store.remove_item(item_id)


class Flaky(InMemoryPlanStore):
    """A store that can be out of reach."""

    down = False

    async def read(self) -> Plan:
        if self.down:
            raise StoreUnavailable('out of reach')
        return await super().read()

    async def update(self, *args: Any, **options: Any) -> Change:
        if self.down:
            raise StoreUnavailable('out of reach')
        return await super().update(*args, **options)


async def test_a_best_effort_wrapper_serves_the_last_plan_while_the_store_is_out_of_reach() -> None:
    store = Flaky()
    best = BestEffort(store)
    await apply(best, Add('one'))
    assert len((await read(best)).steps) == 1
    store.down = True
    assert len((await read(best)).steps) == 1
    with pytest.raises(StoreUnavailable):
        await apply(best, Add('two'))
    store.down = False
    await apply(best, Add('two'))
    assert [step.id for step in (await store.read()).steps] == ['1', '2']


# --- Taking turns ---------------------------------------------------------------------------------------------


@dataclass
class Unhashable(Six):
    """Data classes that compare by value have no hash."""

    items: list[PlanItem] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


class Slotted:
    """No dictionary, no weak references."""

    __slots__ = ('_six',)

    def __init__(self) -> None:
        self._six = Six()

    @property
    def items(self) -> list[PlanItem]:
        return self._six.items

    async def get_items(self) -> list[PlanItem]:
        return await self._six.get_items()

    async def set_items(self, items: list[PlanItem]) -> None:
        await self._six.set_items(items)

    async def get_item(self, item_id: str) -> PlanItem | None:
        return await self._six.get_item(item_id)

    async def add_item(self, item: PlanItem) -> PlanItem:
        return await self._six.add_item(item)

    async def update_item(self, item_id: str, **fields: Any) -> PlanItem | None:
        return await self._six.update_item(item_id, **fields)

    async def remove_item(self, item_id: str) -> bool:
        return await self._six.remove_item(item_id)


KINDS = [Six, Unhashable, Slotted]


@pytest.mark.parametrize('kind', KINDS)
async def test_calls_on_one_object_take_turns_in_the_order_in_which_they_were_made(kind: type[Six]) -> None:
    store = kind()
    await asyncio.gather(*(apply(store, Add(f'{n}')) for n in range(30)))
    assert [(item.id, item.content) for item in store.items] == [(str(n + 1), str(n)) for n in range(30)]


@pytest.mark.parametrize('kind', KINDS)
def test_calls_from_several_loops_and_threads_take_turns(kind: type[Six]) -> None:
    store = kind()

    async def add() -> None:
        await asyncio.gather(*(apply(store, Add('x')) for _ in range(20)))

    threads = [threading.Thread(target=lambda: asyncio.run(add())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(int(item.id) for item in store.items) == list(range(1, 61))


@pytest.mark.parametrize('kind', KINDS)
async def test_a_cancelled_call_passes_its_turn_on(kind: type[Six]) -> None:
    store = kind()
    for _ in range(10):
        calls = [asyncio.create_task(apply(store, Add(f'{n}'))) for n in range(12)]
        for number, call in enumerate(calls):
            if number % 3:
                await asyncio.sleep(0)
            if number % 2:
                call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    await asyncio.wait_for(apply(store, Add('last')), 10)
    assert store.items[-1].content == 'last'
    assert len({item.id for item in store.items}) == len(store.items)


@pytest.mark.parametrize('when', ['before it is its turn', 'when it was given its turn'])
def test_a_loop_that_is_closed_while_a_call_waits_passes_its_turn_on(when: str) -> None:
    store = Six()
    turn = adapter._turn(store)  # pyright: ignore[reportPrivateUsage]
    loop, other = asyncio.new_event_loop(), asyncio.new_event_loop()
    loop.run_until_complete(turn.__aenter__())
    waiting = other.create_task(apply(store, Add('never')))
    other.run_until_complete(asyncio.sleep(0))
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
    if when == 'before it is its turn':
        other.close()
    loop.run_until_complete(turn.__aexit__(None, None, None))
    other.close()
    del waiting
    gc.collect()
    loop.run_until_complete(asyncio.wait_for(apply(store, Add('one')), 10))
    loop.close()
    assert [item.content for item in store.items] == ['one']


def test_nothing_is_remembered_of_a_store_that_is_gone() -> None:
    gc.collect()
    before = len(adapter._turns)  # pyright: ignore[reportPrivateUsage]
    stores = [Six() for _ in range(5)]
    for store in stores:
        asyncio.run(apply(store, Add('one')))
    assert len(adapter._turns) == before + 5  # pyright: ignore[reportPrivateUsage]
    del stores, store
    gc.collect()
    assert len(adapter._turns) == before  # pyright: ignore[reportPrivateUsage]


# --- Wrappers -------------------------------------------------------------------------------------------------


class Retry(StoreWrapper):
    """What the docs show: try again what may pass."""

    async def update(self, *args: Any, **options: Any) -> Change:
        for _ in range(2):
            try:
                return await super().update(*args, **options)
            except StoreUnavailable:
                continue
        return await super().update(*args, **options)


async def test_a_wrapper_of_ten_lines_retries() -> None:
    class FailsTwice(InMemoryPlanStore):
        left = 2

        async def update(self, *args: Any, **options: Any) -> Change:
            if self.left:
                self.left -= 1
                raise StoreUnavailable('out of reach')
            return await super().update(*args, **options)

    store = Retry(FailsTwice())
    await apply(store, Add('one'), Describe(objective='win'), key='k')
    assert (await apply(store, Add('one'), key='k')).replayed
    assert [item.content for item in await store.get_items()] == ['one']


async def test_a_wrapper_holds_what_it_wraps(tmp_path: Path) -> None:
    store = StoreWrapper(SqlitePlanStore(tmp_path / 'plan.db'))
    async with store as same:
        assert same is store
        await apply(store, Add('one'))
        assert (tmp_path / 'plan.db-wal').exists()
    assert not (tmp_path / 'plan.db-wal').exists()


@pytest.mark.parametrize('wrap', [inner, StoreWrapper])
async def test_a_store_of_six_methods_that_can_be_entered_and_closed_is(wrap: Any) -> None:
    class Enterable(Six):
        async def __aenter__(self) -> Enterable:
            await self._called('enter')
            return self

        async def __aexit__(self, *args: object) -> None:
            await self._called('exit')

        async def aclose(self) -> None:
            await self._called('close')

    six = Enterable()
    store: BaseStore = wrap(six)
    async with store:
        await apply(store, Add('one'))
    await store.aclose()
    assert six.calls == ['enter', 'get_items', 'add_item', 'exit', 'close']
    plain: BaseStore = wrap(Six())
    async with plain:
        await plain.aclose()


async def test_what_is_refused_behind_a_wrapper_comes_out() -> None:
    with pytest.raises(StepNotFound):
        await apply(StoreWrapper(Six()), Remove('nope'))


# --- Positions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('current', 'ids', 'expected'),
    [
        ({}, 'abc', {'a': 0, 'b': 1, 'c': 2}),
        ({'a': 0, 'b': 1}, 'abc', {'a': 0, 'b': 1, 'c': 2}),
        ({'a': 0, 'b': 7}, 'abc', {'a': 0, 'b': 7, 'c': 8}),
        ({'a': 0, 'b': 1}, 'cab', {'c': -1, 'a': 0, 'b': 1}),
        ({'a': 0, 'b': 5}, 'acb', {'a': 0, 'c': 1, 'b': 5}),
        ({'a': 0, 'b': 1, 'c': 3, 'd': 4}, 'axbcd', {'a': 0, 'x': 1, 'b': 2, 'c': 3, 'd': 4}),
        ({'a': 0, 'b': 1, 'c': 2, 'd': 3}, 'dabc', {'d': -1, 'a': 0, 'b': 1, 'c': 2}),
        ({'a': 0, 'b': 1, 'c': 2, 'd': 3}, 'bcda', {'b': 1, 'c': 2, 'd': 3, 'a': 4}),
        ({'a': 0, 'b': 3, 'c': 3}, 'abc', {'a': 0, 'b': 1, 'c': 3}),
        ({'a': 2**63 - 1}, 'ab', {'a': 0, 'b': 1}),
    ],
)
def test_positions_keep_what_the_order_allows(current: dict[str, int], ids: str, expected: dict[str, int]) -> None:
    assert positions(current, list(ids)) == expected


@given(
    st.dictionaries(st.sampled_from('abcdefghijkl'), st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1)),
    st.permutations('abcdefghijkl'),
    st.integers(0, 12),
)
def test_positions_always_rise_and_fit_into_64_bits(current: dict[str, int], order: list[str], count: int) -> None:
    ids = order[:count]
    placed = positions(current, ids)
    assert list(placed) == ids
    seqs = list(placed.values())
    assert seqs == sorted(set(seqs))
    assert all(abs(seq) < 2**63 for seq in seqs)
    if seqs == sorted(set(seqs)) and all(step_id in current for step_id in ids):
        kept = [current[step_id] for step_id in ids]
        if kept == sorted(set(kept)) and all(abs(seq) < 2**62 for seq in kept):
            assert seqs == kept
