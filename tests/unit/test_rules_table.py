"""Every status against every transition, alone and with cascade, in each surrounding that decides about it."""

from __future__ import annotations

import pytest

from planctl.errors import PlanctlError
from planctl.operations import SetStatus
from planctl.plan import Plan, Step, TaskStatus
from planctl.rules import apply

TRANSITIONS = {
    'start': TaskStatus.in_progress,
    'done': TaskStatus.completed,
    'cancel': TaskStatus.cancelled,
    'block': TaskStatus.blocked,
    'reopen': TaskStatus.pending,
}

DONE, TODO = TaskStatus.completed, TaskStatus.pending

# Step `x` and what surrounds it.
SURROUNDINGS = {
    'alone': {'x': {}},
    'waits': {'y': {}, 'x': {'depends_on': ('y',)}},
    'ready': {'y': {'status': DONE}, 'x': {'depends_on': ('y',)}},
    'open child': {'x': {}, 'c': {'parent_id': 'x'}},
    'closed child': {'x': {}, 'c': {'parent_id': 'x', 'status': DONE}},
    'child waits inside': {'x': {}, 'b': {'parent_id': 'x'}, 'c': {'parent_id': 'x', 'depends_on': ('b',)}},
    'child waits outside': {'y': {}, 'x': {}, 'c': {'parent_id': 'x', 'depends_on': ('y',)}},
    'open parent': {'p': {}, 'x': {'parent_id': 'p'}},
    'closed parent': {'g': {'status': DONE}, 'p': {'parent_id': 'g', 'status': DONE}, 'x': {'parent_id': 'p'}},
    'waits, closed parent': {'y': {}, 'p': {'status': DONE}, 'x': {'parent_id': 'p', 'depends_on': ('y',)}},
}

# Columns: the status that x had. Cells: the status that it then has, or the code of the refusal.
ALONE = """
surrounding          | does   | pending       | in_progress   | completed     | cancelled     | blocked

alone                | start  | in_progress   | in_progress   | in_progress   | in_progress   | in_progress
alone                | done   | completed     | completed     | completed     | completed     | completed
alone                | cancel | cancelled     | cancelled     | cancelled     | cancelled     | cancelled
alone                | block  | blocked       | blocked       | blocked       | blocked       | blocked
alone                | reopen | pending       | pending       | pending       | pending       | pending

waits                | start  | !prerequisite | blocked       | !prerequisite | !prerequisite | !prerequisite
waits                | done   | !prerequisite | !prerequisite | completed     | !prerequisite | !prerequisite
waits                | cancel | cancelled     | cancelled     | cancelled     | cancelled     | cancelled
waits                | block  | blocked       | blocked       | blocked       | blocked       | blocked
waits                | reopen | blocked       | blocked       | blocked       | blocked       | blocked

ready                | start  | in_progress   | in_progress   | in_progress   | in_progress   | in_progress
ready                | done   | completed     | completed     | completed     | completed     | completed
ready                | cancel | cancelled     | cancelled     | cancelled     | cancelled     | cancelled
ready                | block  | !nothing      | !nothing      | !nothing      | !nothing      | pending
ready                | reopen | pending       | pending       | pending       | pending       | pending

open child           | start  | in_progress   | in_progress   | in_progress   | in_progress   | in_progress
open child           | done   | !children     | !children     | completed     | !children     | !children
open child           | cancel | !children     | !children     | !children     | cancelled     | !children
open child           | block  | blocked       | blocked       | blocked       | blocked       | blocked
open child           | reopen | pending       | pending       | pending       | pending       | pending

closed child         | start  | in_progress   | in_progress   | in_progress   | in_progress   | in_progress
closed child         | done   | completed     | completed     | completed     | completed     | completed
closed child         | cancel | cancelled     | cancelled     | cancelled     | cancelled     | cancelled
closed child         | block  | blocked       | blocked       | blocked       | blocked       | blocked
closed child         | reopen | pending       | pending       | pending       | pending       | pending

child waits inside   | done   | !children     | !children     | completed     | !children     | !children
child waits inside   | cancel | !children     | !children     | !children     | cancelled     | !children
child waits outside  | done   | !children     | !children     | completed     | !children     | !children
child waits outside  | cancel | !children     | !children     | !children     | cancelled     | !children

open parent          | start  | in_progress   | in_progress   | in_progress   | in_progress   | in_progress
open parent          | done   | completed     | completed     | completed     | completed     | completed
open parent          | cancel | cancelled     | cancelled     | cancelled     | cancelled     | cancelled
open parent          | block  | blocked       | blocked       | blocked       | blocked       | blocked
open parent          | reopen | pending       | pending       | pending       | pending       | pending

closed parent        | start  | !parent       | in_progress   | !parent       | !parent       | !parent
closed parent        | done   | completed     | completed     | completed     | completed     | completed
closed parent        | cancel | cancelled     | cancelled     | cancelled     | cancelled     | cancelled
closed parent        | block  | blocked       | blocked       | !parent       | !parent       | blocked
closed parent        | reopen | pending       | pending       | !parent       | !parent       | pending

waits, closed parent | start  | !prerequisite | blocked       | !prerequisite | !prerequisite | !prerequisite
waits, closed parent | reopen | blocked       | blocked       | !parent       | !parent       | blocked
"""

