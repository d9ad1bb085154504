"""What the rows of a plan in Postgres say, as records. Pure; the order of the columns is that of the statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from planctl.plan import Plan, Problem, Step
from planctl.stores.base import UNPLACED
from planctl.stores.kept import checked_session, step_of
from planctl.stores.mirror import adopt
from planctl.stores.rows import read_row

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
    """What the two tables of steps hold: the shared list and planctl's own copy of it, with row versions.

    `problems` are the rows of the shared list that are no steps; there is a stand-in for each in `shared`.
    """

    shared: dict[str, tuple[int, Step]] = field(default_factory=dict[str, tuple[int, Step]])
    own: dict[str, tuple[int, Step]] = field(default_factory=dict[str, tuple[int, Step]])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    problems: list[Problem] = field(default_factory=list[Problem])


def session_of(row: Sequence[Any], session: str) -> Plan | None:
    """Return the session of a row of `read_session` without its steps, or `None` when there is none."""
    if row[3] is None:
        return None
    return checked_session(Plan(session=session, **dict(zip(SESSION, row[3:], strict=True))))


def rows_of(records: Iterable[Sequence[Any]]) -> Rows:
    """Return what the records of `read_rows` or `read_shared` hold."""
    rows = Rows()
    for record in records:
        step_id, version, seq = record[:3]
        ours = None
        if record[8] is not None:
            same = record[13]
            at, columns = (seq, record[3:8]) if same else (record[14], record[15:20])
            ours = step_of((record[8], *columns, *record[9:13]))
            rows.own[ours.id] = (at, ours)
        if step_id is not None:
            if ours is not None and record[13]:
                step = ours
            elif isinstance(found := read_row((step_id, *record[3:8]), step_id), Problem):
                rows.problems.append(found)
                step = found.stand_in
            else:
                step = adopt(found, ours)
            rows.shared[step_id] = (UNPLACED if seq is None else seq, step)
            rows.versions[step_id] = version
    return rows
