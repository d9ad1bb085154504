"""Makes a plan agree with itself: `blocked` with the dependencies, references with the steps there are. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace

from planctl.plan import Plan, Step, TaskStatus
from planctl.working import Working


def settle(plan: Plan) -> Plan:
    """Return the plan settled, itself when it is already. Settling twice is settling once. Linear."""
    work = Working(plan)
    settled = {step.id: step for step in settling(work)}
    return replace(plan, steps=tuple((work.steps | settled).values())) if settled else plan


def settling(work: Working, freed: Container[str] = (), given: Container[str] = ()) -> Iterator[Step]:
    """Yield the steps that settling changes, as they then are; nothing is put.

    An open step with an unresolved prerequisite is blocked. A blocked one goes back to pending when it has
    prerequisites and all are resolved, or when it has lost them: one in `freed`, or one whose last reference was to a
    step that is gone. One without any that was blocked by hand stays so, as does one in `given`, which was blocked in
    this transaction, and one that was blocked with a reason when all its prerequisites were resolved already. A note
    is kept: nobody said anything new.
    """
    steps = work.steps
    for step in steps.values():
        if not step.depends_on and step.parent_id is None and step.id not in freed:
            continue
        status, depends_on = step.status, step.depends_on
        if any(on not in steps for on in depends_on):
            depends_on = tuple(on for on in depends_on if on in steps)
        if any(not steps[on].resolved for on in depends_on):
            if status is _PENDING or status is _IN_PROGRESS:
                status = _BLOCKED
        elif status is _BLOCKED and depends_on:
            if not (step.note and (step.id in given or _was_ready(work, step.id))):
                status = _PENDING
        elif status is _BLOCKED and (step.depends_on or step.id in freed) and step.id not in given:
            status = _PENDING
        parent_id = step.parent_id if step.parent_id in steps else None
        if status is not step.status:
            yield replace(
                step,
                status=status,
                depends_on=depends_on,
                parent_id=parent_id,
                owner=None,
                lease=None,
                started_at=None,
            )
        elif depends_on is not step.depends_on or parent_id != step.parent_id:
            yield replace(step, depends_on=depends_on, parent_id=parent_id)


def _was_ready(work: Working, step_id: str) -> bool:
    """Whether the step was blocked before, but not by any prerequisite."""
    before = work.plan.index
    step = before.get(step_id)
    return (
        step is not None
        and step.status is _BLOCKED
        and all(on not in before or before[on].resolved for on in step.depends_on)
    )


_PENDING, _IN_PROGRESS, _BLOCKED = TaskStatus.pending, TaskStatus.in_progress, TaskStatus.blocked
