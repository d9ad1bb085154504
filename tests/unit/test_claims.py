"""Claims of steps and sessions: who gets what, for how long, and who lost it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from rule_helpers import NOW, do, plan, statuses, step, to

from planctl.core import apply
from planctl.errors import (
    InputError,
    LostClaim,
    NoneAvailable,
    OpenChildren,
    OpenPrerequisite,
    ResolvedParent,
    SessionHeld,
    StepNotFound,
)
from planctl.operations import Add, Claim, Edit, Release, Renew, Restore
from planctl.plan import Plan, TaskStatus
from planctl.stores.memory import InMemoryPlanStore

ABC = plan(step('p'), step('a', under='p'), step('b', 'blocked', on='a'), step('c'))


def claim(owner: str = 'w1', step_id: str | None = None, seconds: float = 60.0) -> Claim:
    return Claim(owner, seconds, step_id)


def held_by(stored: Plan, step_id: str) -> tuple[Any, ...]:
    found = stored.step(step_id)
    return (found.status.value, found.owner, found.lease, found.started_at)


# --- Steps ------------------------------------------------------------------------------------------------------


def test_a_claim_without_an_id_takes_the_next_available_leaf() -> None:
    first = do(ABC, claim('w1'))
    assert first.remark('claimed') == ('a',)
    assert held_by(first.after, 'a') == ('in_progress', 'w1', NOW + 60, NOW)
    second = do(first.after, claim('w2'))
    assert second.remark('claimed') == ('c',)
    with pytest.raises(NoneAvailable) as caught:
        do(second.after, claim('w3'))
    assert caught.value.ids == ('a', 'c')


def test_one_owner_is_given_a_step_once_while_the_lease_runs() -> None:
    first = do(ABC, claim('w1')).after
    assert do(first, claim('w1')).remark('claimed') == ('c',)


def test_a_step_that_somebody_started_without_a_lease_is_not_given_to_another() -> None:
    started = do(plan(step('a')), to('start', 'a'), actor='person').after
    with pytest.raises(NoneAvailable):
        do(started, claim('w1'), now=NOW + 1e6)
    assert held_by(do(started, claim('person')).after, 'a') == ('in_progress', 'person', NOW + 60, NOW)


def test_a_step_whose_lease_has_ended_goes_to_the_next_and_the_late_owner_finds_out() -> None:
    first = do(plan(step('a')), claim('w1')).after
    with pytest.raises(NoneAvailable):
        do(first, claim('w2'), now=NOW + 59)
    second = do(first, claim('w2'), now=NOW + 60)
    assert held_by(second.after, 'a') == ('in_progress', 'w2', NOW + 120, NOW)
    assert second.changed
    for late in (Renew('w1', 60, 'a'), claim('w1', 'a')):
        with pytest.raises(LostClaim) as caught:
            do(second.after, late, now=NOW + 61)
        assert caught.value.ids == ('a',)
    with pytest.raises(LostClaim):
        do(second.after, Renew('w1', 60, 'a'), to('done', 'a'), actor='w1', now=NOW + 61)
    assert not do(second.after, Release('w1', 'a'), now=NOW + 61).changed


def test_who_starts_a_step_takes_it_from_nobody_whose_lease_runs() -> None:
    stored = do(plan(step('a'), step('b')), claim('w1')).after
    with pytest.raises(LostClaim) as caught:
        do(stored, to('start', 'b'), to('start', 'a'), actor='w2', now=NOW + 59)
    assert caught.value.ids == ('a',)
    assert not do(stored, to('start', 'a'), actor='w1').changed
    taken = do(stored, to('start', 'a'), actor='w2', now=NOW + 60)
    assert held_by(taken.after, 'a') == ('in_progress', 'w2', None, NOW + 60)
    with pytest.raises(LostClaim):
        do(taken.after, Renew('w1', 60, 'a'), now=NOW + 61)
    # Nothing else is refused: whoever sees that it is done may say so.
    assert do(stored, Edit('a', content='A'), to('done', 'a'), actor='w2').after.step('a').status.value == 'completed'
    # Without a claim it is a state that holds already.
    started = do(plan(step('a')), to('start', 'a'), actor='ann').after
    assert not do(started, to('start', 'a'), actor='w2', now=NOW + 1e6).changed


def test_completing_a_step_and_taking_the_next_is_one_act() -> None:
    working = do(plan(step('a'), step('b', 'blocked', on='a')), claim('w1')).after
    change = do(working, Renew('w1', 60, 'a'), to('done', 'a'), claim('w1'), actor='w1')
    assert statuses(change.after) == {'a': 'completed', 'b': 'in_progress'}
    assert change.remark('claimed') == ('b',)


def test_two_claims_of_one_transaction_take_two_steps() -> None:
    change = do(ABC, claim('w1'), claim('w2'))
    assert change.remark('claimed') == ('a', 'c')
    assert {one.owner for one in change.after.steps if one.owner} == {'w1', 'w2'}


def test_a_claim_by_id_respects_the_rules_of_a_start() -> None:
    with pytest.raises(OpenPrerequisite):
        do(ABC, claim(step_id='b'))
    with pytest.raises(OpenChildren) as caught:
        do(ABC, claim(step_id='p'))
    assert caught.value.ids == ('p', 'a')
    with pytest.raises(ResolvedParent):
        do(plan(step('p', 'completed'), step('a', under='p')), claim(step_id='a'))
    with pytest.raises(StepNotFound):
        do(ABC, claim(step_id='nope'))
    assert held_by(do(plan(step('a', 'blocked')), claim(step_id='a')).after, 'a')[:2] == ('in_progress', 'w1')
    # The last child goes in the same transaction.
    assert do(ABC, claim(step_id='p'), to('done', 'a')).remark('claimed') == ('p',)


def test_a_claim_by_id_takes_over_what_has_no_running_lease() -> None:
    started = do(plan(step('a')), to('start', 'a'), actor='person').after
    assert held_by(do(started, claim('w1', 'a'), now=NOW + 5).after, 'a') == ('in_progress', 'w1', NOW + 65, NOW)
    leased = do(plan(step('a')), claim('w1')).after
    with pytest.raises(LostClaim):
        do(leased, claim('w2', 'a'))
    again = do(leased, claim('w1', 'a', seconds=90))
    assert held_by(again.after, 'a') == ('in_progress', 'w1', NOW + 90, NOW)


def test_a_claim_skips_what_it_could_not_start() -> None:
    # Another program completed a parent and left its child open.
    stored = plan(step('p', 'completed'), step('a', under='p'), step('b'))
    assert do(stored, claim()).remark('claimed') == ('b',)


def test_nothing_to_claim_changes_nothing_and_says_why() -> None:
    for stored, words in ((plan(), 'no steps'), (plan(step('a', 'completed')), 'finished')):
        with pytest.raises(NoneAvailable, match=words):
            do(stored, claim())


def test_renewing_moves_the_lease_and_is_no_revision() -> None:
    stored = do(plan(step('a')), claim('w1', seconds=10)).after
    change = do(stored, Renew('w1', 60, 'a'), now=NOW + 5)
    assert held_by(change.after, 'a') == ('in_progress', 'w1', NOW + 65, NOW)
    assert (change.changed, change.after.revision) == (False, stored.revision)
    assert change.steps
    # Late, but nobody else has come.
    assert do(stored, Renew('w1', 60, 'a'), now=NOW + 1_000).after.step('a').lease == NOW + 1_060
    with pytest.raises(LostClaim):
        do(do(stored, to('cancel', 'a')).after, Renew('w1', 60, 'a'))
    with pytest.raises(InputError):
        do(stored, Renew('w1', 60))


def test_releasing_gives_back_with_a_note_what_the_owner_holds_and_nothing_else() -> None:
    stored = plan(
        step('a', 'in_progress', owner='w1', lease=NOW + 9, started_at=1.0),
        step('b', 'in_progress', owner='w1', started_at=1.0),
        step('c', 'in_progress', owner='w2', started_at=1.0),
        step('d', 'completed'),
    )
    change = do(stored, Release('w1', note='interrupted'))
    assert statuses(change.after) == {'a': 'pending', 'b': 'pending', 'c': 'in_progress', 'd': 'completed'}
    assert held_by(change.after, 'a') == ('pending', None, None, None)
    assert (change.after.step('a').note, change.after.step('c').note) == ('interrupted', '')
    assert statuses(do(stored, Release('w1', 'b')).after)['a'] == 'in_progress'
    for other in ('a', 'c', 'd'):
        assert not do(stored, Release('nobody', other)).changed
    with pytest.raises(StepNotFound):
        do(stored, Release('w1', 'nope'))


def test_a_step_that_is_given_back_and_waits_by_now_is_blocked() -> None:
    stored = plan(step('x', 'completed'), step('a', 'in_progress', on='x', owner='w1', started_at=1.0))
    assert statuses(do(stored, Release('w1'), to('reopen', 'x')).after) == {'x': 'pending', 'a': 'blocked'}


async def test_sixteen_workers_race_for_steps_and_each_gets_its_own() -> None:
    store = InMemoryPlanStore()
    await apply(store, *(Add(f's{n}') for n in range(10)))

    async def work(name: str) -> str | None:
        try:
            change = await apply(store, Claim(name, 60), actor=name)
        except NoneAvailable:
            return None
        return change.remark('claimed')[0]

    taken = await asyncio.gather(*(work(f'w{n}') for n in range(16)))
    assert sorted(filter(None, taken), key=int) == [str(n) for n in range(1, 11)]


# --- The session ------------------------------------------------------------------------------------------------


def session(owner: str, seconds: float = 60) -> Claim:
    return Claim(owner, seconds, scope='session')


def test_a_session_is_held_by_one_run_until_its_lease_ends() -> None:
    held = do(plan(step('a'), revision=3), session('r1'))
    assert (held.after.owner, held.after.lease) == ('r1', NOW + 60)
    assert (held.changed, held.after.revision, held.steps) == (False, 3, ())
    with pytest.raises(SessionHeld, match='r1'):
        do(held.after, session('r2'), now=NOW + 59)
    assert do(held.after, session('r1'), now=NOW + 30).after.lease == NOW + 90
    assert do(held.after, session('r2'), now=NOW + 60).after.owner == 'r2'


def test_a_session_is_renewed_and_released_by_its_holder_alone() -> None:
    held = do(plan(), session('r1')).after
    assert do(held, Renew('r1', 60, scope='session'), now=NOW + 20).after.lease == NOW + 80
    with pytest.raises(LostClaim):
        do(held, Renew('r2', 60, scope='session'))
    assert do(held, Release('r2', scope='session')).after.owner == 'r1'
    free = do(held, Release('r1', scope='session')).after
    assert (free.owner, free.lease) == (None, None)
    with pytest.raises(LostClaim):
        do(free, Renew('r1', 60, scope='session'))


def test_the_session_of_a_dead_run_is_taken_over_in_one_transaction() -> None:
    held = do(plan(step('a')), session('r1'), Claim('r1', 60, 'a')).after
    change = do(held, Release('r1', scope='session'), Release('r1', note='interrupted'), session('r2'))
    assert change.after.owner == 'r2'
    assert change.after.step('a').status is TaskStatus.pending


def test_holding_a_session_keeps_nobody_from_changing_the_plan() -> None:
    held = do(plan(step('a')), session('r1')).after
    after = do(held, to('done', 'a'), actor='person').after
    assert (after.owner, after.progress.finished) == ('r1', True)


@pytest.mark.parametrize('moment', [-1.0, 253_402_300_800.0, float('inf'), float('-inf'), float('nan')])
def test_a_time_that_no_store_could_read_again_is_refused(moment: float) -> None:
    stored = plan(step('a'))
    for operation, now in (
        (Add('x'), moment),
        (to('start', 'a'), moment),
        (claim(seconds=moment - NOW), NOW),
        (Claim('run', moment - NOW, scope='session'), NOW),
        (Restore((step('a', 'in_progress', owner='w1', started_at=moment),)), NOW),
    ):
        with pytest.raises(InputError, match='from 1970 to 9999'):
            do(stored, operation, now=now)
    for edge in (0.0, 253_402_300_799.0):
        do(stored, claim(seconds=0), now=edge)


def test_an_owner_is_kept_as_every_store_can_keep_it() -> None:
    taken = do(ABC, claim('half \ud800\n', 'a'), Claim('half \ud800\n', 60, scope='session')).after
    assert (taken.step('a').owner, taken.owner) == ('half \ufffd', 'half \ufffd')
    renewed = do(taken, Renew('half \ud800\n', 600, 'a')).after
    assert renewed.step('a').lease == NOW + 600
    assert do(renewed, Release('half \ud800\n')).after.step('a').owner is None
