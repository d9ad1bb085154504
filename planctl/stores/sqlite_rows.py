"""One session's rows in SQLite: reads its plan, writes what a change made of it. Knows no rule, opens no file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planctl.change import Change
from planctl.journal import OTHER, LogRow, dump_reply, foreign, load_reply, log_rows
from planctl.plan import Plan, Step
from planctl.sanitize import clean
from planctl.stores.base import EditFunction, positions
from planctl.stores.sqlite_tables import (
    ITEM,
    OWN,
    SAME,
    check_row,
    columns_changed,
    create,
    look,
    step_of,
    values_of,
)

_ITEMS = ', '.join(ITEM)
_OWNS = ', '.join(OWN)
_SESSION = ('revision', 'next_id', 'objective', 'brief', 'owner', 'lease')


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What the tables hold of the session."""

    plan: Plan
    seqs: dict[str, int]
    tables: frozenset[str]
    known: bool
    """Whether the session has a row in our tables."""
    settled: bool
    """Whether every step is as we last wrote it."""


class Rows:
    """One session on one connection; its rows are read again only after another connection committed.

    Every method is called inside a transaction, which the caller begins and ends.
    """

    def __init__(self, db: sqlite3.Connection, table: str, session: str, name: str) -> None:
        self._db = db
        self._table = table
        self._session = session
        self._key = (table.lower(), session)
        self._name = name
        self._seen: tuple[int, _Snapshot] | None = None
        self._written: _Snapshot | None = None

    def read(self) -> Plan:
        """Return the plan. Raises `DamagedStore` and `NewerSchema`."""
        return self._load().plan

    def transact(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None) -> Change:
        """Call `edit` on the stored plan and write what it changed; see `BaseStore.update`.

        What another program wrote since our last write becomes a revision of its own before that. A change of nothing
        writes nothing, not even our tables.
        """
        stored = self._load()
        if key is not None and (reply := self._reply(stored, key)) is not None:
            return load_reply(reply, stored.plan)
        found = None if stored.settled else foreign(self._last_written(stored), stored.plan.steps)
        change = edit(stored.plan if found is None else found.after)
        if key is None and (change.after is change.before or change.after == change.before):
            return replace(change, before=stored.plan, after=stored.plan)
        tables = create(self._db, self._table, stored.tables)
        if not stored.settled:
            self._adopt()
        seqs = self._write_steps(stored, change)
        self._write_session(stored, change.after)
        if found is not None:
            self._log(log_rows(found, actor=OTHER, operation='write', at=now))
        self._log(log_rows(change, actor=clean(actor), operation=clean(label), at=now))
        if key is not None:
            row = (*self._key, key, now, dump_reply(change))
            self._db.execute('INSERT INTO planctl_replies VALUES (?, ?, ?, ?, ?)', row)
        self._written = _Snapshot(change.after, seqs, tables, known=True, settled=True)
        return change

    @property
    def wrote(self) -> bool:
        """Whether the last `transact` wrote anything."""
        return self._written is not None

    def committed(self) -> None:
        """Take note that what `transact` wrote is stored."""
        if self._written is not None and self._seen is not None:
            self._seen = (self._seen[0], self._written)

    # --- Reading ----------------------------------------------------------------------------------------------

    def _load(self) -> _Snapshot:
        self._written = None
        # It moves when another connection commits, never by our own commits.
        version: int = self._db.execute('PRAGMA data_version').fetchone()[0]
        if self._seen is None or self._seen[0] != version:
            self._seen = None
            self._seen = (version, self._snapshot())
        return self._seen[1]

    def _snapshot(self) -> _Snapshot:
        tables = look(self._db, self._table, self._name)
        ours = 'planctl_schema' in tables
        record = None
        if ours:
            query = f'SELECT {", ".join(_SESSION)} FROM planctl_sessions WHERE plan_table = ? AND session = ?'
            record = self._db.execute(query, self._key).fetchone()
        steps: list[Step] = []
        seqs: dict[str, int] = {}
        settled = True
        for *values, seq, same, holds in self._rows(ours) if self._table.lower() in tables else ():
            if not same:
                settled = False
                check_row(values, seq, self._name)
                if not holds:
                    values[6:] = (None, None, None, '')
            steps.append(step_of(values))
            seqs[values[0]] = seq
        if ours and settled:
            query = 'SELECT count(*) FROM planctl_steps WHERE plan_table = ? AND session = ?'
            settled = self._db.execute(query, self._key).fetchone()[0] == len(steps)
        fields = {} if record is None else dict(zip(_SESSION, record, strict=True))
        plan = Plan(session=self._session, steps=tuple(steps), **fields)
        return _Snapshot(plan, seqs, tables, known=record is not None, settled=settled)

    def _rows(self, ours: bool) -> list[Any]:
        """Return the rows of the steps, each with whether we wrote it so and whether its status is the one we wrote."""
        shared = ', '.join(f'p.{column}' for column in ('id', *ITEM))
        if not ours:
            query = f'SELECT {shared}, NULL, NULL, NULL, NULL, p.seq, 0, 0 FROM {self._table} p WHERE p.session = ?'
            return self._fetch(f'{query} ORDER BY p.seq, p.rowid', self._key[1:])
        own = ', '.join(f'm.{column}' for column in OWN)
        query = f"""
            SELECT {shared}, {own}, p.seq, {SAME}, m.status IS p.status FROM {self._table} p LEFT JOIN planctl_steps m
            ON m.plan_table = ? AND m.session = p.session AND m.id = p.id WHERE p.session = ? ORDER BY p.seq, p.rowid"""
        return self._fetch(query, self._key)

    def _last_written(self, stored: _Snapshot) -> Plan:
        """Return the plan as we last wrote it."""
        if 'planctl_schema' not in stored.tables:
            return replace(stored.plan, steps=())
        query = f'SELECT id, {_ITEMS}, {_OWNS} FROM planctl_steps WHERE plan_table = ? AND session = ? ORDER BY seq'
        return replace(stored.plan, steps=tuple(step_of(row) for row in self._fetch(query, self._key)))

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

    def _reply(self, stored: _Snapshot, key: str) -> str | None:
        if 'planctl_schema' not in stored.tables:
            return None
        query = 'SELECT reply FROM planctl_replies WHERE plan_table = ? AND session = ? AND "key" = ?'
        row = self._db.execute(query, (*self._key, key)).fetchone()
        return None if row is None else row[0]

    # --- Writing ----------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Make our copy of the steps what the table holds, value by value, whatever another program put there."""
        own = ', '.join("coalesce(m.note, '')" if column == 'note' else f'm.{column}' for column in OWN)
        shared = ', '.join(f'p.{column}' for column in ('session', 'id', 'seq', *ITEM))
        self._db.execute(
            f"""INSERT OR REPLACE INTO planctl_steps (plan_table, session, id, seq, {_ITEMS}, {_OWNS})
            SELECT ?, {shared}, {own} FROM {self._table} p LEFT JOIN planctl_steps m
            ON m.plan_table = ? AND m.session = p.session AND m.id = p.id AND m.status IS p.status
            WHERE p.session = ? AND NOT (m.id IS NOT NULL AND {SAME})""",
            (self._key[0], *self._key),
        )
        self._db.execute(
            f"""DELETE FROM planctl_steps WHERE plan_table = ? AND session = ?
            AND id NOT IN (SELECT id FROM {self._table} WHERE session = ?)""",
            (*self._key, self._session),
        )

    def _write_steps(self, stored: _Snapshot, change: Change) -> dict[str, int]:
        """Write the rows and columns that changed, in both tables, and return every step's position."""
        gone = [step.id for step in change.deleted]
        if not stored.settled or any(c.before is None or c.moved for c in change.steps):
            seqs = positions(stored.seqs, [step.id for step in change.after.steps])
        else:
            seqs = stored.seqs.copy()
            for step_id in gone:
                del seqs[step_id]
        self._delete(gone)
        self._insert([(self._session, step.id, seqs[step.id], *values_of(step)) for step in change.created])
        changed = {c.step.id: columns_changed(c) for c in change.updated}
        for step_id, seq in seqs.items():
            if stored.seqs.get(step_id, seq) != seq:
                changed.setdefault(step_id, {})['seq'] = seq
        for step_id, columns in changed.items():
            self._update(step_id, columns)
        return seqs

    def _both(self) -> tuple[tuple[str, str, tuple[str, ...]], tuple[str, str, tuple[str, ...]]]:
        """Return both tables of steps, each with what picks a step of the session."""
        return (
            (self._table, 'session = ? AND id = ?', (self._session,)),
            ('planctl_steps', 'plan_table = ? AND session = ? AND id = ?', self._key),
        )

    def _delete(self, ids: Iterable[str]) -> None:
        for table, one, key in self._both():
            self._db.executemany(f'DELETE FROM {table} WHERE {one}', [(*key, step_id) for step_id in ids])

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> None:
        shared = f'session, id, seq, {_ITEMS}'
        end = 3 + len(ITEM)
        self._db.executemany(
            f'INSERT INTO {self._table} ({shared}) VALUES (?{", ?" * (end - 1)})', [row[:end] for row in rows]
        )
        self._db.executemany(
            f'INSERT INTO planctl_steps (plan_table, {shared}, {_OWNS}) VALUES (?{", ?" * (end + len(OWN))})',
            [(self._key[0], *row) for row in rows],
        )

    def _update(self, step_id: str, columns: Mapping[str, Any]) -> None:
        for table, one, key in self._both():
            given = columns if table != self._table else {name: columns[name] for name in columns if name not in OWN}
            if given:
                assigned = ', '.join(f'{name} = ?' for name in given)
                self._db.execute(f'UPDATE {table} SET {assigned} WHERE {one}', (*given.values(), *key, step_id))

    def _write_session(self, stored: _Snapshot, plan: Plan) -> None:
        if not stored.known:
            values = [getattr(plan, name) for name in _SESSION]
            self._db.execute('INSERT INTO planctl_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)', (*self._key, *values))
            return
        changed = {name: value for name in _SESSION if (value := getattr(plan, name)) != getattr(stored.plan, name)}
        if changed:
            assigned = ', '.join(f'{name} = ?' for name in changed)
            query = f'UPDATE planctl_sessions SET {assigned} WHERE plan_table = ? AND session = ?'
            self._db.execute(query, (*changed.values(), *self._key))

    def _log(self, rows: Iterable[LogRow]) -> None:
        self._db.executemany(
            'INSERT INTO planctl_log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
            [(*self._key, r.revision, r.number, r.id, r.at, r.actor, r.operation, r.before, r.after) for r in rows],
        )


def _decoded(raw: bytes) -> str:
    return raw.decode('utf-8', 'replace')
