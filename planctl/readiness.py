"""Which steps can be worked on now. The one answer for the tool, `next`, the reminder and the runner. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planctl.errors import LostClaim, NoneAvailable
from planctl.plan import Plan, Step, TaskStatus
from planctl.working import Working

_CLOSED = (TaskStatus.completed, TaskStatus.cancelled, TaskStatus.blocked)


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that can be worked on. One with open children can only be completed after them."""

    step: Step
    open_children: bool = False


def held(step: Step, now: float) -> bool:
    """Whether a lease on the step runs at `now`, in seconds since the epoch."""
    return step.owner is not None and step.lease is not None and step.lease > now


def require_free(step: Step, actor: str, now: float) -> None:
    """Raise `LostClaim` when another owner's lease on the step runs at `now`."""
    if _held_by_another(step, actor, now):
        raise LostClaim(f'step {step.id} is held by {step.owner}', ids=[step.id])


def available(plan: Plan, actor: str | None, now: float) -> tuple[Ready, ...]:
    """Return the steps that `actor` can work on at `now` (seconds since the epoch), leaves first, in plan order.

    Those are the open steps that are not blocked, wait for nothing unresolved, themselves or by an ancestor, and are
    not held by another owner whose lease runs. Linear.
    """
    found = list(ready(plan, actor, now))
    return (*(entry for entry in found if not entry.open_children), *(entry for entry in found if entry.open_children))


def ready(plan: Plan, actor: str | None, now: float) -> Iterator[Ready]:
    """Yield what is `available` in plan order, parents among their leaves. Looks no further than it is asked to."""
    work = Working(plan)
    known: dict[str, str | None] = {}
    parents = {step.parent_id for step in plan.steps}

    def waits(step: Step) -> bool:
        return bool(step.depends_on) and bool(work.open_prerequisites(step))

    for step in plan.steps:
        if step.status in _CLOSED or (step.owner is not None and _held_by_another(step, actor, now)) or waits(step):
            continue
        if step.parent_id is not None and work.nearest(step.id, waits, known) is not None:
            continue
        yield Ready(step, open_children=step.id in parents and bool(work.open_children(step.id)))


def none_available(plan: Plan, actor: str | None, now: float) -> NoneAvailable:
    """Return the error that says why `actor` has nothing to take: no steps, all resolved, worked on, or waiting.

    Its ids are the steps that are worked on or, when there are none, those that wait.
    """
    counts = plan.progress
    if counts.total == 0:
        return NoneAvailable('the plan has no steps')
    if counts.open == 0:
        return NoneAvailable('the plan is finished' if counts.finished else 'the plan is abandoned: all is cancelled')
    busy = [s.id for s in plan.steps if s.status is TaskStatus.in_progress or _held_by_another(s, actor, now)]
    if busy:
        return NoneAvailable('every step that could be taken is being worked on', ids=busy)
    return NoneAvailable(
        'every open step is blocked or waits for another', ids=[s.id for s in plan.steps if not s.resolved]
    )


def _held_by_another(step: Step, actor: str | None, now: float) -> bool:
    return step.owner != actor and held(step, now)
