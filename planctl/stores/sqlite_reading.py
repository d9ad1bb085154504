"""One session's rows in SQLite, read: its plan, its log, its replies. Writes nothing, opens no file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from planctl.journal import LogRow
from planctl.plan import Plan, Problem, Step, next_id_after
from planctl.stores.base import UNPLACED
from planctl.stores.kept import checked_session, row_of, step_of
from planctl.stores.rows import read_row
from planctl.stores.sqlite_tables import ITEM, OWN, SAME, look, migrate

ITEMS = ', '.join(ITEM)
OWNS = ', '.join(OWN)
SESSION = ('revision', 'next_id', 'objective', 'brief', 'owner', 'lease')
"""The columns of a session, which are fields of its plan."""

Made: TypeAlias = dict[str, tuple[tuple[Any, ...], Step]]
"""Steps by id with the rows that they were made of, from one reading to the next: hardly any row changes between."""

_LOG = 'revision, number, id, at, actor, operation, "before", "after"'


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the tables hold of the session."""

    plan: Plan
    seqs: dict[str, int]
    tables: frozenset[str]
    known: bool
    """Whether the session has a row in our tables."""
    settled: bool
    """Whether every step is as we last wrote it."""
    outdated: bool = False
    """Whether our tables are those of an older planctl."""
    unread: Mapping[str, int] = field(default_factory=dict[str, int])
    """The steps that could not be read, each with the number of its row."""


