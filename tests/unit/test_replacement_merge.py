"""Whole-plan writes over a base: what the writer was shown, what another changed since, what the items state."""

from __future__ import annotations

import json

import pytest
from rule_helpers import do, ids, plan, statuses, step, to

from planctl.change import Change
from planctl.errors import EmptyReplacement, OpenChildren, StepNotFound
from planctl.operations import Add, Depend, Draft, Edit, Move, Note, Operation, Remove, Replace, Undepend
from planctl.plan import Plan, TaskStatus

DONE, TODO, DOING, CANCELLED = (
    TaskStatus.completed,
    TaskStatus.pending,
    TaskStatus.in_progress,
    TaskStatus.cancelled,
)

SHOWN = plan(step('a'), step('b'), step('c', 'blocked', on='b'))
AS_SHOWN = (Draft('A', id='a'), Draft('B', id='b'), Draft('C', id='c'))


def base_of(shown: Plan) -> tuple[tuple[str, str], ...]:
    return tuple((one.id, one.fingerprint) for one in shown.steps)


def write(since: Plan, *items: Draft, shown: Plan = SHOWN, plain: bool = False) -> Change:
    """Write the items over `since`, by a writer who was shown `shown`."""
    return do(since, Replace(items, base=base_of(shown), plain=plain))


def others(*operations: Operation, shown: Plan = SHOWN) -> Plan:
    """Return what another made of the plan that was shown."""
    return do(shown, *operations, actor='another').after


def remarks(change: Change) -> dict[str, tuple[str, ...]]:
    return {remark.code: remark.ids for remark in change.remarks}


# --- Steps that are left out ------------------------------------------------------------------------------------


def test_a_step_left_out_that_was_shown_and_is_unchanged_is_removed_and_named_when_open() -> None:
    change = write(SHOWN, Draft('A'))
    assert ids(change.after) == 'a'
    assert remarks(change) == {'dropped': ('b', 'c')}


def test_a_resolved_step_left_out_is_removed_whether_it_was_shown_or_not() -> None:
    change = write(others(Add('x', id='x', status=DONE), to('done', 'a')), Draft('B'), Draft('C'))
    assert ids(change.after) == 'b c'
    assert remarks(change) == {}


def test_an_open_step_left_out_that_was_never_shown_is_kept_and_named() -> None:
    change = write(others(Add('by hand', id='x', after='a')), *AS_SHOWN)
    assert ids(change.after) == 'a x b c'
    assert remarks(change) == {'kept': ('x',)}


@pytest.mark.parametrize(
    'operation',
    [
        Edit('b', 'other'),
        Edit('b', active_form='B-ing'),
        Note('b', 'why'),
        to('start', 'b'),
        to('block', 'b'),
        Depend('b', 'a'),
        Move('b', under='a'),
    ],
    ids=repr,
)
def test_an_open_step_left_out_that_another_changed_since_is_kept_and_named(operation: Operation) -> None:
    change = write(others(operation), Draft('A'), Draft('C'))
    assert ids(change.after) == 'a b c'
    assert remarks(change)['kept'] == ('b',)


def test_a_step_that_only_changed_its_place_or_its_lease_reads_the_same() -> None:
    assert ids(write(others(Move('b', before='a')), Draft('A'), Draft('C')).after) == 'a c'


def test_a_kept_step_is_freed_from_a_dropped_prerequisite_and_takes_the_place_of_a_dropped_parent() -> None:
    shown = plan(step('p'), step('b'), step('k', 'blocked', on='b', under='p'))
    change = write(others(Note('k', 'n'), shown=shown), Draft('New'), shown=shown)
    assert ids(change.after) == 'k 1'
    kept = change.after.step('k')
    assert (kept.status, kept.parent_id, kept.depends_on) == (TODO, None, ())


def test_a_kept_child_stands_in_the_way_of_completing_its_parent() -> None:
    with pytest.raises(OpenChildren) as caught:
        write(others(Add('more', id='x', parent_id='a')), Draft('A', status=DONE), Draft('B'), Draft('C'))
    assert caught.value.ids == ('a', 'x')


