"""What a run would be, found out without a request: which phases, which models, which tools each role is offered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel

from planctl.agent.adoption import DraftStore, Mode
from planctl.agent.at_once import AtOnce
from planctl.agent.executor import over_already, prepare, require_approvable
from planctl.agent.handover import EXECUTOR, PLANNER, WORKER
from planctl.agent.job import End, Job
from planctl.agent.lease import session_lease
from planctl.agent.models import in_words
from planctl.agent.planner import mode_of
from planctl.agent.roles import Role, executor_role, planner_role, worker_role
from planctl.agent.spec import LoadedAgent
from planctl.agent.toolset import plan_tool
from planctl.change import Change
from planctl.errors import NotFound, PlanctlError, SpecError
from planctl.plan import Plan
from planctl.stores.memory import InMemoryPlanStore
from planctl.text import counted


@dataclass(frozen=True, slots=True)
class Offer:
    """One role: its agent, its model, and the tools of its first request."""

    role: str
    agent: str
    model: str
    plan_tools: Sequence[str]
    tools: Sequence[str]
    native: Sequence[str] = ()
    """What the provider itself does."""
    left_out: Sequence[str] = ()
    """What the agent has and a planner is not offered."""

    def document(self) -> dict[str, Any]:
        """Return the role for `--json`."""
        names = ('role', 'agent', 'model', 'plan_tools', 'tools', 'native', 'left_out')
        return {name: value if isinstance(value := getattr(self, name), str) else list(value) for name in names}


async def offers(job: Job, planner: Model | None, executor: Model | None) -> list[Offer]:
    """Return what each role that the run has would be offered. The agent is set up as for a run; nothing is asked.

    Raises `SpecError` for an agent that cannot be set up.
    """
    found: list[Offer] = []
    plan = await job.read()
    if job.wanted.plans and planner is not None:
        loaded = job.planner_agent or job.executor_agent
        role = planner_role(loaded, DraftStore(plan, Mode.fresh), job.planner)
        found.append(await _offer('planner', loaded, planner, role, PLANNER))
    if executor is not None:
        loaded, store = job.executor_agent, await _copy(plan)
        several = job.wanted.workers > 1 or job.wanted.helps
        role = worker_role(loaded, store, job.executor, '1') if several else executor_role(loaded, store, job.executor)
        found.append(await _offer('executor', loaded, executor, role, WORKER if several else EXECUTOR))
    return found


async def would(job: Job, planner: Model | None, executor: Model | None) -> End | str:
    """Return what the run would do, or how it would end without having asked anything.

    Raises what the run would be refused with. What the beginning of a run writes, it writes into a copy here.
    """
    plan = await job.read()
    objective = job.wanted.objective or plan.objective
    if not plan.steps and not objective:
        raise NotFound(f'session {plan.session!r} has no plan, and no objective was given')
    if job.wanted.helps:
        assert executor is not None
        return f'take steps of {plan.progress.open} open ones, with {executor.model_name} ({workers_of(job)})'
    copy = replace(job, store=await _copy(plan), phases=[], watch=_ignore)
    workers = workers_of(job)
    async with session_lease(copy.store, job.holder, lost=_ignore, taken=_ignore):
        if job.wanted.plans:
            assert planner is not None
            how = {Mode.fresh: 'plan', Mode.append: 'add to the plan', Mode.replan: 'plan the open steps again'}
            then = f', then carry it out with {executor.model_name} ({workers})' if executor is not None else ''
            return f'{how[mode_of(copy, plan, objective)]} with {planner.model_name}{then}'
        assert executor is not None
        require_approvable(job, plan)
        end = await prepare(copy, plan, objective)
        if end is None and plan.steps:
            end = over_already(copy, plan)
        if end is not None:
            return end
    if not plan.progress.open:
        return f'carry out the objective with {executor.model_name} (one executor, which may plan)'
    return f'carry out {counted(plan.progress.open, "open step")} with {executor.model_name} ({workers})'


def workers_of(job: Job) -> str:
    """Return in words how many executors there are."""
    return f'{job.wanted.workers} workers' if job.wanted.workers > 1 else 'one executor'


def _ignore(_: object) -> None:
    pass


async def _copy(plan: Plan) -> InMemoryPlanStore:
    """Return a store of the plan that goes no further than this process."""
    store = InMemoryPlanStore(session=plan.session)
    await store.update(lambda empty: Change(empty, plan), actor='', label='copy', now=time.time())
    return store


async def _offer(name: str, loaded: LoadedAgent, model: Model, role: Role, instructions: str) -> Offer:
    try:
        await loaded.agent.run(
            'What would be offered?',
            model=_Silent(model),
            capabilities=role.capabilities,
            instructions=instructions,
            infer_name=False,
        )
    except _Asked as asked:
        offered = asked.parameters
    except PlanctlError:
        raise
    except Exception as error:
        raise SpecError(f'{loaded.label}: {in_words(error)}') from error
    else:
        return Offer(name, loaded.label, model.model_name, (), ())
    return Offer(
        name,
        loaded.label,
        model.model_name,
        [tool.name for tool in offered.function_tools if plan_tool(tool) is not None],
        [tool.name for tool in offered.function_tools if plan_tool(tool) is None],
        [tool.kind for tool in offered.native_tools],
        role.left_out,
    )


class _Asked(Exception):
    """What the first request would have been."""

    def __init__(self, parameters: ModelRequestParameters) -> None:
        super().__init__('asked')
        self.parameters = parameters


class _Silent(AtOnce, WrapperModel):
    """Takes the first request, and asks nobody."""

    async def answer(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        raise _Asked(model_request_parameters)
