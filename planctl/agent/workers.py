"""Several executors on one plan: each claims a step, works on it in a fresh context, and claims the next. No scheduler.

Who works on what is decided by claims alone, in the store, so that workers of other processes are no other case.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import Model
from pydantic_ai.usage import RunUsage

from planctl.agent.conversation import ContextLost, Conversation, FreshStarts, LimitReached
from planctl.agent.executor import broken_off, describe_end, left
from planctl.agent.handover import WORKER, worker_nudge, worker_prompt
from planctl.agent.job import End, Halt, Job, Pace
from planctl.agent.lease import EVERY, INTERRUPTED, SECONDS
from planctl.agent.outcome import StopReason, settled
from planctl.agent.own_step import OwnStepStore
from planctl.agent.rehearsal import step_thread, threaded
from planctl.agent.roles import worker_role
from planctl.agent.waiting import are_at_work, pause
from planctl.agent.watch import AT_WORK
from planctl.change import Change
from planctl.claims import session_held
from planctl.core import apply
from planctl.errors import LostClaim, ModelError, NoneAvailable, StepNotFound, StorageError
from planctl.operations import Claim, Release, Renew
from planctl.plan import Plan
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore, EditFunction

STOPPED_EARLY = 'the agent stopped without saying what has become of it'
"""The note of a step that was given back because its worker did not go on with it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """How long a step stays held without a renewal, and how often it is renewed, in seconds."""

    seconds: float = SECONDS
    every: float = EVERY


async def carry_out_together(job: Job, model: Model, count: int, lease: Lease | None = None) -> End:
    """Have `count` executors work on the plan until nothing is left for them, and return why.

    They share the limits of the phase and one view; a step that one of them holds when it ends is pending again.
    """
    plan = await job.read()
    reason = settled(plan, job.executor, time.time())
    if reason not in (None, StopReason.waiting):
        return End(reason, describe_end(reason, plan))
    looking = asyncio.create_task(job.look_out())
    try:
        return await _Crew(job, model, count, plan, lease or Lease()).work()
    except (ModelError, LimitReached) as error:
        return await broken_off(job, error)
    finally:
        looking.cancel()


class _Over:
    """The step is no longer the worker's."""


class _Shared(StoreWrapper):
    """The store of all workers: one writes after the other, and each change wakes those that wait for one.

    Two writes that come back in another order than they were stored in would be told in that order.
    """

    def __init__(self, store: BaseStore) -> None:
        super().__init__(store)
        self._turn = asyncio.Lock()
        self._waiting: set[asyncio.Event] = set()

    @contextmanager
    def news(self) -> Generator[asyncio.Event]:
        """Yield what is set at each change."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            yield event
        finally:
            self._waiting.discard(event)

    def wake(self) -> None:
        """Wake those that wait."""
        for event in self._waiting:
            event.set()

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Do what the wrapped store does, when it is one's turn."""
        async with self._turn:
            change = await super().update(edit, actor=actor, label=label, now=now, key=key)
        if change.changed:
            self.wake()
        return change