def test_an_empty_list_over_open_steps_is_refused_whatever_was_shown() -> None:
    with pytest.raises(EmptyReplacement):
        write(SHOWN)
    with pytest.raises(EmptyReplacement):
        do(SHOWN, Replace((), base=()))


# --- Fields -----------------------------------------------------------------------------------------------------


def test_only_what_the_writer_changed_is_changed() -> None:
    since = others(Edit('a', 'A new'), to('start', 'b'))
    change = write(since, Draft('A', status=TODO), Draft('B', status=TODO), Draft('C'), Draft('D', id='d'))
    assert [(one.content, one.status) for one in change.after.steps] == [
        ('A new', TODO),
        ('B', DOING),
        ('C', TaskStatus.blocked),
        ('D', TODO),
    ]
    assert change.after.step('b').owner == 'another'
    assert remarks(change) == {'merged': ('a', 'content', 'A new', 'b', 'status', 'in_progress')}


def test_both_changed_different_fields_and_both_survive() -> None:
    change = write(others(Edit('a', active_form='A-ing')), Draft('A', id='a', status=DONE), *AS_SHOWN[1:])
    assert (change.after.step('a').active_form, change.after.step('a').status) == ('A-ing', DONE)
    assert remarks(change) == {}


BOTH: dict[str, tuple[Operation, Draft, str, str]] = {
    'content': (Edit('b', 'theirs'), Draft('mine', id='b'), 'theirs', 'mine'),
    'status': (to('cancel', 'b'), Draft('B', status=DOING), 'cancelled', 'in_progress'),
    'active_form': (Edit('b', active_form='theirs'), Draft('B', active_form='mine'), 'theirs', 'mine'),
    'parent_id': (Move('b', under='a'), Draft('B', parent_id='x'), 'a', 'x'),
    'depends_on': (Depend('b', 'a'), Draft('B', depends_on=('x', 'a')), 'a', 'x a'),
}


@pytest.mark.parametrize('name', BOTH)
def test_both_changed_one_field_the_writer_wins_and_the_other_value_is_told(name: str) -> None:
    operation, item, theirs, own = BOTH[name]
    shown = plan(*SHOWN.steps, step('x'))
    change = write(others(operation, shown=shown), Draft('A'), item, Draft('C'), Draft('X'), shown=shown)
    value = getattr(change.after.step('b'), name)
    assert (' '.join(value) if isinstance(value, tuple) else value) == own
    assert remarks(change) == {'overruled': ('b', name, theirs)}


def test_both_changed_one_field_alike_and_nothing_is_said() -> None:
    change = write(others(to('done', 'b')), Draft('A'), Draft('B', status=DONE), Draft('C'))
    assert not change.changed
    assert remarks(change) == {}


def test_what_the_removal_of_a_line_does_to_those_that_stay_is_no_change_of_another() -> None:
    shown = plan(step('a'), step('b'), step('c', 'blocked', on='b', under='b'))
    for item in (Draft('C', parent_id='a', depends_on=()), Draft('C', parent_id='', depends_on=('a',))):
        change = write(others(shown=shown), Draft('A'), item, shown=shown)
        assert change.after.step('c').parent_id == (item.parent_id or None)
        assert change.after.step('c').depends_on == item.depends_on
        assert remarks(change) == {'dropped': ('b',)}
    change = write(others(shown=shown), Draft('A'), Draft('C', parent_id='b', depends_on=('b',)), shown=shown)
    assert (change.after.step('c').parent_id, change.after.step('c').depends_on) == (None, ())
    assert remarks(change) == {'dropped': ('b',)}


def test_the_value_of_another_is_told_though_it_falls_with_a_line_that_is_removed() -> None:
    shown = plan(step('a'), step('b'), step('c'))
    since = others(Move('c', under='b'), shown=shown)
    change = write(since, Draft('C', parent_id='x'), Draft('X', id='x'), shown=shown)
    assert change.after.step('c').parent_id == 'x'
    assert remarks(change) == {'dropped': ('a', 'b'), 'overruled': ('c', 'parent_id', 'b')}


def test_dependencies_in_another_order_are_no_change() -> None:
    shown = plan(step('a'), step('b'), step('c', 'blocked', on='a b'))
    since = others(Undepend('c', 'a'), shown=shown)
    change = write(since, Draft('A'), Draft('B'), Draft('C', depends_on=('b', 'a')), shown=shown)
    assert change.after.step('c').depends_on == ('b',)


