"""Every store that needs no server, held to the same contract."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from planctl import BaseStore, InMemoryPlanStore, PlanItem, PlanStore, SqlitePlanStore, StoreWrapper, apply
from planctl.core import drive
from planctl.operations import Add
from planctl.stores.sqlite_file import SqliteFile
from planctl.testing.contract import Check, Store, checks


class Naive:
    """The least that a user writes: a list, and nothing that he did not have to think of."""

    def __init__(self) -> None:
        self.items: list[PlanItem] = []

    async def get_items(self) -> list[PlanItem]:
        return [one.model_copy(deep=True) for one in self.items]

    async def set_items(self, items: list[PlanItem]) -> None:
        self.items = [one.model_copy(deep=True) for one in items]

    async def get_item(self, item_id: str) -> PlanItem | None:
        return next((one for one in await self.get_items() if one.id == item_id), None)

    async def add_item(self, item: PlanItem) -> PlanItem:
        if await self.get_item(item.id) is not None:
            raise ValueError(f'{item.id} is there already')
        self.items.append(item.model_copy(deep=True))
        return item.model_copy(deep=True)

    async def update_item(self, item_id: str, **fields: object) -> PlanItem | None:
        for at, one in enumerate(self.items):
            if one.id == item_id:
                given = {name: value for name, value in fields.items() if value is not None}
                self.items[at] = one.model_copy(update=given, deep=True)
                return self.items[at].model_copy(deep=True)
        return None

    async def remove_item(self, item_id: str) -> bool:
        before = len(self.items)
        self.items = [one for one in self.items if one.id != item_id]
        return len(self.items) < before


Make = Callable[[Path, str], Store]


def sqlite_file(folder: Path, session: str) -> SqliteFile:
    # A command that reads says so when there is no database: here there is one.
    drive(apply(SqliteFile(folder / 'plan.db', session='another'), Add('somewhere else'), key=f'{session!r}'))
    return SqliteFile(folder / 'plan.db', session=session)


def kept_by(make: Callable[[str], Store]) -> Make:
    """Return a maker of stores that have their plan in themselves: one object for each folder and session."""
    made: dict[tuple[Path, str], Store] = {}

    def again(folder: Path, session: str) -> Store:
        if (folder, session) not in made:
            made[folder, session] = make(session)
        return made[folder, session]

    return again


SIX = ('sessions', 'reopening', 'own_fields', 'revisions', 'keys', 'log')
STORES: dict[str, tuple[Make, bool, tuple[str, ...]]] = {
    'memory': (kept_by(lambda session: InMemoryPlanStore(session=session)), False, ()),
    'file': (sqlite_file, False, ()),
    'file, held': (sqlite_file, True, ()),
    'sqlite': (lambda folder, session: SqlitePlanStore(folder / 'plan.db', session=session), False, ()),
    'sqlite, held': (lambda folder, session: SqlitePlanStore(folder / 'plan.db', session=session), True, ()),
    'sqlite, other table': (
        lambda folder, session: SqlitePlanStore(folder / 'a.db', session=session, table='Steps', journal='delete'),
        False,
        (),
    ),
    'wrapped': (lambda folder, session: StoreWrapper(SqlitePlanStore(folder / 'plan.db', session=session)), True, ()),
    'six methods': (kept_by(lambda session: Naive()), False, SIX),
    'six methods, wrapped': (kept_by(lambda session: StoreWrapper(Naive())), True, SIX),
}
CASES = [(name, check) for name, (_, _, without) in STORES.items() for check in checks(without=without)]


@pytest.mark.parametrize(('name', 'check'), CASES, ids=[f'{name}-{check}' for name, check in CASES])
async def test_contract(name: str, check: Check, tmp_path: Path) -> None:
    make, held, _ = STORES[name]
    async with AsyncExitStack() as stack:

        async def open_store(session: str) -> Store:
            store = make(tmp_path, session)
            if held and isinstance(store, BaseStore):
                await stack.enter_async_context(store)
            return store

        await check(open_store)


class LosesTheFirst(Naive):
    async def set_items(self, items: list[PlanItem]) -> None:
        await super().set_items(items[1:])


class HandsOutItsOwn(Naive):
    async def get_items(self) -> list[PlanItem]:
        return self.items


class TakesAnyId(Naive):
    async def add_item(self, item: PlanItem) -> PlanItem:
        self.items.append(item.model_copy(deep=True))
        return item


class TakesNoneForAValue(Naive):
    async def update_item(self, item_id: str, **fields: object) -> PlanItem | None:
        await super().update_item(item_id, **{'active_form': ''} | fields)
        return await self.get_item(item_id)


@pytest.mark.parametrize(
    ('kind', 'expected'),
    [
        (LosesTheFirst, 'keeps_the_order'),
        (HandsOutItsOwn, 'hands_out_copies'),
        (TakesAnyId, 'refuses_an_id_twice'),
        (TakesNoneForAValue, 'changes_only_what_is_given'),
    ],
)
async def test_the_contract_finds_what_is_broken(kind: type[Naive], expected: str) -> None:
    async def open_store(session: str) -> PlanStore:
        return made

    failed: list[str] = []
    for check in checks(without=SIX):
        made = kind()
        try:
            await check(open_store)
        except Exception:
            failed.append(str(check))
    assert expected in failed


def test_an_ability_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match='no such ability: flying'):
        checks(without=['flying'])


def test_every_check_is_documented_and_named_once() -> None:
    assert all(check.body.__doc__ for check in checks())
    assert len({check.name for check in checks()}) == len(checks()) >= 28


def test_the_suite_needs_no_test_framework() -> None:
    code = 'import sys, planctl.testing.contract as c; c.checks(); print("pytest" in sys.modules)'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout == 'False\n'