class _Crew:
    """The workers of one process, and what they share."""

    def __init__(self, job: Job, model: Model, count: int, plan: Plan, lease: Lease) -> None:
        self._job = job
        self._model = model
        self._count = count
        self._lease = lease
        self._store = _Shared(job.working_store())
        self._phase = job.begin('execute', model, plan)
        # Each of them may look around for as long as one alone may.
        wanted = replace(job.wanted, max_idle=job.wanted.max_idle * count)
        self._pace = Pace(wanted, wanted.executor, self._phase, _without_leases(plan))
        self._usage = RunUsage()
        self._approvals = job.approvals(self._phase)
        self._given_up: dict[str, None] = {}
        self._end: End | None = None

    async def work(self) -> End:
        """Let all of them work until each has nothing to do, one fails, or a limit ends it for all."""
        workers = [asyncio.create_task(self._worker(at + 1)) for at in range(self._count)]
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for worker in workers:
                worker.cancel()
            # What they hold they give back themselves.
            results = await asyncio.gather(*workers, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
        return await self._came_to()

    async def _came_to(self) -> End:
        plan = await self._job.read()
        reason = settled(plan, self._job.executor, time.time())
        if self._end is not None and reason is not StopReason.finished:
            return self._end
        if reason is None and not plan.steps:
            reason = StopReason.abandoned
        if reason is StopReason.finished or reason is StopReason.abandoned:
            return End(reason, describe_end(reason, plan))
        if self._given_up:
            ids = ' and '.join(self._given_up)
            return End(StopReason.stopped_early, f'the agent stopped early on step {ids}; {left(plan)}')
        return End(StopReason.waiting, describe_end(StopReason.waiting, plan))

    async def _worker(self, number: int) -> None:
        owner = self._job.holder.worker(number)
        if self._count > 1:
            AT_WORK.set(number)
        try:
            while self._end is None and (step_id := await self._take(owner)) is not None:
                await self._work_on(step_id, owner)
        except asyncio.CancelledError:
            # A claim that nobody waited for any more may have been stored all the same.
            await apply(self._store, Release(owner, note=INTERRUPTED), actor=owner, label='release')
            raise

    async def _take(self, owner: str) -> str | None:
        """Claim the next step, waiting for one as long as others hold steps; `None` when none will come."""
        with self._store.news() as news:
            while self._end is None:
                news.clear()
                claim = Claim(owner, self._lease.seconds, but=tuple(self._given_up))
                try:
                    change = await apply(self._store, claim, actor=owner, label='claim')
                except NoneAvailable:
                    plan = await self._job.read()
                    if not _is_more_to_come(plan, time.time()):
                        return None
                    with suppress(TimeoutError):
                        # `wait_for` of Python 3.11 loses a cancellation that comes together with the news.
                        async with asyncio.timeout(pause(plan, self._job.wanted.executor, self._phase)):
                            await news.wait()
                else:
                    return next(remark.ids[0] for remark in change.remarks if remark.code == 'claimed')
        return None

    def _stop(self, end: End) -> None:
        self._end = self._end or end
        self._store.wake()

    # --- One step -----------------------------------------------------------------------------------------------

    async def _work_on(self, step_id: str, owner: str) -> None:
        store = OwnStepStore(self._store, owner, step_id)
        talking = asyncio.create_task(self._talk(step_id, owner, store))
        renewing = asyncio.create_task(self._renew(step_id, owner, store))
        note = INTERRUPTED
        try:
            await asyncio.wait((talking, renewing), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                note = talking.result()
            else:
                renewing.result()
                self._job.say(f'step {step_id} took longer than its lease, and is for others now')
        finally:
            for task in (talking, renewing):
                task.cancel()
            await asyncio.gather(talking, renewing, return_exceptions=True)
            if not store.done:
                await apply(self._store, Release(owner, note=note), actor=owner, label='release')

    async def _renew(self, step_id: str, owner: str, store: OwnStepStore) -> None:
        """Renew the claim; returns when it is lost. A store that fails is asked again until the lease has ended."""
        kept_until = time.monotonic() + self._lease.seconds
        while True:
            await asyncio.sleep(self._lease.every)
            asked = time.monotonic()
            try:
                renewal = Renew(owner, self._lease.seconds, step_id)
                await apply(self._store, renewal, actor=owner, label='renew')
            except (LostClaim, StepNotFound):
                if not store.done:
                    return
            except StorageError:
                if time.monotonic() > kept_until:
                    raise
            else:
                kept_until = asked + self._lease.seconds

    async def _talk(self, step_id: str, owner: str, store: OwnStepStore) -> str:
        """Have the agent work on the step; return the note for a step that it leaves in progress."""
        job = self._job
        plan = await job.read()
        step = plan.get(step_id)
        if step is None or step.owner != owner:
            return INTERRUPTED
        parts = _parts(plan, step_id)
        role = worker_role(job.executor_agent, store, owner, step_id)

        async def before_request() -> Halt | _Over | None:
            plan = await job.read()
            current = plan.get(step_id)
            if store.done or current is None or current.owner != owner:
                return _Over()
            return self._pace.look(_without_leases(plan))

        talk = Conversation[Halt | _Over](
            job.executor_agent.agent,
            threaded(self._model, step_thread(step_id)),
            self._phase,
            limits=job.wanted.executor,
            before_request=before_request,
            watch=job.watch,
            capabilities=[*role.capabilities, self._approvals],
            instructions=WORKER,
            usage=self._usage,
        )
        self._phase.contexts += 1
        prompt, history = worker_prompt(plan, step), _NOTHING
        nudges, starts = 0, FreshStarts(job.wanted.executor.retries)
        while True:
            try:
                turn = await talk.ask(prompt, history)
            except ContextLost as error:
                await starts.after(error, fresh=not history)
                self._phase.contexts += 1
                prompt, history = worker_prompt(await job.read(), step), _NOTHING
                continue
            starts.went_well()
            if isinstance(turn.stop, Halt):
                halt = turn.stop
                self._stop(End(halt.reason, f'{halt.message}; {left(await job.read())}', limit=halt.limit))
                return INTERRUPTED
            if turn.stop is not None or store.done or await self._is_split(step_id, parts):
                return ''
            if nudges >= job.wanted.max_nudges:
                self._given_up[step_id] = None
                job.say(f'the agent stopped early on step {step_id}')
                return STOPPED_EARLY
            nudges += 1
            job.say(f'the agent stopped with step {step_id} in progress and is told so')
            prompt, history = worker_nudge(step), turn.messages

    async def _is_split(self, step_id: str, parts: set[str]) -> bool:
        """Whether the step became several meanwhile, which come first; others may have done some of them by now."""
        return not _parts(await self._job.read(), step_id) <= parts


def _parts(plan: Plan, step_id: str) -> set[str]:
    return {step.id for step in plan.steps if step.parent_id == step_id}


_NOTHING: Sequence[ModelMessage] = ()


def _is_more_to_come(plan: Plan, now: float) -> bool:
    """Whether others are at work: on steps, or still on the plan."""
    return are_at_work(plan, now) or (session_held(plan, now) and not plan.steps)


def _without_leases(plan: Plan) -> Plan:
    """Return the plan as far as work on it shows: who holds a step until when is no progress."""
    steps = tuple(replace(step, owner=None, lease=None, started_at=None) for step in plan.steps)
    return replace(plan, revision=0, steps=steps, owner=None, lease=None)
