"""Any class with the six methods as a store that can do one transaction, as far as six methods can."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from planctl.change import Change
from planctl.errors import Unsupported
from planctl.items import PlanItem, item_of
from planctl.plan import STATUSES, Plan, Step, next_id_after
from planctl.stores.base import BaseStore, EditFunction, PlanStore, inner

class SixMethodStore(BaseStore):
    """Reads all, decides, and writes the difference with as few calls as it takes.

    Calls on one store object take turns in this process; another process can write between our read and our write.
    What six methods cannot hold is refused as `unsupported`: objective and brief, claims, notes, keys.
    """

    def __init__(self, store: PlanStore) -> None:
        self._six = store

    async def read(self) -> Plan:
        """Return the items as a plan; it has no revision, objective or brief."""
        return _plan(await self._six.get_items())

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit`; see the class for what that guarantees here."""
        async with _turn(self._six):
            change = edit(_plan(await self._six.get_items()))
            _refuse_what_is_lost(change)
            await self._write(change)
        return change

    async def _write(self, change: Change) -> None:
        after = change.after.steps
        gone, fresh = change.deleted, change.created
        appended = after[len(after) - len(fresh) :] == fresh
        cleared = any(
            c.before and c.after and c.before.parent_id is not None and c.after.parent_id is None for c in change.steps
        )
        if cleared or not appended or any(c.moved for c in change.steps) or len(change.steps) > 1:
            # One call, so that a store with an atomic `set_items` is never seen between two states.
            await self._six.set_items([item_of(step) for step in after])
        elif gone:
            await self._six.remove_item(gone[0].id)
        elif fresh:
            await self._six.add_item(item_of(fresh[0]))
        elif change.steps:
            await _update(self._six, change.steps[0].before, change.steps[0].after)


async def _update(store: PlanStore, before: Step | None, after: Step | None) -> None:
    assert before is not None
    assert after is not None
    old, new = item_of(before), item_of(after)
    fields = {name: getattr(new, name) for name in PlanItem.model_fields if getattr(new, name) != getattr(old, name)}
    if fields:
        await store.update_item(after.id, **fields)


def _plan(items: Sequence[PlanItem]) -> Plan:
    steps = tuple(
        Step(
            id=item.id,
            content=item.content,
            status=STATUSES[item.status.value],
            active_form=item.active_form,
            parent_id=item.parent_id,
            depends_on=tuple(item.depends_on),
        )
        for item in items
    )
    return Plan(steps=steps, next_id=next_id_after(1, (step.id for step in steps)))


def _refuse_what_is_lost(change: Change) -> None:
    """Refuse what the six methods cannot store rather than lose it. A start keeps no owner here, which is no loss."""
    plan = replace(change.after, steps=change.before.steps)
    if (plan.objective, plan.brief, plan.owner) != (change.before.objective, change.before.brief, change.before.owner):
        raise Unsupported('this store keeps steps only: no objective, brief or run')
    for entry in change.steps:
        if entry.after is not None and (entry.after.note or entry.after.lease is not None):
            raise Unsupported('this store keeps no notes and no claims', ids=[entry.after.id])


# One lock per store object and event loop. Both go when the object or the loop goes.
_locks: WeakKeyDictionary[object, WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = WeakKeyDictionary()
_guard = threading.Lock()


def _turn(store: PlanStore) -> asyncio.Lock:
    with _guard:
        loops = _locks.setdefault(store, WeakKeyDictionary())
        return loops.setdefault(asyncio.get_running_loop(), asyncio.Lock())


class StoreWrapper(BaseStore):
    """A store around another: override `read` or `update` to add retry, a fallback or a trace, and call `super`."""

    def __init__(self, store: BaseStore | PlanStore) -> None:
        self.wrapped = inner(store)

    async def read(self) -> Plan:
        """Return what the wrapped store reads."""
        return await self.wrapped.read()

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Do what the wrapped store does."""
        return await self.wrapped.update(edit, actor=actor, label=label, now=now, key=key)

    async def aclose(self) -> None:
        """Close the wrapped store."""
        await self.wrapped.aclose()
