"""A plan in a SQLite file without an event loop: what a read leaves alone, what a write writes, what is refused."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from planctl import Change, Plan, TaskStatus, apply, rules
from planctl.core import drive
from planctl.errors import (
    DamagedStore,
    DatabaseNotFound,
    InputError,
    InvalidName,
    NewerSchema,
    StepNotFound,
    StorageError,
    StoreUnavailable,
)
from planctl.operations import Add, Describe, Edit, Move, Remove, Replace, SetStatus
from planctl.stores import sqlite_open
from planctl.stores.disks import on_network
from planctl.stores.sqlite_file import SqliteFile
from planctl.stores.sqlite_tables import SCHEMA

ROOT = Path(__file__).parents[2]
HARNESS = (
    'CREATE TABLE plan_items (session TEXT NOT NULL, seq INTEGER NOT NULL, id TEXT NOT NULL, content TEXT NOT NULL, '
    'status TEXT NOT NULL, active_form TEXT NOT NULL, parent_id TEXT, depends_on TEXT NOT NULL, '
    'PRIMARY KEY (session, id))'
)


def write(path: Path, *operations: Any, **options: Any) -> Any:
    return drive(apply(SqliteFile(path, **options), *operations))


def read(path: Path, **options: Any) -> Plan:
    return drive(SqliteFile(path, **options).read())


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return what is in a folder, byte for byte, and when each file was changed."""
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir() if each.is_file()}


def sql(path: Path, *statements: str) -> list[Any]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return [connection.execute(statement).fetchall() for statement in statements][-1]
    finally:
        connection.close()


# --- Reading changes nothing ----------------------------------------------------------------------------------


def planctl_wal(folder: Path) -> None:
    write(folder / 'plan.db', Add('one'))


def planctl_delete(folder: Path) -> None:
    write(folder / 'plan.db', Add('one'), journal='delete')


def harness(folder: Path) -> None:
    sql(
        folder / 'plan.db',
        HARNESS,
        "INSERT INTO plan_items VALUES ('default', 0, '1', 'one', 'pending', '', NULL, '[]')",
    )


def killed_writer(folder: Path) -> None:
    code = (
        'import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n'
        'for text in ("two", "one"): c.execute("UPDATE plan_items SET content = ?", (text,))\n'
        'os.kill(os.getpid(), 9)'
    )
    write(folder / 'plan.db', Add('one'))
    subprocess.run([sys.executable, '-c', code, str(folder / 'plan.db')], check=False)
    assert (folder / 'plan.db-wal').stat().st_size > 0


READING = """
import os, sys
from pathlib import Path
from planctl import Plan
from planctl.core import drive
from planctl.stores.sqlite_file import SqliteFile
from planctl.stores.sqlite_tables import SCHEMA
if len(sys.argv) > 2 and os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
steps = drive(SqliteFile(sys.argv[1]).read()).steps
assert [(step.id, step.content) for step in steps] == [('1', 'one')], steps
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can look into."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@pytest.mark.parametrize('make', [planctl_wal, planctl_delete, harness, killed_writer])
def test_reading_leaves_bytes_times_and_listing_as_they_are(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path)
    before = state(tmp_path)
    assert [step.content for step in read(tmp_path / 'plan.db').steps] == ['one']
    after = state(tmp_path)
    # The index of the log is memory that readers share; its content is nobody's plan.
    assert {name: held for name, held in after.items() if not name.endswith('-shm')} == {
        name: held for name, held in before.items() if not name.endswith('-shm')
    }
    assert after.keys() == before.keys()


@pytest.mark.parametrize('mode', [(0o555, 0o444), (0o777, 0o444), (0o555, 0o644)])
@pytest.mark.parametrize('make', [planctl_wal, planctl_delete, harness, killed_writer])
def test_somebody_who_may_only_read_reads(
    make: Callable[[Path], None], mode: tuple[int, int], open_folder: Path
) -> None:
    make(open_folder)
    for file in open_folder.iterdir():
        file.chmod(mode[1])
    open_folder.chmod(mode[0])
    before = state(open_folder)
    done = subprocess.run(
        [sys.executable, '-W', 'error', '-c', READING, str(open_folder / 'plan.db'), 'nobody'],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stderr == ''
    assert state(open_folder).keys() == before.keys()
    assert state(open_folder)['plan.db'] == before['plan.db']


WRITER = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("UPDATE plan_items SET content = 'changed'")
writer.execute('BEGIN IMMEDIATE')
writer.execute("UPDATE plan_items SET content = 'not yet'")
print('writing', flush=True)
sys.stdin.readline()
"""


