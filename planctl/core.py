"""The only write path: `apply`. Every face of planctl, and every Python caller that wants rules, comes through here."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from planctl.change import Change
    from planctl.journal import LogRow
    from planctl.operations import Operation
    from planctl.plan import Plan
    from planctl.stores.base import BaseStore, PlanStore

T = TypeVar('T')

Request: TypeAlias = 'Operation | Callable[[Plan], Iterable[Operation]]'
"""An operation, or a pure function that makes operations from the stored plan, inside the transaction."""


async def apply(
    store: BaseStore | PlanStore,
    *requests: Request,
    actor: str = 'python',
    label: str | None = None,
    now: float | None = None,
    key: str | None = None,
) -> Change:
    """Apply operations to the store's plan, all or nothing, in one transaction, and return what changed.

    Operations given together are judged together, in any order. `actor` and `label` go into the log; `now` is in
    seconds since the epoch, the clock's by default. A `key` that was seen before returns the first change and changes
    nothing. What cannot be stored of the three becomes U+FFFD. Raises `InputError`, `NotFound` and `Refused` from the
    rules and `StorageError` from the store; then nothing was changed.
    """
    # Here and not above: a command that only reads is a fifth faster without the operations and the rules.
    from planctl import rules
    from planctl.sanitize import clean
    from planctl.stores.base import inner

    moment = time.time() if now is None else now
    # They may come from an environment that is no UTF-8; a step keeps the actor as its owner.
    who, what = clean(actor), clean(label or label_of(requests))

    def edit(plan: Plan) -> Change:
        return rules.apply(plan, expand(plan, requests), actor=who, now=moment)

    return await inner(store).update(edit, actor=who, label=what, now=moment, key=None if key is None else clean(key))


async def read(store: BaseStore | PlanStore) -> Plan:
    """Return one snapshot of the store's plan. Raises `StorageError`."""
    from planctl.stores.base import inner

    return await inner(store).read()


async def log(
    store: BaseStore | PlanStore, *, since: int = 0, limit: int | None = None, step_id: str | None = None
) -> list[LogRow]:
    """Return what was done to the store's plan, the newest last; see `BaseStore.log`."""
    from planctl.stores.base import inner

    return await inner(store).log(since=since, limit=limit, step_id=step_id)


async def undo(
    store: BaseStore | PlanStore,
    revision: int | None = None,
    *,
    actor: str = 'python',
    now: float | None = None,
    preview: bool = False,
) -> Change:
    """Take back a revision by anyone, or without one the last that `actor` made and that is not undone.

    It is a change like any other, in one transaction, and in the log: to undo it is to do it again. With `preview`
    nothing is stored. Raises `RevisionNotFound`, `UndoConflict` when a later change touched the same, what the rules
    say of the outcome, and `Unsupported` on a store that keeps no log.
    """
    from planctl import rules
    from planctl.errors import StoreUnavailable
    from planctl.sanitize import clean
    from planctl.stores.base import inner
    from planctl.undo import is_current, label_for, last_of, undoing

    moment = time.time() if now is None else now
    who, opened = clean(actor), inner(store)
    for _ in range(_ATTEMPTS):
        rows, seen = await opened.log(), await opened.read()
        target = last_of(rows, who) if revision is None else revision
        if preview:
            return _undone(rules.apply(seen, undoing(seen, rows, target), actor=who, now=moment), target)
        moved_on = False

        def take_back(plan: Plan, rows: list[LogRow] = rows, seen: Plan = seen, target: int = target) -> Change:
            nonlocal moved_on
            moved_on = not is_current(rows, seen, plan)
            if moved_on:
                return rules.apply(plan, (), actor=who, now=moment)
            return rules.apply(plan, undoing(plan, rows, target), actor=who, now=moment)

        change = await opened.update(take_back, actor=who, label=label_for(target), now=moment)
        if not moved_on:
            return _undone(change, target)
    raise StoreUnavailable('others change this plan all the time')


def _undone(change: Change, revision: int) -> Change:
    from dataclasses import replace

    from planctl.change import Remark

    return replace(change, remarks=(*change.remarks, Remark('undone', (str(revision),))))


_ATTEMPTS = 50
"""How often to begin an undo again when somebody wrote between our reading of the log and our write."""


def expand(plan: Plan, requests: Iterable[Request]) -> list[Operation]:
    """Return the operations that the requests come to on this plan."""
    operations: list[Operation] = []
    for request in requests:
        if callable(request):
            operations.extend(request(plan))
        else:
            operations.append(request)
    return operations


def label_of(requests: Iterable[Request]) -> str:
    """Return the kinds of the operations, each once, as the log names what was done."""
    kinds = dict.fromkeys('edit' if callable(request) else request.kind for request in requests)
    return ', '.join(kinds) or 'nothing'


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of a store that never suspends, without an event loop; importing asyncio costs a command 50 %."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError('this store needs an event loop')
