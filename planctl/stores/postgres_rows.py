"""What the rows of a plan in Postgres say, as records. Pure; the order of the columns is that of the statements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from planctl.errors import DamagedStore
from planctl.plan import STATUSES, Plan, Step
from planctl.sanitize import clean
from planctl.stores.mirror import adopt

Placed: TypeAlias = Mapping[str, tuple[int, Step]]
"""Position and step by id."""

SHARED = {
    'seq': 'bigint',
    'content': 'text',
    'status': 'text',
    'active_form': 'text',
    'parent_id': 'text',
    'depends_on': 'text',
}
OURS = {'owner': 'text', 'lease': 'double precision', 'started_at': 'double precision', 'note': 'text'}
SESSION = {
    'revision': 'bigint',
    'next_id': 'bigint',
    'objective': 'text',
    'brief': 'text',
    'owner': 'text',
    'lease': 'double precision',
}
LOG = {
    'revision': 'bigint',
    'number': 'bigint',
    'id': 'text',
    'at': 'double precision',
    'actor': 'text',
    'operation': 'text',
    'before': 'text',
    'after': 'text',
}


@dataclass(frozen=True, slots=True)
class Rows:
    """What the two tables of steps hold: the shared list and planctl's own copy of it, with row versions."""

    shared: dict[str, tuple[int, Step]] = field(default_factory=dict[str, tuple[int, Step]])
    own: dict[str, tuple[int, Step]] = field(default_factory=dict[str, tuple[int, Step]])
    versions: dict[str, str] = field(default_factory=dict[str, str])


def session_of(row: Sequence[Any], session: str) -> Plan | None:
    """Return the session of a row of `read_session` without its steps, or `None` when there is none."""
    if row[2] is None:
        return None
    return Plan(session=session, **dict(zip(SESSION, row[2:], strict=True)))


def rows_of(records: Iterable[Sequence[Any]]) -> Rows:
    """Return what the records of `read_rows` or `read_shared` hold. Raises `DamagedStore` that names the row."""
    rows = Rows()
    for record in records:
        step_id, version, seq = record[:3]
        ours = None
        if record[8] is not None:
            same = record[13]
            at, columns = (seq, record[3:8]) if same else (record[14], record[15:20])
            ours = _step(record[8], columns, *record[9:13])
            rows.own[ours.id] = (at, ours)
        if step_id is not None:
            step = ours if ours is not None and record[13] else adopt(_step(step_id, record[3:8]), ours)
            rows.shared[step_id] = (seq, step)
            rows.versions[step_id] = version
    return rows


def _step(step_id: str, columns: Sequence[Any], *own: Any) -> Step:
    content, status, active_form, parent_id, depends_on = columns
    known = STATUSES.get(status)
    if known is None:
        raise DamagedStore(
            f'step {clean(step_id)!r} has the status {clean(status)[:80]!r}, which no step can have', ids=[step_id]
        )
    return Step(step_id, content, known, active_form, parent_id, _ids(step_id, depends_on), *own)


def _ids(step_id: str, depends_on: str) -> tuple[str, ...]:
    if depends_on == '[]':
        return ()
    try:
        ids: Any = json.loads(depends_on)
    except (ValueError, RecursionError):
        ids = None
    if isinstance(ids, list):
        texts = [one for one in cast('list[Any]', ids) if isinstance(one, str)]
        if len(texts) == len(cast('list[Any]', ids)):
            return tuple(texts)
    raise DamagedStore(f'the dependencies of step {clean(step_id)!r} are not a JSON list of ids', ids=[step_id])
