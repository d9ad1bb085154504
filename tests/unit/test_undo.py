"""Undo: what is meant, what it restores, and when it is refused. On the store in memory, which keeps a log."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from rule_helpers import to

from planctl.change import Change
from planctl.core import apply, drive, undo
from planctl.errors import NotFound, OpenChildren, PlanctlError, RevisionNotFound, StoreUnavailable, UndoConflict
from planctl.journal import LogRow, replay
from planctl.operations import (
    Add,
    Claim,
    Depend,
    Describe,
    Draft,
    Edit,
    Move,
    Note,
    Operation,
    Remove,
    Replace,
    SetStatus,
    Undepend,
)
from planctl.plan import Plan, Step, TaskStatus
from planctl.stores.base import restate
from planctl.stores.memory import InMemoryPlanStore


class Store(InMemoryPlanStore):
    """The store in memory with short words; all that is done is done by `ada` unless said otherwise."""

    def do(self, *operations: Operation, actor: str = 'ada', now: float = 50.0) -> int:
        return drive(apply(self, *operations, actor=actor, now=now)).after.revision

    def undo(self, revision: int | None = None, *, actor: str = 'ada', preview: bool = False) -> Change:
        return drive(undo(self, revision, actor=actor, now=90.0, preview=preview))

    @property
    def plan(self) -> Plan:
        return drive(self.read())

    @property
    def rows(self) -> list[LogRow]:
        return drive(self.log())

    @property
    def content(self) -> Plan:
        """All that an undo restores."""
        steps = tuple(replace(step, lease=None) for step in self.plan.steps)
        return replace(self.plan, steps=steps, revision=0, next_id=0)


@pytest.fixture
def store() -> Store:
    store = Store()
    store.do(
        Describe('Ship it', 'Mind the tests.'),
        Add('Build'),
        Add('Test', depends_on=('1',)),
        Add('Fast ones', parent_id='2'),
        Add('Slow ones', parent_id='2', depends_on=('3',)),
        Add('Release', depends_on=('1', '2'), note='by hand'),
        Add('Idea'),
    )
    store.do(to('start', '1'), to('cancel', '6', note='no'), actor='bob', now=10.0)
    return store


CHANGES: dict[str, list[Operation]] = {
    'add': [Add('More', parent_id='2', before='3')],
    'add several': [Add('a', id='a'), Add('b', parent_id='a', depends_on=('3',)), Add('c', before='1')],
    'add at the top': [Add('First', before='1')],
    'edit': [Edit('2', 'Test all', 'Testing')],
    'done': [to('done', '1', note='green')],
    'done of a subtree': [to('done', '1'), to('done', '2', cascade=True)],
    'start': [to('start', '3')],
    'claim': [Claim('carl', 60, '3')],
    'reopen': [to('reopen', '6')],
    'give back': [to('reopen', '1')],
    'block': [to('block', '3', note='no disk')],
    'cancel': [to('cancel', '2', cascade=True)],
    'remove': [Remove('1')],
    'remove a subtree': [Remove('2', cascade=True)],
    'remove all': [Remove(step_id, cascade=True) for step_id in '12356'],
    'remove every other': [Remove('1'), Remove('3'), Remove('6')],
    'depend': [Depend('6', '5')],
    'undepend': [Undepend('5', '1')],
    'move under': [Move('6', under='2')],
    'move': [Move('6', before='1')],
    'move two': [Move('6', before='1'), Move('5', before='6')],
    'move all': [Move('1', after='6'), Move('2', before='1')],
    'move and remove': [Move('6', before='1'), Remove('3'), Move('5', before='2')],
    'note': [Note('5', '')],
    'describe': [Describe('Other', '')],
    'replace': [Replace((Draft('Idea', '6'), Draft('New'), Draft('Build', '1', status=TaskStatus.completed)))],
    'remove the session': [Remove('1'), Remove('2', cascade=True), Describe('', '', removed=True)],
    'everything': [
        Add('x', id='x', before='1'),
        Remove('3'),
        Move('5', before='2'),
        to('done', '1'),
        Edit('4', 'Slower ones'),
        Describe('Other'),
    ],
}


@pytest.mark.parametrize('name', CHANGES)
def test_each_kind_of_change_is_taken_back(store: Store, name: str) -> None:
    before = store.content
    assert store.do(*CHANGES[name]) == 3
    after = store.content
    change = store.undo()
    assert change.changed
    assert change.remark('undone') == ('3',)
    assert store.content == before
    assert (store.plan.revision, store.rows[-1].operation, store.rows[-1].actor) == (4, 'undo 3', 'ada')
    # To undo an undo is to do it again.
    store.undo(4)
    assert store.content == after
    store.undo(5)
    assert store.content == before


@pytest.mark.parametrize('name', CHANGES)
def test_a_preview_changes_nothing_and_is_what_comes(store: Store, name: str) -> None:
    store.do(*CHANGES[name])
    before = store.plan
    preview = store.undo(preview=True)
    assert store.plan == before
    assert store.undo() == preview


def test_an_id_is_not_given_out_again(store: Store) -> None:
    store.do(Add('seven'))
    store.undo()
    store.do(Add('eight'))
    assert store.plan.steps[-1].id == '8'


def test_a_lease_is_nothing_to_restore_and_nothing_to_lose(store: Store) -> None:
    store.do(Claim('carl', 60, '3'))
    store.do(Edit('3', 'Faster ones'))
    store.undo()
    assert store.plan.step('3').lease == 110.0
    store.undo()
    assert store.plan.step('3').lease is None


@pytest.mark.parametrize('note', ['no disk', None])
def test_a_block_by_hand_outlives_the_undo_of_a_dependency(store: Store, note: str | None) -> None:
    store.do(Add('Wait'))
    store.do(to('block', '7', note=note))
    blocked = store.content
    store.do(Depend('7', '1'))
    waiting = store.content
    store.do(Undepend('7', '1'))
    store.undo()
    assert store.content == waiting
    store.undo()
    assert store.content == blocked
    store.undo()
    assert store.plan.step('7') == Step('7', 'Wait')


def test_a_block_by_hand_whose_turn_had_come_outlives_it_too(store: Store) -> None:
    store.do(to('done', '1'))
    store.do(Add('Wait', depends_on=('1',)))
    store.do(to('block', '7', note='no disk'))
    blocked = store.content
    store.do(Depend('7', '5'))
    store.undo()
    assert store.content == blocked


def test_what_only_waited_is_free_when_nothing_is_left_to_wait_for(store: Store) -> None:
    store.do(Add('Wait', depends_on=('1',), note='with care'))
    store.do(Depend('7', '5'))
    store.do(to('done', '1'), actor='bob')
    assert store.plan.step('7').status is TaskStatus.blocked
    store.undo()
    assert store.plan.step('7') == Step('7', 'Wait', depends_on=('1',), note='with care')


def test_a_step_with_an_empty_id_is_not_taken_for_the_session(store: Store) -> None:
    def other(plan: Plan) -> Change:
        return restate(plan, [*plan.steps[:2], Step('', 'Nameless'), *plan.steps[2:]])

    drive(store.update(other, actor='other', label='write', now=60.0))
    before = store.content
    store.do(Describe('Other'), Edit('', 'Named'), Move('', before='1'))
    store.undo()
    assert store.content == before
    # What is moved behind it comes back behind it, and not to the top.
    store.do(Remove(''), Move('3', before='1'))
    store.undo()
    assert store.content == before
    store.do(Edit('', 'Named'))
    store.do(Remove(''), actor='bob')
    with pytest.raises(UndoConflict, match=r"step '' .*revision"):
        store.undo()
    assert replay(store.rows).steps == tuple(replace(step, lease=None) for step in store.plan.steps)


# --- Which one ----------------------------------------------------------------------------------------------------


def test_the_last_change_of_the_same_actor_is_meant(store: Store) -> None:
    store.do(Edit('5', 'mine'))
    store.do(to('done', '1'), actor='executor:x')
    store.do(Edit('6', 'another'), actor='bob')
    assert store.undo().remark('undone') == ('3',)
    assert store.plan.step('1').status is TaskStatus.completed
    assert store.undo(actor='bob').remark('undone') == ('5',)


def test_one_after_the_other_goes_further_back(store: Store) -> None:
    for text in 'abc':
        store.do(Edit('5', text))
    texts = ['c']
    for _ in range(3):
        store.undo()
        texts.append(store.plan.step('5').content)
    assert texts == ['c', 'b', 'a', 'Release']
    store.undo(actor='bob')
    assert store.undo().remark('undone') == ('1',)
    with pytest.raises(RevisionNotFound, match='ada has changed nothing'):
        store.undo()


def test_what_was_done_again_can_be_undone_again(store: Store) -> None:
    store.do(Edit('5', 'a'))
    store.undo()
    store.undo(4)
    assert store.plan.step('5').content == 'a'
    assert store.undo().remark('undone') == ('3',)
    assert store.plan.step('5').content == 'Release'


@pytest.mark.parametrize('revision', [0, -1, 3, 99])
def test_a_revision_that_is_not_there(store: Store, revision: int) -> None:
    with pytest.raises(RevisionNotFound):
        store.undo(revision)


def test_who_did_nothing_has_nothing_to_undo(store: Store) -> None:
    with pytest.raises(RevisionNotFound):
        store.undo(actor='carl')
    with pytest.raises(NotFound):
        Store().undo()


# --- Refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('first', 'then', 'ids'),
    [
        (Edit('5', 'a'), Edit('5', 'b'), '5'),
        (Edit('5', 'a'), Remove('5'), '5'),
        (to('done', '1'), to('reopen', '1'), '1'),
        (to('done', '1'), to('start', '3'), None),
        (Add('x', id='x'), Edit('x', 'y'), 'x'),
        (Add('x', id='x'), Add('y', parent_id='x'), '7 x'),
        (Add('x', id='x'), Depend('6', 'x'), '6 x'),
        (Add('x', id='x'), Remove('x'), 'x'),
        (Remove('4'), Add('again', id='4'), '4'),
        (Remove('2', cascade=True), Remove('1'), '5'),
        (Remove('4'), Remove('3'), '4 3'),
        (Move('6', before='1'), Move('6', before='5'), '6'),
        (Move('6', under='2'), Move('6', top=True), '6'),
        (Describe('a'), Describe('b'), ''),
        (Note('5', 'a'), Note('5', 'b'), '5'),
        (Undepend('5', '1'), Depend('5', '3'), '5'),
    ],
)
def test_a_later_change_of_the_same_is_a_conflict(
    store: Store, first: Operation, then: Operation, ids: str | None
) -> None:
    store.do(first)
    store.do(then, actor='bob')
    before = store.plan
    if ids is None:
        store.undo(3)
        return
    for preview in (True, False):
        with pytest.raises(UndoConflict) as raised:
            store.undo(3, preview=preview)
        assert raised.value.ids == tuple(ids.split())
    assert store.plan == before
    store.undo(actor='bob')
    store.undo()


@pytest.mark.parametrize(
    ('first', 'then'),
    [
        (Edit('5', 'a'), to('done', '1')),
        (Edit('5', 'a'), Note('5', 'b')),
        (Edit('5', 'a'), Edit('5', active_form='b')),
        (Describe('a'), Describe(brief='b')),
        (Remove('6'), Add('again')),
        (Add('x', id='x'), Move('1', after='6')),
        (Move('6', before='1'), Edit('6', 'b')),
    ],
)
def test_a_later_change_of_something_else_stays(store: Store, first: Operation, then: Operation) -> None:
    expected = Store()
    expected._plan = store.plan
    expected.do(then, actor='bob')
    store.do(first)
    store.do(then, actor='bob')
    store.undo(3)
    assert store.content == expected.content


def test_what_is_undone_already_is_refused(store: Store) -> None:
    store.do(Edit('5', 'a'))
    store.undo()
    with pytest.raises(UndoConflict, match='undone already, by revision 4'):
        store.undo(3)


def test_what_cancelled_itself_out_is_no_conflict(store: Store) -> None:
    store.do(Edit('5', 'a'))
    store.do(Edit('5', 'b'), actor='bob')
    store.undo(actor='bob')
    assert store.undo().remark('undone') == ('3',)
    assert store.plan.step('5').content == 'Release'


def test_a_tick_that_was_repeated_by_another_is_theirs(store: Store) -> None:
    store.do(to('done', '1'))
    store.do(to('reopen', '1'), actor='bob')
    store.do(to('done', '1'), actor='bob')
    with pytest.raises(UndoConflict):
        store.undo()


def test_the_rules_judge_the_outcome(store: Store) -> None:
    store.do(to('reopen', '6'))
    store.do(Add('child', parent_id='6'), actor='bob')
    with pytest.raises(OpenChildren):
        store.undo(3)


def test_what_another_program_did_can_be_undone(store: Store) -> None:
    before = store.content

    def other(plan: Plan) -> Change:
        return restate(plan, [plan.steps[5], *plan.steps[:2]])

    drive(store.update(other, actor='other', label='write', now=60.0))
    store.undo(3)
    assert store.content == before


# --- Between our reading and our writing --------------------------------------------------------------------------


class Racing(Store):
    """Somebody else writes between the reading of the log and the write, so many times."""

    times = 1
    then: Callable[[Racing], None] = staticmethod(lambda store: None)

    async def read(self) -> Plan:
        plan = await super().read()
        if self.times:
            self.times -= 1
            self.then(self)
        return plan


def test_what_others_do_meanwhile_is_seen() -> None:
    store = Racing()
    store.times = 0
    store.do(Add('one'))
    store.do(Edit('1', 'mine'))
    store.then = lambda racing: racing.do(Edit('1', 'theirs'), actor='bob')  # type: ignore[method-assign]
    store.times = 1
    with pytest.raises(UndoConflict):
        store.undo()
    assert store.plan.step('1').content == 'theirs'


def test_what_others_do_meanwhile_elsewhere_is_no_obstacle() -> None:
    store = Racing()
    store.times = 0
    store.do(Add('one'))
    store.do(Edit('1', 'mine'))
    store.then = lambda racing: racing.do(Add('theirs'), actor='bob')  # type: ignore[method-assign]
    store.times = 5
    store.undo()
    assert [step.content for step in store.plan.steps] == ['one', *['theirs'] * 5]
    store.times = 10**6
    store.do(Edit('1', 'mine'))
    with pytest.raises(StoreUnavailable):
        store.undo()


# --- At random ----------------------------------------------------------------------------------------------------


def random_operation(rng: random.Random, ids: list[str]) -> Operation:
    def one() -> str:
        return rng.choice(ids) if ids else 'none'

    match rng.randrange(9):
        case 0 | 1:
            parent = rng.choice([None, one()]) if ids else None
            return Add(f'text {rng.randrange(5)}', parent_id=parent, before=rng.choice([None, one()]) if ids else None)
        case 2:
            return SetStatus(one(), rng.choice(list(TaskStatus)), rng.random() < 0.5, rng.choice([None, 'why']))
        case 3:
            return Edit(one(), f'text {rng.randrange(5)}')
        case 4:
            return Depend(one(), one())
        case 5:
            return Remove(one(), rng.random() < 0.5)
        case 6:
            return rng.choice([Move(one(), before=one()), Move(one(), after=one()), Move(one(), under=one())])
        case 7:
            return Replace(tuple(Draft(f'text {rng.randrange(5)}', one() if ids else None) for _ in range(1)))
        case _:
            return Describe(f'objective {rng.randrange(3)}')


@pytest.mark.parametrize('seed', range(40))
def test_whatever_was_done_is_taken_back_step_by_step(seed: int) -> None:
    rng = random.Random(seed)
    store = Store()
    states = {0: store.content}
    while store.plan.revision < 25:
        ids = [step.id for step in store.plan.steps]
        try:
            store.do(*(random_operation(rng, ids) for _ in range(rng.randrange(1, 4))))
        except PlanctlError:
            continue
        states[store.plan.revision] = store.content
    last = store.plan.revision
    for revision in range(last, 0, -1):
        store.undo()
        assert store.content == states[revision - 1], f'undo of {revision}'
