"""Whole-plan writes without a base: identity, order, what falls out, ids and references."""

from __future__ import annotations

import pytest
from rule_helpers import NOW, do, ids, plan, statuses, step, to

from planctl.errors import DuplicateId, EmptyReplacement, InvalidId, OpenChildren, OpenPrerequisite
from planctl.operations import Draft, Replace
from planctl.plan import Plan, Step, TaskStatus

DONE, TODO, DOING, BLOCKED = (
    TaskStatus.completed,
    TaskStatus.pending,
    TaskStatus.in_progress,
    TaskStatus.blocked,
)

STORED = plan(
    step('1', 'completed', content='Look'),
    step('2', 'in_progress', content='Build', owner='me', started_at=NOW, active_form='Building'),
    step('3', 'blocked', content='Ship', on='2'),
    next_id=4,
)


def write(stored: Plan, *items: Draft, plain: bool = False) -> Plan:
    return do(stored, Replace(items, plain=plain)).after


# --- Identity ---------------------------------------------------------------------------------------------------


def test_items_are_known_by_id() -> None:
    after = write(STORED, Draft('See', id='1'), Draft('Make', id='2'), Draft('Send', id='3'))
    assert [(one.id, one.content) for one in after.steps] == [('1', 'See'), ('2', 'Make'), ('3', 'Send')]
    assert statuses(after) == statuses(STORED)


def test_items_are_known_by_equal_text_in_order() -> None:
    stored = plan(step('a', content='Test'), step('b', 'completed', content='Build'), step('c', content='Test'))
    after = write(stored, Draft('Test'), Draft('Build'), Draft('Test'), Draft('Test'))
    assert ids(after) == 'a b c 1'
    assert write(stored, Draft('Build'), Draft('Test')).steps == (stored.steps[1], stored.steps[0])


@pytest.mark.parametrize(('text', 'known'), [('Build', True), ('  Build\n', True), ('build', False), ('Bu ild', False)])
def test_case_and_inner_space_count_in_equal_text(text: str, known: bool) -> None:
    after = write(STORED, Draft(text))
    assert (after.steps[0].id == '2') is known


def test_an_id_comes_before_equal_text() -> None:
    stored = plan(step('a', content='Test'), step('b', content='Test'))
    assert ids(write(stored, Draft('Test', id='b'), Draft('Test'))) == 'b a'
    # The item without an id finds nothing left, since the other one is named.
    assert ids(write(stored, Draft('Test', id='b'), Draft('Test', id='a'), Draft('Test'))) == 'b a 1'


def test_where_id_and_text_name_two_steps_the_text_decides_and_the_reply_says_so() -> None:
    change = do(STORED, Replace((Draft('Build', id='1'), Draft('Ship', id='2'))))
    assert [(one.id, one.content) for one in change.after.steps] == [('2', 'Build'), ('3', 'Ship')]
    assert change.remark('identified_by_text') == ('1', '2', '2', '3')
    assert change.remark('dropped') == ()


def test_numbers_that_a_model_gives_anew_refer_to_its_own_list() -> None:
    stored = plan(step('1', content='A'), step('2', content='B'), next_id=3)
    after = write(stored, Draft('B', id='1'), Draft('A', id='2', depends_on=('1',)))
    assert after.steps == (step('2', content='B'), step('1', 'blocked', content='A', on='2'))


def test_a_field_that_an_item_omits_keeps_its_value() -> None:
    stored = plan(step('p'), step('a'), step('b', 'blocked', on='a', under='p', active_form='Bing', note='n'))
    assert write(stored, Draft('P'), Draft('A'), Draft('B')) is stored
    changed = write(stored, Draft('P'), Draft('A'), Draft('B', active_form='')).step('b')
    assert changed == step('b', 'blocked', on='a', under='p', note='n')
    assert write(stored, Draft('P'), Draft('A'), Draft('B', parent_id='')).step('b').parent_id is None
    free = write(stored, Draft('P'), Draft('A'), Draft('B', status=TODO, depends_on=())).step('b')
    assert (free.depends_on, free.status) == ((), TODO)


def test_who_works_on_a_step_outlives_a_write_that_restates_it() -> None:
    restated = (Draft('Look', status=DONE), Draft('Build', status=DOING), Draft('Ship', status=BLOCKED))
    assert not do(STORED, Replace(restated), actor='another').changed
    assert write(STORED, Draft('Look'), Draft('Build', status=TODO), Draft('Ship')).step('2').owner is None


def test_text_of_another_program_is_known_as_it_reads_and_restating_it_is_no_change() -> None:
    stored = plan(step('a', content='one\n\x1btwo', active_form=' one\ting '))
    assert not do(stored, Replace((Draft('one \ufffdtwo', active_form='one ing'),))).changed


# --- What falls out, what takes its place -----------------------------------------------------------------------


def test_open_steps_that_fall_out_are_named_and_resolved_ones_are_not() -> None:
    change = do(STORED, Replace((Draft('Build'),)))
    assert ids(change.after) == '2'
    assert change.remark('dropped') == ('3',)
    assert [one.id for one in change.deleted] == ['1', '3']


def test_who_waited_for_a_dropped_step_is_freed() -> None:
    after = write(STORED, Draft('Ship'))
    assert after.steps == (step('3', content='Ship'),)


