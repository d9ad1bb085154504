"""The tables of a plan in SQLite and how a step stands in them. Opens nothing, reads and writes no plan.

`plan_items` is the table of pydantic-ai-harness, unchanged. All that is ours is in tables of our own, made by the
first write. `planctl_steps` repeats each step as we last wrote it: where `plan_items` differs, another program wrote.
"""

from __future__ import annotations

import json
import sqlite3
from itertools import chain
from typing import Any

import planctl
from planctl.change import StepChange
from planctl.errors import DamagedStore, InvalidName, NewerSchema
from planctl.plan import Step, check_table

MIGRATIONS: tuple[tuple[str, ...], ...] = ()
"""The statements that bring our own tables from version 1 to 2, from 2 to 3 and so on."""

SCHEMA = 1 + len(MIGRATIONS)
"""The version of our own tables. A file with a higher one is left alone."""

HARNESS_TABLE = 'plan_items'

ITEM = ('content', 'status', 'active_form', 'parent_id', 'depends_on')
"""The columns of both tables of steps, besides `session`, `seq` and `id`."""

OWN = ('owner', 'lease', 'started_at', 'note')
"""The columns of `planctl_steps` alone."""

SAME = ' AND '.join(f'm.{column} IS p.{column}' for column in ('seq', *ITEM))
"""Whether a row `p` of `plan_items` is what its row `m` of `planctl_steps` says."""

_STEP = """session TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, content TEXT NOT NULL,
    status TEXT NOT NULL, active_form TEXT NOT NULL, parent_id TEXT, depends_on TEXT NOT NULL"""
_OURS = {
    'planctl_schema': '(version INTEGER NOT NULL, written_by TEXT NOT NULL)',
    'planctl_sessions': """(
        plan_table TEXT NOT NULL, session TEXT NOT NULL, revision INTEGER NOT NULL, next_id INTEGER NOT NULL,
        objective TEXT NOT NULL, brief TEXT NOT NULL, owner TEXT, lease REAL,
        PRIMARY KEY (plan_table, session)) WITHOUT ROWID""",
    'planctl_steps': f"""(
        plan_table TEXT NOT NULL, {_STEP}, owner TEXT, lease REAL, started_at REAL, note TEXT NOT NULL,
        PRIMARY KEY (plan_table, session, id)) WITHOUT ROWID""",
    'planctl_log': """(
        plan_table TEXT NOT NULL, session TEXT NOT NULL, revision INTEGER NOT NULL, number INTEGER NOT NULL,
        id TEXT NOT NULL, at REAL NOT NULL, actor TEXT NOT NULL, operation TEXT NOT NULL, "before" TEXT, "after" TEXT,
        PRIMARY KEY (plan_table, session, revision, number)) WITHOUT ROWID""",
    'planctl_replies': """(
        plan_table TEXT NOT NULL, session TEXT NOT NULL, "key" TEXT NOT NULL, at REAL NOT NULL, reply TEXT NOT NULL,
        PRIMARY KEY (plan_table, session, "key")) WITHOUT ROWID""",
}


def check_own_table(table: str) -> str:
    """Return the name of a table that can hold steps in SQLite, or raise `InvalidName`."""
    if check_table(table).lower().startswith(('planctl_', 'sqlite_')):
        raise InvalidName(f'invalid table name {table!r}: names that begin with planctl_ or sqlite_ are taken')
    return table


def look(db: sqlite3.Connection, table: str, name: str) -> tuple[frozenset[str], bool]:
    """Return the tables that there are, in lower case, and whether ours are of an older planctl.

    Refuses a file of a newer one or of another kind of program.
    """
    found = db.execute("SELECT lower(name) FROM sqlite_master WHERE type = 'table'").fetchall()
    tables = frozenset(each for (each,) in found if not each.startswith('sqlite_'))
    if 'planctl_schema' in tables:
        version, by = db.execute('SELECT max(version), written_by FROM planctl_schema').fetchone()
        if not isinstance(version, int) or version < 1:
            raise DamagedStore(f'{name} does not say of which version its tables are')
        if version > SCHEMA:
            raise NewerSchema(
                f'{name} was written by a newer planctl: its tables are version {version}, this one knows {SCHEMA}',
                hint=f'install planctl {by} or newer',
            )
        return tables, version < SCHEMA
    if tables and table.lower() == HARNESS_TABLE and HARNESS_TABLE not in tables:
        # With a table of another name somebody means to keep a plan among other things.
        raise DamagedStore(
            f'{name} is the database of another program: it has no table {HARNESS_TABLE}',
            hint='name another file, or another table to keep the plan in',
        )
    return tables, False


def migrate(db: sqlite3.Connection) -> None:
    """Bring our tables up to the version that this planctl writes, inside the transaction of the caller."""
    (version,) = db.execute('SELECT max(version) FROM planctl_schema').fetchone()
    for statement in chain.from_iterable(MIGRATIONS[version - 1 :]):
        db.execute(statement)
    db.execute('UPDATE planctl_schema SET version = ?, written_by = ?', (SCHEMA, planctl.__version__))


def create(db: sqlite3.Connection, table: str, tables: frozenset[str]) -> frozenset[str]:
    """Make what is missing of our tables and of the table of steps; return the names of all."""
    wanted = {table: f'({_STEP}, PRIMARY KEY (session, id))', **_OURS}
    missing = {name: columns for name, columns in wanted.items() if name.lower() not in tables}
    for name, columns in missing.items():
        db.execute(f'CREATE TABLE {name} {columns}')
    if 'planctl_schema' in missing:
        db.execute('INSERT INTO planctl_schema VALUES (?, ?)', (SCHEMA, planctl.__version__))
    return tables.union(name.lower() for name in missing)


def values_of(step: Step) -> tuple[Any, ...]:
    """Return the columns `ITEM` and `OWN` of a step. The JSON is spelled as the harness spells it."""
    return (
        step.content,
        step.status.value,
        step.active_form,
        step.parent_id,
        json.dumps(step.depends_on) if step.depends_on else '[]',
        step.owner,
        step.lease,
        step.started_at,
        step.note,
    )


def columns_changed(change: StepChange) -> dict[str, Any]:
    """Return the columns of `ITEM` and `OWN` that differ between the two sides of a change, as they are now."""
    assert change.before is not None
    assert change.after is not None
    sides = zip((*ITEM, *OWN), values_of(change.before), values_of(change.after), strict=True)
    return {column: after for column, before, after in sides if before != after}
