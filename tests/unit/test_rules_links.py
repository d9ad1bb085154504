"""Dependencies and parents: what is a loop and what is not, references to nothing, and plans 10,000 deep."""

from __future__ import annotations

from itertools import pairwise

import pytest
from rule_helpers import do, plan, statuses, step, to

from planctl.errors import DependencyCycle, DuplicateDependency, DuplicateId, InvalidId, StepNotFound
from planctl.operations import Add, Depend, Edit, Move, Operation, Remove, Replace, Undepend
from planctl.operations import Draft as Item
from planctl.plan import Plan, Step
from planctl.readiness import available
from planctl.working import Working

CHAIN = plan(step('a'), step('b', 'blocked', on='a'), step('c', 'blocked', on='b'))
TREE = plan(step('p'), step('k', under='p'), step('g', under='k'), step('q'), step('m', under='q'))

LOOPS: dict[str, tuple[Plan, list[Operation], str]] = {
    'a step on itself': (CHAIN, [Depend('a', 'a')], 'a'),
    'two steps on each other': (CHAIN, [Depend('a', 'b')], 'a b'),
    'three steps in a ring': (CHAIN, [Depend('a', 'c')], 'a c b'),
    'a ring closed by two operations': (plan(step('a'), step('b')), [Depend('a', 'b'), Depend('b', 'a')], 'a b'),
    'a new step in a ring': (CHAIN, [Add('x', id='x', depends_on=('c',)), Depend('a', 'x')], 'x c b a'),
    'a child on its parent': (TREE, [Depend('k', 'p')], 'k p'),
    'a grandchild on its grandparent': (TREE, [Depend('g', 'p')], 'g p k'),
    'a parent on its child': (TREE, [Depend('p', 'k')], 'p k'),
    'a grandparent on its grandchild': (TREE, [Depend('p', 'g')], 'p g k'),
    'a new child that waits for its parent': (TREE, [Add('x', id='x', parent_id='p', depends_on=('p',))], 'x p'),
    'a step under itself': (TREE, [Move('p', under='p')], 'p'),
    'a step under its grandchild': (TREE, [Move('p', under='g')], 'p g k'),
    "children that wait for each other's parents": (TREE, [Depend('k', 'q'), Depend('m', 'p')], 'k q m p'),
    'a tree that waits for one whose child waits for it': (TREE, [Depend('p', 'q'), Depend('m', 'p')], 'p q m'),
    'a tree that waits for one whose child waits for a part of it': (
        TREE,
        [Depend('p', 'q'), Depend('m', 'g')],
        'p q m g k',
    ),
    'a prerequisite moved under what waits for it': (CHAIN, [Move('a', under='b')], 'a b'),
    'what waits moved under its prerequisite': (CHAIN, [Move('b', under='a')], 'b a'),
    'a whole-plan write': (
        plan(),
        [Replace((Item('x', id='x', depends_on=('y',)), Item('y', id='y', parent_id='x')))],
        'x y',
    ),
}


def related(stored: dict[str, tuple[tuple[str, ...], str | None]], one: str, other: str) -> bool:
    """Whether one step waits for another, or is its parent or child."""
    depends_on, parent_id = stored[one]
    return other in depends_on or parent_id == other or stored[other][1] == one


@pytest.mark.parametrize('name', LOOPS)
def test_a_loop_is_refused_and_named_step_by_step(name: str) -> None:
    stored, operations, named = LOOPS[name]
    before = Plan(steps=stored.steps)
    with pytest.raises(DependencyCycle) as caught:
        do(stored, *operations)
    assert stored == before
    found = list(caught.value.ids)
    start = found.index(named.split()[0])
    assert found[start:] + found[:start] == named.split()
    if len(found) > 1:
        assert ' -> '.join([*found, found[0]]) in caught.value.message


@pytest.mark.parametrize('name', LOOPS)
def test_a_named_loop_goes_along_real_edges(name: str) -> None:
    stored, operations, _ = LOOPS[name]
    with pytest.raises(DependencyCycle) as caught:
        do(stored, *operations)
    # The same operations without the check, to see what the named steps would have been to each other.
    work = Working(stored)
    for operation in operations:
        match operation:
            case Depend(id=step_id, on=on):
                old = work.step(step_id)
                work.put(step(step_id, on=' '.join((*old.depends_on, on)), under=old.parent_id))
            case Move(id=step_id, under=under):
                work.put(step(step_id, on=' '.join(work.step(step_id).depends_on), under=under))
            case Add(id=str(step_id)):
                work.put(step(step_id, on=' '.join(operation.depends_on), under=operation.parent_id))
            case Replace(items=items):
                for item in items:
                    work.put(step(item.id or '', on=' '.join(item.depends_on or ()), under=item.parent_id))
            case _:
                raise AssertionError(operation)
    edges = {one.id: (one.depends_on, one.parent_id) for one in work.steps.values()}
    ring = [*caught.value.ids, caught.value.ids[0]]
    assert all(related(edges, one, other) for one, other in pairwise(ring))


