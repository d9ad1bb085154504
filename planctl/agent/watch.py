"""What a run tells those who watch it, and the store that sees every change the agent makes. It decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from planctl.change import Change
from planctl.plan import Plan
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore, EditFunction, PlanStore

PhaseName: TypeAlias = Literal['plan', 'execute']

AT_WORK: ContextVar[int | None] = ContextVar('planctl_worker', default=None)
"""Which of several executors is at work in this task and in those that it starts: what they tell is told by it."""


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
    """The model is asked; `number` counts the requests of the phase. The rest is what the phase used so far."""

    number: int
    input_tokens: int
    output_tokens: int
    cost: Decimal | None = None
    """US dollars; `None` when no price is known."""


@dataclass(frozen=True, slots=True)
class Answered(Requested):
    """The model has answered; what it used is counted in."""


@dataclass(frozen=True, slots=True)
class Retried:
    """The provider could not serve a request; it is made again, for the `attempt`th time of `of`, in some seconds."""

    attempt: int
    of: int
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The model called a tool. `is_plan` tells the plan's own tools, whose effect is a change of the plan."""

    name: str
    arguments: str
    id: str = ''
    is_plan: bool = False


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool answered: `success`, `failed`, `denied`, `retried` when the call made no sense, `interrupted` at an end.

    Each call has one, whatever becomes of it.
    """

    name: str
    id: str
    outcome: str
    is_plan: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """A tool that needs approval was allowed or denied; `asked` is false where there was nobody to ask."""

    name: str
    arguments: str
    allowed: bool
    asked: bool


@dataclass(frozen=True, slots=True)
class StartedAnew:
    """The executor goes on with a fresh context, its `number`th."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The agent changed the plan."""

    change: Change


@dataclass(frozen=True, slots=True)
class PlanSeen:
    """Somebody else changed the plan."""

    plan: Plan


RunEvent: TypeAlias = (
    Said
    | PhaseStarted
    | Requested
    | Answered
    | Retried
    | ToolCalled
    | ToolReturned
    | Decided
    | StartedAnew
    | PlanChanged
    | PlanSeen
)
Watcher: TypeAlias = Callable[[RunEvent], None]


class WatchedStore(StoreWrapper):
    """Tells of each change that goes through it, after it was stored. `busy` counts the writes under way."""

    def __init__(self, store: BaseStore | PlanStore, seen: Callable[[Change], None]) -> None:
        super().__init__(store)
        self._seen = seen
        self.busy = 0

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Do what the wrapped store does, and tell of it."""
        self.busy += 1
        try:
            change = await super().update(edit, actor=actor, label=label, now=now, key=key)
            if change.changed:
                self._seen(change)
        finally:
            self.busy -= 1
        return change
