"""A SQLite store when something breaks in the middle: the plan is as before or after, and the next operation works."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from replay import replay, without_leases

from planctl import Plan, SqlitePlanStore, apply, read
from planctl.core import drive, log
from planctl.errors import DamagedStore, DatabaseNotFound, PlanctlError, StorageError
from planctl.operations import Add, Edit, Remove
from planctl.stores import sqlite_file, sqlite_open
from planctl.stores.disks import is_full
from planctl.stores.sqlite_file import PlanFile, SqliteFile

BATCH = [Edit('1', 'changed'), Remove('2', cascade=True), *(Add(f'new {n}') for n in range(3))]


@pytest.fixture(params=['wal', 'delete'])
def path(request: Any, tmp_path: Path) -> Path:
    path = tmp_path / 'plan.db'
    store = SqliteFile(path, journal=request.param)
    drive(apply(store, Add('one'), Add('two'), Add('under it', parent_id='2'), Add('waits', depends_on=('2',))))
    return path


def goes_on(path: Path) -> Plan:
    drive(apply(SqliteFile(path), Edit('1', 'goes on')))
    plan = drive(read(SqliteFile(path)))
    assert plan.step('1').content == 'goes on'
    assert replay(drive(log(SqliteFile(path)))) == without_leases(plan)
    db = sqlite3.connect(path)
    assert db.execute('PRAGMA integrity_check').fetchall() == [('ok',)]
    db.close()
    return plan


class Breaking(sqlite3.Connection):
    """A connection on which one statement fails, as if the disk did; `at` counts the statements that write."""

    at: int | None = None
    after_it = False

    def _fail(self, statement: str, call: Callable[[], Any]) -> Any:
        if Breaking.at is None or statement.split()[0] not in ('INSERT', 'UPDATE', 'DELETE', 'CREATE', 'COMMIT'):
            return call()
        Breaking.at -= 1
        if Breaking.at >= 0:
            return call()
        Breaking.at = None
        if Breaking.after_it and statement != 'COMMIT':
            call()
        error = sqlite3.OperationalError('disk I/O error')
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    def execute(self, statement: str, *bound: Any) -> Any:  # type: ignore[override]
        return self._fail(statement, lambda: super(Breaking, self).execute(statement, *bound))

    def executemany(self, statement: str, rows: Any) -> Any:
        return self._fail(statement, lambda: super(Breaking, self).executemany(statement, rows))


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Breaking]]:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, 'connect', lambda *given, **options: connect(*given, factory=Breaking, **options))
    yield Breaking
    Breaking.at, Breaking.after_it = None, False


@pytest.mark.parametrize('after_it', [False, True])
async def test_a_fault_at_each_write_and_at_the_commit(after_it: bool, path: Path, breaking: type[Breaking]) -> None:
    before = drive(read(SqliteFile(path)))
    async with SqlitePlanStore(path) as held:
        failures = 0
        seen: set[str] = set()
        while True:
            breaking.at, breaking.after_it = failures, after_it
            try:
                change = await apply(held, *BATCH)
                breaking.at = None
                break
            except StorageError as error:
                seen.add(error.message)
                assert drive(read(SqliteFile(path))) == await read(held) == before
            failures += 1
        assert failures > 8
        assert seen == {f'{path}: disk I/O error'}
        assert await read(held) == drive(read(SqliteFile(path))) == change.after
        await apply(held, Add('next'))
    goes_on(path)


@pytest.mark.parametrize('error', [ZeroDivisionError(), MemoryError(), KeyboardInterrupt()], ids=repr)
def test_a_fault_between_reading_and_writing(error: BaseException, path: Path) -> None:
    before = drive(read(SqliteFile(path)))

    def edit(plan: Plan) -> list[Any]:
        raise error

    with pytest.raises(type(error)):
        drive(apply(SqliteFile(path), edit))
    assert drive(read(SqliteFile(path))) == before
    goes_on(path)


async def test_a_fault_at_opening_leaves_nothing_open(path: Path, breaking: type[Breaking], tmp_path: Path) -> None:
    moved = tmp_path / 'aside'
    path.rename(moved)
    path.write_bytes(b'x' * 4096)
    store = SqlitePlanStore(path)
    for _ in range(2):
        with pytest.raises(DamagedStore):
            await apply(store, Add('new'))
    moved.replace(path)
    await apply(store, Add('new'))
    assert goes_on(path).revision == 3


# --- A full disk ----------------------------------------------------------------------------------------------


def test_a_database_that_may_not_grow_is_as_before_and_goes_on_when_it_may(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drive(read(SqliteFile(path)))
    connect = sqlite3.connect
    limited = True

    def connected(*given: Any, **options: Any) -> sqlite3.Connection:
        db = connect(*given, **options)
        if limited and 'mode=rw' in str(given[0]):
            db.execute(f'PRAGMA max_page_count = {path.stat().st_size // 4096 + 2}')
        return db

    monkeypatch.setattr(sqlite3, 'connect', connected)
    refused = 0
    for number in range(5):
        with pytest.raises(StorageError, match='cannot be written: the disk is full') as caught:
            drive(apply(SqliteFile(path), Add('x' * 50_000, id=f'big{number}'), Remove('2', cascade=True)))
        assert caught.value.code == 'storage'
        refused += 1
        assert drive(read(SqliteFile(path))) == before
    assert refused == 5
    limited = False
    drive(apply(SqliteFile(path), Add('x' * 50_000, id='big')))
    assert goes_on(path).step('big')


FULL = """
import sys
from planctl import PlanctlError, apply
from planctl.core import drive
from planctl.operations import Add
from planctl.stores.sqlite_file import SqliteFile
outcomes = []
for number in range(40):
    try:
        drive(apply(SqliteFile(sys.argv[1]), Add('x' * 40_000, id=f's{number}')))
        outcomes.append('stored')
    except PlanctlError as error:
        outcomes.append(f'{error.code}: {error.message}')
        break
