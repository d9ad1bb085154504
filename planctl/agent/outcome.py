"""How a run can end, what that means for its exit status, and its final document. Pure; the plan decides, not words."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

from planctl.agent.limits import LimitName
from planctl.change import Change
from planctl.errors import PlanctlError
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import available
from planctl.text import waits_for


class StopReason(str, Enum):
    """Why a run ended; the exit status of each is in `STATUS`."""

    finished = 'finished'
    planned = 'planned'
    nothing_to_do = 'nothing_to_do'
    answered = 'answered'
    stopped_early = 'stopped_early'
    stalled = 'stalled'
    waiting = 'waiting'
    abandoned = 'abandoned'
    limit = 'limit'
    no_plan = 'no_plan'
    error = 'error'
    interrupted = 'interrupted'
    terminated = 'terminated'
    hung_up = 'hung_up'


UNFINISHED = 6
STATUS = {
    StopReason.finished: 0,
    StopReason.planned: 0,
    StopReason.nothing_to_do: 0,
    StopReason.answered: 0,
    StopReason.stopped_early: UNFINISHED,
    StopReason.stalled: UNFINISHED,
    StopReason.waiting: UNFINISHED,
    StopReason.abandoned: UNFINISHED,
    StopReason.limit: UNFINISHED,
    StopReason.no_plan: UNFINISHED,
    StopReason.interrupted: 130,
    StopReason.terminated: 143,
    StopReason.hung_up: 129,
}
"""Exit statuses; `error` has the one of its error."""


@dataclass(slots=True)
class Phase:
    """What one phase used. Times in seconds, tokens as the provider counts them."""

    name: str
    model: str
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    contexts: int = 0
    cost: Decimal | None = None
    """US dollars; `None` when no price is known."""
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)
    stopped: float | None = None
    """Since when its clock stands still."""

    @property
    def clock(self) -> float:
        """The seconds that it has taken so far."""
        return (time.monotonic() if self.stopped is None else self.stopped) - self.started

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Let the block take no time of the phase: a person may think for as long as they like."""
        self.stopped = time.monotonic()
        try:
            yield
        finally:
            self.started += time.monotonic() - self.stopped
            self.stopped = None

    def document(self) -> dict[str, Any]:
        """Return the phase for the final document."""
        kept = {name: value for name, value in asdict(self).items() if name not in ('started', 'stopped')}
        return kept | {'seconds': round(self.seconds, 3), 'cost': number(self.cost)}


@dataclass(slots=True)
class Record:
    """What the run did to the plan, kept as it happens, in that order. What still holds, the plan says."""

    completed: dict[str, None] = field(default_factory=dict[str, None])
    cancelled: dict[str, None] = field(default_factory=dict[str, None])
    removed: dict[str, Step] = field(default_factory=dict[str, Step])

    def add(self, change: Change) -> None:
        """Take down one change."""
        for entry in change.steps:
            step = entry.step
            if entry.after is None:
                self.removed[step.id] = step
            elif step.status is TaskStatus.completed and (entry.before is None or entry.status_changed):
                self.completed[step.id] = None
            elif step.status is TaskStatus.cancelled and (entry.before is None or entry.status_changed):
                self.cancelled[step.id] = None


@dataclass(frozen=True, slots=True)
class Denied:
    """A call that was not made, because nobody approved it."""

    tool: str
    arguments: str
    asked: bool
    """Whether a person said no; else there was nobody to ask."""


@dataclass(slots=True)
class Result:
    """The end of a run."""

    stop_reason: StopReason
    plan: Plan
    phases: Sequence[Phase] = ()
    record: Record = field(default_factory=Record)
    output: Any = None
    message: str = ''
    """What the stop reason means here, in one line for people."""
    limit: LimitName | None = None
    """Which limit ended the run, when one did."""
    denied: Sequence[Denied] = ()
    """The calls of tools that need approval and did not get it."""
    error: PlanctlError | None = None

    @property
    def text(self) -> str:
        """The last answer as text: as it is, or as JSON when the agent answers with a structure."""
        import json

        if self.output is None or isinstance(self.output, str):
            return self.output or ''
        return json.dumps(_jsonable(self.output), ensure_ascii=False)

    def document(self) -> dict[str, Any]:
        """Return the final document of `planctl run --json`."""
        plan, record = self.plan, self.record
        now_resolved = {step.id: step.status for step in plan.steps if step.resolved}
        document: dict[str, Any] = {
            'schema': 1,
            'kind': 'run',
            'stop_reason': self.stop_reason.value,
            'limit': self.limit,
            'message': self.message,
            'session': plan.session,
            'revision': plan.revision,
            'objective': plan.objective,
            'phases': [phase.document() for phase in self.phases],
            'usage': self._usage(),
            'counts': counts(plan),
            'completed': _listed(plan, (i for i in record.completed if now_resolved.get(i) is TaskStatus.completed)),
            'cancelled': _listed(plan, (i for i in record.cancelled if now_resolved.get(i) is TaskStatus.cancelled)),
            'removed': [_short(step) for step in record.removed.values() if plan.get(step.id) is None],
            'open': [_short(step) | {'waits_for': waits_for(plan, step)} for step in plan.steps if not step.resolved],
            'denied': [asdict(each) for each in self.denied],
            'output': _jsonable(self.output),
        }
        if self.error is not None:
            document['error'] = {'code': self.error.code, 'message': self.error.message}
        return document

    def _usage(self) -> dict[str, Any]:
        names = ('requests', 'input_tokens', 'output_tokens')
        costs = [phase.cost for phase in self.phases if phase.cost is not None]
        return {
            **{name: sum(getattr(phase, name) for phase in self.phases) for name in names},
            'cost': number(sum(costs, Decimal(0))) if costs else None,
            'seconds': round(sum(phase.seconds for phase in self.phases), 3),
        }


def number(cost: Decimal | None) -> float | None:
    """Return a cost as JSON has it."""
    return None if cost is None else float(round(cost, 6))


def _jsonable(output: Any) -> Any:
    if output is None or isinstance(output, str):
        return output
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(output, serialize_unknown=True)


def counts(plan: Plan) -> dict[str, int]:
    """Return how many steps stand where."""
    progress = plan.progress
    names = ('total', 'open', 'resolved', 'pending', 'in_progress', 'blocked', 'completed', 'cancelled')
    return {name: getattr(progress, name) for name in names}


def _listed(plan: Plan, ids: Iterable[str]) -> list[dict[str, Any]]:
    return [_short(plan.step(step_id)) for step_id in ids]


def _short(step: Step) -> dict[str, Any]:
    return {'id': step.id, 'content': step.content, 'status': step.status.value, 'note': step.note}


def settled(plan: Plan, actor: str, now: float) -> StopReason | None:
    """Return why nothing can be done on this plan any more, or `None` while a step can be worked on.

    An empty plan is not settled: whoever asks knows whether there should be one.
    """
    progress = plan.progress
    if progress.finished:
        return StopReason.finished
    if progress.abandoned:
        return StopReason.abandoned
    if progress.open and not any(not ready.open_children for ready in available(plan, actor, now)):
        return StopReason.waiting
    return None
