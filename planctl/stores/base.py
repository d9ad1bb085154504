"""What a store is: inside two methods (`BaseStore`), outside the six of pydantic-ai-harness (`PlanStore`). No rules."""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import lt
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from planctl.change import Change, difference, longest_increasing, problems_left
from planctl.errors import DuplicateId, Unsupported
from planctl.plan import STATUSES, Plan, Step, TaskStatus, check_id, check_text, next_id_after
from planctl.sanitize import clean

if TYPE_CHECKING:
    from typing import Self

    from planctl.items import PlanEventEmitter, PlanItem
    from planctl.journal import LogRow

EditFunction: TypeAlias = Callable[[Plan], Change]
"""A pure function from the stored plan to a change of it. A store may call it more than once in a transaction."""


@runtime_checkable
class PlanStore(Protocol):
    """An ordered list of plan steps: storage without rules. Any class with these six methods is a store.

    Items that come out are detached copies: changing one changes nothing stored.
    """

    async def get_items(self) -> list[PlanItem]:
        """Return every step, in order."""
        ...

    async def set_items(self, items: list[PlanItem]) -> None:
        """Replace the whole list."""
        ...

    async def get_item(self, item_id: str) -> PlanItem | None:
        """Return the step with this id, or `None`."""
        ...

    async def add_item(self, item: PlanItem) -> PlanItem:
        """Append a step and return it; `ValueError` when its id is there already."""
        ...

    async def update_item(
        self,
        item_id: str,
        *,
        content: str | None = None,
        status: TaskStatus | None = None,
        active_form: str | None = None,
        parent_id: str | None = None,
        depends_on: list[str] | None = None,
    ) -> PlanItem | None:
        """Change the fields that are not `None`; return the step, or `None` when there is none with this id."""
        ...

    async def remove_item(self, item_id: str) -> bool:
        """Remove a step and return whether it was there."""
        ...


class BaseStore(ABC):
    """A store that can do one transaction: read the plan, call a pure function on it, store the difference.

    A subclass implements `read` and `update` for one session; the six methods of `PlanStore` come from here. Calls of
    one event loop take effect in the order in which they were made.
    """

    @abstractmethod
    async def read(self) -> Plan:
        """Return one consistent snapshot of the session; an empty plan of revision 0 when it was never written.

        Raises `StorageError`. Never creates or changes anything.
        """

    @abstractmethod
    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Call `edit` on the stored plan and store what it changed, with its log rows, in one transaction.

        `actor` and `label` (what was done) and `now` (seconds since the epoch) go into the log. What `edit` raises
        comes out and nothing is stored. With a `key` that was stored before, nothing is done and the first change is
        returned, `replayed`. Raises `StorageError`; then nothing is stored either.
        """

    async def log(self, *, since: int = 0, limit: int | None = None, step_id: str | None = None) -> list[LogRow]:
        """Return what was done to the plan, the newest last: one row for each changed step of each revision.

        `since` leaves out revisions up to that one, `step_id` every other step (an empty one is the session itself),
        and `limit` all but the newest rows. A store may forget old revisions, whole ones. Raises `StorageError`, and
        `Unsupported` when the store keeps no log.
        """
        raise Unsupported('this store keeps no log')

    _emitter: PlanEventEmitter | None = None

    async def _announce(self, change: Change, label: str) -> None:
        """Fire the deprecated callbacks. As in the harness, whole-plan writes are silent."""
        if self._emitter is not None and label not in ('replace', 'set_items'):
            from planctl.items import announce

            await announce(self._emitter, change)

    async def aclose(self) -> None:  # noqa: B027 - a store that holds nothing has nothing to close
        """Close what the store holds open. It can be used again afterwards."""

    async def __aenter__(self) -> Self:
        """Hold what the store needs open until `__aexit__`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- The six methods of `PlanStore`, each one transaction ---------------------------------------------------

    async def get_items(self) -> list[PlanItem]:
        """Return every step, in order, as detached copies."""
        from planctl.items import item_of

        return [item_of(step) for step in (await self.read()).steps]

    async def get_item(self, item_id: str) -> PlanItem | None:
        """Return a detached copy of the step with this id, or `None`."""
        from planctl.items import item_of

        step = (await self.read()).get(item_id)
        return None if step is None else item_of(step)

    async def set_items(self, items: list[PlanItem]) -> None:
        """Replace the whole list. `DuplicateId` (a ValueError) when two items share an id; then nothing changes."""
        stated = [_step_of(item) for item in items]
        seen: set[str] = set()
        for step in stated:
            if step.id in seen:
                raise DuplicateId(f'two items have the id {clean(step.id)!r}', ids=[step.id])
            seen.add(step.id)
        await self._store('set_items', lambda plan: [_storable(step, plan.get(step.id)) for step in stated])

    async def add_item(self, item: PlanItem) -> PlanItem:
        """Append a step and return it as stored; `DuplicateId` (a ValueError) when its id is there already."""
        from planctl.items import item_of

        step = _storable(_step_of(item), None)

        def append(plan: Plan) -> list[Step]:
            if plan.get(step.id) is not None:
                raise DuplicateId(f'a step with the id {step.id!r} is already in this plan', ids=[step.id])
            return [*plan.steps, step]

        await self._store('add_item', append)
        return item_of(step)

    async def update_item(
        self,
        item_id: str,
        *,
        content: str | None = None,
        status: TaskStatus | None = None,
        active_form: str | None = None,
        parent_id: str | None = None,
        depends_on: list[str] | None = None,
    ) -> PlanItem | None:
        """Change the fields that are not `None`; return the step as stored, or `None` when there is none."""
        from planctl.items import PlanItem, item_of

        given: dict[str, Any] = {
            'content': content,
            'status': status,
            'active_form': active_form,
            'parent_id': parent_id,
            'depends_on': depends_on,
        }
        fields = {name: value for name, value in given.items() if value is not None}

        def put(plan: Plan) -> list[Step]:
            step = plan.get(item_id)
            if step is None or not fields:
                return list(plan.steps)
            # Of one that cannot be read it changes what can be, and that mends it.
            mended = next((p.mended for p in plan.problems if p.id == item_id), None) or step
            merged = PlanItem.model_validate(item_of(mended).model_dump() | fields)
            return [_storable(_step_of(merged), mended) if s is step else s for s in plan.steps]

        change = await self._store('update_item', put)
        step = change.after.get(item_id)
        return None if step is None else item_of(step)

    async def remove_item(self, item_id: str) -> bool:
        """Remove a step and return whether it was there. References to it stay until the next operation settles."""
        change = await self._store('remove_item', lambda plan: [s for s in plan.steps if s.id != item_id])
        return bool(change.deleted)

    async def _store(self, label: str, steps: Callable[[Plan], Sequence[Step]]) -> Change:
        return await self.update(lambda plan: restate(plan, steps(plan)), actor='python', label=label, now=time.time())


