"""Checklists: a plan as Markdown, and any Markdown as a list of bullets. Pure text work; it decides nothing.

What `render_markdown` writes reads back equal: ids stand in back-ticks behind the mark, and comments that nobody sees
when it is rendered part the objective, the brief and the steps. In a text without them back-ticks are text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from planctl.plan import Plan, Step, TaskStatus
from planctl.sanitize import clean, clean_block, shown
from planctl.text import MARKS, progress_line

BRIEF = '<!-- planctl: brief -->'
STEPS = '<!-- planctl: steps -->'

STATUS_OF = {mark[1]: status for status, mark in MARKS.items()} | {'X': TaskStatus.completed}
"""The status that each mark stands for."""


# --- Escaping -----------------------------------------------------------------------------------------------------

# What Markdown, or HTML inside it, takes for more than text wherever it stands.
_SPECIAL = re.compile(
    r'[\\`*<~|\[\]]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|\((?=(?:depends on|active form):)', re.IGNORECASE
)
_LINE_START = re.compile(r'\s*(?:\d{1,9}(?=[.)])|(?=[#>+=-]))')
_NO_TEXT = re.compile('[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]')
_ESCAPED = re.compile(r'\\([!-/:-@\[-`{-~])|&#(?:x([0-9a-f]{1,6})|(\d{1,7}));|&mdash;')


def escape_markdown(text: str) -> str:
    """Return one line of text that Markdown shows as it is, wherever on a line it stands."""
    escaped = _inline(text)
    match = _LINE_START.match(escaped)
    return escaped if match is None else f'{match[0]}\\{escaped[match.end() :]}'


def unescape_markdown(text: str) -> str:
    """Return the text that `escape_markdown` made this of."""
    return _ESCAPED.sub(_meant, text)


def _meant(match: re.Match[str]) -> str:
    plain, code, number = match.groups()
    if code or number:
        return chr(min(int(code, 16) if code else int(number), 0x10FFFF))
    return plain or '—'


def _inline(text: str) -> str:
    return _NO_TEXT.sub(lambda match: f'&#x{ord(match[0]):x};', _SPECIAL.sub(r'\\\g<0>', text))


def _cell(text: str) -> str:
    """Return text for the inside of a bullet, where a dash of this kind begins the note."""
    return _inline(clean(text)).replace('—', '&mdash;')


def _paragraphs(text: str) -> str:
    # Two spaces at the end keep a line break.
    return '  \n'.join(escape_markdown(line) for line in text.split('\n'))


def _lines(block: str) -> str:
    return '\n'.join(unescape_markdown(line.removesuffix('  ')) for line in block.split('\n'))


def _code(step_id: str) -> str:
    fence = '`' * (1 + max((len(run) for run in re.findall('`+', step_id)), default=0))
    pad = ' ' if step_id.startswith('`') or step_id.endswith('`') else ''
    return f'{fence}{pad}{step_id}{pad}{fence}'


_PLAIN_ID = re.compile(r'[\w./:@+-]+')


def _reference(step_id: str) -> str:
    return step_id if _PLAIN_ID.fullmatch(step_id) else _code(step_id)


# --- Writing ------------------------------------------------------------------------------------------------------


def render_markdown(plan: Plan, rows: Iterable[tuple[int, Step]]) -> str:
    """Return a Markdown checklist with ids: objective and brief before it, the progress of the whole plan behind."""
    blocks: list[str] = []
    if plan.objective:
        first, _, more = clean_block(plan.objective).partition('\n')
        blocks.append('# ' + re.sub('(?<!&)#', r'\\#', _inline(first)))
        if more:
            blocks.append(_paragraphs(more))
    if plan.brief:
        blocks.extend((BRIEF, _paragraphs(clean_block(plan.brief))))
    lines = [bullet(step, depth) for depth, step in rows]
    if blocks or lines:
        blocks.append(STEPS)
    if lines:
        blocks.append('\n'.join(lines))
    blocks.append(progress_line(plan.progress))
    return '\n\n'.join(blocks)


def bullet(step: Step, depth: int = 0) -> str:
    """Return one step as a line of a checklist."""
    line = f'{"  " * depth}- {MARKS[step.status]} {_code(shown(step.id))} {_cell(step.content)}'
    if step.depends_on:
        line += f' (depends on: {", ".join(_reference(shown(on)) for on in step.depends_on)})'
    if step.active_form:
        line += f' (active form: {_cell(step.active_form)})'
    if step.note:
        line += f' — {_inline(clean(step.note))}'
    return line


# --- Reading ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Bullet:
    """One entry of a list, its text as it was written. `parent` is a position in the list of bullets, from 0."""

    text: str
    indent: int
    number: int | None
    parent: int | None
    mark: str | None
    depends_on: tuple[int, ...] = ()
    """Positions that `(depends on: 2)` names; filled by `number_dependencies`."""


@dataclass(frozen=True, slots=True)
class MarkedStep:
    """One step of a checklist that planctl wrote. `id` is empty for a bullet that somebody added."""

    id: str
    content: str
    status: TaskStatus
    parent: int | None
    depends_on: tuple[str, ...]
    active_form: str
    note: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A whole checklist that planctl wrote, and somebody may have edited since."""

    objective: str
    brief: str
    steps: tuple[MarkedStep, ...]


