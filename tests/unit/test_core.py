"""The one write path: what it hands to a store, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from planctl.change import Change
from planctl.core import apply, drive, expand, label_of, log, read
from planctl.errors import OpenPrerequisite, StepNotFound, Unsupported
from planctl.operations import Add, Edit, Operation, SetStatus
from planctl.plan import Plan, TaskStatus
from planctl.stores import memory
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore, EditFunction
from planctl.stores.memory import InMemoryPlanStore


class Recording(BaseStore):
    """A store that runs each edit twice, as one does whose first attempt lost a race."""

    def __init__(self) -> None:
        self.plan = Plan()
        self.asked: list[tuple[str, str, float, str | None]] = []

    async def read(self) -> Plan:
        return self.plan

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        self.asked.append((actor, label, now, key))
        edit(self.plan)
        change = edit(self.plan)
        self.plan = change.after
        return change


async def test_operations_are_one_transaction_with_actor_label_time_and_key() -> None:
    store = Recording()
    change = await apply(store, Add('a'), Add('b', depends_on=('1',)), actor='me', now=5.0, key='k')
    assert store.asked == [('me', 'add', 5.0, 'k')]
    assert [step.id for step in change.created] == ['1', '2']
    assert await read(store) == change.after
    await apply(store, Edit('1', 'x'), SetStatus('1', TaskStatus.completed), label='by hand', now=6.0)
    assert store.asked[-1] == ('python', 'by hand', 6.0, None)


async def test_a_function_makes_operations_from_what_is_stored_at_that_moment() -> None:
    store = Recording()
    await apply(store, Add('a'), Add('b'))

    def finish(plan: Plan) -> Iterable[Operation]:
        return [SetStatus(step.id, TaskStatus.completed) for step in plan.steps]

    change = await apply(store, finish, Add('c'))
    assert [step.status.value for step in change.after.steps] == ['completed', 'completed', 'pending']
    assert store.asked[-1][1] == 'edit, add'


async def test_a_refusal_comes_out_and_stores_nothing() -> None:
    store = InMemoryPlanStore()
    await apply(store, Add('a'), Add('b', depends_on=('1',)))
    before = await read(store)
    with pytest.raises(OpenPrerequisite):
        await apply(store, Add('c'), SetStatus('2', TaskStatus.completed))
    with pytest.raises(StepNotFound):
        await apply(store, lambda plan: [Edit('1', 'x'), Edit('nope', 'x')])
    assert await read(store) is before


async def test_a_key_seen_before_gives_the_first_reply_and_changes_nothing() -> None:
    store = InMemoryPlanStore()
    first = await apply(store, Add('a'), key='k')
    await apply(store, Add('b'))
    again = await apply(store, Add('a'), key='k')
    assert (again.steps, again.replayed, again.changed) == (first.steps, True, False)
    assert [step.content for step in again.after.steps] == ['a', 'b']


async def test_the_clock_is_read_once_for_a_transaction() -> None:
    store = Recording()
    change = await apply(store, Add('a', status=TaskStatus.in_progress), Add('b', status=TaskStatus.in_progress))
    assert {step.started_at for step in change.created} == {store.asked[0][2]}


def test_labels_name_each_kind_once() -> None:
    assert label_of([Add('a'), Add('b'), Edit('1')]) == 'add, edit'
    assert label_of([]) == 'nothing'


def test_requests_are_expanded_in_the_order_given() -> None:
    assert expand(Plan(), [Add('a'), lambda plan: [Add(str(plan.revision))], Add('c')]) == [
        Add('a'),
        Add('0'),
        Add('c'),
    ]


def test_a_store_that_never_suspends_needs_no_event_loop() -> None:
    store = InMemoryPlanStore()
    assert drive(apply(store, Add('a'))).created[0].id == '1'
    with pytest.raises(StepNotFound):
        drive(apply(store, Edit('nope')))


def test_driving_what_suspends_is_an_error_and_leaves_nothing_running() -> None:
    closed: list[bool] = []

    class Suspending:
        def __await__(self):  # type: ignore[no-untyped-def]
            try:
                yield
            finally:
                closed.append(True)

    async def suspends() -> None:
        await Suspending()

    with pytest.raises(RuntimeError, match='event loop'):
        drive(suspends())
    assert closed == [True]


async def test_what_the_environment_says_of_the_actor_reaches_no_store_as_it_is() -> None:
    store = InMemoryPlanStore()
    heard: list[tuple[str, str, str | None]] = []

    class Listening(StoreWrapper):
        async def update(self, edit: Any, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
            heard.append((actor, label, key))
            return await super().update(edit, actor=actor, label=label, now=now, key=key)

    listening = Listening(store)
    change = await apply(
        listening, Add('a', status=TaskStatus.in_progress), actor='\udcffme\x1b', label='\ud800', key='k\0'
    )
    assert heard == [('\ufffdme\ufffd', '\ufffd', 'k\ufffd')]
    assert change.created[0].owner == '\ufffdme\ufffd'
    assert (await apply(listening, Add('a'), key='k\0')).replayed
    assert [(row.actor, row.operation) for row in await log(store)] == [('\ufffdme\ufffd', '\ufffd')]


async def test_a_store_of_six_methods_has_no_log() -> None:
    class Six(InMemoryPlanStore):
        async def add_item(self, item: Any) -> Any:
            return await super().add_item(item)

    with pytest.raises(Unsupported, match='keeps no log'):
        await log(Six())


async def test_the_log_in_memory_forgets_whole_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, 'LOG_ROWS', 4)
    store = InMemoryPlanStore()
    for _ in range(5):
        await apply(store, Add('a'), Add('b'), Add('c'))
    assert [row.revision for row in await log(store)] == [4, 4, 4, 5, 5, 5]
    await apply(store, *(Add(f'{n}') for n in range(20)))
    assert {row.revision for row in await log(store)} == {6}
