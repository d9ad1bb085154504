"""What blocks a step and what frees it, what settling mends, and who is left owning what."""

from __future__ import annotations

import pytest
from rule_helpers import NOW, do, plan, statuses, step, to

from planctl.errors import BlankText, NothingToWaitFor
from planctl.operations import Add, Depend, Describe, Draft, Edit, Note, Operation, Remove, Replace, Undepend
from planctl.plan import Plan, TaskStatus
from planctl.rules import settle

PAIR = plan(step('a'), step('b', 'blocked', on='a'))


@pytest.mark.parametrize('word', ['done', 'cancel'])
def test_the_last_resolved_prerequisite_frees_a_step(word: str) -> None:
    stored = plan(step('a'), step('x'), step('b', 'blocked', on='a x'))
    first = do(stored, to(word, 'a'))
    assert statuses(first.after)['b'] == 'blocked'
    assert first.unblocked == ()
    second = do(first.after, to(word, 'x'))
    assert statuses(second.after)['b'] == 'pending'
    assert [one.id for one in second.unblocked] == ['b']


FREEING: dict[str, tuple[Plan, Operation]] = {
    'its prerequisite is removed': (PAIR, Remove('a')),
    'a subtree with its prerequisite is removed': (
        plan(step('p'), step('a', under='p'), step('b', 'blocked', on='a')),
        Remove('p', cascade=True),
    ),
    'the edge is taken away': (PAIR, Undepend('b', 'a')),
    'a whole-plan write leaves its prerequisite out': (PAIR, Replace((Draft('B'),))),
    'a whole-plan write restates it as blocked without its prerequisite': (
        PAIR,
        Replace((Draft('B', status=TaskStatus.blocked),)),
    ),
    'a whole-plan write takes its dependencies away': (
        PAIR,
        Replace((Draft('A'), Draft('B', status=TaskStatus.pending, depends_on=()))),
    ),
    'its prerequisite was removed without a word and anything is written': (
        plan(step('b', 'blocked', on='gone'), step('c')),
        Edit('c', 'other'),
    ),
    'its prerequisite was resolved without a word and anything is written': (
        plan(step('a', 'completed'), step('b', 'blocked', on='a'), step('c')),
        Edit('c', 'other'),
    ),
}


@pytest.mark.parametrize('name', FREEING)
def test_a_waiting_step_is_freed_when(name: str) -> None:
    stored, operation = FREEING[name]
    change = do(stored, operation)
    assert change.after.step('b').status is TaskStatus.pending
    assert [one.id for one in change.unblocked] == ['b']


BLOCKING: dict[str, tuple[Plan, list[Operation]]] = {
    'it is made to wait': (plan(step('a'), step('b')), [Depend('b', 'a')]),
    'it is in progress and made to wait': (plan(step('a'), step('b', 'in_progress', owner='w')), [Depend('b', 'a')]),
    'its prerequisite is opened again': (
        plan(step('a', 'completed'), step('b', 'in_progress', on='a', owner='w', lease=NOW + 9, started_at=1.0)),
        [to('reopen', 'a')],
    ),
    'it is opened again itself': (plan(step('a'), step('b', 'completed', on='a')), [to('reopen', 'b')]),
    'it is added': (plan(step('a')), [Add('b', id='b', depends_on=('a',))]),
    'another program set it to pending': (plan(step('a'), step('b', on='a')), [Note('a', 'n')]),
}


@pytest.mark.parametrize('name', BLOCKING)
def test_a_step_with_an_open_prerequisite_is_blocked_and_nobodys_when(name: str) -> None:
    stored, operations = BLOCKING[name]
    found = do(stored, *operations).after.step('b')
    assert found.status is TaskStatus.blocked
    assert (found.owner, found.lease, found.started_at) == (None, None, None)


def test_a_resolved_step_may_have_an_open_prerequisite() -> None:
    stored = plan(step('a'), step('b', 'completed'))
    assert statuses(do(stored, Depend('b', 'a')).after) == {'a': 'pending', 'b': 'completed'}


def test_a_step_blocked_by_hand_on_nothing_stays_so_until_someone_moves_it() -> None:
    blocked = do(plan(step('a'), step('b')), to('block', 'a', note='no key')).after
    assert blocked.step('a').note == 'no key'
    for operation in (to('done', 'b'), Edit('a', 'other'), Remove('b'), Add('c', depends_on=('a',))):
        assert do(blocked, operation).after.step('a').status is TaskStatus.blocked
    moved = do(blocked, to('reopen', 'a')).after.step('a')
    assert (moved.status, moved.note) == (TaskStatus.pending, '')


