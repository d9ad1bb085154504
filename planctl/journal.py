"""What is written down of a change: log rows for people and undo, and the reply kept for a keyed operation. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any, cast

from planctl.change import Change, Remark, StepChange, difference
from planctl.errors import DamagedStore
from planctl.plan import STATUSES, Plan, Progress, Step, next_id_after

OTHER = 'other'
"""The actor of what another program wrote without planctl."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """One changed step of one revision, or the session's own objective and brief, which have an empty `id`.

    `before` and `after` are JSON objects as `step_record` makes them, or `None`. `at` is in seconds since the epoch.
    A step of another program may have an empty id as well: see `sides`.
    """

    revision: int
    number: int
    id: str
    at: float
    actor: str
    operation: str
    before: str | None
    after: str | None


def log_rows(change: Change, *, actor: str, operation: str, at: float) -> list[LogRow]:
    """Return the rows to be logged for a change, in its own order; none for a change of leases alone."""
    if not change.changed:
        return []
    records: list[tuple[str, Any, Any]] = []
    described = {
        name: (getattr(change.before, name), getattr(change.after, name))
        for name in ('objective', 'brief', 'removed')
        if getattr(change.before, name) != getattr(change.after, name)
    }
    if described:
        sides = [{name: pair[side] for name, pair in described.items()} for side in (0, 1)]
        records.append(('', sides[0], sides[1]))
    for step in change.steps:
        before, after = _record(step.before, step, step.was_after), _record(step.after, step, step.now_after)
        # Two that move together leave the second behind the same step as before, yet it moved.
        if before != after or step.moved:
            records.append((step.step.id, before, after))
    return [
        LogRow(change.after.revision, number, step_id, at, actor, operation, _dump(before), _dump(after))
        for number, (step_id, before, after) in enumerate(records)
    ]


@dataclass(frozen=True, slots=True)
class Sides:
    """What a row tells of a step before and after, or of the session."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None
    of_session: bool


def sides(row: LogRow) -> Sides:
    """Return what a row tells. Raises `DamagedStore` when it cannot be read."""
    before, after = _loaded(row, row.before), _loaded(row, row.after)
    either = before if after is None else after
    if either is None:
        raise _damaged(row)
    # Only a step has a text; what it is called says nothing, for another program may have called it anything.
    return Sides(before, after, not row.id and 'content' not in either)


