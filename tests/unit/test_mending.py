"""Plans with steps that no store could read: what may be done to them, and how a step becomes readable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rule_helpers import do, plan, step, to

from planctl.checking import check
from planctl.errors import BlankText, DamagedStep, HasChildren, StepNotFound
from planctl.journal import log_rows, replay
from planctl.operations import Add, Claim, Depend, Describe, Edit, Move, Note, Release, Remove, Replace
from planctl.plan import Plan, Problem, Step, TaskStatus
from planctl.readiness import available
from planctl.rules import settle
from planctl.stores.base import restate


def damaged(*mended: Step, beside: tuple[Step, ...] = ()) -> Plan:
    """Return a plan in which each of `mended` could not be read, between the steps `beside`."""
    problems = tuple(Problem(one.id, f'step {one.id!r} cannot be read', one) for one in mended)
    return plan(*beside, *(problem.stand_in for problem in problems), problems=problems, revision=4)


GOOD = (step('a'), step('b', 'blocked', on='x'), step('c', under='x'))
STORED = damaged(step('x', 'completed', on='a gone', under='lost'), step('y', content=''), beside=GOOD)


def test_a_stand_in_is_offered_to_nobody_waited_for_and_settled() -> None:
    assert [ready.step.id for ready in available(STORED, 'me', 0)] == ['a', 'c']
    assert settle(STORED) == STORED
    assert not STORED.progress.finished
    assert STORED.step('x').note == "step 'x' cannot be read"


@pytest.mark.parametrize(
    'operations',
    [
        [Add('new')],
        [Add('new', id='x')],
        [Edit('a', 'new text')],
        [Remove('a')],
        [to('done', 'a')],
        [to('done', 'x')],
        [Note('x', 'mine')],
        [Move('x', top=True)],
        [Depend('a', 'c')],
        [Replace(())],
        [Describe(objective='win')],
        [Claim('me', 60)],
        [Claim('me', 60, id='x')],
        [Release('me')],
        [Edit('x', 'new text'), Edit('a', 'new text')],
        [Edit('x', 'new text'), Depend('a', 'x')],
        [Remove('x', cascade=True), Add('new')],
        [Edit('nope', 'new text')],
    ],
    ids=repr,
)
def test_everything_else_is_refused_until_then(operations: Any) -> None:
    with pytest.raises(DamagedStep, match=r"step 'x' cannot be read \(and 1 more cannot be read\)") as caught:
        do(STORED, *operations)
    assert (caught.value.code, caught.value.ids) == ('damaged_step', ('x', 'y'))


def test_nothing_to_do_and_who_works_on_the_session_are_no_matter_of_steps() -> None:
    assert do(STORED).after is STORED
    assert do(STORED, Claim('run', 60, scope='session')).after.owner == 'run'


def test_an_edit_makes_the_step_what_could_be_read_of_it() -> None:
    change = do(STORED, Edit('x', 'new text'))
    # What it refers to and is not there goes; what it waits for is there. It was completed, so who waits is freed.
    assert change.after.step('x') == step('x', 'completed', on='a', content='new text')
    assert change.after.step('b').status is TaskStatus.pending
    assert change.after.problems == STORED.problems[1:]
    assert change.remark('mended') == ('x',)
    assert (change.after.revision, change.changed) == (5, True)
    assert replay(log_rows(change, actor='me', operation='edit', at=1), STORED).steps == change.after.steps


def test_an_edit_that_states_what_could_be_read_mends_as_well() -> None:
    change = do(damaged(step('x')), Edit('x', 'X'))
    assert (change.after.steps, change.after.problems) == ((step('x'),), ())
    assert [entry.after for entry in change.updated] == [step('x')]


def test_a_mended_step_can_be_edited_further_in_the_same_transaction() -> None:
    change = do(STORED, Edit('x', 'new text'), Edit('x', active_form='doing'), Note('x', 'why'), Edit('y', 'text'))
    wanted = step('x', 'completed', on='a', content='new text', active_form='doing', note='why')
    assert change.after.step('x') == wanted
    assert change.after.problems == ()
    assert change.remark('mended') == ('x', 'y')


def test_a_step_whose_text_is_lost_needs_one() -> None:
    with pytest.raises(BlankText):
        do(STORED, Edit('y', active_form='doing'))
    assert do(STORED, Edit('y', 'new text')).after.step('y').content == 'new text'


def test_a_removal_takes_the_step_and_what_refers_to_it_as_ever() -> None:
    with pytest.raises(HasChildren):
        do(STORED, Remove('x'))
    change = do(STORED, Remove('x', cascade=True))
    assert [one.id for one in change.after.steps] == ['a', 'b', 'y']
    assert change.after.step('b') == step('b')
    assert change.after.problems == STORED.problems[1:]
    assert do(change.after, Remove('y')).after.problems == ()
    with pytest.raises(StepNotFound):
        do(do(change.after, Remove('y')).after, Remove('y'))


def test_a_step_that_is_blocked_as_stored_stays_so_when_it_is_mended() -> None:
    assert do(damaged(step('x', 'blocked')), Edit('x', 'X')).after.step('x').status is TaskStatus.blocked


def test_a_loop_through_a_mended_step_is_not_its_mender_to_judge() -> None:
    stored = damaged(step('x', on='b'), beside=(step('b', 'blocked', on='x'),))
    mended = do(stored, Edit('x', 'X')).after
    assert [one.message for one in check(mended)] == ['these steps wait for each other: b, x, b']


def test_what_is_stored_without_rules_is_held_to_the_same() -> None:
    steps = list(STORED.steps)
    with pytest.raises(DamagedStep):
        restate(STORED, [*steps, step('new')])
    with pytest.raises(DamagedStep):
        restate(STORED, [])
    assert restate(STORED, steps).after is STORED
    assert restate(STORED, steps[:-1]).after.problems == STORED.problems[:1]
    assert restate(STORED, [*steps[:-1], step('y')]).after.problems == STORED.problems[:1]


# --- What is wrong with a plan that can be read ---------------------------------------------------------------


def test_a_plan_of_ours_has_no_problems() -> None:
    made = do(plan(), Add('a'), Add('b', parent_id='1', depends_on=()), Add('c', id='x-1|y', depends_on=('1',))).after
    assert check(made) == ()
    assert check(plan()) == ()


@pytest.mark.parametrize('odd', ['', ' ', 'a b', 'a\u00a0b', '-a', '<a>', 'x' * 65, 'a\x1b', '\ud800', '||', '|-'])
@pytest.mark.parametrize('place', [0, 1, 2])
def test_an_id_that_nobody_could_choose_is_named(odd: str, place: int) -> None:
    ids = ['one', 'two']
    ids.insert(place, odd)
    expected = [] if odd in ('||', '|-') else [odd]
    assert [problem.id for problem in check(plan(*map(step, ids)))] == expected


@pytest.mark.parametrize(
    ('steps', 'way'),
    [
        ([step('a', under='b'), step('b', under='a')], 'these steps wait for each other: a, b, a'),
        ([step('a', on='b'), step('b', on='a')], 'these steps wait for each other: a, b, a'),
        ([step('a'), step('b', under='a'), step('c', on='a'), step('d', under='b', on='c')], 'a, b, d, c, a'),
        ([step('a', under='a')], 'step a waits for itself'),
        ([step('a', on='a')], 'step a waits for itself'),
        ([step('a', under='x'), step('b', on='a x')], ''),
        ([step('b', on='a'), step('a')], ''),
        ([step('a'), step('b', under='a'), step('c', under='a', on='b')], ''),
    ],
)
def test_a_loop_is_named(steps: list[Step], way: str) -> None:
    found = check(plan(*steps))
    assert len(found) == bool(way)
    if way:
        stops = way.rpartition(': ')[2].split(', ')
        if len(stops) > 1:
            named = found[0].message.rpartition(': ')[2].split(', ')
            assert sorted(named[:-1]) == sorted(stops[:-1])
            assert named[0] == named[-1] == found[0].id
        else:
            assert found[0].message == way


def test_what_could_not_be_read_comes_first_and_once() -> None:
    stored = replace(damaged(step('a b')), steps=(*damaged(step('a b')).steps, step('c d')))
    assert [(problem.id, problem.mended is None) for problem in check(stored)] == [('a b', False), ('c d', True)]
