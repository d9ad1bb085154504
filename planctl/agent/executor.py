"""The executing phase: the agent works until the stored plan says that it is over. Nothing here ticks a step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model

from planctl.agent.conversation import ContextLost, Conversation, FreshStarts, LimitReached, Turn
from planctl.agent.handover import EXECUTOR, executor_prompt, nudge
from planctl.agent.job import End, Halt, Job, Pace
from planctl.agent.outcome import StopReason, settled
from planctl.agent.roles import executor_role
from planctl.agent.waiting import are_at_work, others_done
from planctl.agent.watch import StartedAnew
from planctl.change import Change
from planctl.errors import ModelError, NotFound, UnfinishedPlan, Unsupported
from planctl.operations import Describe
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import available
from planctl.sanitize import clean_block
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore, EditFunction
from planctl.text import counted, waits_for


async def prepare(job: Job, plan: Plan, objective: str) -> End | None:
    """Make the objective the session's and look at what is there; `None` when there is something to carry out.

    Raises `UnfinishedPlan` when the open steps are those of another objective.
    """
    is_new = objective != plan.objective
    if plan.progress.open:
        if is_new and plan.objective:
            raise UnfinishedPlan(
                f'session {plan.session!r} has a plan for another objective, '
                f'with {counted(plan.progress.open, "open step")}',
                hint='`planctl run` without an objective carries it out; --replan, or --session NAME, for the new one',
            )
    elif plan.steps:
        if not is_new:
            reason = settled(plan, job.executor, time.time()) or StopReason.finished
            return End(reason, f'the plan is {reason.value}; nothing was asked')
        return None  # What is finished stays, with its objective, until there is something in its place.
    if is_new:
        await job.write(Describe(objective=objective), actor=job.executor, label='run')
    return None


def require_approvable(job: Job, plan: Plan) -> None:
    """Raise `NotFound` when a plan is to be approved, and there would be none before an agent is at work."""
    if job.wanted.approve and not job.wanted.plans and (not plan.steps or begins_anew(job, plan)):
        hint = 'planctl run --plan-first --approve "what is to be done"'
        raise NotFound('there is no plan to approve yet', hint=hint)


def begins_anew(job: Job, plan: Plan) -> str:
    """Return the objective of a run over a plan of another objective in which nothing is open; else nothing."""
    objective = clean_block(job.wanted.objective)
    is_over = bool(plan.steps) and not plan.progress.open and not job.wanted.plans
    return objective if is_over and objective != plan.objective else ''


class ForNewObjective(StoreWrapper):
    """The store of an executor that is to plan for a new objective: that becomes the session's with its first step."""

    def __init__(self, store: BaseStore, objective: str) -> None:
        super().__init__(store)
        self._objective = objective
        self.begun = False

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit`; with the first step that it adds, store the objective."""

        def described(plan: Plan) -> Change:
            change = edit(plan)
            if self.begun or not change.created:
                return change
            return replace(change, after=replace(change.after, objective=self._objective, brief=''))

        try:
            change = await super().update(described, actor=actor, label=label, now=now, key=key)
        except Unsupported:  # The store keeps steps alone.
            change = await super().update(edit, actor=actor, label=label, now=now, key=key)
        self.begun = self.begun or bool(change.created)
        return change


class _Afresh:
    """Says when and why an executor is to start anew: after so many steps that it resolved in one context, or now."""

    def __init__(self, every: int | None, plan: Plan) -> None:
        self._every = every
        self._why = ''
        self.begin(plan)

    def begin(self, plan: Plan) -> str:
        """Begin to count, and return why this had to be."""
        self._resolved = plan.progress.resolved
        why, self._why = self._why or f'{self._resolved} steps are resolved', ''
        return why

    def because(self, why: str) -> Self:
        """Start anew for another reason than the count."""
        self._why = why
        return self

    def due(self, plan: Plan) -> bool:
        """Whether so many steps were resolved, and there are more."""
        progress = plan.progress
        return self._every is not None and progress.open > 0 and progress.resolved - self._resolved >= self._every


def over_already(job: Job, plan: Plan) -> End | None:
    """Return why a run has nothing to carry out, nor to wait for; `None` when it has."""
    now = time.time()
    reason = settled(plan, job.executor, now)
    if reason is None or are_at_work(plan, now) or begins_anew(job, plan):
        return None
    return End(reason, describe_end(reason, plan))


async def carry_out(job: Job, model: Model) -> End:
    """Have the agent work on the plan until it is over, and return why it is."""
    plan = await job.read()
    if (end := over_already(job, plan)) is not None:
        return end
    objective = begins_anew(job, plan)
    store = job.working_store()
    anew = ForNewObjective(store, objective) if objective else None
    looking = asyncio.create_task(job.look_out())
    try:
        return await _work(job, model, plan, anew or store, lambda: anew is None or anew.begun)
    except (ModelError, LimitReached) as error:
        return await broken_off(job, error, begun=anew is None or anew.begun)
    finally:
        looking.cancel()


async def broken_off(job: Job, error: ModelError | LimitReached, *, begun: bool = True) -> End:
    """Return what the plan came to although a call of the agent failed; raises a failure that it did not survive.

    The plan that is there is of an objective before this one when its own was not `begun`.
    """
    plan = await job.read()
    if begun and plan.progress.finished:
        # What failed is the closing remark: the work is done, and the plan says so.
        return End(StopReason.finished, f'{describe_end(StopReason.finished, plan)}; then {error}')
    if isinstance(error, LimitReached):
        return End(StopReason.limit, f'{error}; {left(plan)}', limit=error.limit)
    raise error


async def _work(job: Job, model: Model, plan: Plan, store: BaseStore, begun: Callable[[], bool]) -> End:
    had_plan = bool(plan.steps) and begun()

    def first_prompt(plan: Plan) -> str:
        if begun():
            return executor_prompt(plan)
        return executor_prompt(Plan(objective=clean_block(job.wanted.objective)))

    role = executor_role(job.executor_agent, store, job.executor)
    phase = job.begin('execute', model, plan)
    phase.contexts = 1
    limits = job.wanted.executor
    pace = Pace(job.wanted, limits, phase, plan)
    afresh = _Afresh(job.wanted.steps_per_context, plan)
    holds = plan.owner is not None  # Some stores cannot.

    async def before_request() -> Halt | _Afresh | None:
        now = await job.read()
        if holds:
            # Whoever slept, or works on what took the place of its file, asks for nothing more.
            job.require_session(now)
        return pace.look(now) or (afresh if afresh.due(now) else None)

    talk = Conversation[Halt | _Afresh](
        job.executor_agent.agent,
        model,
        phase,
        limits=limits,
        before_request=before_request,
        watch=job.watch,
        capabilities=[*role.capabilities, job.approvals(phase)],
        instructions=EXECUTOR if had_plan else None,
    )
    if begun() and (later := await others_done(job, phase, plan)) is not None:
        plan = later
        if (reason := settled(plan, job.executor, time.time())) is not None:
            return End(reason, describe_end(reason, plan))
    prompt, history = first_prompt(plan), _NOTHING
    nudges, starts = 0, FreshStarts(limits.retries)
    while True:
        resolved = plan.progress.resolved
        try:
            turn = await talk.ask(prompt, history)
        except ContextLost as error:
            await starts.after(error, fresh=not history)
            turn = Turn([], stop=afresh.because(error.why))
        else:
            starts.went_well()
        plan = await job.read()
        if isinstance(turn.stop, _Afresh) and not (begun() and plan.progress.finished):
            phase.contexts += 1
            job.watch(StartedAnew(phase.contexts, afresh.begin(plan)))
            prompt, history = first_prompt(plan), _NOTHING
            continue
        halt = turn.stop if isinstance(turn.stop, Halt) else None
        later = await others_done(job, phase, plan) if begun() and halt is None else None
        plan = later or plan
        reason = _came_to(plan, job.executor, begun=begun(), had_plan=had_plan)
        if reason is not None and (halt is None or reason is StopReason.finished):
            return End(reason, describe_end(reason, plan), turn.output)
        if halt is not None:
            return End(halt.reason, f'{halt.message}; {left(plan)}', limit=halt.limit)
        if plan.progress.resolved <= resolved and later is None:
            if nudges >= job.wanted.max_nudges:
                return End(StopReason.stopped_early, f'the agent stopped early; {left(plan)}', turn.output)
            nudges += 1
        workable: list[Step] = [ready.step for ready in available(plan, job.executor, time.time())]
        job.say(f'the agent stopped with {counted(plan.progress.open, "step")} open and is told so')
        prompt, history = nudge(plan, workable), turn.messages


_NOTHING: Sequence[ModelMessage] = ()


def _came_to(plan: Plan, actor: str, *, begun: bool, had_plan: bool) -> StopReason | None:
    """Return why an agent that stopped has nothing more to do, or `None`."""
    if not begun:
        return StopReason.answered
    if not plan.steps:
        return StopReason.abandoned if had_plan else StopReason.answered
    return settled(plan, actor, time.time())


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
                # Started without a claim: nobody knows for how long, so it is not waited for.
                busy = [step.id for step in plan.steps if step.status is TaskStatus.in_progress]
                what = f'step {" and ".join(busy)} in progress elsewhere' if busy else 'nothing can be worked on'
                return f'{what}; {left(plan)}'
            ids = ' '.join(blocked)
            return (
                f'nothing can be worked on, {_open(plan)}: {" and ".join(blocked)} blocked; '
                f'`planctl reopen {ids}` and `planctl run` when that is mended'
            )


def left(plan: Plan) -> str:
    """Return how much is open, and how to go on."""
    return f'{_open(plan)}, `planctl run` goes on' if plan.progress.open else 'no step is open'


def _open(plan: Plan) -> str:
    count = plan.progress.open
    return f'{counted(count, "step")} {"is" if count == 1 else "are"} open'