@contextmanager
def another_writer(path: Path) -> Iterator[None]:
    """A process that has changed the plan and is in the middle of changing it again."""
    process = subprocess.Popen(
        [sys.executable, '-c', WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == 'writing\n'
    yield
    process.communicate('\n')


def test_reading_while_another_process_writes_leaves_its_files(tmp_path: Path) -> None:
    write(tmp_path / 'plan.db', Add('one'))
    with another_writer(tmp_path / 'plan.db'):
        before = state(tmp_path)
        assert [step.content for step in read(tmp_path / 'plan.db').steps] == ['changed']
        assert state(tmp_path).keys() == before.keys() == {'plan.db', 'plan.db-wal', 'plan.db-shm'}
        assert state(tmp_path)['plan.db-wal'] == before['plan.db-wal']


@pytest.mark.parametrize('journal', ['wal', 'delete'])
def test_reading_gives_up_no_lock_of_the_same_process(journal: Any, tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), journal=journal)
    mine = sqlite3.connect(path, isolation_level=None)
    mine.execute('BEGIN IMMEDIATE')
    read(path)
    with pytest.raises(StoreUnavailable):
        write(path, Add('two'), wait=0)
    # Locks belong to processes: only another one can tell whether this one still has its own.
    code = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute('BEGIN IMMEDIATE')"
    )
    done = subprocess.run([sys.executable, '-c', code, str(path)], capture_output=True, text=True)
    assert 'database is locked' in done.stderr
    mine.close()


@pytest.mark.parametrize('change', ['a log', 'the file'])
def test_somebody_who_may_only_read_reads_again_when_somebody_wrote_meanwhile(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), journal='wal' if change == 'a log' else 'delete')
    with ExitStack() as stack:
        monkeypatch.setattr(os, 'access', lambda *_: False)
        connect = sqlite3.connect
        opened: list[str] = []

        def interrupted(name: str, **options: Any) -> sqlite3.Connection:
            connection = connect(name, **options)
            opened.append(name.partition('?')[2])
            if len(opened) == 1 and change == 'a log':
                stack.enter_context(another_writer(path))
            elif len(opened) == 1:
                code = f'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute("{CHANGE}"); c.commit()'
                subprocess.run([sys.executable, '-c', code, str(path)], check=True)
            return connection

        monkeypatch.setattr(sqlite3, 'connect', interrupted)
        assert [step.content for step in read(path).steps] == ['changed']
    assert opened == ['mode=ro&immutable=1', 'mode=ro' if change == 'a log' else 'mode=ro&immutable=1']


CHANGE = "UPDATE plan_items SET content = 'changed'"


def test_a_database_that_is_not_there_is_not_made_by_reading_or_by_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseNotFound, match='there is no database at'):
        read(tmp_path / 'plan.db')
    with pytest.raises(StepNotFound):
        write(tmp_path / 'plan.db', SetStatus('1', TaskStatus.completed))
    drive(SqliteFile(tmp_path / 'plan.db').set_items([]))
    assert list(tmp_path.iterdir()) == []


def test_what_is_refused_leaves_an_empty_file_empty(tmp_path: Path) -> None:
    (tmp_path / 'plan.db').touch()
    before = state(tmp_path)
    assert read(tmp_path / 'plan.db') == Plan()
    with pytest.raises(StepNotFound):
        write(tmp_path / 'plan.db', Remove('1'))
    assert state(tmp_path) == before
    write(tmp_path / 'plan.db', Add('one'))
    assert len(read(tmp_path / 'plan.db').steps) == 1


def test_what_is_refused_or_repeated_leaves_a_file_of_the_harness_alone(tmp_path: Path) -> None:
    harness(tmp_path)
    before = state(tmp_path)
    with pytest.raises(StepNotFound):
        write(tmp_path / 'plan.db', Remove('2'))
    assert write(tmp_path / 'plan.db', SetStatus('1', TaskStatus.pending)).after.revision == 0
    assert state(tmp_path) == before


