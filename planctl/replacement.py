"""Whole-plan replacement: what items make of the steps they restate, what is kept, what falls out. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from planctl.change import Remark
from planctl.errors import DuplicateId, EmptyReplacement
from planctl.judgement import Judgement, listed
from planctl.matching import match
from planctl.operations import Draft, Replace
from planctl.plan import SHOWN_FIELDS, Step, TaskStatus, check_id, check_text, field_marks
from planctl.sanitize import clean
from planctl.working import Working

# A step that was never shown: its text is unknown, and a new step's defaults say nothing of the other fields.
_UNSEEN = ['', *field_marks(Step('', ''))[1:]]


def restate(judgement: Judgement, operation: Replace) -> None:
    """Make the items the plan. Raises `EmptyReplacement`, `DuplicateId`, `InvalidId`, `BlankText`."""
    _refuse_repeated_ids(operation.items)
    open_ids = [step.id for step in judgement.work.steps.values() if not step.resolved]
    if not operation.items and open_ids:
        raise EmptyReplacement(f'an empty plan would drop the open steps {listed(open_ids)}', ids=open_ids)
    _Replacement(judgement, operation).carry_out()


def _refuse_repeated_ids(items: Sequence[Draft]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.id is None:
            continue
        if item.id in seen:
            raise DuplicateId(f'two items have the id {clean(item.id)!r}', ids=[item.id])
        seen.add(item.id)


class _Replacement:
    """A three-way merge of what the writer was shown, what is stored and what the items state.

    Without a base there is no telling who changed what: the items are the plan.
    """

    def __init__(self, judgement: Judgement, operation: Replace) -> None:
        self.judgement = judgement
        self.work = judgement.work
        self.stored = dict(judgement.work.steps)
        """The steps before anything was dropped, which also changes those that stay."""
        self.items = operation.items
        self.texts = [check_text(item.content, f'item {at}') for at, item in enumerate(operation.items, 1)]
        self.plain = operation.plain
        self.base = None if operation.base is None else dict(operation.base)
        self.ids: dict[int, str] = {}
        self.fresh: set[str] = set()
        self.aliases: dict[str, str | None] = {}
        self.remarks: dict[str, list[str]] = {}

    def carry_out(self) -> None:
        """Match, drop what falls out, put the items in their order, and remark on all that was not asked for."""
        work = self.work
        found = match(self.items, self.texts, work.steps, self.base)
        restated = set(found.stored.values())
        kept = [step.id for step in work.steps.values() if step.id not in restated and self._is_kept(step)]
        staying = restated.union(kept)
        gone = [step_id for step_id in work.steps if step_id not in staying]
        self._remark('dropped', *(step_id for step_id in gone if not work.steps[step_id].resolved))
        self._remark('kept', *kept)
        for given, taken in found.by_text:
            self._remark('identified_by_text', given, taken)
        stored_order = list(work.steps)
        work.drop(gone)
        deleted = {at for at, step_id in found.lost.items() if self._repeats(at, self._shown(step_id))}
        self._remark('stays_deleted', *(found.lost[at] for at in sorted(deleted)))
        known = found.stored | {at: step_id for at, step_id in found.lost.items() if at not in deleted}
        self._identify(known, deleted, found.unmeant)
        for at in found.unmeant:
            if at in self.ids:
                self._remark('id_taken', self.items[at].id or '', self.ids[at])
        for at in self.ids:
            self._put(at)
        _order(work, list(self.ids.values()), stored_order)
        self.judgement.remarks.extend(Remark(code, tuple(ids)) for code, ids in self.remarks.items())

    def _remark(self, code: str, *ids: str) -> None:
        if ids:
            self.remarks.setdefault(code, []).extend(ids)

    def _is_kept(self, step: Step) -> bool:
        """Whether a step that was left out stays: it is open and the writer never saw it as it is."""
        return self.base is not None and not step.resolved and self.base.get(step.id) != step.fingerprint

    def _shown(self, step_id: str) -> list[str]:
        """Return the marks of the step's fields as the writer was shown them; of a resolved one only that it is."""
        marks = (self.base or {}).get(step_id, '').split('.')
        return marks if len(marks) == len(SHOWN_FIELDS) else _UNSEEN

    def _repeats(self, at: int, shown: Sequence[str]) -> bool:
        """Whether an item states nothing but what was shown of its step."""
        stated = _stated(self.items[at], self.texts[at], {})
        marks = field_marks(replace(Step('', ''), **stated))
        return all(
            mark == known for name, mark, known in zip(SHOWN_FIELDS, marks, shown, strict=True) if name in stated
        )

    def _identify(self, known: dict[int, str], deleted: set[int], unmeant: Container[int]) -> None:
        """Give each item its id, those that were chosen first, and put new steps in place to be referred to."""
        work = self.work
        chosen = known | {
            at: item.id
            for at, item in enumerate(self.items)
            if at not in known and at not in unmeant and item.id is not None and item.id not in work.steps
        }
        for at, step_id in chosen.items():
            if at not in deleted and step_id not in work.steps:
                self._create(check_id(step_id), at)
        for at, item in enumerate(self.items):
            if at not in deleted:
                self.ids[at] = chosen[at] if at in chosen else self._create(work.new_id(), at)
            if item.id is not None:
                # Within one write an item's id means that item, whatever step it turned out to be.
                self.aliases[item.id] = self.ids.get(at)

    def _create(self, step_id: str, at: int) -> str:
        self.work.put(Step(id=step_id, content=self.texts[at]))
        self.fresh.add(step_id)
        return step_id

    def _put(self, at: int) -> None:
        step_id, item = self.ids[at], self.items[at]
        step = self.work.steps[step_id]
        is_new = step_id in self.fresh
        if not is_new and self._restates(item, self.texts[at], step):
            return
        stated = _stated(item, self.texts[at], self.aliases)
        if not is_new:
            stated = self._meant(step, stated)
            self._merge(step, stated)
        status = stated.pop('status', step.status)
        if stated:
            self.work.put(replace(step, **stated))
        # A start that is only restated is no change, but the note of several in progress speaks of it too.
        if is_new or status is not step.status or item.status is TaskStatus.in_progress:
            self.judgement.move(self.work.steps[step_id], status)

    @staticmethod
    def _restates(item: Draft, text: str, step: Step) -> bool:
        """Whether an item says no more than the text and the status that its step has: most items of most writes."""
        return (
            text == step.content
            and (item.status is None or (item.status is step.status and item.status is not TaskStatus.in_progress))
            and item.active_form is None
            and item.parent_id is None
            and item.depends_on is None
        )

    def _meant(self, step: Step, stated: dict[str, Any]) -> dict[str, Any]:
        """Return what an item states of a step that stays and that differs from how it reads."""
        meant = {name: value for name, value in stated.items() if value != getattr(step, name)}
        for name in ('content', 'active_form'):
            # Text of another program reads as it would be stored: to restate it is no change.
            if name in meant and meant[name] == clean(getattr(step, name)):
                del meant[name]
        if self.plain:
            # The writer knows nothing of these, so that it cannot mean to change them.
            meant.pop('parent_id', None)
            meant.pop('depends_on', None)
            if step.status is TaskStatus.blocked and meant.get('status') is TaskStatus.pending:
                del meant['status']
        return meant

    def _merge(self, step: Step, stated: dict[str, Any]) -> None:
        """Take out of `stated` what the writer only repeats; remark on what another changed, or both did."""
        stored = self.stored[step.id]
        if not stated or self.base is None or (stored is step and self.base.get(step.id) == step.fingerprint):
            return
        shown = self._shown(step.id)
        current, theirs, own = (field_marks(each) for each in (step, stored, replace(step, **stated)))
        for at, name in enumerate(SHOWN_FIELDS):
            if name not in stated or own[at] == current[at]:
                continue
            is_theirs = theirs[at] != shown[at]
            if own[at] == shown[at]:
                del stated[name]
                if is_theirs:
                    self._remark('merged', step.id, name, _as_text(step, name))
            elif is_theirs and own[at] != theirs[at]:
                self._remark('overruled', step.id, name, _as_text(stored, name))


