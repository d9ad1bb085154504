"""Adding, moving and removing: places in the order, parents, ids that are given out."""

from __future__ import annotations

import pytest
from rule_helpers import do, ids, plan, statuses, step, to

from planctl.errors import HasChildren, ResolvedParent
from planctl.operations import Add, Draft, Move, Remove, Replace
from planctl.plan import Plan, TaskStatus

ABC = plan(step('a'), step('b'), step('c'))


@pytest.mark.parametrize(
    ('operation', 'order'),
    [
        (Add('x', id='x'), 'a b c x'),
        (Add('x', id='x', before='a'), 'x a b c'),
        (Add('x', id='x', after='a'), 'a x b c'),
        (Add('x', id='x', after='c'), 'a b c x'),
        (Move('c', before='a'), 'c a b'),
        (Move('a', after='c'), 'b c a'),
        (Move('a', after='a'), 'a b c'),
        (Move('b', after='a'), 'a b c'),
        (Remove('b'), 'a c'),
    ],
    ids=repr,
)
def test_the_order_after(operation: Add | Move | Remove, order: str) -> None:
    assert ids(do(ABC, operation).after) == order


def test_moving_changes_the_parent_only_when_it_is_named() -> None:
    stored = plan(step('p'), step('a', under='p'), step('q'))
    assert do(stored, Move('a', before='p')).after.steps == (step('a', under='p'), step('p'), step('q'))
    assert do(stored, Move('a', under='q')).after.step('a').parent_id == 'q'
    assert do(stored, Move('a', top=True)).after.step('a').parent_id is None
    assert not do(stored, Move('a', under='p')).changed
    assert not do(stored, Move('q', top=True)).changed


def test_open_steps_cannot_be_put_under_a_resolved_one() -> None:
    stored = plan(step('p', 'completed'), step('a'), step('b', 'cancelled'))
    for status in TaskStatus:
        with pytest.raises(ResolvedParent) as caught:
            do(stored, Add('x', id='x', parent_id='p', status=status))
        assert caught.value.ids == ('x', 'p')
    with pytest.raises(ResolvedParent):
        do(stored, Move('a', under='p'))
    with pytest.raises(ResolvedParent):
        do(stored, Replace((Draft('P'), Draft('A', parent_id='p'))))
    # A resolved step says nothing new there.
    assert do(stored, Move('b', under='p')).after.step('b').parent_id == 'p'


def test_removing_a_step_with_subtasks_names_them_and_takes_them_with_cascade() -> None:
    stored = plan(step('p'), step('a', under='p'), step('b', under='a'), step('c', 'blocked', on='b'), step('d'))
    with pytest.raises(HasChildren) as caught:
        do(stored, Remove('p'))
    assert caught.value.ids == ('p', 'a', 'b')
    change = do(stored, Remove('p', cascade=True))
    assert change.after.steps == (step('c'), step('d'))
    assert [one.id for one in change.deleted] == ['p', 'a', 'b']


# --- Ids --------------------------------------------------------------------------------------------------------


def test_steps_without_an_id_get_the_next_integer_subtasks_too() -> None:
    first = do(plan(), Add('a'), Add('b', parent_id='1'), Add('c')).after
    assert ids(first) == '1 2 3'
    assert first.next_id == 4


def test_an_id_is_never_given_out_again() -> None:
    stored = do(plan(), Add('a'), Add('b')).after
    stored = do(stored, Remove('2')).after
    assert do(stored, Add('c')).created[0].id == '3'
    assert do(stored, Replace((Draft('A new one'), Draft('another')))).after.steps[1].id == '4'
    emptied = do(stored, Remove('1')).after
    assert do(emptied, Add('d')).created[0].id == '3'


def test_the_counter_passes_every_canonical_integer_below_a_million() -> None:
    def next_after(step_id: str, next_id: int = 1) -> str:
        return do(do(plan(next_id=next_id), Add('x', id=step_id)).after, Add('y')).created[0].id

    assert next_after('41') == '42'
    assert next_after('999999') == '1000000'
    for other in ('1000000', '007', '4x', '٤', '-', '0x10', '1e3'):
        if other != '-':
            assert next_after(other) == '1'
    assert next_after('0') == '1'
    assert next_after('5', next_id=9) == '9'


def test_the_counter_passes_integers_that_another_program_stored_and_that_are_gone_again() -> None:
    stored = plan(step('7'), step('a'))
    assert do(stored, Add('x')).created[0].id == '8'
    removed = do(stored, Remove('7')).after
    assert do(removed, Add('x')).created[0].id == '8'
    replaced = do(stored, Replace((Draft('A'),))).after
    assert do(replaced, Add('x')).created[0].id == '8'


def test_the_counter_steps_over_an_id_that_somebody_chose() -> None:
    stored = plan(step('1000000'), step('1000001'), next_id=1_000_000)
    assert [one.id for one in do(stored, Add('x'), Add('y')).created] == ['1000002', '1000003']


def test_chosen_ids_are_kept() -> None:
    for chosen in ('step-1', 'é', '日本', 'x' * 64, '7', 'a/b'):
        assert do(plan(), Add('x', id=chosen)).created[0].id == chosen


# --- Revisions --------------------------------------------------------------------------------------------------


def test_each_change_is_one_revision_and_nothing_else_is() -> None:
    stored: Plan = plan(step('a'), revision=5)
    assert do(stored, to('start', 'a')).after.revision == 6
    assert do(stored, Add('b'), Add('c')).after.revision == 6
    assert do(stored, to('reopen', 'a')).after.revision == 5
    assert statuses(do(stored, Move('a', top=True)).after) == {'a': 'pending'}
    assert do(stored, Move('a', top=True)).after.revision == 5