def test_a_session_that_was_never_written_is_empty(tmp_path: Path) -> None:
    write(tmp_path / 'plan.db', Add('one'))
    assert read(tmp_path / 'plan.db', session='other') == Plan(session='other')


# --- Writing --------------------------------------------------------------------------------------------------


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is executed on any connection that is opened from now on."""
    seen: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(seen.append)
        return connection

    monkeypatch.setattr(sqlite3, 'connect', traced)
    return seen


OPERATIONS: dict[str, tuple[Any, ...]] = {
    'add': (Add('new'),),
    'several': (Add('x', parent_id='2'), Edit('1', 'changed'), SetStatus('3', TaskStatus.completed)),
    'status': (SetStatus('1', TaskStatus.completed),),
    'move': (Move('4', before='1'),),
    'remove': (Remove('2', cascade=True),),
    'replace': (Replace(()),),
    'describe': (Describe(objective='win'),),
}


@pytest.mark.parametrize('name', OPERATIONS)
def test_an_operation_is_one_commit(name: str, tmp_path: Path, statements: list[str]) -> None:
    write(tmp_path / 'plan.db', *(Add(f'step {n}') for n in range(4)), *_resolved(name))
    del statements[:]
    write(tmp_path / 'plan.db', *OPERATIONS[name])
    assert [s for s in statements if s.startswith(('BEGIN', 'COMMIT', 'ROLLBACK'))] == ['BEGIN IMMEDIATE', 'COMMIT']


def _resolved(name: str) -> list[Any]:
    """An empty list replaces only a plan that has no open step."""
    return [SetStatus(str(n), TaskStatus.completed) for n in range(1, 5)] if name == 'replace' else []


def test_only_rows_and_columns_that_changed_are_written(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / 'plan.db'
    write(path, *(Add(f'step {n}') for n in range(20)), Add('waits', depends_on=('3',)))

    changes = ('INSERT INTO plan_items', 'UPDATE plan_items', 'DELETE FROM plan_items')

    def written(*operations: Any) -> list[str]:
        del statements[:]
        write(path, *operations)
        return [s for s in statements if s.startswith(changes)]

    assert written(Edit('7', 'new text')) == [
        "UPDATE plan_items SET content = 'new text' WHERE session = 'default' AND id = '7'"
    ]
    assert written(SetStatus('3', TaskStatus.completed)) == [
        "UPDATE plan_items SET status = 'completed' WHERE session = 'default' AND id = '3'",
        "UPDATE plan_items SET status = 'pending' WHERE session = 'default' AND id = '21'",
    ]
    assert len(written(Add('last'))) == 1
    assert written(Remove('10')) == ["DELETE FROM plan_items WHERE session = 'default' AND id = '10'"]
    assert written(Move('20', before='1')) == ["UPDATE plan_items SET seq = -1 WHERE session = 'default' AND id = '20'"]
    # Into the gap that the removed step left.
    assert written(Move('1', after='9')) == ["UPDATE plan_items SET seq = 9 WHERE session = 'default' AND id = '1'"]


def test_every_change_is_logged_with_who_did_what(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    store = SqliteFile(path)
    drive(apply(store, Add('one'), Add('two'), actor='me\n', label='first', now=5.0))
    drive(apply(store, SetStatus('1', TaskStatus.completed), actor='you', now=6.0))
    drive(apply(store, SetStatus('1', TaskStatus.completed), actor='you', now=7.0))
    rows = sql(path, 'SELECT revision, number, id, at, actor, operation, "before", "after" FROM planctl_log')
    assert rows == [
        (1, 0, '1', 5.0, 'me', 'first', None, '{"id":"1","content":"one","behind":null}'),
        (1, 1, '2', 5.0, 'me', 'first', None, '{"id":"2","content":"two","behind":"1"}'),
        (2, 0, '1', 6.0, 'you', 'set_status', '{"id":"1","content":"one"}', rows[2][7]),
    ]


def test_a_new_file_keeps_a_log_ahead_and_one_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / 'new.db', Add('one'))
    assert sql(tmp_path / 'new.db', 'PRAGMA journal_mode') == [('wal',)]
    assert os.listdir(tmp_path) == ['new.db']
    harness(tmp_path)
    write(tmp_path / 'plan.db', Add('two'))
    assert sql(tmp_path / 'plan.db', 'PRAGMA journal_mode') == [('delete',)]
    write(tmp_path / 'plan.db', Add('three'), journal='wal')
    assert sql(tmp_path / 'plan.db', 'PRAGMA journal_mode') == [('wal',)]
    write(tmp_path / 'plan.db', Add('four'), journal='delete')
    assert sql(tmp_path / 'plan.db', 'PRAGMA journal_mode') == [('delete',)]
    assert len(read(tmp_path / 'plan.db').steps) == 4


def test_a_journal_that_cannot_be_is_an_error_only_when_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stubborn(sqlite3.Connection):
        def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:  # type: ignore[override]
            return super().execute('PRAGMA journal_mode' if 'journal_mode' in statement else statement, *args)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, 'connect', lambda *args, **options: connect(*args, factory=Stubborn, **options))
    write(tmp_path / 'plan.db', Add('one'))
    assert read(tmp_path / 'plan.db').revision == 1
    with pytest.raises(StorageError, match=r'the journal of .* cannot be wal: it stays delete'):
        write(tmp_path / 'plan.db', Add('two'), journal='wal')


def test_a_network_file_system_is_recognised(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / 'mountinfo'
    line = f'36 35 {os.major(device)}:{os.minor(device)} / /mnt rw,noatime shared:1 - KIND server:/x rw\n'
    for kind, expected in (('nfs4', True), ('fuse.sshfs', True), ('ext4', False), ('tmpfs', False)):
        mounts.write_text('35 1 0:999 / / rw - nfs4 a b\n' + line.replace('KIND', kind))
        assert on_network(str(tmp_path), str(mounts)) is expected
    assert not on_network(str(tmp_path), str(tmp_path / 'nothing'))


def test_a_new_database_on_a_network_file_system_keeps_a_rollback_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_open, 'on_network', lambda folder: True)
    write(tmp_path / 'plan.db', Add('one'))
    assert sql(tmp_path / 'plan.db', 'PRAGMA journal_mode') == [('delete',)]


@pytest.mark.parametrize('name', ['a b.db', '50%.db', 'what?.db', 'no#1.db', '日本.db', os.fsdecode(b'\xff.db')])
def test_any_file_name_works(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, Add('one'))
    assert os.listdir(tmp_path) == [name]
    assert len(read(tmp_path / name).steps) == 1


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / 'real').mkdir()
    (tmp_path / 'link.db').symlink_to(tmp_path / 'real' / 'plan.db')
    write(tmp_path / 'link.db', Add('one'))
    with another_writer(tmp_path / 'real' / 'plan.db'):
        assert read(tmp_path / 'link.db').steps[0].content == 'changed'
    assert os.listdir(tmp_path / 'real') == ['plan.db']


# --- What is refused ------------------------------------------------------------------------------------------


def text_file(path: Path) -> None:
    path.write_text('shopping list\n' * 100)


def short_text(path: Path) -> None:
    path.write_text('x')


def truncated(path: Path) -> None:
    write(path, *(Add('x' * 1000) for _ in range(50)))
    path.write_bytes(path.read_bytes()[:5000])


def only_a_header(path: Path) -> None:
    write(path, Add('one'))
    path.write_bytes(path.read_bytes()[:60])


def scrambled(path: Path) -> None:
    write(path, *(Add('x' * 1000) for _ in range(50)))
    content = bytearray(path.read_bytes())
    content[100:4096] = b'\xa5' * 3996
    path.write_bytes(content)


def another_program(path: Path) -> None:
    sql(path, 'CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url TEXT)')


def another_shape(path: Path) -> None:
    sql(path, 'CREATE TABLE plan_items (name TEXT)', "INSERT INTO plan_items VALUES ('x')")


@pytest.mark.parametrize(
    ('make', 'says'),
    [
        (text_file, 'is not a SQLite database'),
        (short_text, 'is not a SQLite database'),
        (only_a_header, 'is not a SQLite database'),
        (truncated, 'damaged'),
        (scrambled, 'damaged'),
        (another_program, 'the database of another program: it has no table plan_items'),
        (another_shape, 'tables that are not those of a plan'),
    ],
)
def test_a_file_that_is_no_plan_is_named_and_left_alone(
    make: Callable[[Path], None], says: str, tmp_path: Path
) -> None:
    path = tmp_path / 'plan.db'
    make(path)
    before = state(tmp_path)
    for attempt in (lambda: read(path), lambda: write(path, Add('new'))):
        with pytest.raises(DamagedStore, match=says) as caught:
            attempt()
        assert '\n' not in caught.value.message
    assert state(tmp_path) == before


def test_a_folder_a_device_and_a_pipe_are_no_databases(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'pipe')
    for path in (tmp_path, tmp_path / 'pipe', Path('/dev/null')):
        for attempt in (
            lambda path=path: read(path),
            lambda path=path: write(path, Add('new')),
            lambda path=path: write(path, Remove('not there')),
        ):
            with pytest.raises(DamagedStore, match=r'is a folder|is not a regular file'):
                attempt()


def test_a_plan_can_have_a_table_of_its_own_in_another_programs_database(tmp_path: Path) -> None:
    another_program(tmp_path / 'app.db')
    assert read(tmp_path / 'app.db', table='steps') == Plan()
    write(tmp_path / 'app.db', Add('one'), table='steps')
    assert len(read(tmp_path / 'app.db', table='STEPS').steps) == 1


def test_tables_of_one_file_are_different_plans(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'))
    write(path, Add('two'), Describe(objective='other'), table='more')
    write(path, Edit('1', 'changed'), table='More')
    assert [step.content for step in read(path).steps] == ['one']
    assert [step.content for step in read(path, table='more').steps] == ['changed']
    assert (read(path).revision, read(path, table='MORE').revision) == (1, 2)


def test_a_file_of_a_newer_planctl_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'))
    sql(path, f"UPDATE planctl_schema SET version = {SCHEMA + 1}, written_by = '7.1.0'")
    before = state(tmp_path)
    store = SqliteFile(path)
    for attempt in (lambda: read(path), lambda: write(path, Add('new')), lambda: drive(store.log())):
        with pytest.raises(NewerSchema, match=rf'a newer planctl: its tables are version {SCHEMA + 1}') as caught:
            attempt()
        assert caught.value.hint == 'install planctl 7.1.0 or newer'
    assert state(tmp_path) == before


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / 'no' / 'such' / 'plan.db'
    with pytest.raises(StorageError, match=f'there is no folder {path.parent}') as caught:
        write(path, Add('one'))
    assert caught.value.code == 'storage'
    with pytest.raises(DatabaseNotFound):
        read(path)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_not_given_back_in_time_is_said(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    with pytest.raises(StoreUnavailable, match=r'is locked: after 0\.05 s it is still held by another part') as caught:
        write(path, Add('two'), wait=0.05)
    assert isinstance(caught.value, ConnectionError)
    assert len(read(path, wait=0).steps) == 1
    other.execute('ROLLBACK')
    other.close()
    write(path, Add('two'), wait=0.05)


def test_a_reader_waits_for_a_writer_of_a_rollback_journal(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), journal='delete')
    other = sqlite3.connect(path, isolation_level=None)
    other.execute('BEGIN EXCLUSIVE')
    with pytest.raises(StoreUnavailable, match='is locked'):
        read(path, wait=0.05)
    other.close()
    assert len(read(path).steps) == 1


WRITING = """
import os, sys
from planctl import Plan, apply
from planctl.core import drive
from planctl.errors import StorageError
from planctl.operations import Add
from planctl.stores.sqlite_file import SqliteFile
from planctl.stores.sqlite_tables import SCHEMA
import planctl.rules
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    drive(apply(SqliteFile(sys.argv[1]), Add('two')))
except StorageError as error:
    print(error.code, error.message)
