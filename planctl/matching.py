"""Which stored step each item of a whole-plan write restates. Pure; it changes and refuses nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from planctl.operations import Draft
from planctl.plan import Step, text_mark
from planctl.sanitize import clean


@dataclass(slots=True)
class Match:
    """What items stand for, by their place in the list. An item that is in neither map is a new step."""

    stored: dict[int, str] = field(default_factory=dict[int, str])
    lost: dict[int, str] = field(default_factory=dict[int, str])
    """Items that restate a step which the writer was shown and which is gone since."""
    unmeant: list[int] = field(default_factory=list[int])
    """Items that are none of the step whose id they have: see `_is_meant`."""
    by_text: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Id given and id taken, where the text overruled the id."""


def match(
    items: Sequence[Draft], texts: Sequence[str], steps: Mapping[str, Step], base: Mapping[str, str] | None
) -> Match:
    """Match by id, then by equal text in order among the steps not yet matched. `base` has fingerprints by id.

    Where id and exact text point at two stored steps, the text decides: a model that numbers its list anew would
    otherwise rewrite every step. A step whose text another changed is also known by the text that the writer saw.
    """
    found, shown = Match(), base or {}
    named = [item.id if item.id is not None and item.id in steps else None for item in items]
    for at, step_id in enumerate(named):
        if step_id is not None and _reads(steps[step_id], texts[at], shown.get(step_id)):
            found.stored[at] = step_id
    taken = set(found.stored.values())
    stored_texts = _Texts((clean(step.content), step_id) for step_id, step in steps.items() if step_id not in taken)
    seen_texts = _Texts(
        (_text_of(mark), step_id) for step_id, mark in shown.items() if step_id not in taken and step_id in steps
    )

    def take(at: int) -> str | None:
        step_id = stored_texts.take(texts[at], taken) or seen_texts.take(text_mark(texts[at]), taken)
        if step_id is not None:
            found.stored[at] = step_id
        return step_id

    for at, step_id in enumerate(named):
        if step_id is not None and at not in found.stored and (other := take(at)) is not None:
            found.by_text.append((step_id, other))
    for at, step_id in enumerate(named):
        if step_id is None or at in found.stored:
            continue
        if base is not None and not _is_meant(items[at], steps[step_id], base.get(step_id)):
            found.unmeant.append(at)
        elif step_id not in taken:
            found.stored[at] = step_id
            taken.add(step_id)
    for at in range(len(items)):
        if at not in found.stored:
            take(at)
    gone = shown.keys() - steps.keys()
    _find_lost(found, items, texts, {step_id: mark for step_id, mark in shown.items() if mark and step_id in gone})
    return found


def _find_lost(found: Match, items: Sequence[Draft], texts: Sequence[str], gone: Mapping[str, str]) -> None:
    if not gone:
        return
    rest = [at for at in range(len(items)) if at not in found.stored]
    for at in rest:
        if (step_id := items[at].id) is not None and step_id in gone:
            found.lost[at] = step_id
    taken = set(found.lost.values())
    marks = _Texts((_text_of(mark), step_id) for step_id, mark in gone.items())
    for at in rest:
        if at not in found.lost and (step_id := marks.take(text_mark(texts[at]), taken)) is not None:
            found.lost[at] = step_id


def _is_meant(item: Draft, step: Step, mark: str | None) -> bool:
    """Whether an item with another text means the step whose id it has, which was shown as `mark`.

    Not when somebody else added the step since. Nor when the step is done, was never shown and the item does not say
    that it is done: a writer that counts its new steps from 1 would have them done before they are begun.
    """
    if mark is None:
        return False
    return mark != '' or not step.resolved or (item.status is not None and item.status.resolved)


def _reads(step: Step, text: str, mark: str | None) -> bool:
    if text in (step.content, clean(step.content)):
        return True
    return mark is not None and _text_of(mark) == text_mark(text)


def _text_of(fingerprint: str) -> str:
    return fingerprint.partition('.')[0]


class _Texts:
    """Ids by text, handed out in order, each once."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._ids: dict[str, list[str]] = {}
        for text, step_id in pairs:
            self._ids.setdefault(text, []).append(step_id)
        for ids in self._ids.values():
            ids.reverse()

    def take(self, text: str, taken: set[str]) -> str | None:
        """Return the first id with this text that is not taken, and note that it is."""
        ids = self._ids.get(text)
        while ids:
            step_id = ids.pop()
            if step_id not in taken:
                taken.add(step_id)
                return step_id
        return None
