"""Waiting for others: those who hold, by claims, all that is left of a plan. How long, and how it is said."""

from __future__ import annotations

import asyncio
import time

from planctl.agent.conversation import out_of_time, seconds_left
from planctl.agent.job import LOOK_OUT, Job
from planctl.agent.limits import Limits
from planctl.agent.outcome import Phase, StopReason, settled
from planctl.judgement import listed
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import held


def are_at_work(plan: Plan, now: float) -> bool:
    """Whether somebody holds a step in progress by a claim that runs at `now`."""
    return bool(_held(plan, now))


def pause(plan: Plan, limits: Limits, phase: Phase) -> float:
    """Return how many seconds to wait before looking again: until a claim may have ended, or the time of the phase.

    Raises `LimitReached` when that is over.
    """
    now, left = time.time(), seconds_left(limits, phase)
    if left == 0:
        raise out_of_time(limits, phase)
    ends = [(step.lease or now) - now for step in _held(plan, now)]
    return max(0.01, min(ends + [LOOK_OUT] + ([] if left is None else [left])))


async def others_done(job: Job, phase: Phase, plan: Plan) -> Plan | None:
    """Wait while others hold all that could be worked on, and return the plan then; `None` when none do.

    Raises `LimitReached` when the time of the phase is over.
    """
    later: Plan | None = None
    while settled(plan, job.executor, now := time.time()) is StopReason.waiting and are_at_work(plan, now):
        if later is None:
            job.say(f'waiting for what others hold: step {listed([step.id for step in _held(plan, now)])}')
        await asyncio.sleep(pause(plan, job.wanted.executor, phase))
        plan = later = await job.read()
    return later


def _held(plan: Plan, now: float) -> list[Step]:
    return [step for step in plan.steps if held(step, now) and step.status is TaskStatus.in_progress]