def test_children_of_a_dropped_parent_take_its_place() -> None:
    stored = plan(
        step('g'),
        step('p', under='g'),
        step('q', under='p'),
        step('a', under='q'),
        step('b', under='p'),
        step('c', 'completed', under='q'),
    )
    after = write(stored, Draft('G'), Draft('A'), Draft('B'), Draft('C'))
    assert [(one.id, one.parent_id) for one in after.steps] == [('g', None), ('a', 'g'), ('b', 'g'), ('c', 'g')]
    assert write(stored, Draft('A')).step('a').parent_id is None


def test_children_that_another_program_left_open_under_a_resolved_step_are_no_reason_to_refuse() -> None:
    stored = plan(step('g', 'completed'), step('p', under='g'), step('a', under='p'))
    assert write(stored, Draft('G'), Draft('A')).step('a').parent_id == 'g'


def test_an_empty_list_over_open_steps_is_refused_naming_them_otherwise_applied() -> None:
    with pytest.raises(EmptyReplacement) as caught:
        write(STORED)
    assert caught.value.ids == ('2', '3')
    assert '2, 3' in caught.value.message
    assert write(plan(step('a', 'completed'), step('b', 'cancelled'))).steps == ()
    assert write(plan()) == plan()


def test_the_rules_hold_for_a_write() -> None:
    with pytest.raises(OpenPrerequisite):
        write(STORED, Draft('Look'), Draft('Build'), Draft('Ship', status=DONE))
    assert statuses(write(STORED, Draft('Look'), Draft('Build', status=DONE), Draft('Ship', status=DONE))) == {
        '1': 'completed',
        '2': 'completed',
        '3': 'completed',
    }
    family = plan(step('p'), step('a', under='p'))
    with pytest.raises(OpenChildren):
        write(family, Draft('P', status=DONE), Draft('A'))
    assert write(family, Draft('P', status=DONE), Draft('A', status=DONE)).progress.finished
    # A child that is left out is in nobody's way.
    assert write(family, Draft('P', status=DONE)).progress.finished


# --- New steps, ids and references ------------------------------------------------------------------------------


def test_new_steps_get_the_next_integers_or_the_ids_that_were_chosen() -> None:
    assert ids(write(plan(), Draft('x'), Draft('y', id='mine'), Draft('z'))) == '1 mine 2'
    # What was chosen comes first, wherever it stands.
    assert ids(write(plan(), Draft('x'), Draft('y', id='1'))) == '2 1'
    with pytest.raises(InvalidId):
        write(plan(), Draft('x', id='no good'))


def test_two_items_with_one_id_are_refused() -> None:
    for stored in (plan(), STORED):
        with pytest.raises(DuplicateId) as caught:
            write(stored, Draft('x', id='1'), Draft('y', id='1'))
        assert caught.value.ids == ('1',)


def test_an_id_that_another_item_was_found_to_be_is_given_anew() -> None:
    after = write(STORED, Draft('Build', id='3'), Draft('Other', id='2'))
    assert [(one.id, one.content) for one in after.steps] == [('2', 'Build'), ('4', 'Other')]


def test_references_may_point_forward_to_chosen_ids_and_to_ids_about_to_be_given() -> None:
    after = write(plan(), Draft('x', depends_on=('b', '2')), Draft('y', id='b'), Draft('z', parent_id='b'))
    assert after.steps == (
        Step('1', 'x', BLOCKED, depends_on=('b', '2')),
        Step('b', 'y'),
        Step('2', 'z', parent_id='b'),
    )


def test_a_reference_to_a_made_up_id_means_the_item_that_was_given_it() -> None:
    stored = plan(step('1', content='A'), step('2', content='B'), next_id=3)
    after = write(stored, Draft('A', id='2'), Draft('New', id='1', depends_on=('2',)), Draft('C', parent_id='1'))
    assert [(one.id, one.content, one.depends_on, one.parent_id) for one in after.steps] == [
        ('1', 'A', (), None),
        ('3', 'New', ('1',), None),
        ('4', 'C', (), '3'),
    ]


# --- Plain mode -------------------------------------------------------------------------------------------------


def test_a_plain_write_keeps_parents_dependencies_and_blocked() -> None:
    stored = plan(step('p'), step('a', under='p'), step('b', 'blocked', on='a'), step('h', 'blocked'))
    everything = [Draft(text, status=TODO, parent_id='', depends_on=()) for text in 'PABH']
    assert write(stored, *everything, plain=True) is stored
    assert statuses(write(stored, *everything)) == {'p': 'pending', 'a': 'pending', 'b': 'pending', 'h': 'pending'}


def test_a_plain_write_can_move_a_blocked_step_by_the_same_rules() -> None:
    stored = plan(step('a'), step('b', 'blocked', on='a'), step('h', 'blocked'))
    with pytest.raises(OpenPrerequisite):
        write(stored, Draft('A'), Draft('B', status=DOING), Draft('H'), plain=True)
    after = write(stored, Draft('A', status=DONE), Draft('B', status=TODO), Draft('H', status=DOING), plain=True)
    assert statuses(after) == {'a': 'completed', 'b': 'pending', 'h': 'in_progress'}


# --- The rest ---------------------------------------------------------------------------------------------------


def test_the_order_is_that_of_the_items() -> None:
    change = do(STORED, Replace((Draft('Ship'), Draft('New'), Draft('Look'), Draft('Build'))))
    assert ids(change.after) == '3 4 1 2'
    assert {entry.step.id for entry in change.steps if entry.moved} == {'3'}


def test_a_write_after_other_operations_of_its_transaction_sees_what_they_did() -> None:
    change = do(plan(step('a')), to('start', 'a'), Replace((Draft('A'), Draft('B'))))
    assert statuses(change.after) == {'a': 'in_progress', '1': 'pending'}
