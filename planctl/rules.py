"""The rules of a plan: what each operation does and when it is refused. Pure: no I/O, no clock, no driver.

Operations given together are applied in the order given and judged together: the outcome is held against what was
there before. Changes are judged, never states, so that what another program stored can always be restated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planctl.change import Change, Remark, StepChange, difference
from planctl.errors import (
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
from planctl.judgement import Judgement, listed
from planctl.mending import left, mend, refuse_others
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
    Restore,
    SetStatus,
    Undepend,
)
from planctl.plan import Plan, Step, TaskStatus, check_id, check_moments, check_text
from planctl.readiness import require_free
from planctl.sanitize import clean, clean_block
from planctl.settling import settle as settle
from planctl.settling import settling
from planctl.working import Working

PENDING, IN_PROGRESS, COMPLETED, CANCELLED, BLOCKED = TaskStatus


def apply(plan: Plan, operations: Iterable[Operation], *, actor: str, now: float) -> Change:
    """Return the change that the operations make of `plan`; a refusal raises and there is no change.

    `now` is in seconds since the epoch. Raises `InputError`, `StepNotFound` and `Refused`, and `DamagedStep` when
    steps that could not be read have to be mended first. Near-linear in the size of the plan, whatever its depth.
    """
    given = tuple(operations)
    if plan.problems:
        refuse_others(plan, given)
    judgement = Judgement(Working(plan), actor, now, given)
    for operation in given:
        _apply_one(judgement, operation)
    work = judgement.work
    _check_links(work)
    _judge(judgement)
    for settled in list(settling(work, judgement.requested)):
        work.put(settled)
    changes = difference(plan.steps, tuple(work.steps.values()))
    remarks = (*judgement.remarks, *_closing_remarks(judgement))
    fields = {name: value for name, value in judgement.session.items() if value != getattr(plan, name)}
    if not changes and not fields:
        return Change(plan, plan, remarks=remarks, progress=plan.progress)
    kept = [step for change in changes if (step := change.after) is not None]
    check_moments(now, fields.get('lease'), *(at for step in kept for at in (step.lease, step.started_at)))
    # Who holds the session and how long a lease runs is kept, but it is no change of the plan.
    counts = fields.keys() - {'owner', 'lease'} or any(not _only_lease(change) for change in changes)
    revision = plan.revision + 1 if counts else plan.revision
    if plan.removed and counts:
        fields.setdefault('removed', False)
    if plan.problems:
        fields['problems'] = left(judgement)
    after = plan.with_steps(work.steps, revision=revision, next_id=work.next_id, **fields)
    return Change(plan, after, changes, remarks, after.progress)


def _only_lease(change: StepChange) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and not change.moved and replace(before, lease=after.lease) == after


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
            if judgement.problems:
                mend(judgement, step_id)
                step = work.step(step_id)
                content = step.content if content is None else content
            work.put(
                replace(
                    step,
                    content=step.content if content is None else check_text(content),
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
        case Remove():
            _remove(judgement, operation)
        case Move():
            _move(judgement, operation)
        case Claim() | Renew() | Release():
            from planctl.claims import claim

            claim(judgement, operation)
        case Note(id=step_id, note=note):
            work.put(replace(work.step(step_id), note=clean(note)))
        case Describe():
            _describe(judgement, operation)
        case Restore():
            _restore(judgement, operation)


def _add(judgement: Judgement, add: Add) -> None:
    work = judgement.work
    if add.id is not None and add.id in work.steps:
        raise DuplicateId(f'a step with the id {add.id} is already in this plan', ids=[add.id])
    step = Step(
        id=work.new_id() if add.id is None else check_id(add.id),
        content=check_text(add.content),
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
    work, status = judgement.work, operation.status
    step = work.step(operation.id)
    if status is IN_PROGRESS and step.lease is not None and step.owner != judgement.actor:
        require_free(step, judgement.actor, judgement.now)
        # The time of whoever had it is over: it is started anew.
        work.put(replace(step, owner=judgement.actor, lease=None, started_at=judgement.now))
    if operation.cascade:
        # What another operation of the transaction says of a step counts more than a cascade, whichever comes first.
        if status.resolved:
            below = work.descendants(step.id, without=judgement.resolving)
            along = [other for other in map(work.step, below) if not other.resolved]
        else:
            along = [ancestor for ancestor in work.ancestors(step.id) if ancestor.resolved]
        for other in along:
            if other.id not in judgement.named:
                judgement.move(other, status if status.resolved else PENDING)
    judgement.move(work.step(step.id), status, operation.note)


def _remove(judgement: Judgement, operation: Remove) -> None:
    work, step_id = judgement.work, operation.id
    if step_id not in work.steps and step_id in work.plan.index:
        return  # It went with an ancestor that the same transaction removes.
    work.step(step_id)
    below = work.descendants(step_id)
    if operation.cascade:
        gone = [step_id, *below]
    else:
        if kept := [other for other in below if other not in judgement.removing]:
            raise HasChildren(f'step {step_id} has subtasks: {listed(kept)}', ids=[step_id, *kept])
        gone = [step_id]
    work.drop(gone)


def _move(judgement: Judgement, move: Move) -> None:
    work = judgement.work
    step = work.step(move.id)
    if move.under is not None or move.top:
        work.put(replace(step, parent_id=None if move.top else work.step(move.under or '').id))
    if move.before is not None or move.after is not None:
        work.place(step.id, before=move.before, after=move.after)


def _describe(judgement: Judgement, describe: Describe) -> None:
    given = {'objective': describe.objective, 'brief': describe.brief}
    judgement.session |= {name: clean_block(text) for name, text in given.items() if text is not None}
    if describe.removed is not None:
        judgement.session |= {'removed': describe.removed}


def _restore(judgement: Judgement, operation: Restore) -> None:
    work, before = judgement.work, judgement.work.plan.index
    for step in operation.steps:
        current = work.steps.get(step.id) or before.get(step.id)
        known = current is not None
        holds = current is not None and (current.status, current.owner) == (step.status, step.owner)
        # An id that another program gave out may be restored; a new one has to be one.
        if not known and clean(step.id) != step.id:
            check_id(step.id)
        work.put(
            replace(
                step,
                content=check_text(step.content),
                active_form=clean(step.active_form),
                depends_on=tuple(dict.fromkeys(step.depends_on)),
                lease=current.lease if current is not None and holds else None,
                note=clean(step.note),
            )
        )
        was = before.get(step.id)
        # It may have been blocked by a word until it got something to wait for, and is then again.
        blocked_anew = was is not None and step.status is BLOCKED and was.depends_on != step.depends_on
        if was is None or was.status is not step.status or blocked_anew:
            # A prerequisite may be opened again above what is done: what was so once can be so again.
            judgement.requested[step.id] = None
            judgement.restored.add(step.id)
    if operation.placed:
        work.arrange(operation.placed)


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
        raise DependencyCycle(_cycle_message(loop), ids=loop[:-1])


def _cycle_message(loop: list[str]) -> str:
    if len(loop) == 2:
        return f'step {loop[0]} cannot wait for itself or belong under itself'
    way = loop if len(loop) <= 12 else [*loop[:6], '...', *loop[-5:]]
    return f'these steps would wait for each other: {" -> ".join(way)}'


def _judge(judgement: Judgement) -> None:
    """Hold every change of status, parent and existence against what was there before."""
    work, before = judgement.work, judgement.work.plan.index
    under_resolved: dict[str, str | None] = {}
    given = judgement.requested
    # In plan order, so that the reason for a refusal does not depend on the order of the operations.
    for step_id in given if len(given) < 2 else [one for one in work.steps if one in given]:
        step, earlier = work.steps.get(step_id), before.get(step_id)
        if step is not None and (earlier is None or earlier.status is not step.status):
            if step_id not in judgement.restored:
                _judge_waiting(work, step)
            _judge_status(work, step, earlier, under_resolved)
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
    if judgement.claimed:
        from planctl.claims import judge_claims

        judge_claims(judgement)


def _judge_waiting(work: Working, step: Step) -> None:
    waits = work.open_prerequisites(step)
    if waits and step.status in (IN_PROGRESS, COMPLETED):
        raise OpenPrerequisite(f'step {step.id} waits for {listed(waits)}', ids=[step.id, *waits])
    # With a reason it is what cannot be done although its turn has come; without one it would mean nothing.
    known = [other for other in step.depends_on if other in work.steps]
    if step.status is BLOCKED and known and not waits and not step.note:
        raise NothingToWaitFor(
            f'step {step.id} cannot be blocked: all that it waits for is resolved', ids=[step.id, *known]
        )


def _judge_status(work: Working, step: Step, earlier: Step | None, under_resolved: dict[str, str | None]) -> None:
    status = step.status
    if status.resolved:
        if children := work.open_children(step.id):
            raise OpenChildren(f'step {step.id} has open subtasks: {listed(children)}', ids=[step.id, *children])
        return
    if earlier is not None and (status is IN_PROGRESS or earlier.resolved):
        resolved_id = work.nearest(step.id, lambda ancestor: ancestor.resolved, under_resolved)
        if resolved_id is not None:
            raise ResolvedParent(
                f'step {step.id} is under {resolved_id}, which is {work.step(resolved_id).status.value}',
                ids=[step.id, resolved_id],
            )


def _closing_remarks(judgement: Judgement) -> list[Remark]:
    work, before = judgement.work, judgement.work.plan.index
    noted = {'claimed': judgement.claimed, 'mended': judgement.mended}
    remarks = [Remark(code, tuple(dict.fromkeys(ids))) for code, ids in noted.items() if ids]
    touched = [work.steps[step_id] for step_id in judgement.requested if step_id in work.steps]
    if any(step.status is IN_PROGRESS for step in touched):
        own = tuple(s.id for s in work.steps.values() if s.status is IN_PROGRESS and s.owner == judgement.actor)
        if len(own) > 1:
            remarks.append(Remark('several_in_progress', own))
    parents = dict.fromkeys(
        step.parent_id
        for step in touched
        if step.parent_id is not None and step.resolved and not (step.id in before and before[step.id].resolved)
    )
    completable = tuple(one for one in parents if not work.steps[one].resolved and not work.open_children(one))
    if completable:
        remarks.append(Remark('completable', completable))
    return remarks
