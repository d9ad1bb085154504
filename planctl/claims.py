"""Who holds a step or a session, and until when: the rules of claim, renew and release. Pure, like all rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from planctl.errors import InputError, LostClaim, OpenChildren, SessionHeld
from planctl.judgement import Judgement, listed
from planctl.operations import Claim, Release, Renew
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import available, held, none_available, require_free
from planctl.sanitize import clean
from planctl.settling import settling


def claim(judgement: Judgement, operation: Claim | Renew | Release) -> None:
    """Apply one of the three. Raises `LostClaim`, `SessionHeld`, `NoneAvailable`, `StepNotFound`."""
    operation = replace(operation, owner=clean(operation.owner))  # As actors are: every store can keep it.
    if operation.scope == 'session':
        _session(judgement, operation)
        return
    match operation:
        case Claim():
            _claim_step(judgement, operation)
        case Renew():
            step = judgement.work.step(_named(operation.id))
            _require_owner(step, operation.owner)
            judgement.work.put(replace(step, lease=judgement.now + operation.seconds))
        case Release():
            _release_steps(judgement, operation)
        case _:
            assert_never(operation)


def session_held(plan: Plan, now: float) -> bool:
    """Whether a run holds the session at `now`."""
    return plan.owner is not None and plan.lease is not None and plan.lease > now


def judge_claims(judgement: Judgement) -> None:
    """Refuse a claim of a step with open children: it is worked on by working on those."""
    work = judgement.work
    for step_id in judgement.claimed:
        if step_id in work.steps and (children := work.open_children(step_id)):
            raise OpenChildren(f'step {step_id} has open subtasks: {listed(children)}', ids=[step_id, *children])


def _named(step_id: str | None) -> str:
    if step_id is None:
        raise InputError('renewing a claim needs the id of its step')
    return step_id


def _require_owner(step: Step, owner: str) -> None:
    if step.owner != owner:
        holder = f'held by {step.owner}' if step.owner else step.status.value
        raise LostClaim(f'step {step.id} is no longer held by {owner}: it is {holder}', ids=[step.id])


def _claim_step(judgement: Judgement, operation: Claim) -> None:
    work, now, owner = judgement.work, judgement.now, operation.owner
    if operation.id is None:
        step = work.step(_next(judgement, owner, operation.but))
    else:
        step = work.step(operation.id)
        require_free(step, owner, now)
    judgement.move(step, TaskStatus.in_progress)
    taken = work.step(step.id)
    started_at = now if taken.started_at is None else taken.started_at
    work.put(replace(taken, owner=owner, lease=now + operation.seconds, started_at=started_at))
    judgement.claimed.append(step.id)


def _next(judgement: Judgement, owner: str, but: Sequence[str]) -> str:
    """Return the id of the first step that can be claimed; `NoneAvailable` says why there is none."""
    work, now = judgement.work, judgement.now
    # What the operations before this one have resolved counts: completing a step and taking the next is one act.
    settled = {step.id: step for step in settling(work, judgement.requested)}
    current = judgement.plan((work.steps | settled).values())
    under_resolved: dict[str, str | None] = {}
    for ready in available(current, owner, now):
        step = ready.step
        if ready.open_children or step.id in but or not _claimable(step, owner, now):
            continue
        if step.parent_id is None or work.nearest(step.id, lambda ancestor: ancestor.resolved, under_resolved) is None:
            return step.id
    raise none_available(current, owner, now)


def _claimable(step: Step, owner: str, now: float) -> bool:
    """Never a step that somebody works on: one with a running lease, or one that another started without one."""
    if step.status is not TaskStatus.in_progress:
        return True
    return not held(step, now) and (step.lease is not None or step.owner in (None, owner))


def _release_steps(judgement: Judgement, operation: Release) -> None:
    work = judgement.work
    steps = list(work.steps.values()) if operation.id is None else [work.step(operation.id)]
    for step in steps:
        if step.owner == operation.owner and step.status is TaskStatus.in_progress:
            judgement.move(step, TaskStatus.pending, operation.note or None)


def _session(judgement: Judgement, operation: Claim | Renew | Release) -> None:
    plan, now = judgement.plan(()), judgement.now
    match operation:
        case Claim(owner=owner, seconds=seconds):
            if session_held(plan, now) and plan.owner != owner:
                raise SessionHeld(f'another run works on session {plan.session!r}: {plan.owner}')
            judgement.session |= {'owner': owner, 'lease': now + seconds}
        case Renew(owner=owner, seconds=seconds):
            if plan.owner != owner:
                raise LostClaim(f'session {plan.session!r} is no longer held by {owner}')
            judgement.session |= {'lease': now + seconds}
        case Release(owner=owner):
            if plan.owner == owner:
                judgement.session |= {'owner': None, 'lease': None}
        case _:
            assert_never(operation)
