"""Short words for plans and operations, for the tests of the rules."""

from __future__ import annotations

from typing import Any

from planctl.change import Change
from planctl.operations import Operation, SetStatus
from planctl.plan import Plan, Step, TaskStatus
from planctl.rules import apply

NOW = 1_000.0

WORDS = {
    'start': TaskStatus.in_progress,
    'done': TaskStatus.completed,
    'cancel': TaskStatus.cancelled,
    'block': TaskStatus.blocked,
    'reopen': TaskStatus.pending,
}


def step(step_id: str, status: str = 'pending', on: str = '', under: str | None = None, **more: Any) -> Step:
    """Return a step whose text is its id in capitals; `on` lists the ids that it waits for."""
    fields: dict[str, Any] = {'content': step_id.upper(), 'depends_on': tuple(on.split()), 'parent_id': under} | more
    return Step(step_id, status=TaskStatus(status), **fields)


def plan(*steps: Step, **more: Any) -> Plan:
    return Plan(steps=steps, **more)


def do(stored: Plan, *operations: Operation, actor: str = 'me', now: float = NOW) -> Change:
    return apply(stored, operations, actor=actor, now=now)


def to(word: str, step_id: str, **more: Any) -> SetStatus:
    """Return the operation that a verb means: `to('done', 'a')`."""
    return SetStatus(step_id, WORDS[word], **more)


def statuses(stored: Plan) -> dict[str, str]:
    return {one.id: one.status.value for one in stored.steps}


def ids(stored: Plan) -> str:
    return ' '.join(one.id for one in stored.steps)
