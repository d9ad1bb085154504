"""The contract of a store, as checks that its author can run. Needs no test framework and no database of its own.

    async def open_store(session: str) -> MyStore: ...

    @pytest.mark.parametrize('check', contract.checks(), ids=str)
    def test_contract(check):
        asyncio.run(check(open_store))

`open_store` returns a store on the same empty storage each time it is called in one check; the same session is then
the same plan. It gets a fresh storage for each check. What a store cannot do is left out by name, see `checks`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from planctl.errors import PlanctlError
from planctl.items import PlanItem
from planctl.stores.base import BaseStore, PlanStore

Store: TypeAlias = BaseStore | PlanStore
OpenStore: TypeAlias = Callable[[str], Awaitable[Store]]

ABILITIES = {
    'sessions': 'names of sessions are checked, and plans of different sessions never meet',
    'reopening': 'a second store object sees what the first one stored',
    'own_fields': 'objective, brief, notes, owners and leases are kept',
    'revisions': 'a revision counts the changes, and an id is never given out again',
    'keys': 'an operation that comes again with its key is not done again',
    'log': 'what was done can be read back',
    'loops': 'one store object works in several event loops and threads',
}
"""What a check can need beyond the six methods, by name."""

_PARTS = ('contract_items', 'contract_operations', 'contract_log', 'contract_sessions')


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of a store. Called with `open_store` it returns when the promise is kept, else `AssertionError`."""

    name: str
    needs: frozenset[str]
    body: Callable[[OpenStore], Awaitable[None]]

    def __str__(self) -> str:
        return self.name

    async def __call__(self, open_store: OpenStore) -> None:
        """Run the check in the running loop."""
        await self.body(open_store)


def checks(*, without: Iterable[str] = ()) -> list[Check]:
    """Return the checks, those left out that need one of the `ABILITIES` named in `without`."""
    missing = frozenset(without)
    if unknown := missing - ABILITIES.keys():
        raise ValueError(f'no such ability: {", ".join(sorted(unknown))}; there are {", ".join(ABILITIES)}')
    found = (value for name in _PARTS for value in vars(import_module(f'planctl.testing.{name}')).values())
    return [one for one in found if isinstance(one, Check) and not one.needs & missing]


def check(*needs: str) -> Callable[[Callable[[OpenStore], Awaitable[None]]], Check]:
    """Make a function a check that needs these of the `ABILITIES`."""
    return lambda body: Check(body.__name__, frozenset(needs), body)


def item(step_id: str, **fields: Any) -> PlanItem:
    """Return an item with a text of its own."""
    return PlanItem(id=step_id, content=f'do {step_id}', **fields)


async def ids(store: Store) -> list[str]:
    """Return the ids of the steps, in order."""
    return [one.id for one in await store.get_items()]


def expect(found: object, wanted: object, what: str) -> None:
    """Raise an `AssertionError` in words unless both are equal."""
    if found != wanted:
        raise AssertionError(f'{what}: expected {_short(wanted)}, found {_short(found)}')


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 500 else f'{text[:500]}... ({len(text)} characters)'


async def fails(call: Awaitable[object], kind: type[Exception], what: str) -> None:
    """Raise an `AssertionError` unless the call raises an exception of this kind."""
    try:
        await call
    except kind as error:
        if isinstance(error, PlanctlError):
            expect(bool(error.message), True, f'{what}: the error has a message')
        return
    raise AssertionError(f'{what}: {kind.__name__} was not raised')