def _loaded(row: LogRow, text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        record: Any = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(row) from error
    if not isinstance(record, dict):
        raise _damaged(row)
    found = cast('dict[str, Any]', record)
    for name, value in found.items():
        if not isinstance(value, _KINDS.get(name, object)):
            raise _damaged(row)
    if not all(isinstance(on, str) for on in found.get('depends_on', ())):
        raise _damaged(row)
    return found


def _damaged(row: LogRow) -> DamagedStore:
    return DamagedStore(f'what the log tells of revision {row.revision} is damaged')


_TEXT, _MAYBE_TEXT = (str,), (str, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(('id', 'content', 'status', 'active_form', 'note', 'objective', 'brief'), _TEXT),
    **dict.fromkeys(('parent_id', 'owner', 'behind'), _MAYBE_TEXT),
    'depends_on': (list,),
    'started_at': (int, float, type(None)),
    'removed': (bool,),
}


def logged_step(row: LogRow, record: Mapping[str, Any]) -> Step:
    """Return the step that a row tells of. Raises `DamagedStore` when it is none."""
    try:
        return step_of(record)
    except (KeyError, TypeError) as error:
        raise _damaged(row) from error


def chosen(
    rows: Iterable[LogRow], *, since: int = 0, limit: int | None = None, step_id: str | None = None
) -> list[LogRow]:
    """Return the rows that `BaseStore.log` returns of a whole log."""
    found = [row for row in rows if row.revision > since and step_id in (None, row.id)]
    return found if limit is None else found[max(0, len(found) - limit) :]


def _record(step: Step | None, change: StepChange, behind: str | None) -> dict[str, Any] | None:
    if step is None:
        return None
    record = step_record(replace(step, lease=None))
    if change.moved or change.before is None or change.after is None:
        record['behind'] = behind
    return record


def _dump(record: Mapping[str, Any] | None) -> str | None:
    if record is None:
        return None
    text = json.dumps(record, ensure_ascii=False, separators=(',', ':'))
    if text.isascii() or _SURROGATES.search(text) is None:
        return text
    # What another program stored may hold half a character, which no database takes as it is.
    return json.dumps(record, separators=(',', ':'))


_SURROGATES = re.compile('[\ud800-\udfff]')


_DEFAULTS = {f.name: f.default for f in fields(Step)}


def step_record(step: Step) -> dict[str, Any]:
    """Return a step as a JSON object; fields that have their default are left out."""
    record: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = getattr(step, name)
        if value != default:
            record[name] = list(value) if name == 'depends_on' else value.value if name == 'status' else value
    return record


def step_of(record: Mapping[str, Any]) -> Step:
    """Return the step of a record that `step_record` made; keys that are not fields are ignored."""
    given = {name: record[name] for name in _DEFAULTS if name in record}
    if 'status' in given:
        given['status'] = STATUSES[given['status']]
    if 'depends_on' in given:
        given['depends_on'] = tuple(given['depends_on'])
    return Step(**given)


def replay(rows: Iterable[LogRow], plan: Plan | None = None) -> Plan:
    """Return the plan that a log tells of, by default from an empty one; rows in the order in which they were written.

    Leases are not in the log, nor is the counter of ids further than the steps that were stored. Raises
    `DamagedStore` when a row cannot be read.
    """
    current = Plan() if plan is None else plan
    for revision, group in groupby(rows, key=lambda row: row.revision):
        described: dict[str, Any] = {}
        steps = {step.id: step for step in current.steps}
        placed: list[tuple[Step, str | None]] = []
        for row in group:
            told = sides(row)
            after = told.after
            if told.of_session:
                described |= after or {}
            elif after is None:
                del steps[row.id]
            elif row.before is None or 'behind' in after:
                steps.pop(row.id, None)
                placed.append((logged_step(row, after), after['behind']))
            else:
                steps[row.id] = logged_step(row, after)
        order = _placed(list(steps.values()), placed)
        next_id = next_id_after(current.next_id, (step.id for step in order))
        current = replace(current, steps=tuple(order), revision=revision, next_id=next_id, **described)
    return current


def _placed(steps: list[Step], placed: Iterable[tuple[Step, str | None]]) -> list[Step]:
    """Put each step right behind another, in the order given; linear."""
    following: dict[str | None, str | None] = {None: None}
    by_id: dict[str, Step] = {}
    for step, behind in [*zip(steps, [None, *(step.id for step in steps)], strict=False), *placed]:
        by_id[step.id] = step
        following[step.id] = following[behind]
        following[behind] = step.id
    order: list[Step] = []
    at = following[None]
    while at is not None:
        order.append(by_id[at])
        at = following[at]
    return order


# --- The reply of a keyed operation ---------------------------------------------------------------------------


def dump_reply(change: Change) -> str:
    """Return what has to be kept of a change so that its reply can be given again: the difference, never the plan.

    It is JSON in ASCII, for no reader but `load_reply`.
    """
    return json.dumps(
        {
            'steps': [
                {
                    'before': None if c.before is None else step_record(c.before),
                    'after': None if c.after is None else step_record(c.after),
                    'was_after': c.was_after,
                    'now_after': c.now_after,
                    'moved': c.moved,
                }
                for c in change.steps
            ],
            'remarks': [[remark.code, *remark.ids] for remark in change.remarks],
            'progress': {f.name: getattr(change.progress, f.name) for f in fields(Progress)},
        },
        separators=(',', ':'),
    )


def load_reply(reply: str, plan: Plan) -> Change:
    """Return the change that `dump_reply` kept; `plan` is the plan as it is now."""
    record = json.loads(reply)
    steps = tuple(
        StepChange(
            None if c['before'] is None else step_of(c['before']),
            None if c['after'] is None else step_of(c['after']),
            c['was_after'],
            c['now_after'],
            c['moved'],
        )
        for c in record['steps']
    )
    remarks = tuple(Remark(code, tuple(ids)) for code, *ids in record['remarks'])
    return Change(plan, plan, steps, remarks, Progress(**record['progress']), replayed=True)


def replayed(first: Change, plan: Plan) -> Change:
    """Return the first change of a key again, on the plan as it is now."""
    return replace(first, before=plan, after=plan, replayed=True)


# --- What other programs wrote --------------------------------------------------------------------------------


def foreign(known: Plan, steps: Sequence[Step]) -> Change | None:
    """Return the change that another program made: from the plan as planctl last wrote it to the steps as they are.

    `None` when nothing differs. It is a revision of its own, to be logged with the actor `OTHER`.
    """
    changes = difference(known.steps, steps)
    if not changes:
        return None
    after = replace(
        known,
        steps=tuple(steps),
        revision=known.revision + 1,
        next_id=next_id_after(known.next_id, (step.id for step in steps)),
    )
    return Change(known, after, changes, progress=after.progress)


def ids_of(changes: Iterable[StepChange]) -> tuple[str, ...]:
    """Return the ids of changed steps."""
    return tuple(change.step.id for change in changes)
