"""Who holds a step or a session, and until when: the rules of claim, renew and release. Pure, like all rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from planctl.change import Remark
from planctl.errors import InputError, LostClaim, NoneAvailable, SessionHeld
from planctl.operations import Claim, Release, Renew
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import available

if TYPE_CHECKING:
    from planctl.rules import Judgement


def claim(judgement: Judgement, operation: Claim | Renew | Release) -> None:
    """Apply one of the three. Raises `LostClaim`, `SessionHeld`, `NoneAvailable`, `StepNotFound`."""
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


def held(step: Step, now: float) -> bool:
    """Whether a lease on the step runs at `now`."""
    return step.owner is not None and step.lease is not None and step.lease > now


def session_held(plan: Plan, now: float) -> bool:
    """Whether a run holds the session at `now`."""
    return plan.owner is not None and plan.lease is not None and plan.lease > now


def claimable(plan: Plan, owner: str, now: float) -> Iterator[Step]:
    """Yield the steps that `owner` can claim at `now`, in the order in which they are given out."""
    for ready in available(plan, owner, now):
        if not ready.open_children and _claimable(ready.step, owner, now):
            yield ready.step


def _named(step_id: str | None) -> str:
    if step_id is None:
        raise InputError('renewing a claim needs the id of its step')
    return step_id


def _require_owner(step: Step, owner: str) -> None:
    if step.owner != owner:
        holder = f'held by {step.owner}' if step.owner else step.status.value
        raise LostClaim(f'step {step.id} is no longer held by {owner}: it is {holder}', ids=[step.id])


def _claim_step(judgement: Judgement, operation: Claim) -> None:
    work, now = judgement.work, judgement.now
    if operation.id is None:
        current = replace(judgement.work.plan, steps=tuple(work.steps.values()))
        step = next(claimable(current, operation.owner, now), None)
        if step is None:
            raise NoneAvailable
    else:
        step = work.step(operation.id)
        if held(step, now) and step.owner != operation.owner:
            raise LostClaim(f'step {step.id} is held by {step.owner}', ids=[step.id])
    judgement.move(step, TaskStatus.in_progress)
    taken = work.step(step.id)
    work.put(replace(taken, owner=operation.owner, lease=now + operation.seconds, started_at=taken.started_at or now))
    judgement.remarks.append(Remark('claimed', (step.id,)))


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
    plan, now = judgement.work.plan, judgement.now
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
