"""A plan in the memory of this process. The default of a run; gone when it ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from planctl.change import Change
from planctl.journal import replayed
from planctl.plan import Plan, check_session
from planctl.stores.base import BaseStore, EditFunction, deprecated_emitter

if TYPE_CHECKING:
    from planctl.items import PlanEventEmitter


class InMemoryPlanStore(BaseStore):
    """Keeps one session's plan. Safe to use from several tasks, event loops and threads at once."""

    def __init__(self, *, session: str = 'default', event_emitter: PlanEventEmitter | None = None) -> None:
        self._plan = Plan(session=check_session(session))
        self._replies: dict[str, Change] = {}
        # Held for the length of a pure function, never across an await.
        self._lock = threading.Lock()
        self._emitter = deprecated_emitter(event_emitter)

    async def read(self) -> Plan:
        """Return the plan."""
        return self._plan

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit`; see `BaseStore.update`. Nothing suspends, so calls take effect in the order they were made."""
        with self._lock:
            if key is not None and (first := self._replies.get(key)) is not None:
                return replayed(first, self._plan)
            change = edit(self._plan)
            self._plan = change.after
            if key is not None:
                self._replies[key] = change
        await self._announce(change, label)
        return change