def test_a_step_whose_text_another_changed_is_known_by_the_text_that_was_shown() -> None:
    change = write(others(Edit('b', 'B, but better')), Draft('A'), Draft('B', status=DOING), Draft('C'))
    assert [(one.id, one.content) for one in change.after.steps] == [('a', 'A'), ('b', 'B, but better'), ('c', 'C')]
    assert statuses(change.after)['b'] == 'in_progress'


def test_ids_and_texts_that_were_shown_overrule_each_other_like_stored_ones() -> None:
    since = others(Edit('b', 'B, but better'))
    change = write(since, Draft('B', id='a'), Draft('A', id='b'), Draft('C', id='c'))
    assert [(one.id, one.content) for one in change.after.steps] == [('b', 'B, but better'), ('a', 'A'), ('c', 'C')]
    assert remarks(change)['identified_by_text'] == ('a', 'b', 'b', 'a')


def test_an_id_that_another_gave_to_a_step_since_names_no_step_of_the_writer() -> None:
    since = others(Add('Theirs', id='x'))
    change = write(since, *AS_SHOWN, Draft('Mine', id='x'), Draft('Next', depends_on=('x',)))
    assert ids(change.after) == 'a b c x 1 2'
    assert [change.after.step(one).content for one in ('x', '1')] == ['Theirs', 'Mine']
    # Within the write its id still means the item.
    assert change.after.step('2').depends_on == ('1',)
    assert remarks(change) == {'kept': ('x',), 'id_taken': ('x', '1')}
    # Who states the very text means the step, and whoever may know of it too.
    assert ids(write(since, *AS_SHOWN, Draft('Theirs', id='x')).after) == 'a b c x'
    known = do(since, Replace((*AS_SHOWN, Draft('Mine', id='x')), base=(*base_of(SHOWN), ('x', ''))))
    assert known.after.step('x').content == 'Mine'
    assert remarks(known) == {'overruled': ('x', 'content', 'Theirs')}


def test_an_id_given_to_another_may_still_restate_by_its_text_what_was_removed() -> None:
    since = do(others(Remove('a')), Add('Theirs', id='x'), actor='another').after
    change = write(since, Draft('A', id='x'), *AS_SHOWN[1:])
    assert ids(change.after) == 'b c x'
    assert remarks(change) == {'kept': ('x',), 'stays_deleted': ('a',)}


# --- Steps that were never shown --------------------------------------------------------------------------------


def test_the_defaults_of_a_new_step_say_nothing_of_one_that_was_never_shown() -> None:
    since = others(Add('New', id='x', status=DOING, depends_on=(), active_form='Newing', parent_id='a'))
    item = Draft('New', status=TODO, active_form='', parent_id='', depends_on=())
    change = write(since, *AS_SHOWN, item)
    assert change.after.step('x') == since.step('x')
    assert remarks(change) == {
        'merged': ('x', 'status', 'in_progress', 'x', 'active_form', 'Newing', 'x', 'parent_id', 'a')
    }


def test_finished_work_that_was_never_shown_is_not_opened_again_by_planning_it_anew() -> None:
    since = plan(step('1', 'completed', content='Look'), step('2', content='Build'))
    change = do(since, Replace((Draft('Look', status=TODO), Draft('Build', status=TODO)), base=(('1', ''),)))
    assert statuses(change.after) == {'1': 'completed', '2': 'pending'}
    assert remarks(change) == {'merged': ('1', 'status', 'completed')}


def test_anything_else_that_is_stated_of_an_unseen_step_stands_and_the_other_value_is_told() -> None:
    since = others(Add('New', id='x', status=DOING))
    change = write(since, *AS_SHOWN, Draft('New', status=DONE))
    assert statuses(change.after)['x'] == 'completed'
    assert remarks(change) == {'overruled': ('x', 'status', 'in_progress')}


# --- Steps that another removed ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'item',
    [Draft('B', id='b'), Draft('B'), Draft('B', id='b', status=TODO, depends_on=(), parent_id='', active_form='')],
    ids=repr,
)
def test_a_step_restated_unchanged_that_another_removed_stays_removed(item: Draft) -> None:
    change = write(others(Remove('b')), Draft('A'), item, Draft('C'))
    assert ids(change.after) == 'a c'
    assert remarks(change) == {'stays_deleted': ('b',)}


