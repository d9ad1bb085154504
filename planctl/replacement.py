"""Whole-plan replacement: which stored step each item restates, what is kept, what falls out. Pure, like all rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planctl.change import Remark
from planctl.errors import DuplicateId, EmptyReplacement
from planctl.operations import Draft, Replace
from planctl.plan import Step, TaskStatus, check_id, fingerprint
from planctl.sanitize import clean
from planctl.working import Working

if TYPE_CHECKING:
    from planctl.rules import Judgement


def restate(judgement: Judgement, operation: Replace) -> None:
    """Make the items the plan. Raises `EmptyReplacement`, `DuplicateId`, `InvalidId`, `BlankText`."""
    from planctl.rules import storable

    work = judgement.work
    texts = [storable(item.content) for item in operation.items]
    _refuse_repeated_ids(operation.items)
    if not operation.items and (open_ids := [s.id for s in work.steps.values() if not s.resolved]):
        raise EmptyReplacement(f'an empty plan would drop the open steps {", ".join(open_ids)}', ids=open_ids)
    matched, by_text = _match(operation.items, texts, work.steps)
    kept = _kept(work, set(matched.values()), operation.base)
    _drop(judgement, [step_id for step_id in work.steps if step_id not in kept and step_id not in matched.values()])

    stored_order = list(work.steps)
    given = [_identify(work, item, matched.get(at)) for at, item in enumerate(operation.items)]
    aliases = {
        item.id: step_id
        for item, step_id in zip(operation.items, given, strict=True)
        if item.id is not None and item.id not in given and item.id not in kept
    }
    for item, text, step_id in zip(operation.items, texts, given, strict=True):
        _put(judgement, item, text, step_id, aliases, plain=operation.plain)
    _order(work, given, stored_order)
    if by_text:
        judgement.remarks.append(Remark('identified_by_text', tuple(step_id for pair in by_text for step_id in pair)))
    if kept:
        judgement.remarks.append(Remark('kept', tuple(kept)))


def _refuse_repeated_ids(items: Sequence[Draft]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.id is None:
            continue
        if item.id in seen:
            raise DuplicateId(f'two items have the id {clean(item.id)!r}', ids=[item.id])
        seen.add(item.id)


def _match(
    items: Sequence[Draft], texts: Sequence[str], steps: Mapping[str, Step]
) -> tuple[dict[int, str], list[tuple[str, str]]]:
    """Return which stored step each item restates, and the (given, taken) ids where text overruled an id.

    By id, then by equal text in order among the steps not yet matched. Where id and exact text point at two stored
    steps, the text decides: a model that numbers its list anew would otherwise rewrite every step.
    """
    matched: dict[int, str] = {}
    by_text: list[tuple[str, str]] = []
    free: dict[str, list[str]] = {}

    def take(at: int, step_id: str) -> None:
        matched[at] = step_id
        taken.add(step_id)

    taken: set[str] = set()
    for at, item in enumerate(items):
        if item.id is not None and (step := steps.get(item.id)) is not None and step.content == texts[at]:
            take(at, item.id)
    for step_id, step in reversed(list(steps.items())):
        if step_id not in taken:
            free.setdefault(step.content, []).append(step_id)
    named = {item.id for at, item in enumerate(items) if at not in matched and item.id in steps}
    for at, item in enumerate(items):
        if at not in matched and item.id in named and free.get(texts[at]):
            step_id = free[texts[at]].pop()
            take(at, step_id)
            by_text.append((item.id or '', step_id))
    for at, item in enumerate(items):
        if at not in matched and item.id is not None and item.id in steps and item.id not in taken:
            take(at, item.id)
    for at in range(len(items)):
        while at not in matched and free.get(texts[at]):
            step_id = free[texts[at]].pop()
            if step_id not in taken:
                take(at, step_id)
    return matched, by_text


def _kept(work: Working, restated: set[str], base: tuple[tuple[str, str], ...] | None) -> list[str]:
    """Return the open steps that were left out but that the writer never saw as they are now."""
    if base is None:
        return []
    seen = dict(base)
    return [
        step.id
        for step in work.steps.values()
        if step.id not in restated and not step.resolved and seen.get(step.id) != fingerprint(step)
    ]


def _drop(judgement: Judgement, gone: list[str]) -> None:
    """Remove steps; their children take their place and whoever waited for them is freed."""
    work = judgement.work
    dropped = tuple(step_id for step_id in gone if not work.steps[step_id].resolved)
    going = set(gone)
    for step_id in gone:
        heir = next((ancestor.id for ancestor in work.ancestors(step_id) if ancestor.id not in going), None)
        for child in list(work.children(step_id)):
            work.put(replace(work.steps[child], parent_id=heir))
        judgement.freed.update(work.drop(step_id))
    if dropped:
        judgement.remarks.append(Remark('dropped', dropped))


def _identify(work: Working, item: Draft, matched: str | None) -> str:
    """Return the id of the step that an item stands for; a new one is put in place so that others can refer to it."""
    if matched is not None:
        return matched
    wanted = item.id if item.id is not None and item.id not in work.steps else None
    step_id = work.new_id() if wanted is None else check_id(wanted)
    work.put(Step(id=step_id, content=item.content))
    return step_id


def _put(
    judgement: Judgement, item: Draft, text: str, step_id: str, aliases: Mapping[str, str], *, plain: bool
) -> None:
    work = judgement.work
    step = work.steps[step_id]
    parent_id, depends_on = step.parent_id, step.depends_on
    if item.parent_id is not None:
        parent_id = aliases.get(item.parent_id, item.parent_id) or None
    if item.depends_on is not None:
        depends_on = tuple(dict.fromkeys(aliases.get(on, on) for on in item.depends_on))
    work.put(
        replace(
            step,
            content=text,
            active_form=step.active_form if item.active_form is None else clean(item.active_form),
            parent_id=parent_id,
            depends_on=depends_on,
        )
    )
    is_new = step_id not in work.plan.index
    status = item.status or (TaskStatus.pending if is_new else None)
    if plain and status is TaskStatus.pending and step.status is TaskStatus.blocked:
        status = None
    if status is not None:
        judgement.move(work.steps[step_id], status)


def _order(work: Working, given: Sequence[str], stored: Sequence[str]) -> None:
    """Put the items in their order; a step that was kept stays behind the one that it stood behind."""
    listed = set(given)
    behind: dict[str | None, list[str]] = {}
    previous: str | None = None
    for step_id in stored:
        if step_id in listed:
            previous = step_id
        elif step_id in work.steps:
            behind.setdefault(previous, []).append(step_id)
    order = [*behind.get(None, ())]
    for step_id in given:
        order.extend((step_id, *behind.get(step_id, ())))
    work.steps = {step_id: work.steps[step_id] for step_id in order}
