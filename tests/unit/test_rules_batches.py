"""Operations given together: judged together in any order, all or nothing."""

from __future__ import annotations

from itertools import permutations

import pytest
from rule_helpers import do, ids, plan, statuses, step, to

from planctl.errors import (
    HasChildren,
    OpenChildren,
    OpenPrerequisite,
    PlanctlError,
    ResolvedParent,
    StepNotFound,
)
from planctl.operations import Add, Depend, Edit, Move, Note, Operation, Remove, Undepend
from planctl.plan import Plan

FAMILY = plan(step('p'), step('a', under='p'), step('b', under='p', on='a', status='blocked'), step('c', under='b'))
CLOSED = plan(
    step('p', 'completed'), step('a', 'completed', under='p'), step('b', 'cancelled', under='p'), step('z', on='a')
)

BATCHES: dict[str, tuple[Plan, list[Operation], dict[str, str] | type[PlanctlError]]] = {
    'child and parent done': (
        FAMILY,
        [to('done', 'c'), to('done', 'b'), to('done', 'a'), to('done', 'p')],
        {'p': 'completed', 'a': 'completed', 'b': 'completed', 'c': 'completed'},
    ),
    'a grandchild left open': (FAMILY, [to('done', 'b'), to('done', 'a'), to('done', 'p')], OpenChildren),
    'prerequisite done, dependent started': (
        FAMILY,
        [to('done', 'a'), to('start', 'b')],
        {'p': 'pending', 'a': 'completed', 'b': 'in_progress', 'c': 'pending'},
    ),
    'prerequisite cancelled, dependent done with its child': (
        FAMILY,
        [to('cancel', 'a'), to('done', 'b', cascade=True)],
        {'p': 'pending', 'a': 'cancelled', 'b': 'completed', 'c': 'completed'},
    ),
    'one child cancelled, the rest done by cascade': (
        FAMILY,
        [to('cancel', 'a'), to('done', 'p', cascade=True)],
        {'p': 'completed', 'a': 'cancelled', 'b': 'completed', 'c': 'completed'},
    ),
    'a cascade inside a cascade': (
        FAMILY,
        [to('cancel', 'b', cascade=True), to('done', 'p', cascade=True)],
        {'p': 'completed', 'a': 'completed', 'b': 'cancelled', 'c': 'cancelled'},
    ),
    'a child started while all is to be done': (
        FAMILY,
        [to('start', 'a'), to('done', 'p', cascade=True)],
        OpenChildren,
    ),
    'a child started while all is cancelled': (
        FAMILY,
        [to('start', 'a'), to('cancel', 'p', cascade=True)],
        OpenChildren,
    ),
    'parent and child reopened': (
        CLOSED,
        [to('reopen', 'p'), to('start', 'a')],
        {'p': 'pending', 'a': 'in_progress', 'b': 'cancelled', 'z': 'blocked'},
    ),
    'child reopened alone': (CLOSED, [to('reopen', 'a'), Edit('z', 'again')], ResolvedParent),
    'child moved out and reopened': (
        CLOSED,
        [Move('a', top=True), to('reopen', 'a')],
        {'p': 'completed', 'a': 'pending', 'b': 'cancelled', 'z': 'blocked'},
    ),
    'added under a parent that is reopened': (
        CLOSED,
        [Add('new', id='n', parent_id='p'), to('reopen', 'p')],
        {'p': 'pending', 'a': 'completed', 'b': 'cancelled', 'z': 'pending', 'n': 'pending'},
    ),
    'added under a parent that stays closed': (
        CLOSED,
        [Add('new', id='n', parent_id='p'), Edit('p', 'again')],
        ResolvedParent,
    ),
    'new steps that name each other': (
        plan(),
        [Add('x', id='x', depends_on=('y',)), Add('y', id='y', parent_id='z'), Add('z', id='z')],
        {'x': 'blocked', 'y': 'pending', 'z': 'pending'},
    ),
    'a family removed one by one': (FAMILY, [Remove('p'), Remove('a'), Remove('b'), Remove('c')], {}),
    'a family removed twice over': (FAMILY, [Remove('p', cascade=True), Remove('c')], {}),
    'a family removed but for one': (FAMILY, [Remove('p'), Remove('a'), Remove('b')], HasChildren),
    'an edge taken away and the step done': (
        FAMILY,
        [Undepend('b', 'a'), to('done', 'b', cascade=True)],
        {'p': 'pending', 'a': 'pending', 'b': 'completed', 'c': 'completed'},
    ),
    'an edge added and both done': (
        FAMILY,
        [Depend('a', 'x'), Add('x', id='x'), to('done', 'a'), Note('p', 'soon')],
        OpenPrerequisite,
    ),
}


@pytest.mark.parametrize('name', BATCHES)
def test_the_order_of_a_batch_makes_no_difference(name: str) -> None:
    stored, operations, expected = BATCHES[name]
    for order in permutations(operations):
        if isinstance(expected, dict):
            assert statuses(do(stored, *order).after) == expected
        else:
            with pytest.raises(expected):
                do(stored, *order)


def test_a_refusal_leaves_the_plan_and_the_counter_as_they_were() -> None:
    stored = plan(step('1'), step('2', on='1', status='blocked'), next_id=3, revision=7)
    with pytest.raises(StepNotFound):
        do(stored, Add('more'), to('done', '1'), Edit('9', 'x'))
    assert stored == plan(step('1'), step('2', on='1', status='blocked'), next_id=3, revision=7)
    assert do(stored, Add('more')).created[0].id == '3'


def test_a_batch_is_one_revision() -> None:
    change = do(plan(step('a'), revision=4), Add('b'), to('done', 'a'), Note('a', 'n'))
    assert change.after.revision == 5


def test_removing_and_adding_an_id_again_is_one_change_of_that_step() -> None:
    change = do(plan(step('a', 'completed'), step('b')), Remove('a'), Add('new', id='a'))
    assert ids(change.after) == 'b a'
    assert [entry.step.content for entry in change.updated] == ['new']


def test_nothing_asked_is_nothing_changed() -> None:
    stored = plan(step('a'), revision=3)
    change = do(stored)
    assert change.after is stored
    assert not change.changed


def test_a_batch_of_a_thousand_statuses_reads_each_sibling_once() -> None:
    children = [step(str(n), under='p') for n in range(2_000)]
    change = do(plan(step('p'), *children), *(to('done', one.id) for one in children))
    assert change.remark('completable') == ('p',)
    assert change.progress.completed == 2_000