def test_a_step_blocked_by_hand_in_the_write_that_takes_its_prerequisite_away_stays_blocked() -> None:
    for order in ([Undepend('b', 'a'), to('block', 'b')], [to('block', 'b'), Undepend('b', 'a')]):
        assert do(PAIR, *order).after.step('b').status is TaskStatus.blocked


def test_a_new_block_where_every_prerequisite_is_resolved_is_refused() -> None:
    with pytest.raises(NothingToWaitFor) as caught:
        do(plan(step('a', 'cancelled'), step('b', on='a')), to('block', 'b'))
    assert caught.value.ids == ('b', 'a')
    with pytest.raises(NothingToWaitFor):
        do(plan(step('a', 'completed')), Add('b', depends_on=('a',), status=TaskStatus.blocked))


def test_a_step_that_cannot_be_done_although_its_turn_has_come_is_blocked_with_the_reason_and_stays_so() -> None:
    stored = plan(step('a', 'completed'), step('b', 'in_progress', on='a'), step('c', on='b'))
    blocked = do(stored, to('block', 'b', note='no disk')).after
    assert statuses(blocked) == {'a': 'completed', 'b': 'blocked', 'c': 'blocked'}
    assert settle(blocked) is blocked
    for operation in (Edit('b', 'other'), Add('d'), to('block', 'b', note='no disk yet')):
        assert do(blocked, operation).after.step('b').status is TaskStatus.blocked
    waiting = do(blocked, to('reopen', 'a', note='')).after
    assert do(waiting, to('done', 'a')).after.step('b').status is TaskStatus.pending
    assert do(blocked, to('reopen', 'b')).after.step('b').status is TaskStatus.pending


def test_a_block_is_not_refused_for_the_sake_of_a_prerequisite_that_is_gone() -> None:
    found = do(plan(step('b', on='gone')), to('block', 'b', note='why')).after.step('b')
    assert (found.status, found.depends_on, found.note) == (TaskStatus.blocked, (), 'why')


def test_settling_takes_out_references_to_nothing_and_keeps_the_rest() -> None:
    stored = plan(step('a', on='gone b', under='gone'), step('b'), step('c', 'completed', on='gone'))
    settled = settle(stored)
    assert settled.steps == (step('a', 'blocked', on='b'), step('b'), step('c', 'completed'))
    assert settle(settled) is settled


def test_a_note_outlives_a_status_that_nobody_gave() -> None:
    stored = do(plan(step('a')), Add('b', id='b', depends_on=('a',), note='use v2')).after
    assert stored.step('b').note == 'use v2'
    freed = do(stored, to('done', 'a')).after
    assert (freed.step('b').status, freed.step('b').note) == (TaskStatus.pending, 'use v2')
    assert do(freed, to('reopen', 'a')).after.step('b').note == 'use v2'
    assert do(freed, to('start', 'b')).after.step('b').note == ''


def test_only_a_step_in_progress_has_an_owner_and_a_start() -> None:
    started = do(plan(step('a')), to('start', 'a'), actor='w').after
    assert (started.step('a').owner, started.step('a').started_at, started.step('a').lease) == ('w', NOW, None)
    again = do(started, to('start', 'a'), actor='v', now=NOW + 1)
    assert not again.changed
    for word in ('done', 'cancel', 'block', 'reopen'):
        found = do(started, to(word, 'a'), actor='v').after.step('a')
        assert (found.owner, found.started_at, found.lease) == (None, None, None)


def test_the_note_of_several_in_progress_counts_the_actors_own_from_every_operation() -> None:
    stored = plan(step('a', 'in_progress', owner='me'), step('b', 'in_progress', owner='you'), step('c'))
    started = [
        do(stored, to('start', 'c')),
        do(stored, Add('x', id='x', status=TaskStatus.in_progress)),
        do(stored, Replace((Draft('A'), Draft('B'), Draft('C', status=TaskStatus.in_progress)))),
    ]
    assert [change.remark('several_in_progress') for change in started] == [('a', 'c'), ('a', 'x'), ('a', 'c')]
    assert do(stored, to('start', 'c'), actor='you').remark('several_in_progress') == ('b', 'c')
    assert do(stored, to('start', 'c'), actor='them').remark('several_in_progress') == ()
    assert do(stored, to('done', 'a')).remark('several_in_progress') == ()
    two = do(stored, to('start', 'c')).after
    restated = Replace(tuple(Draft(text, status=TaskStatus.in_progress) for text in 'ABC'))
    assert do(two, restated).remark('several_in_progress') == ('a', 'c')


