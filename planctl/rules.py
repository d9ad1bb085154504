"""The rules of a plan: what each operation does and when it is refused. Pure: no I/O, no clock, no driver.

Operations given together are judged together: each is applied, then the outcome is held against what was there
before. Changes are judged, never states, so that what another program stored can always be restated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from planctl.change import Change, Remark, StepChange, difference
from planctl.errors import (
    BlankText,
    DependencyCycle,
    DuplicateDependency,
    DuplicateId,
    HasChildren,
    NothingToWaitFor,
    OpenChildren,
    OpenPrerequisite,
    ResolvedParent,
    StepNotFound,
)
from planctl.operations import (
    Add,
    Claim,
    Depend,
    Describe,
    Edit,
    Move,
    Note,
    Operation,
    Release,
    Remove,
    Renew,
    Replace,
    SetStatus,
    Undepend,
)
from planctl.plan import Plan, Step, TaskStatus, check_id, progress
from planctl.sanitize import clean, clean_block
from planctl.working import Working

PENDING, IN_PROGRESS, COMPLETED, CANCELLED, BLOCKED = TaskStatus


@dataclass(slots=True)
class Judgement:
    """What one transaction has done so far and what is still to be judged."""

    work: Working
    actor: str
    now: float
    requested: dict[str, None] = field(default_factory=dict[str, None])
    """Steps that were given a status, as opposed to those that settling moves."""
    freed: set[str] = field(default_factory=set[str])
    """Steps that lost a prerequisite to a removal."""
    remarks: list[Remark] = field(default_factory=list[Remark])
    session: dict[str, object] = field(default_factory=dict[str, object])
    """Fields of the plan itself that change."""

    def move(self, step: Step, status: TaskStatus, note: str | None = None) -> None:
        """Put a step into a status, to be judged at the end."""
        self.requested[step.id] = None
        self.work.put(with_status(step, status, actor=self.actor, now=self.now, note=note))


def apply(plan: Plan, operations: Iterable[Operation], *, actor: str, now: float) -> Change:
    """Return the change that the operations make of `plan`; a refusal raises and there is no change.

    `now` is in seconds since the epoch. Raises `InputError`, `StepNotFound` and `Refused`. Near-linear in the size of
    the plan, whatever its depth.
    """
    judgement = Judgement(Working(plan), actor, now)
    for operation in operations:
        _apply_one(judgement, operation)
    work = judgement.work
    _check_links(work)
    _judge(judgement)
    _settle(judgement)
    steps = tuple(work.steps.values())
    changes = difference(plan.steps, steps)
    fields = {name: value for name, value in judgement.session.items() if value != getattr(plan, name)}
    if not changes and not fields:
        return Change(plan, plan, remarks=tuple(judgement.remarks), progress=plan.progress)
    # Who holds the session and how long a lease runs is kept, but it is no change of the plan.
    counts = fields.keys() - {'owner', 'lease'} or any(not _only_lease(change) for change in changes)
    revision = plan.revision + 1 if counts else plan.revision
    after = replace(plan, steps=steps, revision=revision, next_id=work.next_id, **fields)
    remarks = (*judgement.remarks, *_closing_remarks(judgement))
    return Change(plan, after, changes, remarks, progress(steps))


def _only_lease(change: StepChange) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and not change.moved and replace(before, lease=after.lease) == after


def settle(plan: Plan) -> Plan:
    """Return the plan with `blocked` agreeing with the dependencies and no reference to a step that is gone."""
    judgement = Judgement(Working(plan), '', 0)
    _settle(judgement)
    steps = tuple(judgement.work.steps.values())
    return plan if steps == plan.steps else replace(plan, steps=steps)


def with_status(step: Step, status: TaskStatus, *, actor: str, now: float, note: str | None = None) -> Step:
    """Return the step in `status`. Only one in progress has an owner; a note tells of the status it came with."""
    if status is step.status:
        return step if note is None else replace(step, note=clean(note))
    starts = status is IN_PROGRESS
    return replace(
        step,
        status=status,
        owner=actor if starts else None,
        lease=None,
        started_at=now if starts else None,
        note=clean(note or ''),
    )


def _apply_one(judgement: Judgement, operation: Operation) -> None:
    work = judgement.work
    match operation:
        case Add():
            _add(judgement, operation)
        case Replace():
            from planctl.replacement import restate

            restate(judgement, operation)
        case SetStatus():
            _set_status(judgement, operation)
        case Edit(id=step_id, content=content, active_form=active_form):
            step = work.step(step_id)
            work.put(
                replace(
                    step,
                    content=step.content if content is None else storable(content),
                    active_form=step.active_form if active_form is None else clean(active_form),
                )
            )
        case Depend(id=step_id, on=on):
            step = work.step(step_id)
            if on in step.depends_on:
                raise DuplicateDependency(f'step {step_id} already waits for {on}', ids=[step_id, on])
            work.put(replace(step, depends_on=(*step.depends_on, on)))
        case Undepend(id=step_id, on=on):
            step = work.step(step_id)
            if on not in step.depends_on:
                raise StepNotFound(f'step {step_id} does not wait for {clean(on)!r}', ids=[step_id, on])
            work.put(replace(step, depends_on=tuple(other for other in step.depends_on if other != on)))
            judgement.freed.add(step_id)
        case Remove(id=step_id, cascade=cascade):
            work.step(step_id)
            below = work.descendants(step_id)
            if below and not cascade:
                raise HasChildren(f'step {step_id} has subtasks: {", ".join(below)}', ids=[step_id, *below])
            for gone in (step_id, *below):
                judgement.freed.update(work.drop(gone))
        case Move():
            _move(judgement, operation)
        case Claim() | Renew() | Release():
            from planctl.claims import claim

            claim(judgement, operation)
        case Note(id=step_id, note=note):
            work.put(replace(work.step(step_id), note=clean(note)))
        case Describe(objective=objective, brief=brief):
            given = {'objective': objective, 'brief': brief}
            judgement.session |= {name: clean_block(text) for name, text in given.items() if text is not None}


def storable(content: str) -> str:
    """Return the text of a step as it is stored; `BlankText` when nothing is left of it."""
    text = clean(content)
    if not text:
        raise BlankText
    return text


def _add(judgement: Judgement, add: Add) -> None:
    work = judgement.work
    if add.id is not None and add.id in work.steps:
        raise DuplicateId(f'a step with the id {add.id} is already in this plan', ids=[add.id])
    step = Step(
        id=work.new_id() if add.id is None else check_id(add.id),
        content=storable(add.content),
        active_form=clean(add.active_form),
        parent_id=add.parent_id,
        depends_on=tuple(dict.fromkeys(add.depends_on)),
        note=clean(add.note),
    )
    work.put(step)
    judgement.move(step, add.status, add.note or None)
    if add.before is not None or add.after is not None:
        work.place(step.id, before=add.before, after=add.after)


def _set_status(judgement: Judgement, operation: SetStatus) -> None:
    work = judgement.work
    step = work.step(operation.id)
    if operation.cascade:
        if operation.status.resolved:
            along = [s for s in map(work.step, work.descendants(step.id)) if not s.resolved]
        else:
            along = [ancestor for ancestor in work.ancestors(step.id) if ancestor.resolved]
        for other in along:
            judgement.move(other, operation.status if operation.status.resolved else PENDING)
    judgement.move(work.step(step.id), operation.status, operation.note)


def _move(judgement: Judgement, move: Move) -> None:
    work = judgement.work
    step = work.step(move.id)
    if move.under is not None or move.top:
        work.put(replace(step, parent_id=None if move.top else work.step(move.under or '').id))
    if move.before is not None or move.after is not None:
        work.place(step.id, before=move.before, after=move.after)


# --- Judging ----------------------------------------------------------------------------------------------------


def _check_links(work: Working) -> None:
    """Refuse new references to steps that are not there and new loops."""
    for step_id, other_id, is_parent in work.linked:
        step = work.steps.get(step_id)
        if step is None or other_id in work.steps:
            continue
        if step.parent_id == other_id if is_parent else other_id in step.depends_on:
            relation = 'belongs under' if is_parent else 'depends on'
            raise StepNotFound(
                f'step {step_id} {relation} {clean(other_id)!r}, which is not in the plan', ids=[step_id, other_id]
            )
    if work.linked and (loop := work.loop()) is not None:
        raise DependencyCycle(f'these steps would wait for each other: {" -> ".join(loop)}', ids=loop[:-1])


def _judge(judgement: Judgement) -> None:
    """Hold every change of status, parent and existence against what was there before."""
    work, before = judgement.work, judgement.work.plan.index
    for step_id in judgement.requested:
        step, earlier = work.steps.get(step_id), before.get(step_id)
        if step is not None and (earlier is None or earlier.status is not step.status):
            _judge_status(work, step, earlier)
    for step_id, parent_id, is_parent in work.linked:
        step = work.steps.get(step_id)
        if not is_parent or step is None or step.parent_id != parent_id:
            continue
        parent = work.steps[parent_id]
        was_resolved = parent_id in before and before[parent_id].resolved
        if parent.resolved and (not step.resolved or (was_resolved and step_id not in before)):
            raise ResolvedParent(
                f'step {parent_id} is {parent.status.value}: nothing can be put under it', ids=[step_id, parent_id]
            )


def _judge_status(work: Working, step: Step, earlier: Step | None) -> None:
    status = step.status
    waits = work.open_prerequisites(step)
    if waits and status in (IN_PROGRESS, COMPLETED):
        raise OpenPrerequisite(f'step {step.id} waits for {", ".join(waits)}', ids=[step.id, *waits])
    if status.resolved:
        if children := work.open_children(step.id):
            raise OpenChildren(f'step {step.id} has open subtasks: {", ".join(children)}', ids=[step.id, *children])
        return
    if status is BLOCKED and step.depends_on and not waits:
        raise NothingToWaitFor(
            f'step {step.id} cannot be blocked: all that it waits for is resolved', ids=[step.id, *step.depends_on]
        )
    if earlier is not None and (status is IN_PROGRESS or earlier.resolved):
        for ancestor in work.ancestors(step.id):
            if ancestor.resolved:
                raise ResolvedParent(
                    f'step {step.id} is under {ancestor.id}, which is {ancestor.status.value}',
                    ids=[step.id, ancestor.id],
                )


def _settle(judgement: Judgement) -> None:
    """Make `blocked` agree with the dependencies, and take out references to steps that are gone."""
    work = judgement.work
    steps = work.steps
    for step in list(steps.values()):
        settled = step
        if step.parent_id is not None and step.parent_id not in steps:
            settled = replace(settled, parent_id=None)
        if step.depends_on or step.id in judgement.freed:
            waits = work.open_prerequisites(step)
            if waits and (step.status is PENDING or step.status is IN_PROGRESS):
                settled = replace(settled, status=BLOCKED, owner=None, lease=None, started_at=None)
            elif not waits and step.status is BLOCKED and not (step.id in judgement.requested and not step.depends_on):
                settled = replace(settled, status=PENDING, note='')
            if any(on not in steps for on in step.depends_on):
                settled = replace(settled, depends_on=tuple(on for on in step.depends_on if on in steps))
        if settled is not step:
            work.put(settled)


def _closing_remarks(judgement: Judgement) -> list[Remark]:
    work, before = judgement.work, judgement.work.plan.index
    remarks: list[Remark] = []
    touched = [work.steps[step_id] for step_id in judgement.requested if step_id in work.steps]
    if any(step.status is IN_PROGRESS for step in touched):
        own = tuple(s.id for s in work.steps.values() if s.status is IN_PROGRESS and s.owner == judgement.actor)
        if len(own) > 1:
            remarks.append(Remark('several_in_progress', own))
    completable = dict.fromkeys(
        step.parent_id
        for step in touched
        if step.resolved
        and step.parent_id is not None
        and not (step.id in before and before[step.id].resolved)
        and not work.steps[step.parent_id].resolved
        and not work.open_children(step.parent_id)
    )
    if completable:
        remarks.append(Remark('completable', tuple(completable)))
    return remarks
