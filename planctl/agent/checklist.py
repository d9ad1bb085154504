"""A checklist in plain text as plan items: one step a bullet or, without bullets, one a sentence. Pure text work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from planctl.markdown import is_marked, number_dependencies, read_bullets, read_marked

_QUOTED = re.compile(r'(`+)(?P<command>.+?)\1')
_SENTENCE_END = re.compile(r'(?<=[.!?])\s+')
_NO_STEP = frozenset({'x', 'X', '-'})
"""Marks of entries that are done or dropped: nothing is left to be planned for them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of a checklist. `parent` and `depends_on` are positions in the list of entries, from 0."""

    text: str
    parent: int | None = None
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Checklist:
    """The steps of a text, and what it says besides: headings and paragraphs around the bullets."""

    entries: tuple[Entry, ...]
    around: str = ''


def parse(text: str) -> Checklist:
    """Read a text as a checklist. Nested bullets are subtasks; `(depends on: 2)` names a bullet of the top level.

    Bullets that are ticked are left out with everything below them, and are nothing to wait for. Blocks between fences
    are no bullets.
    """
    if is_marked(text):
        return _marked(text)
    bullets, around = read_bullets(text)
    if not bullets:
        return Checklist(tuple(Entry(sentence) for sentence in _sentences(text)))
    number_dependencies(bullets)
    place = _places([(bullet.parent, bullet.mark in _NO_STEP) for bullet in bullets])
    return Checklist(
        tuple(
            Entry(
                bullets[at].text,
                place.get(bullets[at].parent),
                tuple(place[other] for other in bullets[at].depends_on if other in place),
            )
            for at in place
            if at is not None
        ),
        around,
    )


def _marked(text: str) -> Checklist:
    """Read a checklist that planctl wrote: its dependencies name ids."""
    marked = read_marked(text)
    place = _places([(step.parent, step.status.resolved) for step in marked.steps])
    ids = {step.id: place[at] for at, step in enumerate(marked.steps) if step.id and at in place}
    entries = (
        Entry(
            step.content,
            place.get(step.parent),
            tuple(ids[other] for other in step.depends_on if other in ids),
        )
        for at, step in enumerate(marked.steps)
        if at in place
    )
    return Checklist(tuple(entries), '\n\n'.join(filter(None, (marked.objective, marked.brief))))


def _places(entries: Sequence[tuple[int | None, bool]]) -> dict[int | None, int]:
    """Return which place each entry has once those that are skipped are left out, with all that is below them."""
    place: dict[int | None, int] = {}
    for at, (parent, skipped) in enumerate(entries):
        if not skipped and (parent is None or parent in place):
            place[at] = len(place)
    return place


def commands(text: str) -> list[str]:
    """Return what a step quotes in back-ticks, in order."""
    return [command for match in _QUOTED.finditer(text) if (command := match['command'].strip())]


def _sentences(text: str) -> list[str]:
    """Split prose, never inside back-ticks; a blank line ends a sentence as well, and a heading is none."""
    found: list[str] = []
    lines = ['' if line.lstrip().startswith('#') else line.strip() for line in text.replace('\0', '').splitlines()]
    for paragraph in re.split(r'\n\n+', '\n'.join(lines)):
        quoted: list[str] = []

        def hide(match: re.Match[str], quoted: list[str] = quoted) -> str:
            quoted.append(match[0])
            return f'\0{len(quoted) - 1}\0'

        for sentence in _SENTENCE_END.split(_QUOTED.sub(hide, paragraph.replace('\n', ' '))):
            whole = re.sub(r'\0(\d+)\0', lambda match, quoted=quoted: quoted[int(match[1])], sentence).strip()
            if whole:
                found.append(whole)
    return found