CODES = {
    '!prerequisite': 'open_prerequisite',
    '!children': 'open_children',
    '!parent': 'resolved_parent',
    '!nothing': 'nothing_to_wait_for',
}

# The same with cascade, where that makes a difference, with what then becomes of the others.
CASCADE = """
surrounding          | does   | from                           | becomes

open child           | done   | any                            | completed, c completed
open child           | cancel | any                            | cancelled, c cancelled
closed child         | cancel | any                            | cancelled, c completed
child waits inside   | done   | any                            | completed, b completed, c completed
child waits outside  | done   | any                            | !prerequisite
child waits outside  | cancel | any                            | cancelled, c cancelled
waits                | done   | pending, in_progress, cancelled, blocked | !prerequisite
waits                | done   | completed                      | completed
waits                | start  | pending, completed, cancelled, blocked | !prerequisite
waits                | start  | in_progress                    | blocked
closed parent        | start  | any                            | in_progress, p pending, g pending
closed parent        | block  | any                            | blocked, p pending, g pending
closed parent        | reopen | any                            | pending, p pending, g pending
waits, closed parent | start  | pending, completed, cancelled, blocked | !prerequisite
waits, closed parent | start  | in_progress                    | blocked, p pending
waits, closed parent | reopen | any                            | blocked, p pending
"""


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split('|')] for line in table.splitlines() if line.strip()]


def alone() -> list[tuple[str, str, str, str]]:
    header, *rows = rows_of(ALONE)
    return [(row[0], row[1], status, cell) for row in rows for status, cell in zip(header[2:], row[2:], strict=True)]


def with_cascade() -> list[tuple[str, str, str, str]]:
    every = ', '.join(TaskStatus)
    return [
        (surrounding, does, status, becomes)
        for surrounding, does, given, becomes in rows_of(CASCADE)[1:]
        for status in (every if given == 'any' else given).split(', ')
    ]


def stored(surrounding: str, status: TaskStatus) -> Plan:
    return Plan(
        steps=tuple(
            Step(step_id, step_id, **({'status': status} if step_id == 'x' else {}) | fields)
            for step_id, fields in SURROUNDINGS[surrounding].items()
        )
    )


def check(surrounding: str, does: str, status: str, expected: str, *, cascade: bool) -> None:
    plan = stored(surrounding, TaskStatus(status))
    operation = SetStatus('x', TRANSITIONS[does], cascade=cascade)
    if expected in CODES:
        with pytest.raises(PlanctlError) as caught:
            apply(plan, [operation], actor='me', now=1.0)
        assert caught.value.code == CODES[expected]
        assert set(caught.value.ids) <= set(plan.index)
        assert caught.value.message
        return
    found = {step.id: step.status.value for step in apply(plan, [operation], actor='me', now=1.0).after.steps}
    own, *others = expected.split(', ')
    assert found['x'] == own
    for other in others:
        step_id, other_status = other.split()
        assert found[step_id] == other_status


@pytest.mark.parametrize(('surrounding', 'does', 'status', 'expected'), alone())
def test_each_status_meets_each_transition(surrounding: str, does: str, status: str, expected: str) -> None:
    check(surrounding, does, status, expected, cascade=False)


@pytest.mark.parametrize(('surrounding', 'does', 'status', 'expected'), with_cascade())
def test_each_status_meets_each_transition_with_cascade(
    surrounding: str, does: str, status: str, expected: str
) -> None:
    check(surrounding, does, status, expected, cascade=True)


def test_the_table_leaves_no_transition_out() -> None:
    told = {(surrounding, does) for surrounding, does, _, _ in alone()}
    for surrounding in ('alone', 'waits', 'ready', 'open child', 'closed child', 'open parent', 'closed parent'):
        assert {does for where, does in told if where == surrounding} == set(TRANSITIONS)


STATES_THAT_HOLD = [
    (surrounding, does)
    for surrounding in SURROUNDINGS
    for does in TRANSITIONS
    # The others do not outlast the next settling.
    if 'waits' not in surrounding and (surrounding, does) != ('ready', 'block')
]


@pytest.mark.parametrize(('surrounding', 'does'), STATES_THAT_HOLD)
def test_repeating_a_state_that_holds_changes_nothing(surrounding: str, does: str) -> None:
    plan = stored(surrounding, TRANSITIONS[does])
    change = apply(plan, [SetStatus('x', TRANSITIONS[does])], actor='me', now=1.0)
    assert not change.changed
    assert change.after is plan
