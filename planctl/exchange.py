"""Plans from and to other texts: Markdown, JSON and JSON lines in, Mermaid out. Pure; rules judge what comes in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from planctl.errors import DuplicateId, InputError
from planctl.markdown import STATUS_OF, is_marked, number_dependencies, read_bullets, read_marked
from planctl.operations import Describe, Operation, Remove, Restore
from planctl.plan import STATUSES, Plan, Step, TaskStatus, are_moments, check_id, check_text, next_id_after
from planctl.sanitize import clean, clean_block, shown
from planctl.text import MARKS

Format: TypeAlias = Literal['md', 'json', 'jsonl']

FORMATS: Mapping[str, Format] = {'md': 'md', 'markdown': 'md', 'json': 'json', 'jsonl': 'jsonl', 'ndjson': 'jsonl'}
"""What the end of a file's name says of its content; of another the content itself decides."""


@dataclass(frozen=True, slots=True)
class Item:
    """One step as a text states it. `key` is what other items of the text call it, `id` what it wants to be called."""

    key: str
    content: str
    id: str | None = None
    status: TaskStatus = TaskStatus.pending
    active_form: str = ''
    parent: str | None = None
    depends_on: tuple[str, ...] = ()
    owner: str | None = None
    started_at: float | None = None
    note: str = ''


@dataclass(frozen=True, slots=True)
class Document:
    """What a text holds of a plan; an objective and a brief that it says nothing of are empty."""

    items: tuple[Item, ...]
    objective: str = ''
    brief: str = ''


@dataclass(frozen=True, slots=True)
class Import:
    """What a document comes to on a plan. `ids` are those of its steps in order; `renamed` those it could not keep."""

    operations: tuple[Operation, ...]
    ids: tuple[str, ...]
    renamed: Mapping[str, str]


# --- In -----------------------------------------------------------------------------------------------------------


def parse(text: str, named: Format | None = None) -> Document:
    """Return what the text holds. Raises `InputError` when it holds no step or is not what it is `named`."""
    match named or _guess(text):
        case 'json':
            document = _from_json(_loads(text, 'the text'))
        case 'jsonl':
            lines = ((at, line) for at, line in enumerate(text.split('\n'), 1) if line.strip())
            document = _from_json([_loads(line, f'line {at}') for at, line in lines])
        case _:
            document = _from_markdown(text)
    if not document.items and not (document.objective or document.brief):
        raise InputError('there is no step in it', hint='a checklist has one a bullet; planctl add - takes one a line')
    return document


def _guess(text: str) -> Format:
    start = text.lstrip()
    if not re.match(r'\{|\[\s*["{\]]', start) or re.match(r'\[\s*\]\s*\S', start):
        return 'md'
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        first = start.partition('\n')[0]
        return 'jsonl' if first.startswith('{') and first.rstrip().endswith('}') else 'json'
    return 'json'


def _loads(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f'{where} is nested too deeply') from None
    except ValueError as error:
        raise InputError(f'{where} is not JSON: {error}') from error


def _from_markdown(text: str) -> Document:
    if is_marked(text):
        marked = read_marked(text)
        keys = [step.id or f'\0{at}' for at, step in enumerate(marked.steps)]
        return Document(
            tuple(
                Item(
                    key=keys[at],
                    content=step.content,
                    id=step.id or None,
                    status=step.status,
                    active_form=step.active_form,
                    parent=None if step.parent is None else keys[step.parent],
                    depends_on=step.depends_on,
                    note=step.note,
                )
                for at, step in enumerate(marked.steps)
            ),
            marked.objective,
            marked.brief,
        )
    bullets, _ = read_bullets(text)
    number_dependencies(bullets)
    return Document(
        tuple(
            Item(
                key=f'\0{at}',
                content=entry.text,
                status=STATUS_OF[entry.mark or ' '],
                parent=None if entry.parent is None else f'\0{entry.parent}',
                depends_on=tuple(f'\0{other}' for other in entry.depends_on),
            )
            for at, entry in enumerate(bullets)
        )
    )


