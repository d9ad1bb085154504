"""A planner works on a draft of the plan; here its draft becomes one transaction on the real one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum

from planctl.change import Change, difference
from planctl.errors import Refused
from planctl.operations import Add, Move, Operation, Remove
from planctl.plan import Plan, Step, TaskStatus, next_id_after
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore, EditFunction
from planctl.stores.memory import InMemoryPlanStore
from planctl.text import tree_order


class Mode(Enum):
    """What becomes of the steps that are there."""

    fresh = 'fresh'
    """None is open: a new plan takes their place."""

    append = 'append'
    """All stay, and only additions are kept."""

    replan = 'replan'
    """Resolved ones stay, open ones go."""


def draft_of(plan: Plan, mode: Mode) -> Plan:
    """Return what the planner finds: the plan to add to, else an empty one that gives out the plan's next ids."""
    steps = plan.steps if mode is Mode.append else ()
    return replace(plan, revision=0, steps=steps, owner=None, lease=None)


class DraftStore(StoreWrapper):
    """The planner's store: a draft in memory, later the session itself. No step can be started or completed on it.

    In append mode what was there cannot be touched either; when the session is planned again, on the session itself,
    what is resolved. `restated` says whether a whole plan was stored, even an empty one.
    """

    def __init__(self, plan: Plan, mode: Mode) -> None:
        memory = InMemoryPlanStore(session=plan.session)
        super().__init__(memory)
        self._memory = memory
        self._draft = draft_of(plan, mode)
        self._base = plan
        self._stays = replace(plan, steps=plan.steps if mode is Mode.append else ())
        self._resolved = tuple(s for s in plan.steps if s.resolved) if mode is Mode.replan else ()
        self._begun = False
        self.is_draft = True
        self.restated = False
        self.renamed: dict[str, str] = {}
        """Ids that the planner chose, by those that the steps got because the session had given them out before."""

    def move_to(self, store: BaseStore) -> None:
        """From here on, what the planner does is done to the session."""
        self.is_draft, self._begun, self.wrapped = False, True, store
        if self._resolved:
            self._stays = replace(self._stays, steps=self._resolved)

    async def read(self) -> Plan:
        """Return the draft."""
        await self._begin()
        return await super().read()

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit` to the draft; `Refused` when it does what a planner must not do."""
        await self._begin()

        def guarded(plan: Plan) -> Change:
            change = edit(plan)
            _refuse_work(change)
            _refuse_edits(self._stays, change)
            return self._numbered(change) if self.is_draft else change

        change = await super().update(guarded, actor=actor, label=label, now=now, key=key)
        self.restated = self.restated or label == 'replace'
        return change

    def _numbered(self, change: Change) -> Change:
        """Return the change with ids that the session can store, so that the planner knows its steps by them."""
        ids = {old: new for old, new in free_ids(change.created, self._base).items() if old != new}
        if not ids:
            return change
        self.renamed.update(ids)
        steps = tuple(
            replace(
                step,
                id=ids.get(step.id, step.id),
                parent_id=None if step.parent_id is None else ids.get(step.parent_id, step.parent_id),
                depends_on=tuple(ids.get(on, on) for on in step.depends_on),
            )
            for step in change.after.steps
        )
        after = replace(change.after, steps=steps, next_id=next_id_after(change.after.next_id, ids.values()))
        return replace(change, after=after, steps=difference(change.before.steps, steps))

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            # The first revision of a draft is what it starts from.
            draft = self._draft
            await self._memory.update(lambda plan: Change(plan, draft), actor='planctl', label='draft', now=0)


def _refuse_work(change: Change) -> None:
    worked = [
        c.step.id
        for c in change.steps
        if c.after is not None
        and c.after.status in (TaskStatus.in_progress, TaskStatus.completed)
        and (c.before is None or c.before.status is not c.after.status)
    ]
    if worked:
        raise Refused(
            f'planning only: step {", ".join(worked)} cannot be started or completed before the plan is carried out',
            ids=worked,
        )


def _refuse_edits(stays: Plan, change: Change) -> None:
    touched = [
        c.step.id
        for c in change.steps
        if c.step.id in stays.index and (c.after is None or (c.before is not None and c.before != c.after))
    ]
    if touched:
        raise Refused(
            f'this plan is only added to: step {", ".join(touched)} was there before and stays as it is', ids=touched
        )


def adopted(
    draft: Plan, base: Plan, mode: Mode, moved: dict[str, str] | None = None
) -> Callable[[Plan], Iterable[Operation]]:
    """Return the transaction that makes a planner's draft the plan.

    `base` is the plan as it was when the planner began: what was added or changed since stays. `moved` is told which
    steps could not keep their ids, because somebody took them meanwhile.
    """
    new = [step for step in draft.steps if mode is not Mode.append or step.id not in base.index]

    def operations(plan: Plan) -> Iterable[Operation]:
        ids = free_ids(new, plan)
        if moved is not None:
            moved.clear()
            moved.update((old, given) for old, given in ids.items() if old != given)
        if mode is not Mode.append:
            yield from cleared(plan, base, keep_resolved=mode is Mode.replan)
        yield from (_addition(step, ids) for step in new)

    return operations


def free_ids(steps: Iterable[Step], plan: Plan) -> dict[str, str]:
    """Return the id that each new step gets: its own, unless the session has given that one out before.

    A number that takes the place of another is none of those that were chosen, so that both can be told apart.
    """
    chosen = [step.id for step in steps]
    next_id = next_id_after(plan.next_id, chosen)

    def is_taken(step_id: str) -> bool:
        given_out = step_id.isdecimal() and next_id_after(plan.next_id, (step_id,)) == plan.next_id
        return step_id in plan.index or given_out

    if not any(is_taken(step_id) for step_id in chosen):
        return {step_id: step_id for step_id in chosen}
    ids: dict[str, str] = {}
    for step_id in chosen:  # All numbers, so that they are in the order of the steps.
        if step_id.isdecimal() or is_taken(step_id):
            ids[step_id], next_id = str(next_id), next_id + 1
        else:
            ids[step_id] = step_id
    return ids


def cleared(plan: Plan, base: Plan, *, keep_resolved: bool = False) -> Iterable[Operation]:
    """Return what takes the steps of `base` out of the plan; what somebody added or changed since stays.

    A step that stays under one that goes takes its place.
    """
    going: set[str] = set()
    for step in plan.steps:
        known = base.get(step.id)
        if known is None or (keep_resolved and step.resolved):
            continue
        if step.resolved or step.fingerprint == known.fingerprint:
            going.add(step.id)
    order = [step for _, step in tree_order(plan.steps)]
    for step in order:
        if step.id not in going and step.parent_id in going:
            heir = _heir(plan, step, going)
            yield Move(step.id, under=heir, top=heir is None)
    for step in reversed(order):
        if step.id in going:
            yield Remove(step.id)


def _heir(plan: Plan, step: Step, going: set[str]) -> str | None:
    seen = {step.id}
    parent_id = step.parent_id
    while parent_id in going and parent_id not in seen:
        seen.add(parent_id)
        parent_id = plan.step(parent_id).parent_id
    return parent_id if parent_id is not None and parent_id not in seen and parent_id in plan.index else None


def _addition(step: Step, ids: dict[str, str]) -> Add:
    return Add(
        step.content,
        id=ids[step.id],
        status=_status(step),
        active_form=step.active_form,
        parent_id=None if step.parent_id is None else ids.get(step.parent_id, step.parent_id),
        depends_on=tuple(ids.get(on, on) for on in step.depends_on),
        note=step.note,
    )


def _status(step: Step) -> TaskStatus:
    """Return the status as an operation states it: one that waits for others is blocked by settling."""
    return TaskStatus.pending if step.depends_on and step.status is TaskStatus.blocked else step.status