"""


@pytest.mark.parametrize('mode', [(0o555, 0o444), (0o777, 0o444), (0o555, 0o644)])
@pytest.mark.parametrize('make', [planctl_wal, planctl_delete, harness])
def test_somebody_who_may_only_read_is_told_so_and_changes_nothing(
    make: Callable[[Path], None], mode: tuple[int, int], open_folder: Path
) -> None:
    make(open_folder)
    (open_folder / 'plan.db').chmod(mode[1])
    open_folder.chmod(mode[0])
    before = state(open_folder)
    done = subprocess.run(
        [sys.executable, '-c', WRITING, str(open_folder / 'plan.db')], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stderr == ''
    assert done.stdout.startswith('storage ')
    assert 'read-only' in done.stdout or 'no permission' in done.stdout
    assert state(open_folder) == before


def test_a_new_database_in_a_folder_that_cannot_be_written_is_refused(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    done = subprocess.run(
        [sys.executable, '-c', WRITING, str(open_folder / 'plan.db')], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stderr == ''
    assert f'no permission to write to the folder {open_folder}' in done.stdout
    assert list(open_folder.iterdir()) == []


@pytest.mark.parametrize('name', [':memory:', '', 'a\0b'])
def test_a_database_that_is_no_file_is_refused(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        SqliteFile(name)
    assert isinstance(caught.value, ValueError)
    assert ('InMemoryPlanStore' in caught.value.message) == (name == ':memory:')


@pytest.mark.parametrize('table', ['', 'a b', 'x;--', '1a', 'x' * 64, 'sqlite_master', 'planctl_log', 'PLANCTL_x'])
def test_a_table_name_that_cannot_be_is_refused(table: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidName, match='invalid table name'):
        SqliteFile(tmp_path / 'plan.db', table=table)


def test_half_a_character_past_the_write_path_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    def edit(plan: Plan) -> Change:
        return rules.apply(plan, [Add('one')], actor='me', now=0)

    with pytest.raises(InputError, match='lone surrogate'):
        drive(SqliteFile(tmp_path / 'plan.db').update(edit, actor='me', label='add', now=0, key='\ud800'))
    assert read(tmp_path / 'plan.db') == Plan()


# --- Held open ------------------------------------------------------------------------------------------------


def held(store: SqliteFile) -> SqliteFile:
    drive(store.__aenter__())
    return store


def let_go(store: SqliteFile) -> None:
    drive(store.__aexit__(None, None, None))


def test_a_held_file_that_was_removed_is_never_written_into(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    store = held(SqliteFile(path))
    drive(apply(store, Add('one')))
    for file in tmp_path.iterdir():
        file.unlink()
    for attempt in (lambda: drive(store.read()), lambda: drive(apply(store, Add('two')))):
        with pytest.raises(StorageError, match='was removed while it was in use'):
            attempt()
    assert list(tmp_path.iterdir()) == []
    let_go(store)
    assert list(tmp_path.iterdir()) == []


def test_a_held_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    path, other = tmp_path / 'plan.db', tmp_path / 'other' / 'plan.db'
    other.parent.mkdir()
    write(other, Add('of the other'), Add('file'))
    store = held(SqliteFile(path, journal='delete'))
    drive(apply(store, Add('one')))
    other.replace(path)
    assert [step.content for step in drive(store.read()).steps] == ['of the other', 'file']
    drive(apply(store, Add('more')))
    let_go(store)
    assert [step.content for step in read(path).steps] == ['of the other', 'file', 'more']


def test_a_held_file_is_read_again_only_when_somebody_wrote(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / 'plan.db'
    store = held(SqliteFile(path))
    drive(apply(store, Add('one')))

    def selects() -> int:
        found = sum('FROM plan_items p' in statement for statement in statements)
        del statements[:]
        return found

    selects()
    first = drive(store.read())
    drive(apply(store, Add('two')))
    drive(apply(store, Edit('1', 'changed')))
    assert len(drive(store.read()).steps) == 2
    assert selects() == 0
    assert len(first.steps) == 1
    write(path, Add('three'))
    selects()
    assert len(drive(store.read()).steps) == 3
    assert selects() == 1
    with pytest.raises(StepNotFound):
        drive(apply(store, Add('four'), Remove('nope')))
    assert [step.id for step in drive(store.read()).steps] == ['1', '2', '3']
    drive(apply(store, Add('four')))
    assert selects() == 0
    let_go(store)
    assert os.listdir(tmp_path) == ['plan.db']
    assert read(path).steps[-1].id == '4'


def test_importing_loads_no_loop_driver_or_model() -> None:
    code = (
        'import sys, planctl.stores.sqlite_file\n'
        "print(sorted({'asyncio', 'aiosqlite', 'pydantic', 'pydantic_ai', 'random', 'urllib'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == '[]\n'
