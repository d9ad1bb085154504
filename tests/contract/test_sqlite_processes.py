"""A plan database and several processes: killed in the middle, and writing at once. Real processes, real signals."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planctl import Plan, PlanItem, TaskStatus, apply
from planctl.core import drive
from planctl.operations import Add, Edit
from planctl.stores.sqlite_file import SqliteFile

ROOT = Path(__file__).parents[2]

BUSY = """
import sys
from planctl import TaskStatus, apply
from planctl.core import drive
from planctl.operations import Add, Remove, SetStatus
from planctl.stores.sqlite_file import SqliteFile

store = SqliteFile(sys.argv[1])
def do(*operations): drive(apply(store, *operations))
drive(store.__aenter__()) if sys.argv[2] == 'held' else None
print('go', flush=True)
while True:
    do(*(Add(f'batch {n}', id=f'b{n}') for n in range(30)))
    do(Add('root', id='r'), *(Add('leaf', id=f'r{n}', parent_id='r' if n < 5 else f'r{n - 5}') for n in range(30)))
    do(SetStatus('gate', TaskStatus.completed))
    do(Remove('r', cascade=True))
    do(SetStatus('gate', TaskStatus.pending))
    do(*(Remove(f'b{n}') for n in range(30)))
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, '-c', code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def check_whole(path: Path) -> tuple[int, int, str]:
    """Hold a database against what no crash may leave; return how far the work had come."""
    plan = drive(SqliteFile(path).read())
    batch = sum(step.id.startswith('b') for step in plan.steps)
    tree = sum(step.id.startswith('r') for step in plan.steps)
    gate = plan.step('gate').status
    waiting = {step.status for step in plan.steps if step.id.startswith('w')}
    assert batch in (0, 30)
    assert tree in (0, 31)
    assert waiting == {TaskStatus.pending if gate is TaskStatus.completed else TaskStatus.blocked}
    connection = sqlite3.connect(path)
    assert connection.execute('PRAGMA integrity_check').fetchall() == [('ok',)]
    assert connection.execute('SELECT max(revision) FROM planctl_log').fetchone() == (plan.revision,)
    columns = 'id, seq, content, status, parent_id, depends_on'
    both = [
        connection.execute(f'SELECT {columns} FROM {t} ORDER BY id').fetchall() for t in ('plan_items', 'planctl_steps')
    ]
    assert both[0] == both[1]
    connection.close()
    return batch, tree, gate.value


def prepared(path: Path) -> Path:
    waiting = [Add('waits', id=f'w{n}', depends_on=('gate',)) for n in range(30)]
    drive(apply(SqliteFile(path), Add('gate', id='gate'), *waiting))
    return path


@pytest.mark.parametrize('how', ['held', 'not held'])
def test_a_process_that_is_killed_leaves_the_plan_as_before_or_after(how: str, tmp_path: Path) -> None:
    path = prepared(tmp_path / 'plan.db')
    dice = random.Random(how)
    seen: set[tuple[int, int, str]] = set()
    for _ in range(25):
        process = start(BUSY, path, how)
        assert process.stdout is not None
        assert process.stdout.readline() == 'go\n'
        time.sleep(dice.uniform(0, 0.06))
        process.kill()
        _, errors = process.communicate()
        assert (process.returncode, errors) == (-signal.SIGKILL, '')
        seen.add(check_whole(path))
        drive(apply(SqliteFile(path), Edit('gate', f'still written to, {len(seen)}')))
        reset(path)
    assert len(seen) > 1


def reset(path: Path) -> None:
    """Bring the plan back to where the busy process starts."""
    waiting = [Add('waits', id=f'w{n}', depends_on=('gate',)) for n in range(30)]
    store = SqliteFile(path)
    drive(store.set_items([]))
    drive(apply(store, Add('gate', id='gate'), *waiting))


ONCE = """
import os, signal, sqlite3, sys
from planctl import apply
from planctl.core import drive
from planctl.operations import Add, Remove
from planctl.stores.sqlite_file import SqliteFile

left = int(sys.argv[2])
def counted(statement):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

class Dying(sqlite3.Connection):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.set_trace_callback(counted)

connect = sqlite3.connect
sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=Dying, **options)
operations = {
    'first': [Add(f'batch {n}', id=f'b{n}') for n in range(3)],
    'subtree': [Remove('1', cascade=True)],
}
drive(apply(SqliteFile(sys.argv[1]), *operations[sys.argv[3]]))
"""


@pytest.mark.parametrize('what', ['first', 'subtree'])
def test_a_process_that_is_killed_at_each_statement_in_turn(what: str, tmp_path: Path) -> None:
    done = False
    kills = 0
    outcomes: list[bool] = []
    while not done:
        path = tmp_path / f'{kills}.db'
        if what != 'first':
            drive(apply(SqliteFile(path), Add('one'), Add('leaf', parent_id='1'), Add('waits', depends_on=('1',))))
        before = Plan() if what == 'first' else drive(SqliteFile(path).read())
        process = start(ONCE, path, kills, what)
        _, errors = process.communicate()
        done = process.returncode == 0
        assert process.returncode in (0, -signal.SIGKILL), errors
        after = drive(SqliteFile(path).read()) if path.exists() else Plan()
        outcomes.append(after != before)
        if after != before:
            assert after.revision == before.revision + 1
            assert done
        drive(apply(SqliteFile(path), Add('goes on', id='x')))
        assert drive(SqliteFile(path).read()).steps[-1].id == 'x'
        kills += 1
    assert kills > 10
    assert outcomes == [False] * (kills - 1) + [True]


APPENDING = """
import asyncio, sys
from planctl import SqlitePlanStore, apply
from planctl.operations import Add

async def main():
    store = SqlitePlanStore(sys.argv[1])
    sys.stdin.readline()
    if sys.argv[3] == 'held':
        await store.__aenter__()
    for number in range(40):
        await apply(store, Add(f'{sys.argv[2]} {number}'), actor=sys.argv[2])
asyncio.run(main())
"""


@pytest.mark.parametrize('journal', ['wal', 'delete'])
def test_processes_that_append_at_once_lose_nothing(journal: str, tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    if journal == 'delete':
        drive(SqliteFile(path, journal='delete').add_item(PlanItem(id='first', content='first')))
    writers = [
        subprocess.Popen(
            [sys.executable, '-c', APPENDING, str(path), name, 'held' if name in 'ab' else 'not held'],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for name in 'abcd'
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write('go\n')
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert (writer.returncode, errors) == (0, '')
    plan = drive(SqliteFile(path).read())
    found = [step.content for step in plan.steps if step.id != 'first']
    for name in 'abcd':
        assert [text for text in found if text.startswith(name)] == [f'{name} {number}' for number in range(40)]
    assert len({step.id for step in plan.steps}) == len(plan.steps)
    connection = sqlite3.connect(path)
    assert (
        connection.execute('SELECT count(DISTINCT seq), count(*) FROM plan_items').fetchone() == (len(plan.steps),) * 2
    )
    assert connection.execute('SELECT count(DISTINCT revision) FROM planctl_log').fetchone() == (plan.revision,)
    connection.close()
    assert os.listdir(tmp_path) == ['plan.db']
