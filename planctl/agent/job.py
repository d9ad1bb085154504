"""What the phases of one run share: the store, what is wanted, who watches, and how it can be stopped."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planctl.agent.lease import Holder
from planctl.agent.outcome import Phase, Record, StopReason
from planctl.agent.watch import PhaseName, PhaseStarted, PlanChanged, PlanSeen, Said, Watcher
from planctl.change import Change
from planctl.core import Request, apply
from planctl.errors import PlanctlError, Unsupported
from planctl.operations import Describe
from planctl.plan import Plan
from planctl.stores.base import BaseStore

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from planctl.agent.spec import LoadedAgent


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is to do. Limits count for each phase by itself; `None` is no limit."""

    objective: str = ''
    plan_first: bool = False
    plan_only: bool = False
    append: bool = False
    replan: bool = False
    max_nudges: int = 2
    """How often an agent that stops early, without having resolved a step, is told what is open."""
    max_idle: int = 50
    """Requests in a row without a change of the plan."""
    max_requests: int | None = None
    steps_per_context: int | None = None
    """Resolved steps after which the executor starts anew from objective, brief and plan."""

    @property
    def plans(self) -> bool:
        """Whether there is a planning phase."""
        return self.plan_first or self.plan_only or self.append or self.replan


@dataclass(frozen=True, slots=True)
class End:
    """What a run came to, before the plan is read for the last time."""

    reason: StopReason
    message: str
    output: Any = None
    error: PlanctlError | None = None


class Stop:
    """Ends a run from outside: a signal, or a lease that is lost. The first reason counts."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.error: PlanctlError | None = None
        self._task: asyncio.Task[Any] | None = None

    def bind(self) -> None:
        """Let this stop cancel the current task, at once when it was requested before."""
        self._task = asyncio.current_task()
        if self.reason is not None and self._task is not None:
            self._task.cancel()

    def unbind(self) -> None:
        """From here on a request cancels nothing: what is left has to be done in any case."""
        self._task = None

    def request(self, reason: StopReason, error: PlanctlError | None = None) -> None:
        """End the run."""
        if self.reason is None:
            self.reason, self.error = reason, error
            if self._task is not None:
                self._task.cancel()


@dataclass(slots=True)
class Job:
    """One run, as its phases see it."""

    store: BaseStore
    loaded: LoadedAgent
    wanted: Wanted
    watch: Watcher
    where: str = ''
    """Which agent, store and session this is: the first thing that is said, but not before something is."""
    holder: Holder = field(default_factory=Holder.here)
    phases: list[Phase] = field(default_factory=list[Phase])
    record: Record = field(default_factory=Record)
    _described: Describe | None = None
    """Objective and brief, where the store cannot keep them."""
    _introduced: bool = False
    _shown: int = -1
    """The last revision that the watcher knows."""

    @property
    def planner(self) -> str:
        """The name under which the planner writes."""
        return self.holder.actors[0]

    @property
    def executor(self) -> str:
        """The name under which the executor writes."""
        return self.holder.actors[1]

    async def read(self) -> Plan:
        """Return the plan; the watcher is told of what others changed."""
        plan = await self.store.read()
        if self._described is not None:
            plan = replace(
                plan, objective=self._described.objective or plan.objective, brief=self._described.brief or plan.brief
            )
        if self._shown not in (-1, plan.revision):
            self.watch(PlanSeen(plan))
        self._shown = plan.revision
        return plan

    async def write(self, describe: Describe, *requests: Request, actor: str, label: str) -> None:
        """Apply the requests in one transaction; a store that keeps steps alone gets the rest kept here."""
        try:
            change = await apply(self.store, describe, *requests, actor=actor, label=label)
        except Unsupported:
            self._described = describe
            self.say('this store keeps neither objective nor brief: they last as long as this run')
            change = await apply(self.store, *requests, actor=actor, label=label)
        self._shown = change.after.revision

    def begin(self, name: PhaseName, model: Model, plan: Plan) -> Phase:
        """Open a phase."""
        self.introduce()
        phase = Phase(name, model.model_name)
        self.phases.append(phase)
        self.watch(PhaseStarted(name, phase.model, plan))
        return phase

    def changed(self, change: Change) -> None:
        """Take down what the executor changed."""
        self.record.add(change)
        if self._shown not in (-1, change.before.revision):
            self.watch(PlanSeen(change.before))
        self._shown = change.after.revision
        self.watch(PlanChanged(change))

    def introduce(self) -> None:
        """Say where this is, unless it was said."""
        if self.where and not self._introduced:
            self.watch(Said(self.where))
        self._introduced = True

    def say(self, text: str) -> None:
        """Tell the watcher something."""
        self.introduce()
        self.watch(Said(text))


class Pace:
    """Decides, before each request of a phase, whether it has asked too often or for nothing."""

    def __init__(self, wanted: Wanted, phase: Phase, plan: Plan) -> None:
        self._wanted = wanted
        self._phase = phase
        self._plan = plan
        self._changed_at = 0

    def look(self, plan: Plan) -> StopReason | None:
        """Return why the next request must not be made, or `None`."""
        if plan.revision != self._plan.revision or plan.steps != self._plan.steps:
            self._changed_at = self._phase.requests
        self._plan = plan
        if self._phase.requests == self._wanted.max_requests:
            return StopReason.limit
        if self._phase.requests - self._changed_at >= self._wanted.max_idle:
            return StopReason.stalled
        return None

    def words(self, reason: StopReason) -> str:
        """Return what a reason of `look` means, with the option that sets it."""
        if reason is StopReason.limit:
            return f'the limit of {self._wanted.max_requests} requests was reached (--max-requests)'
        return f'the plan did not change in {self._wanted.max_idle} requests (--max-idle)'
