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
surrounding          | does   | pending             | in_progress         | completed       | cancelled       | blocked

alone                | start  | in_progress         | in_progress         | in_progress     | in_progress     | in_progress
alone                | done   | completed           | completed           | completed       | completed       | completed
alone                | cancel | cancelled           | cancelled           | cancelled       | cancelled       | cancelled
alone                | block  | blocked             | blocked             | blocked         | blocked         | blocked
alone                | reopen | pending             | pending             | pending         | pending         | pending

waits                | start  | open_prerequisite   | blocked             | open_prerequisite | open_prerequisite | open_prerequisite
waits                | done   | open_prerequisite   | open_prerequisite   | completed       | open_prerequisite | open_prerequisite
waits                | cancel | cancelled           | cancelled           | cancelled       | cancelled       | cancelled
waits                | block  | blocked             | blocked             | blocked         | blocked         | blocked
waits                | reopen | blocked             | blocked             | blocked         | blocked         | blocked

ready                | start  | in_progress         | in_progress         | in_progress     | in_progress     | in_progress
ready                | done   | completed           | completed           | completed       | completed       | completed
ready                | cancel | cancelled           | cancelled           | cancelled       | cancelled       | cancelled
ready                | block  | nothing_to_wait_for | nothing_to_wait_for | nothing_to_wait_for | nothing_to_wait_for | pending
ready                | reopen | pending             | pending             | pending         | pending         | pending

open child           | start  | in_progress         | in_progress         | in_progress     | in_progress     | in_progress
open child           | done   | open_children       | open_children       | completed       | open_children   | open_children
open child           | cancel | open_children       | open_children       | open_children   | cancelled       | open_children
open child           | block  | blocked             | blocked             | blocked         | blocked         | blocked
open child           | reopen | pending             | pending             | pending         | pending         | pending

closed child         | start  | in_progress         | in_progress         | in_progress     | in_progress     | in_progress
closed child         | done   | completed           | completed           | completed       | completed       | completed
closed child         | cancel | cancelled           | cancelled           | cancelled       | cancelled       | cancelled
closed child         | block  | blocked             | blocked             | blocked         | blocked         | blocked
closed child         | reopen | pending             | pending             | pending         | pending         | pending

child waits inside   | done   | open_children       | open_children       | completed       | open_children   | open_children
child waits inside   | cancel | open_children       | open_children       | open_children   | cancelled       | open_children
child waits outside  | done   | open_children       | open_children       | completed       | open_children   | open_children
child waits outside  | cancel | open_children       | open_children       | open_children   | cancelled       | open_children

open parent          | start  | in_progress         | in_progress         | in_progress     | in_progress     | in_progress
open parent          | done   | completed           | completed           | completed       | completed       | completed
open parent          | cancel | cancelled           | cancelled           | cancelled       | cancelled       | cancelled
open parent          | block  | blocked             | blocked             | blocked         | blocked         | blocked
open parent          | reopen | pending             | pending             | pending         | pending         | pending

closed parent        | start  | resolved_parent     | in_progress         | resolved_parent | resolved_parent | resolved_parent
closed parent        | done   | completed           | completed           | completed       | completed       | completed
closed parent        | cancel | cancelled           | cancelled           | cancelled       | cancelled       | cancelled
closed parent        | block  | blocked             | blocked             | resolved_parent | resolved_parent | blocked
closed parent        | reopen | pending             | pending             | resolved_parent | resolved_parent | pending

waits, closed parent | start  | open_prerequisite   | blocked             | open_prerequisite | open_prerequisite | open_prerequisite
waits, closed parent | reopen | blocked             | blocked             | resolved_parent | resolved_parent | blocked
"""

# The same with cascade, where that makes a difference, and what then becomes of the others.
CASCADE = """
surrounding          | does   | pending             | in_progress         | completed       | cancelled       | blocked