def _from_json(value: Any) -> Document:
    objective, brief, items = '', '', value
    if isinstance(value, dict):
        record = cast('dict[str, Any]', value)
        if 'items' in record and record.get('schema', _SCHEMA) != _SCHEMA:
            raise InputError(f'the JSON is of schema {record["schema"]!r}, this planctl reads schema {_SCHEMA}')
        items = record.get('items', [record])
        if 'items' in record:
            objective, brief = (_text(record, name, 'the document') for name in ('objective', 'brief'))
    if not isinstance(items, list):
        raise InputError('JSON holds a list of steps, or an object with such a list as its items')
    return Document(
        tuple(_item(at, item) for at, item in enumerate(cast('list[Any]', items))),
        clean_block(objective),
        clean_block(brief),
    )


_SCHEMA = 1
"""The version of the JSON contract that is read."""

_DERIVED = frozenset({'waits_for', 'ready', 'lease'})
_STATED = ('id', 'content', 'status', 'active_form', 'parent_id', 'depends_on', 'owner', 'started_at', 'note')


def _item(at: int, value: Any) -> Item:
    where = f'step {at + 1} of the text'
    if isinstance(value, str):
        return Item(f'\0{at}', value)
    if not isinstance(value, dict):
        raise InputError(f'{where} is neither an object nor a string')
    record = cast('dict[str, Any]', value)
    if unknown := [name for name in record if name not in _STATED and name not in _DERIVED]:
        raise InputError(f'{where} has a field {clean(unknown[0])[:40]!r}: there are {", ".join(_STATED)}')
    if 'content' not in record:
        raise InputError(f'{where} has no content')
    given = _reference(record.get('id'), where)
    depends_on: Any = record.get('depends_on') or []
    if not isinstance(depends_on, list):
        raise InputError(f'{where}: depends_on is a list of ids')
    waits = [_reference(on, where) for on in cast('list[Any]', depends_on)]
    status: Any = record.get('status') or 'pending'
    if status not in STATUSES:
        raise InputError(f'{where}: there is no status {clean(str(status))[:40]!r}: it is one of {", ".join(STATUSES)}')
    return Item(
        key=f'\0{at}' if given is None else given,
        content=_text(record, 'content', where),
        id=given,
        status=STATUSES[status],
        active_form=_text(record, 'active_form', where),
        parent=_reference(record.get('parent_id'), where),
        depends_on=tuple(dict.fromkeys(on for on in waits if on is not None)),
        owner=clean(_text(record, 'owner', where)) or None,
        started_at=_moment(record.get('started_at'), where),
        note=_text(record, 'note', where),
    )


def _text(record: Mapping[str, Any], name: str, where: str) -> str:
    value: Any = record.get(name)
    if value is None:
        return ''
    if not isinstance(value, str):
        raise InputError(f'{where}: {name} is text')
    return value


def _reference(value: Any, where: str) -> str | None:
    if value is None or value == '':
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f'{where}: an id is text')
    return value


def _moment(value: Any, where: str) -> float | None:
    if value is None:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise InputError(f'{where}: started_at is a time such as 2030-01-31T12:00:00Z') from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not are_moments(seconds):
        raise InputError(f'{where}: started_at is a time from 1970 to 9999, in UTC')
    return seconds


def bring_in(plan: Plan, document: Document, *, replacing: bool, actor: str, now: float) -> Import:
    """Return the operations that add the document's steps to the plan, or with `replacing` put them in its place.

    An id that is taken is given up for a new one. Objective and brief of a plan that has some stay, unless replaced.
    `now`, in seconds since the epoch, is when `actor` starts what is in progress and says not who works on it. Raises
    `BlankText`, `InvalidId` and `DuplicateId`.
    """
    ids, renamed = _ids(plan, document.items, replacing=replacing)
    name = {item.key: step_id for item, step_id in zip(document.items, ids, strict=True)}
    steps = [_step(item, name, plan.get(name[item.key]), actor, now) for item in document.items]
    operations: list[Operation] = []
    if replacing:
        # Those at the top first: the others go with them.
        operations.extend(Remove(s.id, cascade=True) for s in sorted(plan.steps, key=lambda s: s.parent_id is not None))
    if steps:
        operations.append(Restore(tuple(steps)))
    said = {
        field: getattr(document, field)
        for field in ('objective', 'brief')
        if replacing or (getattr(document, field) and not getattr(plan, field))
    }
    if said:
        operations.append(Describe(**said))
    return Import(tuple(operations), tuple(ids), renamed)


