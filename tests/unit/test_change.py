"""The difference between two plans: exact, in plan order, and moving as few steps as can be."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from rule_helpers import do, plan, step, to

from planctl.change import Change, Remark, StepChange, difference, longest_increasing
from planctl.operations import Add, Edit, Move, Remove
from planctl.plan import Plan, Step


def steps(ids: str) -> list[Step]:
    return [step(step_id) for step_id in ids]


def test_steps_that_are_new_changed_moved_and_gone_each_with_its_place() -> None:
    before = [step('a'), step('b'), step('c'), step('d')]
    after = [step('d'), step('a', 'completed'), step('x'), step('c')]
    assert difference(before, after) == (
        StepChange(step('d'), step('d'), was_after='c', now_after=None, moved=True),
        StepChange(step('a'), step('a', 'completed')),
        StepChange(None, step('x'), now_after='a'),
        StepChange(step('b'), None, was_after='a'),
    )


def test_equal_steps_are_no_change_whether_they_are_the_same_object_or_not() -> None:
    assert difference(steps('abc'), steps('abc')) == ()
    assert difference([], []) == ()


def test_the_deleted_come_last_in_the_order_that_they_had() -> None:
    assert [entry.step.id for entry in difference(steps('abcde'), steps('bxd'))] == ['x', 'a', 'c', 'e']
    assert [entry.was_after for entry in difference(steps('abc'), [])] == [None, 'a', 'b']


def test_one_step_that_goes_far_is_one_move() -> None:
    assert [entry.step.id for entry in difference(steps('abcdef'), steps('fabcde'))] == ['f']
    assert [entry.step.id for entry in difference(steps('abcdef'), steps('bcdefa'))] == ['a']


def test_every_reordering_of_five_moves_as_few_as_can_be() -> None:
    def rising(order: tuple[str, ...]) -> int:
        """Return the length of the longest run in alphabetical order, the slow and plain way."""
        best = 0
        for mask in range(1 << len(order)):
            run = [one for at, one in enumerate(order) if mask >> at & 1]
            best = max(best, len(run) if run == sorted(run) else 0)
        return best

    for order in permutations('abcde'):
        moved = [entry for entry in difference(steps('abcde'), steps(''.join(order))) if entry.moved]
        assert len(moved) == 5 - rising(order)


@given(st.lists(st.integers(0, 50), unique=True, max_size=30))
def test_the_longest_rising_run_rises(ranks: list[int]) -> None:
    ids = [str(rank) for rank in ranks]
    run = longest_increasing(ids, ranks)
    numbers = [int(one) for one in run]
    assert numbers == sorted(set(numbers))
    places = [ids.index(one) for one in run]
    assert places == sorted(places)


def test_the_words_for_what_changed() -> None:
    stored = plan(step('a'), step('b', 'blocked', on='a'), step('c'), step('d'))
    change = do(stored, to('done', 'a'), Edit('c', 'other'), Remove('d'), Add('new', id='x'), Move('c', before='a'))
    assert [one.id for one in change.created] == ['x']
    assert [entry.step.id for entry in change.updated] == ['c', 'a', 'b']
    assert [entry.step.id for entry in change.status_changed] == ['a', 'b']
    assert [one.id for one in change.completed] == ['a']
    assert [one.id for one in change.deleted] == ['d']
    assert [one.id for one in change.unblocked] == ['b']
    assert change.changed
    assert change.progress == change.after.progress


def test_a_new_step_is_created_and_neither_updated_nor_completed() -> None:
    change = do(plan(), Add('x', status=to('done', 'x').status))
    assert len(change.created) == 1
    assert (change.updated, change.status_changed, change.completed) == ((), (), ())


def test_remarks_are_found_by_their_code() -> None:
    change = Change(Plan(), Plan(), remarks=(Remark('kept', ('a', 'b')),))
    assert change.remark('kept') == ('a', 'b')
    assert change.remark('dropped') == ()


def compared(before: list[Step], after: list[Step]) -> int:
    """Count how many comparisons of whole steps a difference takes."""
    count = 0

    class Counted(Step):
        def __eq__(self, other: object) -> bool:
            nonlocal count
            count += 1
            return Step.__eq__(self, other)

        __hash__ = Step.__hash__

    difference([Counted(one.id, one.content) for one in before], [Counted(one.id, one.content) for one in after])
    return count


def test_a_difference_compares_each_step_at_most_once() -> None:
    before = [step(str(n)) for n in range(2_000)]
    assert compared(before, before[1:]) <= 2_000
    assert compared(before, [*before[1_000:], *before[:1_000]]) <= 2_000
    kept = [step(str(n)) for n in range(2_000)]
    assert difference(kept, [*kept[:-1], step('1999', 'completed')]) == (
        StepChange(kept[-1], step('1999', 'completed')),
    )