print(*outcomes, sep='\\n')
"""


@pytest.mark.skipif(sys.platform != 'linux' or os.getuid() != 0, reason='Linux lets only root mount a small disk')
def test_a_disk_that_fills_up_keeps_what_was_stored(tmp_path: Path) -> None:
    disk = tmp_path / 'disk'
    disk.mkdir()
    mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip('a small disk cannot be mounted in this container')
    try:
        path = disk / 'plan.db'
        done = subprocess.run(
            [sys.executable, '-c', FULL, str(path)], capture_output=True, text=True, cwd=Path(__file__).parents[2]
        )
        *stored, last = done.stdout.splitlines()
        assert set(stored) == {'stored'}, done.stderr
        assert last == f'storage: {path} cannot be written: the disk is full'
        assert [step.id for step in drive(read(SqliteFile(path))).steps] == [f's{n}' for n in range(len(stored))]
        # Its log ahead did not fit into it any more, so that a copy of the file alone would not be whole.
        PlanFile(path).backup(tmp_path / 'elsewhere.db')
        drive(apply(SqliteFile(tmp_path / 'elsewhere.db'), Add('goes on', id='1')))
        goes_on(tmp_path / 'elsewhere.db')
    finally:
        subprocess.run(['umount', str(disk)], check=True)


# No file can grow by a byte, as on a disk that is full; `is_full` is whether the file system tells of it.
NO_ROOM = """
import os, resource, sys
from planctl.core import drive, read
from planctl.stores import sqlite_open
from planctl.stores.sqlite_file import SqliteFile
sqlite_open.is_full = lambda folder: sys.argv[2] == 'told'
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
print(len(drive(read(SqliteFile(sys.argv[1]))).steps), *sorted(os.listdir(os.path.dirname(sys.argv[1]))), flush=True)
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='a full disk is played by RLIMIT_FSIZE, as Linux keeps it')
@pytest.mark.parametrize('told', ['told', 'not told'])
def test_a_plan_is_read_where_nothing_can_be_put_beside_it(told: str, path: Path) -> None:
    command = [sys.executable, '-c', NO_ROOM, str(path), told]
    # What comes out goes through a pipe, which has no limit.
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.split()[:2] == ['4', 'plan.db'], done.stderr
    if told == 'told':
        assert done.stdout.split() == ['4', 'plan.db']
    goes_on(path)


