"""Undo: which revision is meant, and the operations that take it back. Pure; it reads the log and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from planctl.errors import RevisionNotFound, UndoConflict
from planctl.journal import LogRow, Sides, logged_step, sides, step_record
from planctl.judgement import listed
from planctl.operations import Describe, Operation, Remove, Restore
from planctl.plan import Plan, Step, TaskStatus

LABEL = 'undo'
"""How the log names an undo: this, and the revision that it takes back."""

_FIELDS = tuple(f.name for f in fields(Step) if f.name not in ('id', 'lease'))


def label_for(revision: int) -> str:
    """Return what the log calls the undo of a revision."""
    return f'{LABEL} {revision}'


def undone_by(row: LogRow) -> int | None:
    """Return the revision that a row's own revision took back, or `None`."""
    word, _, number = row.operation.partition(' ')
    return int(number) if word == LABEL and number.isascii() and number.isdecimal() else None


def last_of(rows: Sequence[LogRow], actor: str) -> int:
    """Return the last revision by this actor that is not undone and is no undo; `RevisionNotFound` without one."""
    dead = _dead(rows)
    for row in reversed(rows):
        if row.actor == actor and row.revision not in dead and undone_by(row) is None:
            return row.revision
    raise RevisionNotFound(f'{actor} has changed nothing here that could be undone')


def is_current(rows: Sequence[LogRow], seen: Plan, plan: Plan) -> bool:
    """Whether a log that was read before a plan was `seen` tells all that led to the `plan` that is to be changed.

    What another program wrote without planctl is in both plans, and becomes a revision only with the next change.
    """
    known = rows[-1].revision if rows else 0
    if plan.revision == known:
        return True
    return plan.revision == known + 1 and seen.revision == known and _content(plan) == _content(seen)


def _content(plan: Plan) -> tuple[object, ...]:
    return plan.objective, plan.brief, plan.removed, [replace(step, lease=None) for step in plan.steps]


def undoing(plan: Plan, rows: Sequence[LogRow], revision: int) -> list[Operation]:
    """Return the operations that take a revision back; those of later revisions stay.

    `rows` are the whole log in order, up to the plan. Raises `RevisionNotFound`, and `UndoConflict` when a later
    change touched the same field or refers to what would go, and `DamagedStore` when a row of that revision or a
    later one cannot be read. What the rules make of the outcome is theirs to say.
    """
    taken_back = [row for row in rows if row.revision == revision]
    if not taken_back:
        raise RevisionNotFound(f'revision {revision} is not in the log of session {plan.session!r}')
    dead = _dead(rows)
    if revision in dead:
        raise UndoConflict(f'revision {revision} is undone already, by revision {dead[revision]}')
    later = _touched_later(rows, revision, dead)
    created: list[str] = []
    restored: dict[str, Step] = {}
    placed: list[tuple[str, str | None]] = []
    described: dict[str, Any] = {}
    for row in taken_back:
        told = sides(row)
        before, after = told.before, told.after
        subject = _subject(row, told)
        for name in _touched(told):
            if (other := later.get((subject, name)) or later.get((subject, ''))) is not None:
                raise UndoConflict(f'{_called(subject, name)} was changed again by revision {other}', ids=_ids(subject))
        if told.of_session:
            described |= _described(plan, before or {}, after or {})
        elif before is None:
            created.append(row.id)
        else:
            restored[row.id] = _restored(plan, row, before, after)
            if 'behind' in before:
                placed.append((row.id, before['behind']))
    restored = {step_id: _waiting_no_more(plan, step, later) for step_id, step in restored.items()}
    created = [step_id for step_id in created if _is_there(plan, step_id)]
    _refuse_dangling(plan, set(created), restored)
    operations: list[Operation] = [Remove(step_id) for step_id in created]
    if restored:
        operations.append(Restore(tuple(restored.values()), tuple(placed)))
    if described:
        operations.append(Describe(**described))
    return operations


def _dead(rows: Sequence[LogRow]) -> dict[int, int]:
    """Return each revision that is undone and the one that undid it; an undo that was itself undone does not count."""
    dead: dict[int, int] = {}
    for row in reversed(rows):
        if row.revision not in dead and (target := undone_by(row)) is not None:
            dead[target] = row.revision
    return dead


