"""What a run may ask a person: whether the plan is right, and whether a tool may be called. Not how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from planctl.plan import Plan


@dataclass(frozen=True, slots=True)
class Go:
    """Carry the plan out."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the plan and end the run."""


@dataclass(frozen=True, slots=True)
class Again:
    """Have the planner change the plan as the comment says."""

    comment: str


Verdict: TypeAlias = Go | Keep | Again


class Person(Protocol):
    """Somebody who sits at a terminal."""

    async def review(self, plan: Plan, *, can_plan: bool) -> Verdict:
        """Show the plan and return what is to be done with it. They may change the plan in the store meanwhile.

        `can_plan` is whether there is a planner to ask again.
        """
        ...

    async def allow(self, tool: str, arguments: str) -> bool:
        """Return whether the tool may be called with these arguments."""
        ...
