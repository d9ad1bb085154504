"""One plan file, eight processes that do everything at once, and two that change one step at the same moment."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from replay import replay, without_leases

from planctl import Plan, apply, journal, read
from planctl.core import drive, log
from planctl.operations import Add
from planctl.stores.sqlite_file import SqliteFile

HERE = Path(__file__).parent


@contextmanager
def workers(path: Path, task: str, names: Sequence[str], count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start the processes and yield them once each is ready; one in three opens the file anew for each operation."""
    found = os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get('PYTHONPATH', '')])
    kinds = ('held', 'not held', 'file')
    started = [
        subprocess.Popen(
            [sys.executable, str(HERE / 'sqlite_worker.py'), str(path), task, kinds[at % 3], name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, 'PYTHONPATH': found},
        )
        for at, name in enumerate(names)
    ]
    try:
        assert [hear(process) for process in started] == ['ready'] * len(names)
        yield started
    finally:
        for process in started:
            process.communicate(timeout=60)
    assert [process.returncode for process in started] == [0] * len(names)


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell_all(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write('go\n')
    for process in processes:
        assert process.stdin is not None
        process.stdin.flush()


def consistent(path: Path) -> Plan:
    """Return the plan after holding it against its log, twice, and the tables against each other."""
    store = SqliteFile(path)
    plan, rows = drive(read(store)), drive(log(store))
    assert replay(rows) == journal.replay(rows).steps == without_leases(plan)
    assert sorted({row.revision for row in rows}) == list(range(1, plan.revision + 1))
    db = sqlite3.connect(path)
    columns = 'id, seq, content, status, active_form, parent_id, depends_on'
    both = [db.execute(f'SELECT {columns} FROM {t} ORDER BY seq').fetchall() for t in ('plan_items', 'planctl_steps')]
    assert both[0] == both[1]
    assert len({row[1] for row in both[0]}) == len({row[0] for row in both[0]}) == len(plan.steps)
    assert db.execute('PRAGMA integrity_check').fetchall() == [('ok',)]
    db.close()
    return plan


@pytest.mark.parametrize(('journal_mode', 'count'), [('wal', 200), ('delete', 50)])
def test_eight_processes_of_mixed_operations_lose_nothing(journal_mode: Any, count: int, tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    names = [f'w{number}' for number in range(8)]
    drive(apply(SqliteFile(path, journal=journal_mode), *(Add(f'start {n}') for n in range(10))))
    with workers(path, 'mixed', names, count) as processes:
        tell_all(processes)
        answers = [json.loads(hear(process)) for process in processes]
    assert [answer['failures'] for answer in answers] == [[]] * 8
    plan = consistent(path)
    added = [step_id for answer in answers for step_id in answer['added']] + [str(n) for n in range(1, 11)]
    removed = [step_id for answer in answers for step_id in answer['removed']]
    assert len(added) == len(set(added))
    assert len(removed) == len(set(removed))
    assert {step.id for step in plan.steps} == set(added) - set(removed)
    # Each change is a revision of its own, and each process saw its own in order.
    revisions = [answer['revisions'] for answer in answers]
    assert sorted(revision for own in revisions for revision in own) == list(range(2, plan.revision + 1))
    assert all(own == sorted(own) for own in revisions)
    # Enough of it was more than a refusal, by everybody.
    assert sum(answer['refused'] for answer in answers) < 8 * count / 2
    assert {row.actor for row in drive(log(SqliteFile(path)))} == {'python', *names}
    assert os.listdir(tmp_path) == ['plan.db']


def test_two_processes_that_change_different_fields_of_one_step_at_the_same_moment(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    store = SqliteFile(path)
    drive(apply(store, Add('step')))
    with workers(path, 'one field', ['content', 'active_form'], 200) as processes:
        tell_all(processes)
        for number in range(200):
            tell_all(processes)
            assert [hear(process) for process in processes] == ['done', 'done']
            step = drive(read(store)).step('1')
            assert (step.content, step.active_form) == (f'content {number}', f'active_form {number}')
        assert [hear(process) for process in processes] == ['{}', '{}']
    assert consistent(path).revision == 401
