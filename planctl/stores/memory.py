"""A plan in the memory of this process. The default of a run; gone when it ends."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from planctl.change import Change
from planctl.journal import LogRow, chosen, log_rows, replayed
from planctl.plan import Plan, check_session
from planctl.sanitize import clean
from planctl.stores.base import BaseStore, EditFunction, deprecated_emitter

if TYPE_CHECKING:
    from planctl.items import PlanEventEmitter

LOG_ROWS = 10_000
"""How many rows the log keeps at least, once there are so many; whole revisions are forgotten."""


class InMemoryPlanStore(BaseStore):
    """Keeps one session's plan. Safe to use from several tasks, event loops and threads at once."""

    def __init__(self, *, session: str = 'default', event_emitter: PlanEventEmitter | None = None) -> None:
        self._plan = Plan(session=check_session(session))
        self._replies: dict[str, Change] = {}
        self._logged: deque[list[LogRow]] = deque()
        self._rows = 0
        # Held for the length of a pure function, never across an await.
        self._lock = threading.Lock()
        self._emitter = deprecated_emitter(event_emitter)

    async def read(self) -> Plan:
        """Return the plan."""
        return self._plan

    async def log(self, *, since: int = 0, limit: int | None = None, step_id: str | None = None) -> list[LogRow]:
        """Return what the log still holds; see `BaseStore.log`."""
        with self._lock:
            return chosen((row for rows in self._logged for row in rows), since=since, limit=limit, step_id=step_id)

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit`; see `BaseStore.update`. Nothing suspends, so calls take effect in the order they were made."""
        with self._lock:
            if key is not None and (first := self._replies.get(key)) is not None:
                return replayed(first, self._plan)
            change = edit(self._plan)
            self._note(log_rows(change, actor=clean(actor), operation=clean(label), at=now))
            self._plan = change.after
            if key is not None:
                self._replies[key] = change
        await self._announce(change, label)
        return change

    def _note(self, rows: list[LogRow]) -> None:
        if rows:
            self._logged.append(rows)
            self._rows += len(rows)
            while self._rows - len(self._logged[0]) >= LOG_ROWS:
                self._rows -= len(self._logged.popleft())