class Reading:
    """One session on one connection. Every method is called inside a transaction, which the caller begins and ends."""

    def __init__(self, db: sqlite3.Connection, table: str, session: str, name: str, made: Made | None = None) -> None:
        self._made: Made = {} if made is None else made
        self._db = db
        self._table = table
        self._session = session
        self._key = (table.lower(), session)
        self._name = name

    def outdated(self) -> bool:
        """Return whether our tables are those of an older planctl. Raises `DamagedStore` and `NewerSchema`."""
        return look(self._db, self._table, self._name)[1]

    def snapshot(self) -> Snapshot:
        """Return the plan and how it is stored. Raises `DamagedStore` and `NewerSchema`."""
        tables, outdated = look(self._db, self._table, self._name)
        if outdated:
            with closing(self._brought_up_to_date()) as db:
                return replace(Reading(db, self._table, self._session, self._name).snapshot(), outdated=True)
        ours = 'planctl_schema' in tables
        record = None
        if ours:
            query = f"""SELECT {', '.join(SESSION)}, (SELECT max(revision) FROM planctl_log WHERE plan_table = ?1
                AND session = ?2) FROM planctl_sessions WHERE plan_table = ?1 AND session = ?2"""
            record = self._db.execute(query, self._key).fetchone()
        steps: list[Step] = []
        problems: list[Problem] = []
        unread: dict[str, int] = {}
        seqs: dict[str, int] = {}
        settled = True
        made: Made = {}
        for row in self._rows(ours) if self._table.lower() in tables else ():
            values, (seq, same, holds, number) = row[:-4], row[-4:]
            if same and values[0] not in seqs:
                known = self._made.get(values[0])
                step = known[1] if known is not None and known[0] == values else step_of(values)
                made[step.id] = (values, step)
            else:
                settled = False
                found = read_row(values[:6], f'row-{number}', seqs)
                if isinstance(found, Problem):
                    problems.append(found)
                    unread[found.id] = number
                    step = found.stand_in
                elif holds:
                    owner, lease, started_at, note = values[6:]
                    step = replace(found, owner=owner, lease=lease, started_at=started_at, note=note)
                else:
                    step = found
            steps.append(step)
            seqs[step.id] = seq if isinstance(seq, int) else UNPLACED
        self._made.clear()
        self._made.update(made)
        if ours and settled:
            query = 'SELECT count(*) FROM planctl_steps WHERE plan_table = ? AND session = ?'
            settled = self._db.execute(query, self._key).fetchone()[0] == len(steps)
        fields: dict[str, Any] = {} if record is None else self._session_fields(record)
        if ours and record is None:
            fields = self._left_behind(removed=not steps)
        plan = Plan(session=self._session, steps=tuple(steps), problems=tuple(problems), **fields)
        return Snapshot(plan, seqs, tables, known=record is not None, settled=settled, unread=unread)

    def _session_fields(self, record: tuple[Any, ...]) -> dict[str, Any]:
        *kept, logged = record
        fields: dict[str, Any] = dict(zip(SESSION, kept, strict=True))
        checked_session(Plan(self._session, **fields))
        # A counter that was set back would give a revision to two changes.
        return fields | {'revision': max(fields['revision'], logged if isinstance(logged, int) else 0)}

    def last_written(self, stored: Snapshot) -> Plan:
        """Return the plan as we last wrote it."""
        if 'planctl_schema' not in stored.tables:
            return replace(stored.plan, steps=())
        query = f'SELECT id, {ITEMS}, {OWNS} FROM planctl_steps WHERE plan_table = ? AND session = ? ORDER BY seq'
        return replace(stored.plan, steps=tuple(step_of(row) for row in self._fetch(query, self._key)))

    def reply(self, stored: Snapshot, key: str) -> str | None:
        """Return what was kept for the key."""
        if 'planctl_schema' not in stored.tables:
            return None
        query = 'SELECT reply FROM planctl_replies WHERE plan_table = ? AND session = ? AND "key" = ?'
        row = self._db.execute(query, (*self._key, key)).fetchone()
        return None if row is None else row[0]

    def log(self, *, since: int, limit: int | None, step_id: str | None) -> list[LogRow]:
        """Return rows of the log, the newest last; see `BaseStore.log`."""
        tables, outdated = look(self._db, self._table, self._name)
        if outdated:
            with closing(self._brought_up_to_date()) as db:
                older = Reading(db, self._table, self._session, self._name)
                return older.log(since=since, limit=limit, step_id=step_id)
        if 'planctl_schema' not in tables:
            return []
        query = f"""SELECT {_LOG} FROM planctl_log WHERE plan_table = ? AND session = ? AND revision > ?
            AND (?4 IS NULL OR id = ?4) ORDER BY revision DESC, number DESC LIMIT ?5"""
        rows = self._fetch(query, (*self._key, since, step_id, -1 if limit is None else limit))
        return [row_of(row) for row in reversed(rows)]

    def _left_behind(self, *, removed: bool) -> dict[str, Any]:
        """Return what the log tells of a session that was removed: how far it counted, in revisions and in ids."""
        where = 'FROM planctl_log WHERE plan_table = ? AND session = ?'
        revision = self._db.execute(f'SELECT max(revision) {where}', self._key).fetchone()[0]
        if revision is None:
            return {}
        ids = [each for (each,) in self._fetch(f'SELECT DISTINCT id {where}', self._key)]
        return {'revision': revision, 'next_id': next_id_after(1, ids), 'removed': removed}

    def _rows(self, ours: bool) -> list[Any]:
        """Return the rows of the steps, each with whether we wrote it so and whether its status is the one we wrote."""
        shared = ', '.join(f'p.{column}' for column in ('id', *ITEM))
        order = 'ORDER BY p.seq, p.rowid'
        if not ours:
            none = ', '.join('NULL' for _ in OWN)
            query = f'SELECT {shared}, {none}, p.seq, 0, 0, p.rowid FROM {self._table} p WHERE p.session = ? {order}'
            return self._fetch(query, self._key[1:])
        own = ', '.join(f'm.{column}' for column in OWN)
        query = f"""
            SELECT {shared}, {own}, p.seq, {SAME}, m.status IS p.status, p.rowid
            FROM {self._table} p LEFT JOIN planctl_steps m
            ON m.plan_table = ? AND m.session = p.session AND m.id = p.id WHERE p.session = ? {order}"""
        return self._fetch(query, self._key)

    def _fetch(self, query: str, bound: Sequence[Any]) -> list[Any]:
        try:
            return self._db.execute(query, bound).fetchall()
        except sqlite3.OperationalError as error:
            if 'decode' not in str(error).lower():
                raise
        # Bytes that are no UTF-8; only another program can have stored them.
        self._db.text_factory = _decoded
        try:
            return self._db.execute(query, bound).fetchall()
        finally:
            self._db.text_factory = str

    def _brought_up_to_date(self) -> sqlite3.Connection:
        """Return a copy in memory with our tables as this planctl knows them: reading changes no file.

        Never while we hold the lock for writing, for which a copy would wait.
        """
        copy = sqlite3.connect(':memory:', isolation_level=None)
        self._db.backup(copy)
        migrate(copy)
        return copy


class _Decoded(str):
    """Text of bytes that are no UTF-8. It is not what stands in the file, so nothing can be found by it."""

    __slots__ = ()


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _Decoded(raw.decode('utf-8', 'replace'))