def test_a_first_plan_leaves_nothing_on_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_open, 'is_full', lambda folder: folder == str(tmp_path))
    with pytest.raises(StorageError, match='cannot be written: the disk is full'):
        drive(apply(SqliteFile(tmp_path / 'plan.db'), Add('one')))
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(not hasattr(os, 'statvfs'), reason='this system does not tell how much room there is')
@pytest.mark.parametrize(
    ('user', 'unit', 'blocks', 'free', 'for_all', 'full'),
    [
        (1, 4096, 100, 90, 90, False),
        (1, 4096, 100, 15, 15, True),
        (1, 4096, 100, 90, 0, True),
        (0, 4096, 100, 90, 0, False),
        (0, 4096, 100, 15, 0, True),
        (1, 4096, 0, 0, 0, False),
        (1, 0, 100, 90, 90, False),
    ],
)
def test_what_is_kept_back_for_root_is_no_room_for_others(
    user: int, unit: int, blocks: int, free: int, for_all: int, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = os.statvfs_result((4096, unit, blocks, free, for_all, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, 'statvfs', lambda folder: found)
    monkeypatch.setattr(os, 'geteuid', lambda: user)
    assert is_full('anywhere') is full


# --- The file under our feet ----------------------------------------------------------------------------------


@pytest.mark.parametrize('how', ['moved', 'replaced by a copy', 'removed, and made anew by another'])
async def test_a_held_file_that_is_no_longer_at_its_path_gets_no_write(how: str, path: Path, tmp_path: Path) -> None:
    another = tmp_path / 'another.db'
    drive(apply(SqliteFile(another), Add('of another')))
    async with SqlitePlanStore(path) as store:
        await apply(store, Edit('1', 'written before'))
        aside = tmp_path / 'aside'
        aside.mkdir()
        if how == 'moved':
            path.rename(aside / 'plan.db')
        elif how == 'replaced by a copy':
            os.replace(another, path)
        else:
            for file in tmp_path.glob('plan.db*'):
                file.unlink()
            drive(apply(SqliteFile(path), Add('anew')))
        if how == 'moved':
            for call in (apply(store, Add('into nothing')), read(store), log(store)):
                with pytest.raises(StorageError, match='was removed while it was in use'):
                    await call
            (aside / 'plan.db').rename(path)
        expected = {'moved': 'written before', 'replaced by a copy': 'of another'}.get(how, 'anew')
        assert (await read(store)).steps[0].content == expected
        await apply(store, Add('goes on'))
    assert goes_on(path).steps[-1].content == 'goes on'
    assert sorted(file.name for file in tmp_path.glob('plan.db*')) == ['plan.db']


def test_a_file_that_is_removed_while_it_is_being_opened_gets_no_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = sqlite_open.open_for_writing

    def removed(*given: Any) -> sqlite3.Connection:
        connection = opened(*given)
        path.unlink()
        return connection

    monkeypatch.setattr(sqlite_file, 'open_for_writing', removed)
    with pytest.raises(StorageError, match='was removed while it was in use'):
        drive(apply(SqliteFile(path), Add('into nothing')))
    assert not path.exists()


async def test_a_file_that_was_moved_away_has_everything_that_was_stored(path: Path, tmp_path: Path) -> None:
    async with SqlitePlanStore(path) as store:
        await apply(store, Add('stored'))
        path.rename(tmp_path / 'moved.db')
    assert drive(read(SqliteFile(tmp_path / 'moved.db'))).steps[-1].content == 'stored'
    # What is left there is no harm to the next one at that place.
    drive(apply(SqliteFile(tmp_path / 'new.db'), Add('of the next')))
    (tmp_path / 'new.db').rename(path)
    assert [step.content for step in drive(read(SqliteFile(path))).steps] == ['of the next']
    goes_on(path)


HOLDING = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('BEGIN')
db.execute('SELECT * FROM plan_items').fetchall()
print('reading', flush=True)
sys.stdin.readline()
"""


async def test_a_file_is_replaced_although_another_process_is_still_at_work_on_the_old_one(
    path: Path, tmp_path: Path
) -> None:
    drive(apply(SqliteFile(tmp_path / 'another.db'), Add('of another')))
    command = [sys.executable, '-c', HOLDING, str(path)]
    async with SqlitePlanStore(path) as store:
        await apply(store, Edit('1', 'written before'))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            (tmp_path / 'another.db').replace(path)
            assert [step.content for step in (await read(store)).steps] == ['of another']
            await apply(store, Add('goes on'))
    assert [step.content for step in goes_on(path).steps][1:] == ['goes on']


# --- A copy while it is in use --------------------------------------------------------------------------------


def test_a_copy_of_a_database_that_is_written_to_is_whole(path: Path, tmp_path: Path) -> None:
    drive(apply(SqliteFile(path, session='other'), Add('in another session')))
    stop = threading.Event()

    def writing() -> None:
        store = SqliteFile(path)
        while not stop.is_set():
            drive(apply(store, Add('a'), Add('b')))

    writer = threading.Thread(target=writing)
    writer.start()
    try:
        for number in range(10):
            copy = tmp_path / f'copy{number}.db'
            PlanFile(path).backup(copy)
            plan = drive(read(SqliteFile(copy)))
            assert len(plan.steps) % 2 == 0
            assert replay(drive(log(SqliteFile(copy)))) == without_leases(plan)
            assert drive(read(SqliteFile(copy, session='other'))).steps[0].content == 'in another session'
    finally:
        stop.set()
        writer.join()
    assert sorted(file.name for file in tmp_path.iterdir()) == [*(f'copy{n}.db' for n in range(10)), 'plan.db']
    goes_on(tmp_path / 'copy9.db')


def test_a_copy_neither_waits_for_a_writer_nor_sees_what_is_not_stored(path: Path, tmp_path: Path) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute('BEGIN IMMEDIATE')
    db.execute("UPDATE plan_items SET content = 'not stored'")
    PlanFile(path, wait=0).backup(tmp_path / 'copy.db')
    db.close()
    assert drive(read(SqliteFile(tmp_path / 'copy.db'))) == drive(read(SqliteFile(path)))


def test_a_copy_overwrites_nothing_and_leaves_nothing_half_done(path: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StorageError, match='is there already'):
        PlanFile(path).backup(path)
    with pytest.raises(DatabaseNotFound):
        PlanFile(tmp_path / 'nothing.db').backup(tmp_path / 'copy.db')
    with pytest.raises(StorageError, match='cannot be written'):
        PlanFile(path).backup(tmp_path / 'no' / 'folder.db')
    (tmp_path / 'text').write_text('shopping list\n' * 100)
    with pytest.raises(PlanctlError):
        PlanFile(tmp_path / 'text').backup(tmp_path / 'copy.db')
    (tmp_path / 'text').unlink()
    assert sorted(tmp_path.iterdir()) == before