def test_the_last_child_says_that_its_parent_can_be_completed_and_completes_nothing() -> None:
    stored = plan(step('p'), step('a', under='p'), step('b', under='p'), step('q', 'completed', under='p'))
    assert do(stored, to('done', 'a')).remark('completable') == ()
    change = do(stored, to('done', 'a'), to('cancel', 'b'))
    assert change.remark('completable') == ('p',)
    assert change.after.step('p').status is TaskStatus.pending
    assert do(change.after, to('done', 'b')).remark('completable') == ()
    assert do(stored, to('done', 'p', cascade=True)).remark('completable') == ()


@pytest.mark.parametrize('text', ['', ' ', '\n\t\r', '\u3000\u00a0', '\u200b', ' \u2060\ufeff ', '\u3164'])
def test_blank_text_is_refused(text: str) -> None:
    for operation in (Add(text), Edit('a', text), Replace((Draft('A'), Draft(text)))):
        with pytest.raises(BlankText):
            do(plan(step('a')), operation)
    with pytest.raises(BlankText, match='item 2 is blank'):
        do(plan(step('a')), Replace((Draft('A'), Draft(text))))


def test_every_text_that_goes_in_is_made_safe() -> None:
    dirty, safe = ' a\r\n\tb\x1b[2J\x00\u2028\ud800 ', 'a b\ufffd[2J\ufffd\ufffd\ufffd'
    added = do(plan(), Add(dirty, id='x', active_form=dirty, note=dirty)).after.step('x')
    assert (added.content, added.active_form, added.note) == (safe, safe, safe)
    edited = do(plan(step('x')), Edit('x', dirty, dirty), Note('x', dirty)).after.step('x')
    assert (edited.content, edited.active_form, edited.note) == (safe, safe, safe)
    noted = do(plan(step('x')), to('block', 'x', note=dirty)).after.step('x')
    assert noted.note == safe
    written = do(plan(), Replace((Draft(dirty, id='x', active_form=dirty),))).after.step('x')
    assert (written.content, written.active_form) == (safe, safe)
    described = do(plan(), Describe(f'one\r\n{dirty}', dirty)).after
    assert described.objective == 'one\n a\n    b\ufffd[2J\ufffd\ufffd\ufffd'
    assert '\x1b' not in described.brief


def test_editing_leaves_alone_what_it_does_not_name() -> None:
    stored = plan(step('a', active_form='doing'))
    assert do(stored, Edit('a', active_form='')).after.step('a') == step('a')
    assert do(stored, Edit('a', 'new')).after.step('a') == step('a', content='new', active_form='doing')
    assert not do(stored, Edit('a')).changed
    assert not do(plan(objective='o', brief='b'), Describe()).changed
    assert do(plan(objective='o', brief='b'), Describe(brief='c')).after == plan(objective='o', brief='c', revision=1)


BLOCKED_WITH_A_REASON = do(
    plan(step('a', 'completed'), step('b', on='a'), step('c', 'blocked', on='b')), to('block', 'b', note='no key')
).after


@pytest.mark.parametrize(
    'operation',
    [
        Remove('a'),
        Undepend('b', 'a'),
        Replace((Draft('B'), Draft('C'))),
        Replace((Draft('B', status=TaskStatus.blocked), Draft('C'))),
        Replace((Draft('B', status=TaskStatus.pending), Draft('C')), plain=True),
        Edit('c', 'other'),
        Note('b', 'still no key'),
    ],
    ids=repr,
)
def test_a_block_with_a_reason_outlasts_what_happens_around_it(operation: Operation) -> None:
    found = do(BLOCKED_WITH_A_REASON, operation).after.step('b')
    assert found.status is TaskStatus.blocked
    assert 'no key' in found.note


@pytest.mark.parametrize(
    'operations',
    [
        [Note('b', '')],
        [to('reopen', 'b')],
        [Depend('b', 'x'), Add('x', id='x', status=TaskStatus.completed), Note('b', '')],
    ],
)
def test_a_block_with_a_reason_ends_with_the_reason_or_by_hand(operations: list[Operation]) -> None:
    assert do(BLOCKED_WITH_A_REASON, *operations).after.step('b').status is TaskStatus.pending


def test_a_step_blocked_on_nothing_that_is_made_to_wait_is_freed_with_what_it_then_waited_for() -> None:
    stored = do(plan(step('a'), step('b')), to('block', 'b', note='why'), Depend('b', 'a')).after
    assert stored.step('b').status is TaskStatus.blocked
    assert do(stored, to('done', 'a')).after.step('b').status is TaskStatus.pending


def test_a_reason_that_comes_later_does_not_make_a_block_of_what_was_only_not_settled() -> None:
    stored = plan(step('a', 'completed'), step('b', 'blocked', on='a'))
    found = do(stored, Note('b', 'n')).after.step('b')
    assert (found.status, found.note) == (TaskStatus.pending, 'n')