_BULLET = re.compile(
    r'(?P<indent>\s*)(?:[-*+]|(?P<number>\d{1,9})[.)])'
    r'(?:\s+\[(?P<mark>[ xX~!-])\](?=\s|$))?+(?:\s+(?P<text>\S.*)|\s*)'
)
_FENCE = re.compile(r'\s*(```|~~~)')
_DEPENDS = re.compile(r'\s*\((?:depends on|after):?\s*(?P<numbers>\d+(?:\s*(?:,|and)\s*\d+)*)\)', re.IGNORECASE)
_CODE = r'(?P<fence>`++)(?P<id>.+?)(?P=fence)(?!`)'
_MARKED_ID = re.compile(_CODE + r'(?: (?P<text>.*))?')
_REFERENCES = re.compile(_CODE + r'|(?P<plain>[^\s,`()]+)')
_WAITS = re.compile(r'(?:^| )\(depends on: (?P<ids>(?:' + _CODE + r'|[^()`])*)\)$', re.IGNORECASE)
_ACTIVE = re.compile(r'(?:^| )\(active form: (?P<text>.*)\)$', re.IGNORECASE)
_IS_MARKED = re.compile(f'^{STEPS}\\s*$', re.MULTILINE)
_IS_BRIEF = re.compile(f'^{BRIEF}\\s*$', re.MULTILINE)
_COMMENT = re.compile(r'^<!--.*?-->[ \t]*$', re.MULTILINE | re.DOTALL)


def is_marked(text: str) -> bool:
    """Whether planctl wrote the checklist, so that ids are ids and escapes are escapes."""
    return _IS_MARKED.search(text) is not None


def read_bullets(text: str) -> tuple[list[Bullet], str]:
    """Return the bullets of any Markdown, and what it says around them. Blocks between fences are no bullets."""
    bullets: list[Bullet] = []
    around: list[str] = []
    nested: list[int] = []
    fenced = False
    for raw in re.split('\r\n|\r|\n', text):
        if _FENCE.match(raw):
            fenced = not fenced
        match = None if fenced else _BULLET.fullmatch(raw)
        if match is not None and match['text'] is None:
            continue  # An empty bullet is where somebody stopped writing.
        if match is not None:
            indent = _width(match['indent'])
            while nested and bullets[nested[-1]].indent >= indent:
                nested.pop()
            parent = nested[-1] if nested else None
            number = None if match['number'] is None else int(match['number'])
            bullets.append(Bullet(match['text'].strip(), indent, number, parent, match['mark']))
            nested.append(len(bullets) - 1)
        elif nested and not fenced and raw.strip() and _width(raw[: len(raw) - len(raw.lstrip())]) > bullets[-1].indent:
            bullets[-1].text += f' {raw.strip()}'
        else:
            if raw.strip() and not raw[0].isspace():
                nested.clear()
            around.append(raw.rstrip())
    return bullets, re.sub(r'\n{3,}', '\n\n', '\n'.join(around)).strip()


