"""What a run tells those who watch it, and the store that sees every change the agent makes. It decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from planctl.change import Change
from planctl.plan import Plan
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore, EditFunction, PlanStore

PhaseName: TypeAlias = Literal['plan', 'execute']


@dataclass(frozen=True, slots=True)
class Said:
    """Something that a person should know, in one line."""

    text: str


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase begins, on the plan as it is."""

    name: PhaseName
    model: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Requested:
    """The model is asked; `number` counts the requests of the phase."""

    number: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The model called a tool that is none of the plan's."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The agent changed the plan."""

    change: Change


@dataclass(frozen=True, slots=True)
class PlanSeen:
    """Somebody else changed the plan."""

    plan: Plan


RunEvent: TypeAlias = Said | PhaseStarted | Requested | ToolCalled | PlanChanged | PlanSeen
Watcher: TypeAlias = Callable[[RunEvent], None]


class WatchedStore(StoreWrapper):
    """Tells of each change that goes through it, after it was stored."""

    def __init__(self, store: BaseStore | PlanStore, seen: Callable[[Change], None]) -> None:
        super().__init__(store)
        self._seen = seen

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Do what the wrapped store does, and tell of it."""
        change = await super().update(edit, actor=actor, label=label, now=now, key=key)
        if change.changed:
            self._seen(change)
        return change
