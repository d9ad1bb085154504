"""The two ways from an agent to its store: one read, one transaction. What they return can be recorded and repeated."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planctl.agent.answers import Applied, Refusal, View, applied, refusal, startable, whole
from planctl.agent.seen import Seen
from planctl.change import Change
from planctl.core import apply, label_of, read
from planctl.errors import PlanctlError, StorageError
from planctl.journal import log_rows, replay
from planctl.operations import Operation, Replace
from planctl.plan import Plan
from planctl.reminder import remind, restated
from planctl.stores.base import BaseStore, PlanStore


async def view(
    store: BaseStore | PlanStore,
    what: str,
    *,
    actor: str,
    tools: Mapping[str, str],
    known: Mapping[str, str] | None,
    seen: Seen,
) -> View:
    """Read the plan and return a text about it: `reminder`, `available`, `tree` or `flat`. Raises `StorageError`."""
    plan = await read(store)
    match what:
        case 'reminder':
            reminder = remind(plan, tools=tools, known=known, last=seen.last, actor=actor, now=time.time())
            seen.look(plan.steps)
            return View(reminder.text, reminder.shown, reminder.rest, reminder.gone)
        case 'available':
            return startable(plan, actor)
        case _:
            return whole(plan, tree=what == 'tree')


async def perform(
    store: BaseStore | PlanStore, operations: Sequence[Operation], *, actor: str, key: str | None
) -> Applied | Refusal:
    """Apply operations in one transaction. What the rules refuse is returned; `StorageError` is raised."""
    found: Plan | None = None

    def requested(plan: Plan) -> list[Operation]:
        nonlocal found
        found = plan
        return [replace(op, items=restated(plan, op.items)) if isinstance(op, Replace) else op for op in operations]

    try:
        change = await apply(store, requested, actor=actor, label=label_of(operations), key=key)
    except StorageError:
        raise
    except PlanctlError as error:
        return refusal(error, found)
    return applied(change, operations)


async def catch_up(store: PlanStore, outcome: Applied, *, actor: str) -> None:
    """Repeat in a run's own plan in memory what was recorded of it, when the memory is gone and the record is not.

    That is a run which a durable engine recovers in another process: its recorded operations are not carried out
    again, and the next one has to find the plan and the ids as they left them.
    """
    if not isinstance(store, BaseStore) or (await store.read()).revision >= outcome.revision:
        return

    def again(plan: Plan) -> Change:
        told = Change(plan, replace(plan, revision=outcome.revision), outcome.steps)
        return replace(told, after=replay(log_rows(told, actor=actor, operation='', at=0.0), plan))

    # Not the time: it would be another one when an engine replays this.
    await store.update(again, actor=actor, label='recover', now=0.0)
