"""The planning phase: the agent writes a draft, and the draft becomes the session's plan in one transaction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model

from planctl.agent.adoption import DraftStore, Mode, adopted, draft_of
from planctl.agent.conversation import Conversation, LimitReached, Turn
from planctl.agent.handover import PLANNER, planner_prompt, renumbered, revision_prompt
from planctl.agent.job import End, Halt, Job, Pace
from planctl.agent.outcome import StopReason
from planctl.agent.person import Again, Go
from planctl.agent.roles import planner_role
from planctl.agent.watch import PlanChanged, WatchedStore
from planctl.change import Change
from planctl.errors import NotFound, UnfinishedPlan
from planctl.operations import Describe
from planctl.plan import Plan
from planctl.text import counted


async def plan_session(job: Job, model: Model, plan: Plan, objective: str) -> End | None:
    """Plan for the objective; `None` when there is a plan to be carried out now.

    Raises `NotFound` without an objective and `UnfinishedPlan` over open steps that nobody gave up. A planner that
    fails changes nothing: the plan, the objective and the brief become the session's together, at the end. Where the
    run is to be approved, what the planner changes after that is changed in the session.
    """
    mode = mode_of(job, plan, objective)
    planning = _Planning(job, model, plan, mode)
    start = await planning.desk.read()
    turn = await planning.ask(planner_prompt(objective, plan, mode))
    if isinstance(turn, End):
        return replace(turn, message=f'{turn.message} while planning; the plan of the session is as it was')
    written = await planning.desk.read()
    new = [step for step in written.steps if step.id not in start.index]
    emptied = planning.desk.restated and not written.steps
    if not new and not emptied:
        return End(StopReason.no_plan, 'the planner wrote no plan', turn.output)
    if not new and plan.progress.open:
        over = counted(plan.progress.open, 'open step')
        words = f'the planner wrote an empty plan over {over}; the plan is as it was'
        return End(StopReason.no_plan, words, turn.output)
    keep = mode is Mode.append and bool(plan.steps)
    if new or mode is Mode.replan:
        brief = renumbered(str(turn.output), planning.desk.renamed)
        describe = Describe() if keep else Describe(objective=objective, brief=brief)
        await _adopt(job, describe, written, plan, mode)
    if not new:
        return End(StopReason.nothing_to_do, 'the planner says that nothing has to be done', turn.output)
    if job.wanted.approve:
        planning.desk.move_to(job.store)
        return await approved(job, lambda comment: planning.again(comment, keeps_brief=keep))
    if job.wanted.plan_only:
        words = f'planned {counted(len(new), "step")}; `planctl run` carries {"it" if len(new) == 1 else "them"} out'
        return End(StopReason.planned, words, turn.output)
    return None


async def _adopt(job: Job, describe: Describe, draft: Plan, base: Plan, mode: Mode) -> None:
    """Make the draft the plan, and say which steps leave for it and which had to change their ids."""
    moved: dict[str, str] = {}
    change = await job.write(describe, adopted(draft, base, mode, moved), actor=job.planner, label='plan')
    leaving = tuple(entry for entry in change.steps if entry.after is None)
    job.record.add(replace(change, steps=leaving))
    if given_up := tuple(entry for entry in leaving if not entry.step.resolved):
        job.watch(PlanChanged(replace(change, steps=given_up)))
    if moved:
        pairs = ', '.join(f'step {old} is {new}' for old, new in moved.items())
        job.say(f'numbers were taken meanwhile: {pairs}')
        if describe.brief is not None and (brief := renumbered(describe.brief, moved)) != describe.brief:
            await job.write(Describe(brief=brief), actor=job.planner, label='plan')


async def approved(job: Job, again: Callable[[str], Awaitable[End | None]] | None) -> End | None:
    """Have a person look at the plan until they decide; `None` when it is to be carried out.

    `again` has the planner change the plan, where there is one.
    """
    assert job.person is not None
    while True:
        plan = await job.read()
        match await job.person.review(plan, can_plan=again is not None):
            case Again(comment) if again is not None:
                if (end := await again(comment)) is not None:
                    return end
            case Go() if (await job.read()).steps:
                return None
            case _:
                plan = await job.read()
                how = '`planctl run` carries it out' if plan.steps else 'it is empty'
                return End(StopReason.planned, f'the plan is kept; {how}')


class _Planning:
    """The planner at its desk, for as long as it is asked."""

    def __init__(self, job: Job, model: Model, plan: Plan, mode: Mode) -> None:
        self._job = job
        self.desk = DraftStore(plan, mode)
        agent = job.planner_agent or job.executor_agent
        self._role = planner_role(agent, WatchedStore(self.desk, self._changed), job.planner)
        if self._role.reading_only is not None:
            self._role.reading_only.tell = lambda names: job.say(f'left out while planning: {", ".join(names)}')
        draft = draft_of(plan, mode)
        self._phase = job.begin('plan', model, draft)
        self._phase.contexts = 1
        pace = Pace(job.wanted, job.wanted.planner, self._phase, draft)

        async def before_request() -> Halt | None:
            return pace.look(await self.desk.read())

        self._talk = Conversation[Halt](
            agent.agent,
            model,
            self._phase,
            limits=job.wanted.planner,
            before_request=before_request,
            watch=job.watch,
            capabilities=[*self._role.capabilities, job.approvals(self._phase)],
            instructions=PLANNER,
            # The brief is text, whatever the agent answers otherwise.
            output_type=None if agent.agent.output_type is str else str,
        )
        self._history: Sequence[ModelMessage] = ()

    async def ask(self, prompt: str | Sequence[str]) -> Turn[Halt] | End:
        """Ask the planner; a limit is an `End` without a word about what becomes of the plan."""
        try:
            turn = await self._talk.ask(prompt, self._history)
        except LimitReached as error:
            return End(StopReason.limit, str(error), limit=error.limit)
        if (halt := turn.stop) is not None:
            return End(halt.reason, halt.message, limit=halt.limit)
        self._history = turn.messages
        return turn

    async def again(self, comment: str, *, keeps_brief: bool) -> End | None:
        """Have the planner change the plan of the session; what it changed when a limit ends it stays."""
        phase = self._phase
        # A person may think for as long as they like.
        phase.started = time.monotonic() - phase.seconds
        self._job.resume(phase, await self._job.read())
        turn = await self.ask(revision_prompt(comment))
        if isinstance(turn, End):
            return replace(turn, message=f'{turn.message} while planning again; the plan is kept as it is now')
        if not keeps_brief:
            await self._job.write(Describe(brief=str(turn.output)), actor=self._job.planner, label='plan')
        return None

    def _changed(self, change: Change) -> None:
        if self.desk.is_draft:
            self._job.watch(PlanChanged(change))
        else:
            self._job.tell(change)


def mode_of(job: Job, plan: Plan, objective: str) -> Mode:
    """Return what becomes of the steps that are there. Raises `NotFound` and `UnfinishedPlan`."""
    if not objective:
        raise NotFound(
            f'session {plan.session!r} has no objective to plan for', hint='give it as a word, or - and on stdin'
        )
    if job.wanted.append:
        return Mode.append
    if job.wanted.replan:
        return Mode.replan
    if plan.progress.open:
        raise UnfinishedPlan(
            f'session {plan.session!r} has a plan with {counted(plan.progress.open, "open step")}',
            ids=[step.id for step in plan.steps if not step.resolved],
            hint='`planctl run` carries it out, --append adds to it, --replan plans its open steps again',
        )
    if plan.steps:
        count = len(plan.steps)
        leave = f'its {count} steps leave' if count > 1 else 'its step leaves'
        job.say(f'the plan that was here is finished; {leave} when the new plan is there')
    return Mode.fresh
