"""A store that is held reads its rows again only when somebody wrote, also before it writes itself."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from planctl import SqlitePlanStore
from planctl.core import apply, drive, read
from planctl.errors import StorageError
from planctl.operations import Add, Edit
from planctl.stores.sqlite_file import SqliteFile

HOUR = 3600 * 10**9


def texts(plan: Any) -> list[str]:
    return [step.content for step in plan.steps]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a database that nobody has written to for an hour."""
    path = tmp_path / 'plan.db'
    drive(apply(SqliteFile(path), Add('one')))
    age(path)
    return path


def age(path: Path, by: int = HOUR) -> None:
    before = time.time_ns() - by
    os.utime(path, ns=(before, before))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the databases that are opened, as they are."""
    names: list[str] = []
    connect = sqlite3.connect

    def counted(name: str, *given: Any, **named: Any) -> sqlite3.Connection:
        names.append(name)
        return connect(name, *given, **named)

    monkeypatch.setattr(sqlite3, 'connect', counted)
    return names


async def test_a_file_that_nobody_writes_to_is_read_once(path: Path, opened: list[str]) -> None:
    async with SqlitePlanStore(path) as store:
        first = await read(store)
        for _ in range(5):
            assert await read(store) is first
        assert len(opened) == 1
    async with store:
        await read(store)
    assert len(opened) == 2


async def test_a_store_that_is_not_held_keeps_nothing(path: Path, opened: list[str]) -> None:
    store = SqlitePlanStore(path)
    assert await read(store) == await read(store)
    assert len(opened) == 2


async def test_what_others_write_is_seen_at_once(path: Path) -> None:
    async with SqlitePlanStore(path) as store:
        await read(store)
        for number in range(20):
            await apply(SqlitePlanStore(path), Add(f'more {number}'))
            assert texts(await read(store))[-1] == f'more {number}'


async def test_what_a_writer_that_stays_leaves_in_its_log_is_seen(path: Path) -> None:
    async with SqlitePlanStore(path) as store, SqlitePlanStore(path) as other:
        await read(store)
        await apply(other, Add('two'))
        assert texts(await read(store)) == ['one', 'two']
        age(path)
        age(Path(f'{path}-wal'))
        assert await read(store) is await read(store)
        await apply(other, Add('three'))
        assert texts(await read(store)) == ['one', 'two', 'three']


async def test_times_that_do_not_move_do_not_hide_a_write_right_after_another(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    await apply(SqlitePlanStore(path), Add('one'))
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    async with SqlitePlanStore(path) as store:
        await read(store)
        connection = sqlite3.connect(path)
        connection.execute("UPDATE plan_items SET content = 'two'")
        connection.commit()
        connection.close()
        os.utime(path, ns=(now, now))
        assert texts(await read(store)) == ['two']


async def test_a_file_that_took_the_place_of_another_is_read(path: Path, tmp_path: Path) -> None:
    other = tmp_path / 'other.db'
    shutil.copy2(path, other)
    connection = sqlite3.connect(other)
    connection.execute("UPDATE plan_items SET content = 'two'")
    connection.commit()
    connection.close()
    async with SqlitePlanStore(path) as store:
        assert texts(await read(store)) == ['one']
        shutil.copystat(path, other)
        other.replace(path)
        assert texts(await read(store)) == ['two']


async def test_a_file_that_is_gone_or_damaged_is_no_longer_what_was_read(path: Path) -> None:
    async with SqlitePlanStore(path) as store:
        await read(store)
        path.unlink()
        assert texts(await read(store)) == []
        path.write_bytes(b'x' * 1000)
        with pytest.raises(StorageError):
            await read(store)


@pytest.mark.parametrize('writes_itself', [False, True])
def test_of_a_plan_that_another_changed_only_the_changed_steps_are_made_anew(path: Path, writes_itself: bool) -> None:
    mine, theirs = SqliteFile(path), SqliteFile(path)
    drive(mine.__aenter__())
    drive(apply(theirs, Add('two'), Add('three', depends_on=('1',))))
    if writes_itself:
        drive(apply(mine, Add('four')))
    before = drive(read(mine))
    drive(apply(theirs, Edit('2', content='changed')))
    after = drive(read(mine))
    changed = [step.id for old, step in zip(before.steps, after.steps, strict=True) if step is not old]
    assert texts(after)[1] == 'changed'
    assert changed == (['2', '4'] if writes_itself else ['2'])
    drive(mine.aclose())
