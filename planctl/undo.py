"""Undo: which revision is meant, and the operations that take it back. Pure; it reads the log and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from planctl.errors import RevisionNotFound, UndoConflict
from planctl.journal import LogRow, step_of, step_record
from planctl.judgement import listed
from planctl.operations import Describe, Operation, Remove, Restore
from planctl.plan import Plan, Step

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
    change touched the same field or refers to what would go. What the rules make of the outcome is theirs to say.
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
    placed: list[tuple[str, str]] = []
    described: dict[str, Any] = {}
    for row in taken_back:
        before, after = _load(row.before), _load(row.after)
        for name in _touched(before, after):
            if (other := later.get((row.id, name)) or later.get((row.id, ''))) is not None:
                raise UndoConflict(f'{_subject(row.id, name)} was changed again by revision {other}', ids=_ids(row.id))
        if not row.id:
            described |= _described(plan, before or {}, after or {})
        elif before is None:
            created.append(row.id)
        else:
            restored[row.id] = _restored(plan, row.id, before, after)
            if 'behind' in before:
                placed.append((row.id, before['behind'] or ''))
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


def _touched_later(rows: Iterable[LogRow], revision: int, dead: Mapping[int, int]) -> dict[tuple[str, str], int]:
    """Return which fields of which steps later revisions touched; what was undone since counts for nothing."""
    touched: dict[tuple[str, str], int] = {}
    for row in rows:
        target = undone_by(row)
        if row.revision <= revision or row.revision in dead or (target is not None and target > revision):
            continue
        for name in _touched(_load(row.before), _load(row.after)):
            touched[row.id, name] = row.revision
    return touched


def _touched(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the fields that differ between two records; the empty one for a step that came or went."""
    if before is None or after is None:
        yield ''
        yield from _FIELDS
        return
    # Where it stands is in both records when it was moved, even behind the same step as before.
    for name in dict.fromkeys((*before, *after)):
        if name == 'behind' or before.get(name) != after.get(name):
            yield name


def _load(record: str | None) -> dict[str, Any] | None:
    return None if record is None else json.loads(record)


def _described(plan: Plan, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    for name in before:
        if getattr(plan, name) != after.get(name):
            raise UndoConflict(f'the {name} was changed again since')
    return dict(before)


def _restored(plan: Plan, step_id: str, before: Mapping[str, Any], after: Mapping[str, Any] | None) -> Step:
    """Return the step with the fields that the revision touched as they were, the others as they are."""
    current = plan.get(step_id)
    if after is None:
        if current is not None:
            raise UndoConflict(f'there is a new step {step_id}', ids=[step_id])
        return step_of(before)
    if current is None:
        raise UndoConflict(f'step {step_id} has been removed since', ids=[step_id])
    now = step_record(replace(current, lease=None))
    changed = [name for name in _touched(before, after) if name != 'behind']
    for name in changed:
        if now.get(name) != after.get(name):
            raise UndoConflict(f'{_subject(step_id, name)} was changed again since', ids=[step_id])
    was = step_of(before)
    return replace(current, **{name: getattr(was, name) for name in changed})


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


def _subject(step_id: str, name: str) -> str:
    if not step_id:
        return f'the {name}'
    what = {'': 'step {}', 'behind': 'the place of step {}', 'parent_id': 'the parent of step {}'}
    return what.get(name, f'the {name.replace("_", " ")} of step {{}}').format(step_id)


def _ids(step_id: str) -> list[str]:
    return [step_id] if step_id else []