def _stated(item: Draft, text: str, aliases: dict[str, str | None]) -> dict[str, Any]:
    """Return the fields that an item states, its references resolved; one to a step that stays deleted is left out."""
    stated: dict[str, Any] = {'content': text}
    if item.status is not None:
        stated['status'] = item.status
    if item.active_form is not None:
        stated['active_form'] = clean(item.active_form)
    if item.parent_id is not None:
        stated['parent_id'] = aliases.get(item.parent_id, item.parent_id) or None
    if item.depends_on is not None:
        resolved = (aliases.get(on, on) for on in item.depends_on)
        stated['depends_on'] = tuple(dict.fromkeys(on for on in resolved if on is not None))
    return stated


def _as_text(step: Step, name: str) -> str:
    match name:
        case 'depends_on':
            return ' '.join(step.depends_on)
        case 'status':
            return step.status.value
        case _:
            return getattr(step, name) or ''


def _order(work: Working, given: Sequence[str], stored: Sequence[str]) -> None:
    """Put the items in their order; a step that was kept stays behind the one that it stood behind."""
    in_place = set(given)
    behind: dict[str | None, list[str]] = {}
    previous: str | None = None
    for step_id in stored:
        if step_id in in_place:
            previous = step_id
        elif step_id in work.steps:
            behind.setdefault(previous, []).append(step_id)
    order = [*behind.get(None, ())]
    for step_id in given:
        order.extend((step_id, *behind.get(step_id, ())))
    work.steps = {step_id: work.steps[step_id] for step_id in order}