NO_LOOPS: dict[str, tuple[Plan, list[Operation]]] = {
    'a diamond with a short cut': (
        plan(step('a'), step('b', on='a'), step('c', on='a'), step('d', on='b c')),
        [Depend('d', 'a')],
    ),
    'siblings': (TREE, [Add('n', id='n', parent_id='p', depends_on=('k',))]),
    'a child that waits for another tree': (TREE, [Depend('k', 'q')]),
    'two trees that wait for parts of each other': (
        TREE,
        [Add('k2', id='k2', parent_id='p'), Add('m2', id='m2', parent_id='q'), Depend('k', 'm'), Depend('m2', 'k2')],
    ),
    'a parent and its child on the same step': (TREE, [Depend('p', 'm'), Depend('k', 'm')]),
    'an edge turned round': (CHAIN, [Undepend('b', 'a'), Depend('a', 'b')]),
    'an edge turned round, the new one first': (CHAIN, [Depend('a', 'b'), Undepend('b', 'a')]),
    'a parent and a child changing places': (TREE, [Move('p', under='k'), Move('k', top=True)]),
}


@pytest.mark.parametrize('name', NO_LOOPS)
def test_what_only_looks_like_a_loop_is_accepted(name: str) -> None:
    stored, operations = NO_LOOPS[name]
    change = do(stored, *operations)
    assert change.changed
    assert available(change.after, None, 0.0)


STORED_LOOPS = plan(step('a', on='b'), step('b', on='a'), step('c', under='d'), step('d', under='c'), step('e'))


@pytest.mark.parametrize(
    'operation',
    [
        Add('x', depends_on=('e',)),
        Add('x', depends_on=('a',)),
        Add('x', parent_id='c'),
        Add('x', parent_id='a'),
        Edit('a', 'other'),
        Depend('e', 'a'),
        Move('e', under='c'),
        to('done', 'e'),
        to('cancel', 'a'),
        Remove('b'),
        Undepend('a', 'b'),
        Remove('c', cascade=True),
    ],
    ids=repr,
)
def test_loops_that_another_program_stored_are_in_nobodys_way(operation: Operation) -> None:
    assert do(STORED_LOOPS, operation).changed


def test_a_way_into_a_stored_loop_that_closes_another_is_refused() -> None:
    stored = plan(step('a', on='b'), step('b', on='a'), step('c', on='a'))
    with pytest.raises(DependencyCycle):
        do(stored, Depend('b', 'c'))


@pytest.mark.parametrize(
    ('operation', 'missing'),
    [
        (Depend('a', 'nope'), 'nope'),
        (Depend('nope', 'a'), 'nope'),
        (Undepend('a', 'b'), 'b'),
        (Add('x', depends_on=('a', 'nope')), 'nope'),
        (Add('x', parent_id='nope'), 'nope'),
        (Add('x', parent_id=''), ''),
        (Add('x', before='nope'), 'nope'),
        (Move('a', under='nope'), 'nope'),
        (Move('a', after='nope'), 'nope'),
        (Remove('nope'), 'nope'),
        (to('done', 'nope'), 'nope'),
        (Replace((Item('a', depends_on=('nope',)),)), 'nope'),
        (Replace((Item('a', parent_id='nope'),)), 'nope'),
    ],
    ids=repr,
)
def test_a_reference_to_nothing_is_refused_and_named(operation: Operation, missing: str) -> None:
    stored = plan(step('a'), step('b'))
    with pytest.raises(StepNotFound) as caught:
        do(stored, operation)
    assert caught.value.ids[-1] == missing
    assert repr(missing) in caught.value.message
    assert stored == plan(step('a'), step('b'))


def test_a_repeated_dependency_is_refused_alone_and_stored_once_in_a_list() -> None:
    stored = plan(step('a'), step('b', 'blocked', on='a'))
    with pytest.raises(DuplicateDependency) as caught:
        do(stored, Depend('b', 'a'))
    assert caught.value.ids == ('b', 'a')
    assert do(stored, Add('x', id='x', depends_on=('a', 'a'))).after.step('x').depends_on == ('a',)
    written = do(stored, Replace((Item('A'), Item('x', id='x', depends_on=('a', 'b', 'a')), Item('B')))).after
    assert written.step('x').depends_on == ('a', 'b')


def test_a_taken_or_unusable_id_is_refused() -> None:
    with pytest.raises(DuplicateId):
        do(plan(step('a')), Add('x', id='a'))
    for bad in ('', ' ', 'a b', '-x', '<a', 'a>', 'x' * 65, 'a\n', '\u202ea', '\ud800', '\x00'):
        with pytest.raises(InvalidId):
            do(plan(), Add('x', id=bad))


