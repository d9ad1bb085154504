"""`run`: one run on one session, from the lease over the phases to the result. The stored plan decides the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from pydantic_ai.models import Model

from planctl.agent.executor import begins_anew, carry_out, describe_end, left, prepare, require_approvable
from planctl.agent.job import End, Job, Stop
from planctl.agent.lease import session_lease
from planctl.agent.outcome import Result, StopReason
from planctl.agent.planner import approved, plan_session
from planctl.agent.prices import require_price
from planctl.agent.roles import require_tools
from planctl.claims import session_held
from planctl.errors import NotFound, PlanctlError, StorageError
from planctl.plan import Plan
from planctl.sanitize import clean_block

if TYPE_CHECKING:
    from planctl.agent.workers import Lease


async def run(job: Job, *, planner: Model | None, executor: Model | None, stop: Stop | None = None) -> Result:
    """Run to the end and return what came of it; the store is held open and the session is held by a lease.

    What is refused before anything was asked of a model is raised; from then on every end is a result, errors too.
    A phase that is not wanted needs no model. What the run has in progress when it ends is pending again, with a note.
    """
    stop = stop or Stop()
    _require_prices(job, planner, executor)

    def lost(error: Exception) -> None:
        own = error if isinstance(error, PlanctlError) else StorageError(str(error))
        stop.request(StopReason.error, own)

    def taken(predecessor: str) -> None:
        job.say(f'taking over from {predecessor}, which ended without giving the session back')

    async with AsyncExitStack() as held:
        await held.enter_async_context(job.store)
        for model in (planner, None if executor is planner else executor):
            if model is not None:  # What it is connected to is closed with the run.
                await held.enter_async_context(model)
        # Before the lease, which is a write: a session that is not there must not be made by asking for it.
        plan = await job.store.read()
        _objective(job, plan)
        require_approvable(job, plan)
        if executor is not None and job.wanted.workers == 1:
            begins = not job.wanted.plans and (not plan.steps or bool(begins_anew(job, plan)))
            require_tools(job.executor_agent, plans=begins)
        try:
            async with session_lease(job.store, job.holder, lost=lost, taken=taken, given=job.gave_back):
                end = await _ended(job, _phases(job, planner, executor), stop)
        except PlanctlError as error:
            if not job.phases:
                raise
            end = End(StopReason.error, error.message, error=error)
        end, plan = await job.read_last(end)
    return _result(job, end, plan)


async def help_out(job: Job, executor: Model, stop: Stop | None = None, *, lease: Lease | None = None) -> Result:
    """Work on the steps of a session that another run may hold, until nothing is left; as `run`, without planning.

    Any number of processes may do so at once: who has which step is decided by claims in the store. `lease` is how
    long they last, by default as long as that of a session.
    """
    from planctl.agent.workers import carry_out_together

    stop = stop or Stop()
    _require_prices(job, None, executor)

    async def working(job: Job) -> End:
        plan = await job.read()
        if not session_held(plan, time.time()) and not plan.steps and not plan.objective:
            raise NotFound(
                f'session {plan.session!r} has no plan to work on', hint='planctl run --plan-first "what is to be done"'
            )
        return await carry_out_together(job, executor, job.wanted.workers, lease)

    async with job.store:
        end, plan = await job.read_last(await _ended(job, working(job), stop))
    return _result(job, end, plan)


async def _ended(job: Job, work: Coroutine[Any, Any, End], stop: Stop) -> End:
    stop.bind()
    try:
        return await work
    except asyncio.CancelledError:
        if stop.reason is None:
            raise
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        return End(stop.reason, stop.error.message if stop.error else '', error=stop.error)
    except PlanctlError as error:
        if not job.phases:
            raise
        return End(StopReason.error, error.message, error=error)
    finally:
        stop.unbind()


async def _phases(job: Job, planner: Model | None, executor: Model | None) -> End:
    plan = await job.read()
    objective = _objective(job, plan)
    if job.wanted.plans:
        assert planner is not None
        end = await plan_session(job, planner, plan, objective)
    else:
        end = await prepare(job, plan, objective)
        if end is None and job.wanted.approve and (await job.read()).progress.open:
            end = await approved(job, None)
    if end is not None:
        return end
    assert executor is not None
    if job.wanted.workers > 1:
        from planctl.agent.workers import carry_out_together

        plan = await job.read()
        if not plan.steps or begins_anew(job, plan):
            raise NotFound(
                'there is no plan for several workers', hint='planctl run --plan-first --workers N "what is to be done"'
            )
        return await carry_out_together(job, executor, job.wanted.workers)
    return await carry_out(job, executor)


def _require_prices(job: Job, planner: Model | None, executor: Model | None) -> None:
    if planner is not None and job.wanted.planner.max_cost is not None:
        require_price(planner, option=job.wanted.planner.option('max_cost', planning=True))
    if executor is not None and job.wanted.executor.max_cost is not None:
        require_price(executor, option=job.wanted.executor.option('max_cost', planning=False))


def _result(job: Job, end: End, plan: Plan) -> Result:
    message = end.message
    if not message and job.record.completed and plan.progress.finished:
        message = describe_end(StopReason.finished, plan)
    elif not message:
        message = left(plan) if plan.progress.open else 'the plan of the session is as it was'
    return Result(end.reason, plan, job.phases, job.record, end.output, message, end.limit, job.denied, end.error)


def _objective(job: Job, plan: Plan) -> str:
    objective = clean_block(job.wanted.objective) or plan.objective
    if not plan.steps and not objective:
        raise NotFound(
            f'session {plan.session!r} has no plan, and no objective was given',
            hint='planctl run --plan-first "what is to be done"',
        )
    return objective
