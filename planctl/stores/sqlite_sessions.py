"""The sessions of a SQLite file: which there are, renaming one, and purging one. Everything else is a change of a plan.

What is done here is in no log, because a log belongs to one session: a renamed one takes its own along.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from planctl.errors import DatabaseNotFound, SessionExists, SessionHeld, SessionNotFound
from planctl.plan import Progress, are_moments, check_session
from planctl.stores.sqlite_open import Patience, explained, identity, open_for_writing, read_from
from planctl.stores.sqlite_tables import create, look, migrate

T = TypeVar('T')

_OURS = ('planctl_sessions', 'planctl_steps', 'planctl_log', 'planctl_replies')


@dataclass(frozen=True, slots=True)
class Summary:
    """One session at a glance. `changed_at` is in seconds since the epoch; `None` when planctl never wrote it."""

    session: str
    revision: int
    objective: str
    progress: Progress
    changed_at: float | None


class Sessions:
    """The sessions that share one table of a file. Each method is one transaction."""

    def __init__(self, path: str, table: str, *, wait: float = 10.0, shown: str | None = None) -> None:
        self._path = os.path.abspath(path)
        self._shown = shown or self._path
        self._table = table
        self._key = table.lower()
        self._wait = wait

    def list(self) -> list[Summary]:
        """Return the sessions that were written and not removed, by name. Creates and changes nothing."""
        with explained(self._path, self._wait):
            return read_from(os.path.realpath(self._path), Patience(self._wait), self._list)

    def rename(self, old: str, new: str, *, now: float) -> None:
        """Give a session another name, with its log. Raises `SessionNotFound`, `SessionExists` and `SessionHeld`."""
        check_session(new)

        def move(db: sqlite3.Connection) -> None:
            self._require(db, old, now)
            if self._has(db, new, self._tables(db)):
                from shlex import quote

                gone = new not in self._names(db)
                raise SessionExists(
                    f'a removed session {new!r} has left its log' if gone else f'there is a session {new!r} already',
                    hint=f'planctl undo --session {quote(new)} brings it back' if gone else None,
                )
            for table in self._tables(db):
                db.execute(f'UPDATE {table} SET session = ? WHERE {self._where(table)}', (new, *self._of(table, old)))

        self._write(move)

    def purge(self, session: str, *, now: float) -> None:
        """Delete a session with its log, for good. Raises `SessionNotFound` and `SessionHeld`."""

        def delete(db: sqlite3.Connection) -> None:
            if not self._has(db, session, self._tables(db)):
                raise SessionNotFound(f'there is no session {session!r} in {self._shown}')
            self._refuse_held(db, session, now)
            for table in self._tables(db):
                db.execute(f'DELETE FROM {table} WHERE {self._where(table)}', self._of(table, session))

        self._write(delete)

    # --- Reading ----------------------------------------------------------------------------------------------

    def _list(self, db: sqlite3.Connection) -> list[Summary]:
        db.execute('BEGIN')
        try:
            found = self._summaries(db)
        finally:
            if db.in_transaction:
                db.execute('ROLLBACK')
        return found

    def _summaries(self, db: sqlite3.Connection) -> list[Summary]:
        tables, _ = look(db, self._table, self._path)
        counts: dict[str, dict[str, int]] = {}
        if self._key in tables:
            for session, status, count in db.execute(
                f'SELECT session, status, count(*) FROM {self._table} GROUP BY session, status'
            ):
                counts.setdefault(str(session), {})[str(status)] = count
        ours: dict[str, tuple[int, str]] = {}
        moments: dict[str, float] = {}
        if 'planctl_schema' in tables:
            query = 'SELECT session, revision, objective FROM planctl_sessions WHERE plan_table = ?'
            ours = {session: (revision, objective) for session, revision, objective in db.execute(query, (self._key,))}
            query = 'SELECT session, max(at) FROM planctl_log WHERE plan_table = ? GROUP BY session'
            moments = {session: at for session, at in db.execute(query, (self._key,)) if are_moments(at)}
        return [
            Summary(name, *ours.get(name, (0, '')), _progress(counts.get(name, {})), moments.get(name))
            for name in sorted({*ours, *counts})
        ]

    def _names(self, db: sqlite3.Connection) -> set[str]:
        return {summary.session for summary in self._summaries(db)}

    # --- Writing ----------------------------------------------------------------------------------------------

    def _write(self, work: Callable[[sqlite3.Connection], None]) -> None:
        with explained(self._path, self._wait):
            if identity(self._path) is None:
                raise DatabaseNotFound(f'there is no database at {self._shown}')
            patience = Patience(self._wait)
            with closing(open_for_writing(os.path.realpath(self._path), None, patience)) as db:
                patience.attempt(lambda: db.execute('BEGIN IMMEDIATE'))
                try:
                    tables, outdated = look(db, self._table, self._path)
                    if outdated:
                        migrate(db)
                    create(db, self._table, tables)
                    work(db)
                    patience.attempt(lambda: db.execute('COMMIT'), begun=True)
                finally:
                    if db.in_transaction:
                        db.execute('ROLLBACK')

    def _tables(self, db: sqlite3.Connection) -> list[str]:
        tables, _ = look(db, self._table, self._path)
        return [table for table in (self._table, *_OURS) if table.lower() in tables]

    def _where(self, table: str) -> str:
        return 'session = ?' if table == self._table else 'plan_table = ? AND session = ?'

    def _of(self, table: str, session: str) -> tuple[str, ...]:
        return (session,) if table == self._table else (self._key, session)

    def _has(self, db: sqlite3.Connection, session: str, tables: Iterable[str]) -> bool:
        return any(
            db.execute(f'SELECT 1 FROM {table} WHERE {self._where(table)} LIMIT 1', self._of(table, session)).fetchone()
            for table in tables
        )

    def _require(self, db: sqlite3.Connection, session: str, now: float) -> None:
        if session not in self._names(db):
            raise SessionNotFound(f'there is no session {session!r} in {self._shown}')
        self._refuse_held(db, session, now)

    def _refuse_held(self, db: sqlite3.Connection, session: str, now: float) -> None:
        query = 'SELECT owner FROM planctl_sessions WHERE plan_table = ? AND session = ? AND lease > ?'
        held = db.execute(query, (self._key, session, now)).fetchone()
        if held is not None and held[0] is not None:
            raise SessionHeld(f'a run works on session {session!r}: {held[0]}')


def _progress(counts: dict[str, int]) -> Progress:
    names = ('pending', 'in_progress', 'completed', 'cancelled', 'blocked')
    known = {name: counts.get(name, 0) for name in names}
    total = sum(counts.values())
    # What no step can be is no step that could be worked on.
    known['blocked'] += total - sum(known.values())
    return Progress(total=total, **known)