def test_a_reference_to_nothing_that_another_program_stored_is_in_nobodys_way() -> None:
    stored = plan(step('a', on='gone', under='lost'), step('b'))
    after = do(stored, Depend('a', 'b')).after
    assert after.step('a') == step('a', 'blocked', on='b')


# --- Depth ------------------------------------------------------------------------------------------------------

DEEP = 10_000


def chain(length: int) -> Plan:
    return plan(*(step(str(n), 'blocked' if n else 'pending', on=str(n - 1) if n else '') for n in range(length)))


def nested(length: int) -> Plan:
    return plan(*(step(str(n), under=str(n - 1) if n else None) for n in range(length)))


def test_a_chain_of_10000_dependencies_is_written_extended_worked_on_and_not_closed() -> None:
    items = tuple(Item(f's{n}', id=str(n), depends_on=(str(n - 1),) if n else None) for n in range(DEEP))
    written = do(plan(), Replace(items)).after
    assert len(written.steps) == DEEP
    assert written.progress.blocked == DEEP - 1
    last = str(DEEP - 1)
    extended = do(written, Add('end', depends_on=(last,))).after
    assert extended.steps[-1].depends_on == (last,)
    assert [ready.step.id for ready in available(extended, None, 0.0)] == ['0']
    worked = do(extended, to('done', '0'))
    assert [one.id for one in worked.unblocked] == ['1']
    with pytest.raises(DependencyCycle) as caught:
        do(worked.after, Depend('0', extended.steps[-1].id))
    assert len(caught.value.ids) == DEEP + 1
    assert len(caught.value.message) < 500
    all_done = do(worked.after, *(to('done', one.id) for one in reversed(worked.after.steps)))
    assert all_done.progress.finished


def test_a_chain_of_10000_added_one_by_one_in_one_transaction() -> None:
    change = do(plan(), *(Add('s', depends_on=(str(n),) if n else ()) for n in range(DEEP)))
    assert change.after.progress.blocked == DEEP - 1


def test_parents_nested_10000_deep_are_completed_reopened_moved_and_removed() -> None:
    stored = nested(DEEP)
    last = str(DEEP - 1)
    assert available(stored, None, 0.0)[0].step.id == last
    with pytest.raises(DependencyCycle):
        do(stored, Move('0', under=last))
    with pytest.raises(DependencyCycle):
        do(stored, Depend(last, '0'))
    done = do(stored, to('done', '0', cascade=True)).after
    assert done.progress.completed == DEEP
    reopened = do(done, to('start', last, cascade=True)).after
    assert reopened.progress.open == DEEP
    assert do(done, *(to('reopen', one.id) for one in done.steps)).progress.pending == DEEP
    assert do(stored, Move('1', top=True)).after.step('1').parent_id is None
    assert do(stored, Remove('0', cascade=True)).after.steps == ()
    dropped = do(stored, Replace((Item(last.upper(), id=last),)))
    assert statuses(dropped.after) == {last: 'pending'}
    assert dropped.after.step(last).parent_id is None


def test_one_step_that_waits_for_all_others() -> None:
    many = [step(str(n)) for n in range(DEEP)]
    stored = plan(*many, step('last', 'blocked', on=' '.join(one.id for one in many)))
    freed = do(stored, Replace((Item('LAST', id='last'),)))
    assert statuses(freed.after) == {'last': 'pending'}
    assert do(stored, *(Remove(one.id) for one in many[:100])).after.step('last').depends_on[0] == '100'


def looks(stored: Plan, *operations: Operation) -> int:
    """Count how often the search for loops looks from one node to the next."""
    count = 0
    inner = Working._after

    def counted(self: Working, node: tuple[str, bool]) -> list[tuple[str, bool]]:
        nonlocal count
        count += 1
        return inner(self, node)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Working, '_after', counted)
        do(stored, *operations)
    return count


def test_the_search_for_loops_is_linear_and_idle_where_none_can_be() -> None:
    assert looks(chain(1_000), Add('x', depends_on=('999',))) == 0
    assert looks(nested(1_000), Add('x', parent_id='999')) == 0
    assert looks(chain(1_000), to('done', '0')) == 0
    small, large = (looks(chain(n), Depend(str(n - 2), '0'), Depend(str(n - 1), '1')) for n in (500, 5_000))
    assert 0 < large <= 11 * small
    assert large <= 3 * 5_000


def test_ancestors_are_walked_once_for_all_steps() -> None:
    stored, asked = nested(2_000), 0

    def never(_: Step) -> bool:
        nonlocal asked
        asked += 1
        return False

    work, known = Working(stored), dict[str, str | None]()
    assert all(work.nearest(one.id, never, known) is None for one in stored.steps)
    assert asked <= 2 * 2_000
