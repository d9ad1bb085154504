"""What the phases of one run share: the store, what is wanted, who watches, and how it can be stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planctl.agent.lease import Holder
from planctl.agent.limits import LimitName, Limits
from planctl.agent.outcome import Denied, Phase, Record, StopReason
from planctl.agent.person import Person
from planctl.agent.watch import (
    Decided,
    PhaseName,
    PhaseStarted,
    PlanChanged,
    PlanSeen,
    Said,
    WatchedStore,
    Watcher,
)
from planctl.change import Change
from planctl.core import Request, apply
from planctl.errors import LostClaim, PlanctlError, StorageError, Unsupported
from planctl.operations import Describe
from planctl.plan import Plan
from planctl.stores.base import BaseStore

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from planctl.agent.approvals import Approvals
    from planctl.agent.spec import LoadedAgent

LOOK_OUT = 1.0
"""Seconds between two looks at what others do to the plan; a look at a file that did not change costs no reading."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is to do. Each phase has limits of its own."""

    objective: str = ''
    plan_first: bool = False
    plan_only: bool = False
    append: bool = False
    replan: bool = False
    approve: bool = False
    """Whether a person is asked before the plan is carried out; the job has to have one."""
    max_nudges: int = 2
    """How often an agent that stops early, without having resolved a step, is told what is open."""
    max_idle: int = 50
    """Requests in a row without a change of the plan."""
    planner: Limits = field(default_factory=Limits)
    executor: Limits = field(default_factory=Limits)
    steps_per_context: int | None = None
    """Resolved steps after which the executor starts anew from objective, brief and plan."""
    workers: int = 1
    """Executors that work at the same time, each on a step of its own."""
    helps: bool = False
    """Whether it works on the steps of a session that another run may hold."""

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
    limit: LimitName | None = None


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
    executor_agent: LoadedAgent
    wanted: Wanted
    watch: Watcher
    planner_agent: LoadedAgent | None = None
    """The agent that plans, where it is another one than the executor."""
    person: Person | None = None
    """Who can be asked, where there is somebody."""
    where: str = ''
    """Which agents, store and session this is: the first thing that is said, but not before something is."""
    holder: Holder = field(default_factory=Holder.here)
    phases: list[Phase] = field(default_factory=list[Phase])
    record: Record = field(default_factory=Record)
    denied: list[Denied] = field(default_factory=list[Denied])
    _described: Describe | None = None
    """Objective and brief, where the store cannot keep them."""
    _introduced: bool = False
    _shown: int = -1
    """The last revision that the watcher knows."""
    _plan: Plan = field(default_factory=Plan)
    """The plan as it was read or written last."""
    _working: WatchedStore | None = None

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
        known, working = self._shown, self._working
        plan = await self.store.read()
        if self._described is not None:
            plan = replace(
                plan, objective=self._described.objective or plan.objective, brief=self._described.brief or plan.brief
            )
        # What was written meanwhile by this run itself is told by whoever wrote it.
        if self._shown == known and self._working == working and not self._is_writing:
            if known not in (-1, plan.revision):
                self.watch(PlanSeen(plan))
            self._shown = plan.revision
        self._plan = plan
        return plan

    def require_session(self, plan: Plan) -> None:
        """Raise `LostClaim` when the session is no longer this run's: its time was over, or its file is another now."""
        if plan.owner != str(self.holder):
            other = Holder.parse(plan.owner or '')
            who = other.described if other is not None else plan.owner or 'nobody'
            raise LostClaim(f'this run has lost session {plan.session!r}; it is held by {who}')

    async def read_last(self, end: End) -> tuple[End, Plan]:
        """Return the plan that a run came to. Of a store that cannot be read any more, how it was and that error."""
        try:
            return end, await self.read()
        except PlanctlError as error:
            # What was known may be old: it is no proof that the plan is finished.
            failed = end if end.error is not None else End(StopReason.error, error.message, end.output, error)
            return failed, self._plan

    async def look_out(self) -> None:
        """Tell the watcher of what others change, soon after, until cancelled. A store that fails is asked again."""
        while True:
            await asyncio.sleep(LOOK_OUT)
            with suppress(StorageError):
                await self.read()

    def working_store(self) -> WatchedStore:
        """Return the store for the executor: what it changes is taken down and told."""
        self._working = WatchedStore(self.store, self.changed)
        return self._working

    def approvals(self, phase: Phase) -> Approvals:
        """Return what decides on tools that need approval in a phase; what was denied is taken down."""
        from planctl.agent.approvals import Approvals

        def decided(event: Decided) -> None:
            if not event.allowed:
                self.denied.append(Denied(event.name, event.arguments, event.asked))
            self.watch(event)

        return Approvals(person=self.person, phase=phase, decided=decided)

    @property
    def _is_writing(self) -> bool:
        return self._working is not None and self._working.busy > 0

    async def write(self, describe: Describe, *requests: Request, actor: str, label: str) -> Change:
        """Apply the requests in one transaction; a store that keeps steps alone gets the rest kept here."""
        try:
            change = await apply(self.store, describe, *requests, actor=actor, label=label)
        except Unsupported:
            self._described = describe
            self.say('this store keeps neither objective nor brief: they last as long as this run')
            change = await apply(self.store, *requests, actor=actor, label=label)
        self._shown, self._plan = change.after.revision, change.after
        return change

    def begin(self, name: PhaseName, model: Model, plan: Plan) -> Phase:
        """Open a phase."""
        self.introduce()
        phase = Phase(name, model.model_name)
        self.phases.append(phase)
        self.watch(PhaseStarted(name, phase.model, plan))
        return phase

    def resume(self, phase: Phase, plan: Plan) -> None:
        """Go on with a phase."""
        self.watch(PhaseStarted('plan' if phase.name == 'plan' else 'execute', phase.model, plan))

    def changed(self, change: Change) -> None:
        """Take down and tell what the executor changed."""
        self.record.add(change)
        self.tell(change)

    def tell(self, change: Change) -> None:
        """Tell the watcher of a change that an agent of this run stored."""
        if self._shown not in (-1, change.before.revision):
            self.watch(PlanSeen(change.before))
        self._shown, self._plan = change.after.revision, change.after
        self.watch(PlanChanged(change))

    def gave_back(self, change: Change) -> None:
        """Tell the watcher what the run itself left behind, where that is anything."""
        if change.steps and self._shown != -1:
            self.tell(change)

    def introduce(self) -> None:
        """Say where this is, unless it was said."""
        if self.where and not self._introduced:
            self.watch(Said(self.where))
        self._introduced = True

    def say(self, text: str) -> None:
        """Tell the watcher something."""
        self.introduce()
        self.watch(Said(text))


