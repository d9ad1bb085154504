"""A run that DBOS recovers, in real processes that end at every moment: nothing happens twice, and all ids hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip('dbos')

WORKFLOWS = Path(__file__).with_name('workflows.py')
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope='module', params=['persistent', 'memory'])
def outcomes(request, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Return what came of the whole run, of each recovered one and of a fork, by what happened last before it died."""
    folder = tmp_path_factory.mktemp(request.param)
    done = subprocess.run(
        [sys.executable, WORKFLOWS, folder, request.param],
        capture_output=True,
        text=True,
        env={'PYTHONPATH': str(REPOSITORY), 'PATH': ''},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line['at']: line for line in lines}


def test_there_is_a_recovery_for_every_moment(outcomes):
    done = outcomes['whole']['done']
    assert done.count('update') == 6
    changes = [at for at, what in enumerate(done) if what == 'update']
    assert all(f'{at} after update' in outcomes for at in changes)
    if outcomes['whole']['plan']:
        assert all(f'{at} before update' in outcomes for at in changes)
        assert all(f'{at} after {what}' in outcomes for at, what in enumerate(done))


def test_one_step_is_recorded_for_each_call_of_a_plan_tool_and_for_each_reminder(outcomes):
    steps = [name.removeprefix('planner__capability__planning.') for name in outcomes['whole']['steps']]
    model = 'planner__model.request'
    # The calls of one response in their order: three changes and one that is refused; then a change and a reading.
    assert steps == [
        *('read', model, 'apply'),
        *('read', model, 'apply', 'apply', 'apply', 'apply'),
        *('read', model, 'apply', 'read'),
        *('read', model),
    ]


def test_a_recovered_run_tells_the_same_in_the_same_order(outcomes):
    whole = outcomes['whole']
    assert whole['told'][-1][1].splitlines() == [
        '[x] 1 a',
        '[ ] 2 b',
        '  [ ] 5 e',
        '[ ] 3 c',
        '[ ] 4 d',
        '1 of 5 resolved',
    ]
    for at, outcome in outcomes.items():
        assert outcome['told'] == whole['told'], at
        assert outcome['steps'] == whole['steps'], at


def test_the_plan_has_every_step_once_under_its_id(outcomes):
    plan = outcomes['whole']['plan']
    assert [step_id for step_id, *_ in plan] in ([], ['1', '2', '3', '4', '5'])
    for at, outcome in outcomes.items():
        assert outcome['plan'] == plan, at


def test_a_fork_that_replays_every_step_calls_no_store_for_the_recorded_ones(outcomes):
    assert 'update' not in outcomes['fork']['done']
    assert outcomes['fork']['done'].count('model') == 1
