"""The executing phase: the agent works until the stored plan says that it is over. Nothing here ticks a step."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model

from planctl.agent.adoption import cleared
from planctl.agent.conversation import Conversation
from planctl.agent.handover import EXECUTOR, executor_prompt, nudge
from planctl.agent.job import End, Job, Pace
from planctl.agent.outcome import StopReason, settled
from planctl.agent.roles import executor_role
from planctl.agent.watch import WatchedStore
from planctl.core import Request
from planctl.errors import ModelError, UnfinishedPlan
from planctl.operations import Describe
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import available
from planctl.text import waits_for


async def prepare(job: Job, plan: Plan, objective: str) -> End | None:
    """Make the objective the session's and look at what is there; `None` when there is something to carry out.

    Raises `UnfinishedPlan` when the open steps are those of another objective.
    """
    is_new = objective != plan.objective
    requests: list[Request] = []
    if plan.progress.open:
        if is_new and plan.objective:
            raise UnfinishedPlan(
                f'session {plan.session!r} has a plan for another objective, with {plan.progress.open} open steps',
                hint='`planctl run` without an objective carries it out; --replan, or --session NAME, for the new one',
            )
    elif plan.steps:
        if not is_new:
            reason = settled(plan, job.executor, time.time()) or StopReason.finished
            return End(reason, f'the plan is {reason.value}; nothing was asked')
        job.say(f'the plan that was here is finished; its {len(plan.steps)} steps leave')
        requests.append(lambda stored: cleared(stored, plan))
    if is_new:
        describe = Describe(objective=objective, brief='' if requests else None)
        await job.write(describe, *requests, actor=job.executor, label='run')
    return None


class _Afresh:
    """Says when an executor is to start anew, after so many steps that it resolved in one context."""

    def __init__(self, every: int | None, plan: Plan) -> None:
        self._every = every
        self.begin(plan)

    def begin(self, plan: Plan) -> None:
        self._resolved = plan.progress.resolved

    def due(self, plan: Plan) -> bool:
        progress = plan.progress
        return self._every is not None and progress.open > 0 and progress.resolved - self._resolved >= self._every


async def carry_out(job: Job, model: Model) -> End:
    """Have the agent work on the plan until it is over, and return why it is."""
    plan = await job.read()
    had_plan = bool(plan.steps)
    if (reason := settled(plan, job.executor, time.time())) is not None:
        return End(reason, describe_end(reason, plan))
    role = executor_role(job.loaded, WatchedStore(job.store, job.changed), job.executor)
    phase = job.begin('execute', model, plan)
    phase.contexts = 1
    pace = Pace(job.wanted, phase, plan)
    afresh = _Afresh(job.wanted.steps_per_context, plan)

    async def before_request() -> StopReason | _Afresh | None:
        now = await job.read()
        return pace.look(now) or (afresh if afresh.due(now) else None)

    talk = Conversation[StopReason | _Afresh](
        job.loaded.agent,
        model,
        phase,
        before_request=before_request,
        watch=job.watch,
        capabilities=role.capabilities,
        instructions=EXECUTOR if had_plan else None,
    )
    prompt, history = executor_prompt(plan), _NOTHING
    nudges = 0
    while True:
        resolved = plan.progress.resolved
        try:
            turn = await talk.ask(prompt, history)
        except ModelError as error:
            plan = await job.read()
            if not plan.progress.finished:
                raise
            # What failed is the closing remark: the work is done, and the plan says so.
            return End(StopReason.finished, f'{describe_end(StopReason.finished, plan)}; then {error.message}')
        plan = await job.read()
        if isinstance(turn.stop, _Afresh):
            afresh.begin(plan)
            phase.contexts += 1
            job.say(f'starting anew from objective, brief and plan: {plan.progress.resolved} steps are resolved')
            prompt, history = executor_prompt(plan), _NOTHING
            continue
        reason = settled(plan, job.executor, time.time())
        if reason is None and not plan.steps:
            reason = StopReason.abandoned if had_plan else StopReason.answered
        if reason is not None and (turn.stop is None or reason is StopReason.finished):
            return End(reason, describe_end(reason, plan), turn.output)
        if turn.stop is not None:
            return End(turn.stop, f'{pace.words(turn.stop)}; {left(plan)}')
        if plan.progress.resolved <= resolved:
            if nudges >= job.wanted.max_nudges:
                return End(StopReason.stopped_early, f'the agent stopped early; {left(plan)}', turn.output)
            nudges += 1
        workable: list[Step] = [ready.step for ready in available(plan, job.executor, time.time())]
        job.say(f'the agent stopped with {plan.progress.open} steps open and is told so')
        prompt, history = nudge(plan, workable), turn.messages


_NOTHING: Sequence[ModelMessage] = ()


def describe_end(reason: StopReason, plan: Plan) -> str:
    """Return in one line what the plan came to and, where it did not come far, how to go on."""
    progress = plan.progress
    match reason:
        case StopReason.finished:
            cancelled = f', {progress.cancelled} cancelled' if progress.cancelled else ''
            return f'the plan is finished: {progress.completed} of {progress.total} steps completed{cancelled}'
        case StopReason.abandoned:
            return 'the plan is abandoned: no step was completed and none is left'
        case StopReason.answered:
            return 'answered, without a plan'
        case _:
            blocked = [s.id for s in plan.steps if s.status is TaskStatus.blocked and not waits_for(plan, s)]
            if not blocked:
                return f'every step that could be worked on is held by others; {left(plan)}'
            ids = ' '.join(blocked)
            return (
                f'nothing can be worked on, {plan.progress.open} steps are open: {" and ".join(blocked)} blocked; '
                f'`planctl reopen {ids}` and `planctl run` when that is mended'
            )


def left(plan: Plan) -> str:
    """Return how much is open, and how to go on."""
    count = plan.progress.open
    return f'{count} {"step is" if count == 1 else "steps are"} open, `planctl run` goes on'
