"""The steps as they are stored, beside the steps as planctl last wrote them. Pure; both tables look like this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planctl.change import Change
from planctl.journal import foreign
from planctl.plan import Plan, Problem, Step


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored of a session: `known` as planctl last wrote it, `plan` with the steps as they are now.

    `other` is what another program changed in between, `None` when it changed nothing: a revision of its own, which
    counts and is logged when planctl writes next.
    """

    known: Plan
    plan: Plan
    other: Change | None

    @property
    def base(self) -> Plan:
        """The plan to be changed, as it will have been before our change."""
        return self.plan if self.other is None else self.other.after


def found(known: Plan, steps: Sequence[Step], problems: Sequence[Problem] = ()) -> Found:
    """Return what is stored, given the steps as `adopt` makes them and a stand-in for each that cannot be read."""
    current = tuple(steps)
    if problems:
        known = replace(known, problems=tuple(problems))
    other = None if current == known.steps else foreign(known, current)
    return Found(known, known if other is None else replace(known, steps=current), other)


def adopt(step: Step, ours: Step | None) -> Step:
    """Return a step of the shared list with what only planctl keeps: who works on it, since when, and its note.

    `ours` is the step as planctl last wrote it. What it keeps belongs to a status; when another program moved the step
    on, it is gone.
    """
    if ours is None or ours.status is not step.status:
        return step
    kept = replace(step, owner=ours.owner, lease=ours.lease, started_at=ours.started_at, note=ours.note)
    return ours if kept == ours else kept
