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


def settling(work: Working, given: Container[str] = ()) -> Iterator[Step]:
    """Yield the steps that settling changes, as they then are; nothing is put.

    An open step with an unresolved prerequisite is blocked. A blocked one without goes back to pending, unless it is
    blocked by somebody's word: on nothing, or with a reason although its turn has come. `given` are the steps that
    were given a status in this transaction. A note is kept: nobody said anything new.
    """
    steps = work.steps
    # Written out, for every step of the plan passes here in every transaction.
    for step in [s for s in steps.values() if s.depends_on or s.status is _BLOCKED or s.parent_id is not None]:
        waits = lost = False
        for on in step.depends_on:
            other = steps.get(on)
            if other is None:
                lost = True
            elif other.status is not _COMPLETED and other.status is not _CANCELLED:
                waits = True
        status = step.status
        if waits:
            if status is _PENDING or status is _IN_PROGRESS:
                status = _BLOCKED
        elif status is _BLOCKED and not _is_blocked_by_word(work, step, given):
            status = _PENDING
        is_orphan = step.parent_id is not None and step.parent_id not in steps
        if status is step.status and not lost and not is_orphan:
            continue
        settled = replace(
            step,
            parent_id=None if is_orphan else step.parent_id,
            depends_on=tuple(on for on in step.depends_on if on in steps) if lost else step.depends_on,
        )
        if status is not step.status:
            settled = replace(settled, status=status, owner=None, lease=None, started_at=None)
        yield settled


def _is_blocked_by_word(work: Working, step: Step, given: Container[str]) -> bool:
    """Whether somebody blocked a step that waits for nothing: now, or before when it waited for nothing either."""
    if not step.note and any(on in work.steps for on in step.depends_on):
        return False
    if step.id in given:
        return True
    before = work.plan.index
    earlier = before.get(step.id)
    return (
        earlier is not None
        and earlier.status is _BLOCKED
        and (earlier.note != '' or not earlier.depends_on)
        and all(on in before and before[on].resolved for on in earlier.depends_on)
    )


_PENDING, _IN_PROGRESS, _COMPLETED, _CANCELLED, _BLOCKED = TaskStatus