_SIX = ('get_items', 'set_items', 'get_item', 'add_item', 'update_item', 'remove_item')


def inner(store: BaseStore | PlanStore) -> BaseStore:
    """Return the store itself when it is a `BaseStore` that overrides none of the six methods, else an adapter.

    Never decided by `isinstance` with the protocol: a wrapper that overrides a method, or forwards unknown names to
    the store that it wraps, must not be bypassed.
    """
    kind = type(store)
    if (
        issubclass(kind, BaseStore)
        and all(getattr(kind, name) is getattr(BaseStore, name) for name in _SIX)
        and not any(name in _SIX for name in getattr(store, '__dict__', ()))
    ):
        return cast(BaseStore, store)
    from planctl.stores.adapter import SixMethodStore  # asyncio and pydantic, which a plan command does not need

    return SixMethodStore(store)


def deprecated_emitter(event_emitter: PlanEventEmitter | None) -> PlanEventEmitter | None:
    """Return the emitter that a store was given, and warn when there is one."""
    if event_emitter is not None:
        warnings.warn(
            'event_emitter is deprecated: use @agent.on_event with PlanCreatedEvent and its siblings',
            DeprecationWarning,
            stacklevel=3,
        )
    return event_emitter


def restate(plan: Plan, steps: Sequence[Step]) -> Change:
    """Return the change that makes `steps` the steps of `plan`, without any rule.

    `DamagedStep` when it changes anything but steps that could not be read, as long as there are any.
    """
    changes = difference(plan.steps, steps)
    if not changes:
        return Change(plan, plan, progress=plan.progress)
    left = problems_left(plan, changes)
    ids = [change.step.id for change in changes if change.before is None]
    next_id = next_id_after(plan.next_id, ids)
    after = replace(plan, steps=tuple(steps), revision=plan.revision + 1, next_id=next_id, problems=left)
    after = replace(after, removed=False) if plan.removed else after
    return Change(plan, after, changes, progress=after.progress)


def positions(current: Mapping[str, int], ids: Sequence[str]) -> dict[str, int]:
    """Return a rising position for each of `ids`, keeping as many of `current` as the order allows.

    New ids at the end come behind the highest position, at the top before the lowest one (which may be negative), and
    between two steps into a gap; where there is none, what follows moves on until there is one.
    """
    known = [step_id for step_id in ids if abs(current.get(step_id, UNPLACED)) < UNPLACED]
    held = [current[step_id] for step_id in known]
    kept = set(known if all(map(lt, held, held[1:])) else longest_increasing(known, held))
    head = next((at for at, step_id in enumerate(ids) if step_id in kept), len(ids))
    last = current[ids[head]] - head - 1 if head < len(ids) else -1
    placed: dict[str, int] = {}
    for step_id in ids:
        at = current[step_id] if step_id in kept else last
        last = at if at > last else last + 1
        placed[step_id] = last
    return placed


UNPLACED = 2**62
"""From here on, up and down, a position is none: counting on from the ends of 64 bits would overflow."""


def _step_of(item: PlanItem) -> Step:
    return Step(
        id=item.id,
        content=item.content,
        status=STATUSES[item.status.value],
        active_form=clean(item.active_form),
        parent_id=clean(item.parent_id or '') or None,
        depends_on=tuple(dict.fromkeys(filter(None, map(clean, item.depends_on)))),
    )


def _storable(stated: Step, stored: Step | None) -> Step:
    """Return a stated step as it is stored; what another program stored may be restated, whatever it is.

    Of the step that is stored it keeps what an item does not carry, as long as the status holds: who works on it and
    the note.
    """
    if stored is None:
        check_id(stated.id)
    if stored is None or stated.content != stored.content:
        stated = replace(stated, content=check_text(stated.content))
    if stored is None or stored.status is not stated.status:
        return stated
    return replace(stated, owner=stored.owner, lease=stored.lease, started_at=stored.started_at, note=stored.note)
