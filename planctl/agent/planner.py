"""The planning phase: the agent writes a draft, and the draft becomes the session's plan in one transaction."""

from __future__ import annotations

from pydantic_ai.models import Model

from planctl.agent.adoption import DraftStore, Mode, adopted
from planctl.agent.conversation import Conversation
from planctl.agent.handover import PLANNER, planner_prompt
from planctl.agent.job import End, Job, Pace
from planctl.agent.outcome import StopReason
from planctl.agent.roles import planner_role
from planctl.agent.watch import PlanChanged, WatchedStore
from planctl.errors import NotFound, UnfinishedPlan
from planctl.operations import Describe
from planctl.plan import Plan


async def plan_session(job: Job, model: Model, plan: Plan, objective: str) -> End | None:
    """Plan for the objective; `None` when there is a plan to be carried out now.

    Raises `NotFound` without an objective and `UnfinishedPlan` over open steps that nobody gave up. A planner that
    fails changes nothing: the plan, the objective and the brief become the session's together, at the end.
    """
    mode = _mode(job, plan, objective)
    draft = DraftStore(plan, mode)
    role = planner_role(job.loaded, WatchedStore(draft, lambda change: job.watch(PlanChanged(change))), job.planner)
    start = await draft.read()
    phase = job.begin('plan', model, start)
    pace = Pace(job.wanted, phase, start)

    async def before_request() -> StopReason | None:
        return pace.look(await draft.read())

    talk = Conversation[StopReason](
        job.loaded.agent,
        model,
        phase,
        before_request=before_request,
        watch=job.watch,
        capabilities=role.capabilities,
        instructions=PLANNER,
        # The brief is text, whatever the agent answers otherwise.
        output_type=None if job.loaded.agent.output_type is str else str,
    )
    phase.contexts = 1
    turn = await talk.ask(planner_prompt(objective, plan, mode))
    if left_out := ', '.join(role.left_out):
        job.say(f'left out while planning: {left_out}')
    if turn.stop is not None:
        return End(turn.stop, f'{pace.words(turn.stop)} while planning; the plan of the session is as it was')

    written = await draft.read()
    new = [step for step in written.steps if step.id not in start.index]
    emptied = draft.restated and not written.steps
    if not new and not emptied:
        return End(StopReason.no_plan, 'the planner wrote no plan', turn.output)
    if new or mode is Mode.replan:
        keep = mode is Mode.append and bool(plan.steps)
        describe = Describe() if keep else Describe(objective=objective, brief=str(turn.output))
        await job.write(describe, adopted(written, plan, mode), actor=job.planner, label='plan')
    if not new:
        return End(StopReason.nothing_to_do, 'the planner says that nothing has to be done', turn.output)
    if job.wanted.plan_only:
        return End(StopReason.planned, f'planned {len(new)} steps; `planctl run` carries them out', turn.output)
    return None


def _mode(job: Job, plan: Plan, objective: str) -> Mode:
    if not objective:
        raise NotFound(f'session {plan.session!r} has no objective to plan for')
    if job.wanted.append:
        return Mode.append
    if job.wanted.replan:
        return Mode.replan
    if plan.progress.open:
        raise UnfinishedPlan(
            f'session {plan.session!r} has a plan with {plan.progress.open} open steps',
            ids=[step.id for step in plan.steps if not step.resolved],
            hint='`planctl run` carries it out, --append adds to it, --replan plans its open steps again',
        )
    if plan.steps:
        job.say(f'the plan that was here is finished; its {len(plan.steps)} steps leave when the new plan is there')
    return Mode.fresh
