"""Any class with the six methods as a store that can do one transaction, as far as six methods can."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import ref

from planctl.change import Change
from planctl.errors import DamagedStore, Unsupported
from planctl.items import PlanItem, item_of
from planctl.plan import STATUSES, Plan, Step, TaskStatus, next_id_after
from planctl.sanitize import clean
from planctl.stores.base import BaseStore, EditFunction, PlanStore, inner

if TYPE_CHECKING:
    from typing import Self

    from planctl.journal import LogRow


class SixMethodStore(BaseStore):
    """Reads all, decides, and writes the difference with as few calls as it takes.

    Calls on one store object take turns in this process, whatever loop or thread they come from; another process can
    write between our read and our write. What six methods cannot hold is refused as `Unsupported`: objective, brief,
    claims and notes. Nor can they keep a key: an operation that is repeated with one is done again.
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

    async def aclose(self) -> None:
        """Close the store if it can be closed."""
        await _pass_on(self._six, 'aclose')

    async def __aenter__(self) -> Self:
        await _pass_on(self._six, '__aenter__')
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _pass_on(self._six, '__aexit__', kind, error, trace)

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


async def _pass_on(store: object, method: str, *args: object) -> None:
    """Call what the store's class defines beyond the six methods, if it does."""
    if hasattr(type(store), method):
        await getattr(store, method)(*args)


def _plan(items: Sequence[PlanItem]) -> Plan:
    steps = tuple(
        Step(
            id=item.id,
            content=item.content,
            status=_status(item),
            active_form=item.active_form,
            parent_id=item.parent_id,
            depends_on=tuple(item.depends_on),
        )
        for item in items
    )
    return Plan(steps=steps, next_id=next_id_after(1, (step.id for step in steps)))


def _status(item: PlanItem) -> TaskStatus:
    """Return the status of an item that may come from a library of its own, or hold plain text."""
    name = getattr(item.status, 'value', item.status)
    status = STATUSES.get(name)
    if status is None:
        raise DamagedStore(f'step {clean(item.id)!r} has the status {clean(str(name))!r}, which no step can have')
    return status


def _refuse_what_is_lost(change: Change) -> None:
    """Refuse what the six methods cannot store rather than lose it. A start keeps no owner here, which is no loss."""
    plan = replace(change.after, steps=change.before.steps)
    if (plan.objective, plan.brief, plan.owner) != (change.before.objective, change.before.brief, change.before.owner):
        raise Unsupported('this store keeps steps only: no objective, brief or run')
    for entry in change.steps:
        if entry.after is not None and (entry.after.note or entry.after.lease is not None):
            raise Unsupported('this store keeps no notes and no claims', ids=[entry.after.id])


class _Turn:
    """A first-come, first-served lock for tasks of any loop and thread. Nothing that it does blocks a thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        # By number, because a reference would keep a task alive whose loop is gone.
        self._offered: int | None = None
        """Which future was given the turn last, whose task may never come to know of it."""

    async def __aenter__(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
        try:
            await future
        except BaseException:
            with self._guard:
                if future in self._waiting:
                    self._waiting.remove(future)
                    raise
            self._decline(future)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pass()

    def _pass(self) -> None:
        with self._guard:
            while self._waiting:
                future = self._waiting.popleft()
                with suppress(RuntimeError):  # Its loop is closed: the next one.
                    future.get_loop().call_soon_threadsafe(self._give, future)
                    self._offered = id(future)
                    return
            self._taken = False

    def _give(self, future: asyncio.Future[None]) -> None:
        if future.done():
            self._decline(future)
        else:
            future.set_result(None)

    def _decline(self, future: asyncio.Future[None]) -> None:
        """Pass on a turn that is given to nobody: its task was cancelled, or its loop closed. Only once."""
        with self._guard:
            if self._offered != id(future):
                return
            self._offered = None
        self._pass()


_turns: dict[int, tuple[ref[object], _Turn]] = {}
_guard = threading.Lock()


def _turn(store: object) -> _Turn:
    """Return the lock of a store object, which need neither be hashable nor compare by identity.

    Objects that cannot be referred to weakly (slots without `__weakref__`) share the lock of their class.
    """
    known = id(store)
    with _guard:
        entry = _turns.get(known)
        if entry is not None:
            return entry[1]
        try:
            entry = _turns[known] = (ref(store, lambda _: _turns.pop(known, None)), _Turn())
            return entry[1]
        except TypeError:
            pass
    return _turn(type(store))


class StoreWrapper(BaseStore):
    """A store around another: override `read` or `update` to add retry, a fallback or a trace, and call `super`."""

    def __init__(self, store: BaseStore | PlanStore) -> None:
        self.wrapped = inner(store)

    async def read(self) -> Plan:
        """Return what the wrapped store reads."""
        return await self.wrapped.read()

    async def log(self, *, since: int = 0, limit: int | None = None, step_id: str | None = None) -> list[LogRow]:
        """Return what the wrapped store logged."""
        return await self.wrapped.log(since=since, limit=limit, step_id=step_id)

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Do what the wrapped store does."""
        return await self.wrapped.update(edit, actor=actor, label=label, now=now, key=key)

    async def aclose(self) -> None:
        """Close the wrapped store."""
        await self.wrapped.aclose()

    async def __aenter__(self) -> Self:
        await self.wrapped.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.wrapped.__aexit__(kind, error, trace)