@pytest.mark.parametrize(
    'item',
    [Draft('B', id='b', status=DOING), Draft('Better', id='b', status=DOING), Draft('B', status=DOING)],
    ids=repr,
)
def test_a_step_that_the_writer_changed_and_another_removed_comes_back_under_its_id(item: Draft) -> None:
    change = write(others(Remove('b')), Draft('A'), item, Draft('C'))
    assert statuses(change.after) == {'a': 'pending', 'b': 'in_progress', 'c': 'pending'}
    assert [one.id for one in change.created] == ['b']


def test_what_waited_for_a_step_that_stays_removed_waits_no_more() -> None:
    restated = Draft('C', id='c', depends_on=('b',), status=TaskStatus.blocked)
    change = write(others(Remove('b')), Draft('A'), Draft('B', id='b'), restated, Draft('D', depends_on=('b',)))
    assert statuses(change.after) == {'a': 'pending', 'c': 'pending', '1': 'pending'}
    assert change.after.step('c').depends_on == ()


def test_a_reference_to_a_removed_step_that_is_not_restated_is_refused() -> None:
    with pytest.raises(StepNotFound):
        write(others(Remove('b')), Draft('A'), Draft('D', depends_on=('b',)))


def test_when_another_removed_everything_that_is_restated_the_plan_stays_empty() -> None:
    change = write(others(Remove('a'), Remove('b'), Remove('c')), *AS_SHOWN)
    assert change.after.steps == ()
    assert remarks(change) == {'stays_deleted': ('a', 'b', 'c')}


def test_an_equal_text_that_is_stored_comes_before_one_that_was_removed() -> None:
    shown = plan(step('a', content='Test'), step('b', content='Test'))
    change = write(others(Remove('a'), shown=shown), Draft('Test'), Draft('Test'), shown=shown)
    assert ids(change.after) == 'b'
    assert remarks(change) == {'stays_deleted': ('a',)}


# --- Plain mode, the base itself --------------------------------------------------------------------------------


def test_the_merge_in_plain_mode_keeps_what_the_writer_cannot_know() -> None:
    since = others(Depend('a', 'b'), Move('c', under='a'))
    change = write(since, *(Draft(text, status=TODO) for text in 'ABC'), plain=True)
    assert change.after == since


def test_the_writers_own_operations_count_as_seen() -> None:
    after = do(SHOWN, to('start', 'b'), Add('mine', id='x')).after
    change = write(after, Draft('A'), Draft('B', status=TODO), Draft('C'), shown=after)
    assert statuses(change.after) == {'a': 'pending', 'b': 'pending', 'c': 'blocked'}
    assert remarks(change) == {'dropped': ('x',)}


def test_a_base_is_small_and_is_the_same_after_json() -> None:
    big = plan(*(step(str(n), content='x' * 5_000, on='a b', under='p', note='n' * 500) for n in range(10)))
    text = json.dumps(base_of(big))
    assert len(text) < 10 * 80
    assert tuple((step_id, mark) for step_id, mark in json.loads(text)) == base_of(big)


def test_a_fingerprint_tells_which_field_changed() -> None:
    original = step('a', on='b', under='p', active_form='f', note='n')
    changed = {
        0: step('a', on='b', under='p', active_form='f', note='n', content='other'),
        1: step('a', 'cancelled', on='b', under='p', active_form='f', note='n'),
        2: step('a', on='b', under='p', active_form='g', note='n'),
        3: step('a', on='b', under='q', active_form='f', note='n'),
        4: step('a', on='b c', under='p', active_form='f', note='n'),
        5: step('a', on='b', under='p', active_form='f', note=''),
    }
    for field, other in changed.items():
        pairs = list(zip(original.fingerprint.split('.'), other.fingerprint.split('.'), strict=True))
        assert [at for at, (one, two) in enumerate(pairs) if one != two] == [field]
    assert original.fingerprint == step('a', on='b', under='p', active_form='f', note='n', owner='w').fingerprint