def _touched_later(rows: Iterable[LogRow], revision: int, dead: Mapping[int, int]) -> dict[tuple[str | None, str], int]:
    """Return which fields of which steps later revisions touched; what was undone since counts for nothing."""
    touched: dict[tuple[str | None, str], int] = {}
    for row in rows:
        target = undone_by(row)
        if row.revision <= revision or row.revision in dead or (target is not None and target > revision):
            continue
        told = sides(row)
        for name in _touched(told):
            touched[_subject(row, told), name] = row.revision
    return touched


def _subject(row: LogRow, told: Sides) -> str | None:
    """Return the id of the step that a row is about, `None` for the session itself."""
    return None if told.of_session else row.id


def _touched(told: Sides) -> Iterator[str]:
    """Yield the fields that differ between two records; the empty one for a step that came or went."""
    before, after = told.before, told.after
    if before is None or after is None:
        yield ''
        yield from _FIELDS
        return
    # Where it stands is in both records when it was moved, even behind the same step as before.
    for name in dict.fromkeys((*before, *after)):
        if name == 'behind' or before.get(name) != after.get(name):
            yield name


def _described(plan: Plan, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    for name in before:
        if getattr(plan, name) != after.get(name):
            raise UndoConflict(f'the {name} was changed again since')
    return dict(before)


def _restored(plan: Plan, row: LogRow, before: dict[str, Any], after: dict[str, Any] | None) -> Step:
    """Return the step with the fields that the revision touched as they were, the others as they are."""
    step_id, was = row.id, logged_step(row, before)
    current = plan.get(step_id)
    if after is None:
        if current is not None:
            raise UndoConflict(f'there is a new step {step_id}', ids=[step_id])
        return was
    if current is None:
        raise UndoConflict(f'step {step_id} has been removed since', ids=[step_id])
    now = step_record(replace(current, lease=None))
    changed = [name for name in _touched(Sides(before, after, of_session=False)) if name in _FIELDS]
    for name in changed:
        if now.get(name) != after.get(name):
            raise UndoConflict(f'{_called(step_id, name)} was changed again since', ids=[step_id])
    return replace(current, **{name: getattr(was, name) for name in changed})


def _waiting_no_more(plan: Plan, step: Step, later: Mapping[tuple[str | None, str], int]) -> Step:
    """Return the step free when it was blocked because it waited, and not by a word, for what was resolved since."""
    current = plan.get(step.id)
    if current is None or not current.status is step.status is TaskStatus.blocked:
        return step
    if step.depends_on != current.depends_on and any((on, 'status') in later for on in step.depends_on):
        # It is blocked again where it still waits.
        return replace(step, status=TaskStatus.pending)
    return step


def _is_there(plan: Plan, step_id: str) -> bool:
    if plan.get(step_id) is None:
        raise UndoConflict(f'step {step_id} has been removed since', ids=[step_id])
    return True


def _refuse_dangling(plan: Plan, going: set[str], restored: Mapping[str, Step]) -> None:
    """Refuse when what stays refers to what goes, or what comes back to what is gone."""
    if going:
        for step in plan.steps:
            outcome = restored.get(step.id, step)
            if step.id not in going and (named := going.intersection((outcome.parent_id, *outcome.depends_on))):
                raise UndoConflict(
                    f'step {step.id} needs {listed(sorted(named))}, which would go', ids=[step.id, *sorted(named)]
                )
    for step in restored.values():
        before = plan.get(step.id)
        known = () if before is None else (before.parent_id, *before.depends_on)
        for other in (step.parent_id, *step.depends_on):
            if other is None or other in known or other in restored or (other in plan.index and other not in going):
                continue
            raise UndoConflict(f'step {step.id} needs {other}, which has been removed since', ids=[step.id, other])


def _called(step_id: str | None, name: str) -> str:
    if step_id is None:
        return f'the {name}'
    what = {'': 'step {}', 'behind': 'the place of step {}', 'parent_id': 'the parent of step {}'}
    return what.get(name, f'the {name.replace("_", " ")} of step {{}}').format(step_id or "''")


def _ids(step_id: str | None) -> list[str]:
    return [] if step_id is None else [step_id]
