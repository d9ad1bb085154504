"""A plan as plain text, for models and pipes: never coloured, cut or wrapped. Decides nothing about plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from planctl.plan import Plan, Progress, Step, TaskStatus, progress
from planctl.sanitize import shown

if TYPE_CHECKING:
    from planctl.items import PlanItem

MARKS = {
    TaskStatus.pending: '[ ]',
    TaskStatus.in_progress: '[~]',
    TaskStatus.completed: '[x]',
    TaskStatus.cancelled: '[-]',
    TaskStatus.blocked: '[!]',
}
"""One mark for each status, the same for models, pipes and Markdown; all of them ASCII."""


def tree_order(steps: Sequence[Step]) -> list[tuple[int, Step]]:
    """Return each step once with its depth, children behind their parent, siblings in plan order.

    A step whose parent is missing, or that sits in a loop of parents made by another program, is at the top.
    """
    known = {step.id for step in steps}
    children: dict[str | None, list[Step]] = {}
    for step in steps:
        children.setdefault(step.parent_id if step.parent_id in known else None, []).append(step)
    placed: dict[str, tuple[int, Step]] = {}

    def place(roots: Iterable[Step]) -> None:
        stack = [(0, step) for step in roots][::-1]
        while stack:
            depth, step = stack.pop()
            if step.id not in placed:
                placed[step.id] = (depth, step)
                stack.extend([(depth + 1, child) for child in children.get(step.id, ())][::-1])

    place(children.get(None, ()))
    if len(placed) < len(steps):
        for step in steps:
            place((step,))
    return list(placed.values())


def progress_line(counts: Progress) -> str:
    """Return one line that says how far a plan is."""
    if counts.total == 0:
        return 'no steps'
    parts = [f'{counts.resolved} of {counts.total} resolved']
    named = ('in_progress', 'blocked', 'cancelled')
    parts.extend(f'{count} {name.replace("_", " ")}' for name in named if (count := getattr(counts, name)))
    if counts.finished:
        parts.append('finished')
    elif counts.abandoned:
        parts.append('abandoned')
    return ', '.join(parts)


def render_plan(items: Sequence[PlanItem]) -> str:
    """Return the items as a numbered checklist with ids and a line of progress, as the reference's function does."""
    if not items:
        return 'No plan yet.'
    lines = [f'{at}. {MARKS[item.status]} [{item.id}] {shown(item.content)}' for at, item in enumerate(items, 1)]
    completed = sum(item.status is TaskStatus.completed for item in items)
    return '\n'.join([*lines, f'({completed}/{len(items)} completed)'])


def step_line(plan: Plan, step: Step, depth: int = 0) -> str:
    """Return one step on one line: mark, id, text, what it waits for, its note."""
    line = f'{"  " * depth}{MARKS[step.status]} {step.id} {shown(step.content)}'
    waits = [on for on in step.depends_on if (other := plan.get(on)) is not None and not other.resolved]
    if waits:
        line += f' (waits for {", ".join(waits)})'
    if step.note:
        line += f' -- {shown(step.note)}'
    return line


def render_tree(plan: Plan) -> str:
    """Return the whole plan as an indented checklist with a last line of progress; an empty plan is that line."""
    lines = [step_line(plan, step, depth) for depth, step in tree_order(plan.steps)]
    return '\n'.join([*lines, progress_line(progress(plan.steps))])
