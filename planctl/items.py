"""What the outside sees of a plan: pydantic models for tool input, the six-method protocol and events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import TypeAlias
from uuid import uuid4

from pydantic import BaseModel, Field

from planctl.change import Change
from planctl.plan import Step, TaskStatus


def _new_id() -> str:
    return uuid4().hex[:8]


class PlanItem(BaseModel):
    """One step of a plan, detached from the store."""

    id: str = Field(default_factory=_new_id)
    """Unique within a session; 8 hexadecimal digits unless given."""

    content: str
    """What is to be done."""

    status: TaskStatus = TaskStatus.pending
    """Where the step stands."""

    active_form: str = ''
    """The text in the present continuous, shown while the step is in progress."""

    parent_id: str | None = None
    """The step that this one is a part of."""

    depends_on: list[str] = Field(default_factory=list[str])
    """The steps that have to be resolved before this one can start."""


class PlanStatusUpdate(BaseModel):
    """One entry of a batch of status changes."""

    task_id: str
    status: TaskStatus


def item_of(step: Step) -> PlanItem:
    """Return a step as a detached item."""
    # The fields were checked when they were stored: no second validation, which would cost ten times as much.
    return PlanItem.model_construct(
        _fields_set={'id', 'content', 'status', 'active_form', 'parent_id', 'depends_on'},
        id=step.id,
        content=step.content,
        status=step.status,
        active_form=step.active_form,
        parent_id=step.parent_id,
        depends_on=list(step.depends_on),
    )


class PlanEventType(str, Enum):
    """What a deprecated callback can be subscribed to."""

    created = 'created'
    updated = 'updated'
    status_changed = 'status_changed'
    completed = 'completed'
    deleted = 'deleted'


class PlanEvent(BaseModel):
    """What a deprecated callback is handed: the step, and the step as it was before."""

    event_type: PlanEventType
    item: PlanItem
    previous_state: PlanItem | None = None


EventCallback: TypeAlias = Callable[[PlanEvent], Awaitable[None] | None]
"""A deprecated subscriber, sync or async. What it raises fails the call that fired it, never the change."""


class PlanEventEmitter:
    """Deprecated callbacks per event type, called in the order in which they subscribed. Use the run's events."""

    def __init__(self) -> None:
        self._callbacks: dict[PlanEventType, list[EventCallback]] = {}

    def on(self, event_type: PlanEventType, callback: EventCallback) -> EventCallback:
        """Subscribe, and return the callback, so that this can decorate it."""
        self._callbacks.setdefault(event_type, []).append(callback)
        return callback

    def off(self, event_type: PlanEventType, callback: EventCallback) -> bool:
        """Unsubscribe, and return whether the callback was subscribed."""
        callbacks = self._callbacks.get(event_type, [])
        if callback not in callbacks:
            return False
        callbacks.remove(callback)
        return True

    async def emit(self, event: PlanEvent) -> None:
        """Call each subscriber of the event's type and wait for it."""
        for callback in [*self._callbacks.get(event.event_type, [])]:
            waiting = callback(event)
            if waiting is not None:
                await waiting

    def on_created(self, callback: EventCallback) -> EventCallback:
        """Subscribe to steps that are added."""
        return self.on(PlanEventType.created, callback)

    def on_updated(self, callback: EventCallback) -> EventCallback:
        """Subscribe to steps of which any field changes."""
        return self.on(PlanEventType.updated, callback)

    def on_status_changed(self, callback: EventCallback) -> EventCallback:
        """Subscribe to steps that change their status."""
        return self.on(PlanEventType.status_changed, callback)

    def on_completed(self, callback: EventCallback) -> EventCallback:
        """Subscribe to steps that are completed."""
        return self.on(PlanEventType.completed, callback)

    def on_deleted(self, callback: EventCallback) -> EventCallback:
        """Subscribe to steps that are removed."""
        return self.on(PlanEventType.deleted, callback)


async def announce(emitter: PlanEventEmitter, change: Change) -> None:
    """Fire the callbacks for the steps of a change, in its order."""
    for kind, step, previous in happenings(change):
        await emitter.emit(PlanEvent(event_type=kind, item=step, previous_state=previous))


def happenings(change: Change) -> Iterator[tuple[PlanEventType, PlanItem, PlanItem | None]]:
    """Yield what happened to each step of a change, exact, once, in plan order with the deleted ones last.

    A changed step is `updated`, then `status_changed` and `completed` where that holds. Moving alone is nothing. What
    an item does not carry (who works on a step, its note) is nothing either.
    """
    for entry in change.steps:
        if entry.after is None:
            assert entry.before is not None
            yield PlanEventType.deleted, item_of(entry.before), None
        elif entry.before is None:
            yield PlanEventType.created, item_of(entry.after), None
        else:
            item, previous = item_of(entry.after), item_of(entry.before)
            if item == previous:
                continue
            yield PlanEventType.updated, item, previous
            if entry.status_changed:
                yield PlanEventType.status_changed, item, previous
                if item.status is TaskStatus.completed:
                    yield PlanEventType.completed, item, previous