def _ids(plan: Plan, items: Sequence[Item], *, replacing: bool) -> tuple[list[str], dict[str, str]]:
    keys: set[str] = set()
    for item in items:
        if item.key in keys:
            raise DuplicateId(f'two steps of the text have the id {clean(item.key)!r}', ids=[item.key])
        keys.add(item.key)
    kept = [
        None if item.id is None or (not replacing and item.id in plan.index) else check_id(item.id) for item in items
    ]
    counter = next_id_after(plan.next_id, [*plan.index, *filter(None, kept)])
    ids: list[str] = []
    for step_id in kept:
        if step_id is None:
            step_id, counter = str(counter), counter + 1
        ids.append(step_id)
    changed = zip(items, ids, strict=True)
    return ids, {item.id: step_id for item, step_id in changed if item.id is not None and item.id != step_id}


def _step(item: Item, name: Mapping[str, str], replaced: Step | None, actor: str, now: float) -> Step:
    content = check_text(item.content)
    works = item.status is TaskStatus.in_progress
    owner, started_at = item.owner, item.started_at
    if owner is None and started_at is None:
        # A checklist says nothing of them: who works on the step that it replaces goes on, else whoever brings it in.
        same = replaced is not None and replaced.status is item.status
        owner, started_at = (replaced.owner, replaced.started_at) if replaced is not None and same else (actor, now)
    return Step(
        id=name[item.key],
        content=content,
        status=item.status,
        active_form=clean(item.active_form),
        parent_id=None if item.parent is None else name.get(item.parent, item.parent),
        depends_on=tuple(name.get(on, on) for on in item.depends_on),
        owner=owner if works else None,
        started_at=started_at if works else None,
        note=clean(item.note),
    )


# --- Out ----------------------------------------------------------------------------------------------------------

_CLASSES = {
    TaskStatus.in_progress: 'stroke-width:3px',
    TaskStatus.completed: 'stroke-dasharray:2 3',
    TaskStatus.cancelled: 'stroke-dasharray:2 3,opacity:0.5',
    TaskStatus.blocked: 'stroke-dasharray:8 4',
}


def render_mermaid(plan: Plan, steps: Iterable[Step]) -> str:
    """Return a Mermaid flowchart: an arrow from each step to those that wait for it, a dotted line to its subtasks."""
    return '\n'.join(_mermaid(plan, list(steps)))


def _mermaid(plan: Plan, steps: Sequence[Step]) -> Iterator[str]:
    node = {step.id: f's{at}' for at, step in enumerate(steps)}
    yield 'flowchart TD'
    for step in steps:
        label = _label(f'{MARKS[step.status]} {shown(step.id)} {shown(step.content)}')
        kind = f':::{step.status.value}' if step.status in _CLASSES else ''
        yield f'  {node[step.id]}["{label}"]{kind}'
    for step in steps:
        for on in step.depends_on:
            if on in node:
                yield f'  {node[on]} --> {node[step.id]}'
        if step.parent_id in node:
            yield f'  {node[step.parent_id]} -.- {node[step.id]}'
    for status, style in _CLASSES.items():
        if any(step.status is status for step in steps):
            yield f'  classDef {status.value} {style}'


def _label(text: str) -> str:
    """Return text inside the quotes of a label: whatever Mermaid, Markdown or HTML could take for more is a number."""
    return re.sub(r'[^\w .,:/+=()?!\'\u0080-\U0010ffff-]|(?<=:)/(?=/)', lambda match: f'#{ord(match[0])};', text)
