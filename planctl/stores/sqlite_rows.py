"""One session's rows in SQLite: what a change made of its plan is written here. Knows no rule, opens no file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planctl.change import Change
from planctl.journal import OTHER, LogRow, dump_reply, foreign, load_reply, log_rows
from planctl.plan import Plan
from planctl.sanitize import clean
from planctl.stores.base import UNPLACED, EditFunction, positions
from planctl.stores.sqlite_reading import ITEMS, OWNS, SESSION, Made, Reading, Snapshot
from planctl.stores.sqlite_tables import ITEM, OWN, SAME, columns_changed, create, migrate, values_of


class Rows:
    """One session on one connection; its rows are read again only after another connection committed.

    Every method is called inside a transaction, which the caller begins and ends.
    """

    def __init__(self, db: sqlite3.Connection, table: str, session: str, name: str, made: Made | None = None) -> None:
        self._db = db
        self._table = table
        self._session = session
        self._key = (table.lower(), session)
        self._reading = Reading(db, table, session, name, made)
        self._seen: tuple[int, Snapshot] | None = None
        self._written: Snapshot | None = None

    def read(self) -> Plan:
        """Return the plan. Raises `DamagedStore` and `NewerSchema`."""
        return self._load().plan

    def log(self, *, since: int, limit: int | None, step_id: str | None) -> list[LogRow]:
        """Return rows of the log, the newest last; see `BaseStore.log`."""
        return self._reading.log(since=since, limit=limit, step_id=step_id)

    def transact(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None) -> Change:
        """Call `edit` on the stored plan and write what it changed; see `BaseStore.update`.

        What another program wrote since our last write becomes a revision of its own before that. A change of nothing
        writes nothing, not even our tables.
        """
        stored = self._load(to_write=True)
        if key is not None and (reply := self._reading.reply(stored, key)) is not None:
            return load_reply(reply, stored.plan)
        found = None if stored.settled else foreign(self._reading.last_written(stored), stored.plan.steps)
        change = edit(stored.plan if found is None else found.after)
        if key is None and (change.after is change.before or change.after == change.before):
            return replace(change, before=stored.plan, after=stored.plan)
        tables = create(self._db, self._table, stored.tables)
        if not stored.settled:
            self._adopt(stored)
        seqs = self._write_steps(stored, change)
        self._write_session(stored, change.after)
        if found is not None:
            self._log(log_rows(found, actor=OTHER, operation='write', at=now))
        self._log(log_rows(change, actor=clean(actor), operation=clean(label), at=now))
        if key is not None:
            row = (*self._key, key, now, dump_reply(change))
            self._db.execute('INSERT INTO planctl_replies VALUES (?, ?, ?, ?, ?)', row)
        unread = {problem.id: stored.unread[problem.id] for problem in change.after.problems}
        known = not change.after.removed
        self._written = Snapshot(change.after, seqs, tables, known=known, settled=not unread, unread=unread)
        return change

    @property
    def wrote(self) -> bool:
        """Whether the last `transact` wrote anything."""
        return self._written is not None

    def committed(self) -> None:
        """Take note that what `transact` wrote is stored."""
        if self._written is not None and self._seen is not None:
            self._seen = (self._seen[0], self._written)

    def _load(self, *, to_write: bool = False) -> Snapshot:
        self._written = None
        # It moves when another connection commits, never by our own commits.
        version: int = self._db.execute('PRAGMA data_version').fetchone()[0]
        if self._seen is None or self._seen[0] != version or (to_write and self._seen[1].outdated):
            self._seen = None
            if to_write and self._reading.outdated():
                migrate(self._db)
                return self._reading.snapshot()  # Not to be remembered: without a write it never happened.
            self._seen = (version, self._reading.snapshot())
        return self._seen[1]

    def _adopt(self, stored: Snapshot) -> None:
        """Make our copy of the steps what the table holds, value by value, whatever another program put there.

        Of what cannot be read we keep the stand-in, so that it is logged once and is still the same the next time.
        """
        unread = ', '.join(map(str, stored.unread.values()))
        own = ', '.join("coalesce(m.note, '')" if column == 'note' else f'm.{column}' for column in OWN)
        seq = f"CASE typeof(p.seq) WHEN 'integer' THEN p.seq ELSE {UNPLACED} END"
        shared = ', '.join(seq if column == 'seq' else f'p.{column}' for column in ('session', 'id', 'seq', *ITEM))
        self._db.execute(
            f"""INSERT OR REPLACE INTO planctl_steps (plan_table, session, id, seq, {ITEMS}, {OWNS})
            SELECT ?, {shared}, {own} FROM {self._table} p LEFT JOIN planctl_steps m
            ON m.plan_table = ? AND m.session = p.session AND m.id = p.id AND m.status IS p.status
            WHERE p.session = ? AND NOT (m.id IS NOT NULL AND {SAME}) AND p.rowid NOT IN ({unread})""",
            (self._key[0], *self._key),
        )
        self._db.execute(
            f"""DELETE FROM planctl_steps WHERE plan_table = ? AND session = ?
            AND id NOT IN (SELECT id FROM {self._table} WHERE session = ? AND rowid NOT IN ({unread}))""",
            (*self._key, self._session),
        )
        stand_ins = [problem.stand_in for problem in stored.plan.problems]
        self._insert('planctl_steps', [(*self._key, one.id, stored.seqs[one.id], *values_of(one)) for one in stand_ins])

    def _write_steps(self, stored: Snapshot, change: Change) -> dict[str, int]:
        """Write the rows and columns that changed, in both tables, and return every step's position."""
        gone = [step.id for step in change.deleted]
        is_rearranged = not stored.settled or any(c.before is None or c.moved for c in change.steps)
        if is_rearranged:
            seqs = positions(stored.seqs, [step.id for step in change.after.steps])
        else:
            seqs = stored.seqs.copy()
            for step_id in gone:
                del seqs[step_id]
        # A row that could not be read is written anew, because what is wrong with it need not show in its step.
        mended = {step_id for step_id in stored.unread if step_id in seqs} - {one.id for one in change.after.problems}
        self._delete([*gone, *mended], stored)
        fresh = [step for step in change.after.steps if step.id in mended] if mended else []
        rows = [(*self._key, step.id, seqs[step.id], *values_of(step)) for step in (*change.created, *fresh)]
        self._insert(self._table, [row[1 : -len(OWN)] for row in rows])
        self._insert('planctl_steps', rows)
        changed = {c.step.id: columns_changed(c) for c in change.updated if c.step.id not in mended}
        for step_id, seq in seqs.items() if is_rearranged else ():
            if stored.seqs.get(step_id, seq) != seq and step_id not in mended:
                changed.setdefault(step_id, {})['seq'] = seq
        for step_id, columns in changed.items():
            self._update(step_id, columns, stored)
        return seqs

    def _row(self, step_id: str, stored: Snapshot) -> dict[str, tuple[str, tuple[Any, ...]]]:
        """Return what picks a step in each of the two tables; one that could not be read goes by its row."""
        number = stored.unread.get(step_id)
        shared = ('session = ? AND id = ?', (self._session, step_id)) if number is None else ('rowid = ?', (number,))
        return {
            self._table: shared,
            'planctl_steps': ('plan_table = ? AND session = ? AND id = ?', (*self._key, step_id)),
        }

    def _delete(self, ids: Iterable[str], stored: Snapshot) -> None:
        for step_id in ids:
            for table, (one, bound) in self._row(step_id, stored).items():
                self._db.execute(f'DELETE FROM {table} WHERE {one}', bound)

    def _insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        columns = (
            f'session, id, seq, {ITEMS}' if table == self._table else f'plan_table, session, id, seq, {ITEMS}, {OWNS}'
        )
        marks = ', '.join('?' for _ in columns.split(','))
        self._db.executemany(f'INSERT INTO {table} ({columns}) VALUES ({marks})', rows)

    def _update(self, step_id: str, columns: Mapping[str, Any], stored: Snapshot) -> None:
        for table, (one, bound) in self._row(step_id, stored).items():
            given = columns if table != self._table else {name: columns[name] for name in columns if name not in OWN}
            if given:
                assigned = ', '.join(f'{name} = ?' for name in given)
                self._db.execute(f'UPDATE {table} SET {assigned} WHERE {one}', (*given.values(), *bound))

    def _write_session(self, stored: Snapshot, plan: Plan) -> None:
        if plan.removed:
            self._db.execute('DELETE FROM planctl_sessions WHERE plan_table = ? AND session = ?', self._key)
            return
        if not stored.known:
            values = [getattr(plan, name) for name in SESSION]
            self._db.execute('INSERT INTO planctl_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)', (*self._key, *values))
            return
        changed = {name: value for name in SESSION if (value := getattr(plan, name)) != getattr(stored.plan, name)}
        if changed:
            assigned = ', '.join(f'{name} = ?' for name in changed)
            query = f'UPDATE planctl_sessions SET {assigned} WHERE plan_table = ? AND session = ?'
            self._db.execute(query, (*changed.values(), *self._key))

    def _log(self, rows: Iterable[LogRow]) -> None:
        self._db.executemany(
            'INSERT INTO planctl_log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
            [(*self._key, r.revision, r.number, r.id, r.at, r.actor, r.operation, r.before, r.after) for r in rows],
        )