def _width(space: str) -> int:
    return len(space.expandtabs(4))


def number_dependencies(bullets: Sequence[Bullet]) -> None:
    """Take `(depends on: 2)` out of the texts and note the positions that it names, among bullets of the top level.

    The number is the printed one in a numbered list, else the position. One that names nothing stays part of the text.
    """
    numbers = _numbers(bullets)
    for at, entry in enumerate(bullets):
        match = _DEPENDS.search(entry.text)
        if match is None:
            continue
        named = [numbers.get(int(number)) for number in re.findall(r'\d+', match['numbers'])]
        if any(other is None or other == at for other in named):
            continue
        if words := (entry.text[: match.start()] + entry.text[match.end() :]).strip():
            entry.text = words
        entry.depends_on = tuple(dict.fromkeys(other for other in named if other is not None))


def _numbers(bullets: Sequence[Bullet]) -> dict[int, int]:
    """Return which bullet of the top level each number means."""
    top = [at for at, entry in enumerate(bullets) if entry.parent is None]
    if all(bullets[at].number is not None for at in top):
        printed = {bullets[at].number or 0: at for at in top}
        if len(printed) == len(top):
            return printed
    return dict(enumerate(top, 1))


def read_marked(text: str, ids: Container[str] = ()) -> Marked:
    """Return what a checklist of ours says. An id with white space in it is one only when it is among `ids`."""
    text = re.sub('\r\n|\r', '\n', text)
    head, *listed = _IS_MARKED.split(text, 1)
    objective, *brief = _IS_BRIEF.split(head, 1)
    objective = _COMMENT.sub('', objective).strip('\n')
    first, _, more = objective.partition('\n')
    told = [unescape_markdown(re.sub(r'#+\s+', '', first, count=1) if first.startswith('#') else first)]
    if more:
        told.append(_lines(more.removeprefix('\n')))
    bullets, _ = read_bullets(''.join(listed))
    return Marked(
        objective=clean_block('\n'.join(told)),
        brief=clean_block(_lines(''.join(brief).strip('\n'))),
        steps=tuple(_marked_step(entry, ids) for entry in bullets),
    )


def _marked_step(entry: Bullet, ids: Container[str]) -> MarkedStep:
    text, step_id = entry.text, ''
    match = _MARKED_ID.fullmatch(text)
    if match is not None:
        named = match['id'].strip() if match['id'][0] == ' ' else match['id']
        if named in ids or not re.search(r'\s', named):
            step_id, text = named, match['text'] or ''
    # The second is what becomes of it where the encoding carries no more.
    text, _, note = text.replace(' &#8212; ', ' — ', 1).partition(' — ')
    active_form, depends_on = '', ()
    if (match := _ACTIVE.search(text)) is not None:
        active_form, text = match['text'], text[: match.start()]
    if (match := _WAITS.search(text)) is not None:
        found = (one['plain'] or one['id'].strip() for one in _REFERENCES.finditer(match['ids']))
        depends_on, text = tuple(dict.fromkeys(found)), text[: match.start()]
    return MarkedStep(
        id=step_id,
        content=clean(unescape_markdown(text)),
        status=STATUS_OF[entry.mark or ' '],
        parent=entry.parent,
        depends_on=depends_on,
        active_form=clean(unescape_markdown(active_form)),
        note=clean(unescape_markdown(note)),
    )
