"""What one run of an agent holds of its plan, and a plan tool call on its way through the hooks. Decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic_ai.tools import RunContext

from planctl.agent.events import events_of
from planctl.agent.seen import Seen
from planctl.change import StepChange
from planctl.stores.base import PlanStore

if TYPE_CHECKING:
    from planctl.agent.capability import Planning


@dataclass(slots=True)
class Run:
    """What one run holds: its store, whose name it writes in, and what its model has seen."""

    store: PlanStore
    actor: str
    names: Mapping[str, str]
    """The registered plan tools and what the model calls them, as of the last request."""

    is_placed: bool = True
    """Whether those names were known when the run began."""

    seen: Seen = field(default_factory=Seen)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Taken for each call, first come first served, so that what was seen is up to date when the next one is made."""


@dataclass(slots=True)
class Call:
    """A plan tool call of a run, and what it changed."""

    planning: Planning[Any]
    changes: list[tuple[StepChange, ...]] = field(default_factory=list[tuple[StepChange, ...]])


_current: ContextVar[Call | None] = ContextVar('planctl_call', default=None)


def current_call() -> Call | None:
    """Return the plan tool call that is being carried out here, or `None`."""
    return _current.get()


@asynccontextmanager
async def calling(planning: Planning[Any], ctx: RunContext[Any]) -> AsyncGenerator[None]:
    """Let a plan tool find its run, and emit what it changed once that is stored."""
    call = Call(planning)
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
        # Also when a hook failed behind the tool: what is stored has happened.
        for changes in call.changes:
            for event in events_of(changes):
                await ctx.emit(event)
