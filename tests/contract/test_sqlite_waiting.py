"""A plan database that another process holds: how long it is waited for, and what is said then."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from planctl import SqlitePlanStore, apply, read
from planctl.core import drive
from planctl.errors import StoreUnavailable
from planctl.operations import Add
from planctl.stores.sqlite_file import WAIT, SqliteFile
from planctl.stores.sqlite_locks import holder

# It holds the write lock until it is told to commit, and then for as many seconds more as its word says.
HOLDER = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('BEGIN IMMEDIATE')
db.execute("UPDATE plan_items SET content = 'held' WHERE id = '1'")
print('held', flush=True)
time.sleep(float(sys.stdin.readline() or 0))
db.execute('COMMIT')
"""


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, '-c', HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == 'held\n'
        yield process  # It goes on when its stdin is closed, which leaving does.


def let_go(process: subprocess.Popen[str], *, after: float) -> None:
    assert process.stdin is not None
    process.stdin.write(f'{after}\n')
    process.stdin.flush()


@pytest.fixture(params=['wal', 'delete'])
def path(request: Any, tmp_path: Path) -> Path:
    path = tmp_path / 'plan.db'
    drive(apply(SqliteFile(path, journal=request.param), Add('one')))
    return path


async def test_a_writer_that_holds_it_for_two_seconds_delays_us_and_nothing_fails(path: Path) -> None:
    async with SqlitePlanStore(path) as store:
        with held(path) as process:
            began = time.monotonic()
            let_go(process, after=2)
            changes = await asyncio.gather(
                *(apply(store, Add(f'waited {n}')) for n in range(5)),
                asyncio.to_thread(lambda: drive(apply(SqliteFile(path), Add('waited as well')))),
            )
            assert time.monotonic() - began >= 1.9
        assert sorted(change.after.revision for change in changes) == [3, 4, 5, 6, 7, 8]
        plan = await read(store)
        assert plan.steps[0].content == 'held'
        assert {step.content for step in plan.steps[1:]} == {*(f'waited {n}' for n in range(5)), 'waited as well'}


def test_beyond_the_wait_it_is_said_who_holds_it(path: Path) -> None:
    assert WAIT == 10
    with held(path) as process:
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as caught:
            drive(apply(SqliteFile(path, wait=0.2), Add('two')))
        assert 0.2 <= time.monotonic() - began < WAIT
        assert '\n' not in caught.value.message
        who = f'process {process.pid} (' if sys.platform == 'linux' else 'another process'
        assert f'{path} is locked: after 0.2 s it is still held by {who}' in caught.value.message
    assert [step.content for step in drive(read(SqliteFile(path))).steps] == ['held']


def test_a_reader_never_waits_for_a_writer(path: Path) -> None:
    with held(path):
        assert [step.content for step in drive(read(SqliteFile(path, wait=0))).steps] == ['one']
        assert drive(SqliteFile(path, wait=0).log())[0].id == '1'


async def test_a_writer_that_waits_keeps_no_reader_of_another_session_of_the_loop_waiting(path: Path) -> None:
    waiting, other = SqlitePlanStore(path), SqlitePlanStore(path, session='other')
    with held(path) as process:
        task = asyncio.create_task(apply(waiting, Add('two')))
        assert (await asyncio.wait_for(read(other), 5)).revision == 0
        assert not task.done()
        let_go(process, after=0)
        await task


def test_who_holds_it_is_told_as_far_as_it_can_be(path: Path, tmp_path: Path) -> None:
    assert holder(str(path)) == 'another process'
    assert holder(str(path), str(tmp_path / 'nothing')) == 'another process'
    mine = sqlite3.connect(path, isolation_level=None)
    mine.execute('BEGIN IMMEDIATE')
    assert holder(str(path)) == 'another part of this process'
    mine.close()
    found = os.stat(path)
    line = (
        f'1: POSIX  ADVISORY  {{}} {{}} {os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino} 0 0\n'
    )
    table = tmp_path / 'locks'
    for lines, who in (
        ([('WRITE', 2**22 + 1)], f'process {2**22 + 1}'),
        ([('READ', 2**22 + 1)], 'another process'),
        ([('WRITE', -1)], 'another process'),
        ([('WRITE', os.getppid())], f'process {os.getppid()} ('),
    ):
        table.write_text('0: FLOCK  ADVISORY  WRITE 1 00:00:1 0 EOF\n' + ''.join(line.format(*each) for each in lines))
        assert holder(str(path), str(table)).startswith(who)
    table.write_text('nonsense\n')
    assert holder(str(path), str(table)) == 'another process'