open child           | done   | completed, c completed | completed, c completed | completed, c completed | completed, c completed | completed, c completed
open child           | cancel | cancelled, c cancelled | cancelled, c cancelled | cancelled, c cancelled | cancelled, c cancelled | cancelled, c cancelled
closed child         | cancel | cancelled, c completed | cancelled, c completed | cancelled, c completed | cancelled, c completed | cancelled, c completed
child waits inside   | done   | completed, b completed, c completed | completed, b completed, c completed | completed, b completed, c completed | completed, b completed, c completed | completed, b completed, c completed
child waits outside  | done   | open_prerequisite   | open_prerequisite   | open_prerequisite | open_prerequisite | open_prerequisite
child waits outside  | cancel | cancelled, c cancelled | cancelled, c cancelled | cancelled, c cancelled | cancelled, c cancelled | cancelled, c cancelled
waits                | done   | open_prerequisite   | open_prerequisite   | completed       | open_prerequisite | open_prerequisite
waits                | start  | open_prerequisite   | blocked             | open_prerequisite | open_prerequisite | open_prerequisite
closed parent        | start  | in_progress, p pending, g pending | in_progress, p pending, g pending | in_progress, p pending, g pending | in_progress, p pending, g pending | in_progress, p pending, g pending
closed parent        | block  | blocked, p pending, g pending | blocked, p pending, g pending | blocked, p pending, g pending | blocked, p pending, g pending | blocked, p pending, g pending
closed parent        | reopen | pending, p pending, g pending | pending, p pending, g pending | pending, p pending, g pending | pending, p pending, g pending | pending, p pending, g pending
waits, closed parent | start  | open_prerequisite   | blocked, p pending  | open_prerequisite | open_prerequisite | open_prerequisite
waits, closed parent | reopen | blocked, p pending  | blocked, p pending  | blocked, p pending | blocked, p pending | blocked, p pending
"""  # noqa: E501


def cases(table: str) -> list[tuple[str, str, str, str]]:
    rows = [[cell.strip() for cell in line.split('|')] for line in table.splitlines() if line.strip()]
    return [
        (row[0], row[1], status, expected)
        for row in rows[1:]
        for status, expected in zip(rows[0][2:], row[2:], strict=True)
    ]


def outcome(surrounding: str, does: str, status: str, *, cascade: bool) -> dict[str, str] | str:
    steps = [
        Step(step_id, step_id, **({'status': TaskStatus(status)} if step_id == 'x' else {}) | fields)
        for step_id, fields in SURROUNDINGS[surrounding].items()
    ]
    plan = Plan(steps=tuple(steps))
    try:
        change = apply(plan, [SetStatus('x', TRANSITIONS[does], cascade=cascade)], actor='me', now=1.0)
    except PlanctlError as error:
        assert error.ids[0] in plan.index
        assert error.message
        return error.code
    return {step.id: step.status.value for step in change.after.steps}


@pytest.mark.parametrize(('surrounding', 'does', 'status', 'expected'), cases(ALONE))
def test_each_status_meets_each_transition(surrounding: str, does: str, status: str, expected: str) -> None:
    found = outcome(surrounding, does, status, cascade=False)
    assert (found if isinstance(found, str) else found['x']) == expected


@pytest.mark.parametrize(('surrounding', 'does', 'status', 'expected'), cases(CASCADE))
def test_each_status_meets_each_transition_with_cascade(
    surrounding: str, does: str, status: str, expected: str
) -> None:
    found = outcome(surrounding, does, status, cascade=True)
    if isinstance(found, str):
        assert found == expected
        return
    own, *others = expected.split(', ')
    assert found['x'] == own
    for other in others:
        step_id, other_status = other.split()
        assert found[step_id] == other_status


def test_the_table_leaves_no_transition_out() -> None:
    told = {(surrounding, does) for surrounding, does, _, _ in cases(ALONE)}
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
    fields = SURROUNDINGS[surrounding]
    plan = Plan(
        steps=tuple(
            Step(step_id, step_id, **({'status': TRANSITIONS[does]} if step_id == 'x' else {}) | more)
            for step_id, more in fields.items()
        )
    )
    change = apply(plan, [SetStatus('x', TRANSITIONS[does])], actor='me', now=1.0)
    assert not change.changed
    assert change.after is plan
