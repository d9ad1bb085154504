"""Which steps can be worked on now. The one answer for the tool, `next`, the reminder and the runner. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from planctl.plan import Plan, Step, TaskStatus
from planctl.working import Working


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that can be worked on. One with open children can only be completed after them."""

    step: Step
    open_children: bool = False


def available(plan: Plan, actor: str | None, now: float) -> tuple[Ready, ...]:
    """Return the steps that `actor` can work on at `now` (seconds since the epoch), leaves first, in plan order.

    Those are the open steps that are not blocked, wait for nothing unresolved, themselves or by an ancestor, and are
    not held by another owner whose lease runs. Linear.
    """
    work = Working(plan)
    waiting: dict[str, bool] = {}
    leaves: list[Ready] = []
    parents: list[Ready] = []
    for step in plan.steps:
        if step.resolved or step.status is TaskStatus.blocked or _waits(work, step, waiting):
            continue
        if step.owner is not None and step.owner != actor and step.lease is not None and step.lease > now:
            continue
        if work.open_children(step.id):
            parents.append(Ready(step, open_children=True))
        else:
            leaves.append(Ready(step))
    return (*leaves, *parents)


def _waits(work: Working, step: Step, known: dict[str, bool]) -> bool:
    """Whether the step or an ancestor has an open prerequisite; answers are shared between siblings by `known`."""
    path: list[str] = []
    answer = False
    for current in (step, *work.ancestors(step.id)) if step.parent_id is not None else (step,):
        if current.id in known:
            answer = known[current.id]
            break
        path.append(current.id)
        if current.depends_on and work.open_prerequisites(current):
            answer = True
            break
    for step_id in path:
        known[step_id] = answer
    return answer
