"""A checklist in plain text as plan items: one step a bullet or, without bullets, one a sentence. Pure text work."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BULLET = re.compile(r'(?P<indent>\s*)(?:[-*+]|(?P<number>\d{1,9})[.)])\s+(?:\[(?P<mark>[ xX-])\]\s+)?(?P<text>\S.*)')
_FENCE = re.compile(r'\s*(```|~~~)')
_QUOTED = re.compile(r'(`+)(?P<command>.+?)\1')
_SENTENCE_END = re.compile(r'(?<=[.!?])\s+')
_DEPENDS = re.compile(r'\s*\((?:depends on|after):?\s*(?P<numbers>\d+(?:\s*(?:,|and)\s*\d+)*)\)', re.IGNORECASE)
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


@dataclass(slots=True)
class _Bullet:
    text: str
    indent: int
    number: int | None
    parent: int | None
    skipped: bool


def parse(text: str) -> Checklist:
    """Read a text as a checklist. Nested bullets are subtasks; `(depends on: 2)` names a bullet of the top level.

    The number is the printed one in a numbered list, else the position. One that names nothing stays part of the text.
    Bullets that are ticked are left out with everything below them. Blocks between fences are no bullets.
    """
    bullets, around = _bullets(text)
    if not bullets:
        return Checklist(tuple(Entry(sentence) for sentence in _sentences(text)))
    kept = [at for at in range(len(bullets)) if not _skipped(bullets, at)]
    place = {at: position for position, at in enumerate(kept)}
    numbers = _numbers(bullets)
    entries: list[Entry] = []
    for at in kept:
        bullet = bullets[at]
        words, waits = _dependencies(bullet.text, numbers, at, place)
        parent = None if bullet.parent is None else place[bullet.parent]
        entries.append(Entry(words, parent, waits))
    return Checklist(tuple(entries), around)


def commands(text: str) -> list[str]:
    """Return what a step quotes in back-ticks, in order."""
    return [command for match in _QUOTED.finditer(text) if (command := match['command'].strip())]


def _bullets(text: str) -> tuple[list[_Bullet], str]:
    bullets: list[_Bullet] = []
    around: list[str] = []
    open_bullets: list[int] = []
    fenced = False
    for raw in text.expandtabs(4).splitlines():
        if _FENCE.match(raw):
            fenced = not fenced
        match = None if fenced else _BULLET.fullmatch(raw)
        if match is not None:
            indent = len(match['indent'])
            while open_bullets and bullets[open_bullets[-1]].indent >= indent:
                open_bullets.pop()
            parent = open_bullets[-1] if open_bullets else None
            number = None if match['number'] is None else int(match['number'])
            bullets.append(_Bullet(match['text'].strip(), indent, number, parent, match['mark'] in _NO_STEP))
            open_bullets.append(len(bullets) - 1)
        elif open_bullets and not fenced and raw.strip() and len(raw) - len(raw.lstrip()) > bullets[-1].indent:
            bullets[-1].text += f' {raw.strip()}'
        else:
            if raw.strip() and not raw[0].isspace():
                open_bullets.clear()
            around.append(raw.rstrip())
    return bullets, re.sub(r'\n{3,}', '\n\n', '\n'.join(around)).strip()


def _skipped(bullets: list[_Bullet], at: int | None) -> bool:
    while at is not None:
        if bullets[at].skipped:
            return True
        at = bullets[at].parent
    return False


def _numbers(bullets: list[_Bullet]) -> dict[int, int]:
    """Return which bullet of the top level each number means."""
    top = [at for at, bullet in enumerate(bullets) if bullet.parent is None]
    if all(bullets[at].number is not None for at in top):
        printed = {bullets[at].number or 0: at for at in top}
        if len(printed) == len(top):
            return printed
    return dict(enumerate(top, 1))


def _dependencies(text: str, numbers: dict[int, int], at: int, place: dict[int, int]) -> tuple[str, tuple[int, ...]]:
    match = _DEPENDS.search(text)
    if match is None:
        return text, ()
    named = [numbers.get(int(number)) for number in re.findall(r'\d+', match['numbers'])]
    if any(other is None or other == at for other in named):
        return text, ()
    words = (text[: match.start()] + text[match.end() :]).strip()
    # A ticked bullet is nothing to wait for.
    return words or text, tuple(dict.fromkeys(place[other] for other in named if other in place))


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
