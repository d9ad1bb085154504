"""Which steps can be worked on, by whom, in which order, and what is said when there is none."""

from __future__ import annotations

from inspect import GEN_SUSPENDED, getgeneratorstate

import pytest
from rule_helpers import NOW, do, plan, step, to

from planctl.plan import Plan
from planctl.readiness import available, none_available
from planctl.readiness import ready as ready_in_turn


def ready(stored: Plan, actor: str | None = 'me', now: float = NOW) -> list[str]:
    """Return the ids of what is available, those with open children marked."""
    return [entry.step.id + ('+' if entry.open_children else '') for entry in available(stored, actor, now)]


def test_open_steps_that_wait_for_nothing_in_plan_order() -> None:
    stored = plan(
        step('done', 'completed'),
        step('b'),
        step('off', 'cancelled'),
        step('hand', 'blocked'),
        step('w', 'blocked', on='b'),
        step('free', on='done off'),
        step('a', 'in_progress', owner='me'),
    )
    assert ready(stored) == ['b', 'free', 'a']


def test_parents_with_open_children_come_after_all_leaves_and_are_marked() -> None:
    stored = plan(
        step('p'),
        step('q', under='p'),
        step('k', under='q'),
        step('closed', 'completed', under='k'),
        step('last'),
    )
    assert ready(stored) == ['k', 'last', 'p+', 'q+']


def test_what_is_under_a_step_that_waits_is_not_available_however_deep() -> None:
    stored = plan(step('x'), step('p', 'blocked', on='x'), step('q', under='p'), step('k', under='q'), step('m'))
    assert ready(stored) == ['x', 'm']
    assert ready(do(stored, to('done', 'x')).after) == ['k', 'm', 'p+', 'q+']


def test_a_child_of_a_step_that_was_blocked_by_hand_is_available() -> None:
    assert ready(plan(step('p', 'blocked'), step('k', under='p'))) == ['k']


@pytest.mark.parametrize(
    ('owner', 'lease', 'is_ready'),
    [
        ('you', NOW + 1, False),
        ('you', NOW, True),
        ('you', NOW - 1, True),
        ('you', None, True),
        ('me', NOW + 1, True),
        (None, None, True),
    ],
)
def test_a_step_held_by_another_is_available_when_its_lease_has_ended(
    owner: str | None, lease: float | None, is_ready: bool
) -> None:
    stored = plan(step('a', 'in_progress', owner=owner, lease=lease))
    assert ready(stored) == (['a'] if is_ready else [])


def test_for_nobody_in_particular_every_running_lease_counts() -> None:
    assert ready(plan(step('a', 'in_progress', owner='me', lease=NOW + 1), step('b')), actor=None) == ['b']


def test_references_to_nothing_and_loops_of_another_program_end() -> None:
    stored = plan(
        step('a', on='gone', under='gone'),
        step('p', under='q'),
        step('q', under='p'),
        step('x', on='y'),
        step('y', on='x'),
    )
    assert ready(stored) == ['a', 'p+', 'q+']


@pytest.mark.parametrize(
    ('stored', 'message', 'named'),
    [
        (plan(), 'the plan has no steps', ()),
        (plan(step('a', 'completed'), step('b', 'cancelled')), 'the plan is finished', ()),
        (plan(step('b', 'cancelled')), 'the plan is abandoned: all is cancelled', ()),
        (
            plan(step('a', 'in_progress', owner='you', lease=NOW + 1), step('b', 'blocked', on='a')),
            'every step that could be taken is being worked on',
            ('a',),
        ),
        (
            plan(step('a', 'blocked'), step('b', 'blocked', on='a'), step('c', 'completed')),
            'every open step is blocked or waits for another',
            ('a', 'b'),
        ),
    ],
)
def test_the_error_says_why_nothing_is_available(stored: Plan, message: str, named: tuple[str, ...]) -> None:
    error = none_available(stored, 'me', NOW)
    assert (error.code, error.message, error.ids) == ('none_available', message, named)


def test_in_turn_parents_stand_among_their_leaves_and_nothing_is_looked_at_before_it_is_asked_for() -> None:
    stored = plan(step('p'), step('k', under='p'), step('last'))
    found = ready_in_turn(stored, 'me', NOW)
    assert (next(found).open_children, getgeneratorstate(found)) == (True, GEN_SUSPENDED)
    assert [entry.step.id for entry in found] == ['k', 'last']