@dataclass(frozen=True, slots=True)
class Halt:
    """Why the next request must not be made."""

    reason: StopReason
    message: str
    limit: LimitName | None = None


def _state_of(plan: Plan) -> int:
    return hash(tuple((step.id, step.fingerprint) for step in plan.steps))


class Pace:
    """Decides, before each request of a phase, whether it has asked too often or for nothing."""

    def __init__(self, wanted: Wanted, limits: Limits, phase: Phase, plan: Plan) -> None:
        self._max_idle = wanted.max_idle
        self._limits = limits
        self._phase = phase
        self._plan = plan
        self._known = {_state_of(plan)}
        self._changed_at = 0

    def look(self, plan: Plan) -> Halt | None:
        """Return why the next request must not be made, or `None`."""
        phase = self._phase
        if plan.revision != self._plan.revision or plan.steps != self._plan.steps:
            # A state that the plan was in before is no progress, however often it comes back.
            state = _state_of(plan)
            if state not in self._known:
                self._known.add(state)
                self._changed_at = phase.requests
        self._plan = plan
        tokens = phase.input_tokens + phase.output_tokens
        limit = self._limits.reached(requests=phase.requests, tokens=tokens, cost=phase.cost)
        if limit is not None:
            words = self._limits.words(limit, planning=phase.name == 'plan')
            return Halt(StopReason.limit, words, limit)
        if phase.requests - self._changed_at >= self._max_idle:
            return Halt(StopReason.stalled, f'the plan did not change in {self._max_idle} requests (--max-idle)')
        return None
