"""Typed events of a run: what each plan tool changed, exactly, once, after it was stored. Made here, emitted elsewhere.

The kinds are `planctl.created` and so on, so that they and those of the harness can be imported together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic_ai.messages import CapabilityEvent

from planctl.change import Change, StepChange
from planctl.items import PlanEventType, PlanItem, happenings
from planctl.plan import Plan

PLANNING_EVENTS = 'planctl'
"""The namespace of the events: each has the kind `planctl.<what happened>`."""


@dataclass(kw_only=True)
class _OfStep:
    item: PlanItem
    previous_state: PlanItem | None = None


@dataclass(kw_only=True)
class PlanCreatedEvent(_OfStep, CapabilityEvent, namespace=PLANNING_EVENTS, name='created'):
    """A step was added."""


@dataclass(kw_only=True)
class PlanUpdatedEvent(_OfStep, CapabilityEvent, namespace=PLANNING_EVENTS, name='updated'):
    """A field of a step changed, its status included."""


@dataclass(kw_only=True)
class PlanStatusChangedEvent(_OfStep, CapabilityEvent, namespace=PLANNING_EVENTS, name='status_changed'):
    """A step changed its status."""


@dataclass(kw_only=True)
class PlanCompletedEvent(_OfStep, CapabilityEvent, namespace=PLANNING_EVENTS, name='completed'):
    """A step was completed."""


@dataclass(kw_only=True)
class PlanDeletedEvent(_OfStep, CapabilityEvent, namespace=PLANNING_EVENTS, name='deleted'):
    """A step was removed; `item` is the step as it was."""


_CLASSES = {
    PlanEventType.created: PlanCreatedEvent,
    PlanEventType.updated: PlanUpdatedEvent,
    PlanEventType.status_changed: PlanStatusChangedEvent,
    PlanEventType.completed: PlanCompletedEvent,
    PlanEventType.deleted: PlanDeletedEvent,
}


def events_of(steps: tuple[StepChange, ...]) -> Iterator[CapabilityEvent]:
    """Yield the events of one transaction: in plan order, the deleted steps last."""
    nothing = Plan()
    for kind, item, previous in happenings(Change(nothing, nothing, steps)):
        yield _CLASSES[kind](item=item, previous_state=previous)
