"""A plan as plain text, for models and pipes: never coloured, cut or wrapped. Decides nothing about plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from planctl.plan import Plan, Progress, Step, TaskStatus
from planctl.sanitize import shown, shown_block

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

GLYPHS = {
    TaskStatus.pending: '○',
    TaskStatus.in_progress: '●',
    TaskStatus.completed: '✓',
    TaskStatus.cancelled: '✗',
    TaskStatus.blocked: '⊘',
}
"""The same for people at a terminal, each one cell wide."""

WORDS = {status: status.value.replace('_', ' ') for status in TaskStatus}
"""One word for each status, as people read it."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 step`, `2 steps`."""
    return f'{number:,} {noun}' if number == 1 else f'{number:,} {noun}s'


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


def waits_for(plan: Plan, step: Step) -> list[str]:
    """Return the ids of the unresolved steps that this one depends on; a resolved step waits for nothing."""
    if step.resolved:
        return []
    return [on for on in step.depends_on if (other := plan.get(on)) is not None and not other.resolved]


def state_of(counts: Progress) -> str:
    """Return what the counts make of the plan: `empty`, `open`, `finished` or `abandoned`."""
    if counts.total == 0:
        return 'empty'
    return 'finished' if counts.finished else 'abandoned' if counts.abandoned else 'open'


def progress_line(counts: Progress) -> str:
    """Return one line that says how far a plan is."""
    if counts.total == 0:
        return 'no steps'
    parts = [f'{counts.resolved} of {counts.total} resolved']
    named = ('in_progress', 'blocked', 'cancelled')
    parts.extend(f'{count} {name.replace("_", " ")}' for name in named if (count := getattr(counts, name)))
    if (state := state_of(counts)) != 'open':
        parts.append(state)
    return ', '.join(parts)


def elapsed(seconds: float) -> str:
    """Return a length of time in its two largest units: `45 s`, `12 min`, `3 h 5 min`, `2 d 3 h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f'{whole} s'
    minutes = whole // 60
    if minutes < 60:
        return f'{minutes} min'
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f'{hours} h {minutes} min' if minutes else f'{hours} h'
    days, hours = divmod(hours, 24)
    return f'{days} d {hours} h' if hours else f'{days} d'


def render_plan(items: Sequence[PlanItem]) -> str:
    """Return the items as a numbered checklist with ids and a line of progress."""
    if not items:
        return 'No plan yet.'
    lines = [f'{at}. {MARKS[item.status]} [{item.id}] {shown(item.content)}' for at, item in enumerate(items, 1)]
    completed = sum(item.status is TaskStatus.completed for item in items)
    return '\n'.join([*lines, f'({completed}/{len(items)} completed)'])


def step_line(plan: Plan, step: Step, depth: int = 0, marks: Mapping[TaskStatus, str] = MARKS) -> str:
    """Return one step on one line: mark, id, text, what it waits for, its note."""
    line = f'{"  " * depth}{marks[step.status]} {shown(step.id)} {shown(step.content)}'
    if step.depends_on and (waits := waits_for(plan, step)):
        line += f' (waits for {shown(", ".join(waits))})'
    if step.note:
        line += f' -- {shown(step.note)}'
    return line


def render_tree(plan: Plan) -> str:
    """Return the whole plan as an indented checklist with a last line of progress; an empty plan is that line."""
    lines = [step_line(plan, step, depth) for depth, step in tree_order(plan.steps)]
    return '\n'.join([*lines, progress_line(plan.progress)])


def render_plan_text(plan: Plan, rows: Iterable[tuple[int, Step]]) -> str:
    """Return the objective, these steps with their depths, and the progress of the whole plan."""
    lines: list[str] = []
    if plan.objective:
        first, *more = shown_block(plan.objective).split('\n')
        lines = [f'objective: {first}', *(f'  {line}' for line in more)]
    lines.extend(step_line(plan, step, depth) for depth, step in rows)
    return '\n'.join([*lines, progress_line(plan.progress)])


def step_details(
    plan: Plan, step: Step, now: float, marks: Mapping[TaskStatus, str] = MARKS
) -> Iterator[tuple[str, str]]:
    """Yield what there is to say about one step beyond its line, as pairs of a name and a text without controls."""
    status = WORDS[step.status]
    if step.started_at is not None:
        status += f' for {elapsed(now - step.started_at)}'
    if step.owner:
        status += f', {step.owner}'
        if step.lease is not None and step.lease > now:
            status += f' holds it for {elapsed(step.lease - now)} more'
    yield 'status', shown(status)
    if step.active_form:
        yield 'while in progress', shown(step.active_form)
    if step.parent_id is not None:
        yield 'part of', _named(plan, step.parent_id, marks)
    for on in step.depends_on:
        yield 'depends on', _named(plan, on, marks)
    for other in plan.steps:
        if step.id in other.depends_on:
            yield 'needed by', _named(plan, other.id, marks)
    for other in plan.steps:
        if other.parent_id == step.id:
            yield 'subtask', _named(plan, other.id, marks)
    if step.note:
        yield 'note', shown(step.note)


def _named(plan: Plan, step_id: str, marks: Mapping[TaskStatus, str]) -> str:
    step = plan.get(step_id)
    if step is None:
        return f'{shown(step_id)}, which is not in the plan'
    return f'{marks[step.status]} {shown(step.id)} {shown(step.content)}'
