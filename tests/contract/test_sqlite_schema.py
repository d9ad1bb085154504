"""Tables of our own of another version than this planctl writes: newer ones are refused, older ones brought along."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import planctl
from planctl import SqlitePlanStore, apply, read
from planctl.core import drive, log
from planctl.errors import DamagedStore, StepNotFound
from planctl.operations import Add, Edit, Remove, SetStatus
from planctl.plan import TaskStatus
from planctl.stores import sqlite_reading, sqlite_tables
from planctl.stores.sqlite_file import SqliteFile


def sql(path: Path, *statements: str) -> list[Any]:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        return [db.execute(statement).fetchall() for statement in statements][-1]
    finally:
        db.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def older(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose tables are as they were two versions ago, by a made-up history of this one."""
    path = tmp_path / 'plan.db'
    drive(apply(SqliteFile(path), Add('one'), Add('two', note='why'), key='k'))
    sql(
        path,
        'ALTER TABLE planctl_steps RENAME COLUMN note TO reason',
        'ALTER TABLE planctl_log RENAME COLUMN actor TO author',
        "UPDATE planctl_schema SET version = 1, written_by = '0.0.1'",
    )
    history = (
        ('ALTER TABLE planctl_steps RENAME COLUMN reason TO note',),
        ('ALTER TABLE planctl_log RENAME COLUMN author TO actor', "UPDATE planctl_steps SET note = 'migrated'"),
    )
    monkeypatch.setattr(sqlite_tables, 'MIGRATIONS', history)
    monkeypatch.setattr(sqlite_tables, 'SCHEMA', 3)
    return path


def test_reading_an_older_file_changes_nothing(older: Path) -> None:
    before = contents(older.parent)
    store = SqliteFile(older)
    plan = drive(read(store))
    assert [(step.content, step.note) for step in plan.steps] == [('one', 'migrated'), ('two', 'migrated')]
    assert [row.actor for row in drive(log(store))] == ['python', 'python']
    assert contents(older.parent) == before


def test_the_first_write_brings_it_along_in_its_own_transaction(older: Path) -> None:
    store = SqliteFile(older)
    change = drive(apply(store, Edit('1', 'changed')))
    # What the migration made of the steps is what they are: nobody else wrote it.
    assert (change.before.revision, change.after.revision) == (1, 2)
    assert sql(older, 'SELECT version, written_by FROM planctl_schema') == [(3, planctl.__version__)]
    assert sql(older, 'SELECT id, note FROM planctl_steps ORDER BY id') == [('1', 'migrated'), ('2', 'migrated')]
    assert drive(read(store)) == change.after
    assert [row.revision for row in drive(log(store))] == [1, 1, 2]


def test_a_key_of_an_older_file_is_known(older: Path) -> None:
    before = contents(older.parent)
    assert drive(apply(SqliteFile(older), Add('one'), key='k')).replayed
    assert contents(older.parent) == before


@pytest.mark.parametrize('what', ['refused', 'nothing', 'broken'])
async def test_what_stores_nothing_leaves_it_as_it_is(what: str, older: Path) -> None:
    async with SqlitePlanStore(older) as store:
        for _ in range(2):
            match what:
                case 'refused':
                    with pytest.raises(StepNotFound):
                        await apply(store, Remove('nope'))
                case 'nothing':
                    assert not (await apply(store, SetStatus('1', TaskStatus.pending))).changed
                case _:
                    with pytest.raises(ZeroDivisionError):
                        await apply(store, lambda plan: [1 / 0])  # type: ignore[list-item]
            assert sql(older, 'SELECT version FROM planctl_schema') == [(1,)]
            assert len((await read(store)).steps) == 2
        # A connection that saw the tables migrated and not stored goes on with what is stored.
        await apply(store, Add('three'))
        assert sql(older, 'SELECT version FROM planctl_schema') == [(3,)]
        await apply(store, Add('four'))
        assert await read(store) == await SqlitePlanStore(older).read()


def test_a_migration_that_fails_leaves_it_as_it_is(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_tables, 'MIGRATIONS', (sqlite_tables.MIGRATIONS[0], ('CREATE nonsense',)))
    before = contents(older.parent)
    for attempt in (lambda: drive(read(SqliteFile(older))), lambda: drive(apply(SqliteFile(older), Add('three')))):
        with pytest.raises(planctl.PlanctlError) as caught:
            attempt()
        assert caught.value.code == 'damaged'
    assert contents(older.parent) == before


def test_a_file_that_does_not_say_its_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    drive(apply(SqliteFile(path), Add('one')))
    sql(path, 'DELETE FROM planctl_schema')
    for attempt in (lambda: drive(read(SqliteFile(path))), lambda: drive(apply(SqliteFile(path), Add('two')))):
        with pytest.raises(planctl.PlanctlError, match='does not say of which version'):
            attempt()


def test_the_version_counts_the_migrations() -> None:
    assert len(sqlite_tables.MIGRATIONS) + 1 == sqlite_tables.SCHEMA
    assert sqlite_reading.migrate is sqlite_tables.migrate


@pytest.mark.parametrize(
    'statement',
    [
        "UPDATE planctl_schema SET version = 'abc'",
        'UPDATE planctl_schema SET version = -1',
        "UPDATE planctl_sessions SET revision = 'x'",
        "UPDATE planctl_sessions SET next_id = 'x'",
        "UPDATE planctl_sessions SET objective = x'00'",
    ],
)
def test_tables_of_ours_that_say_nonsense_are_damaged_and_left_as_they_are(statement: str, tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    store = SqliteFile(path)
    drive(apply(store, Add('a')))
    sql(path, statement)
    before = path.read_bytes()
    for call in (store.read, lambda: apply(store, Add('b'))):
        with pytest.raises(DamagedStore):
            drive(call())
    assert path.read_bytes() == before
