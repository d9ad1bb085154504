"""The reminder: a plan as a model is shown it with every request, bounded in size. Pure; it never touches a request.

What a step says can neither end the reminder nor pass for a line, a count or an instruction of it: a text stays on
its line, behind the mark and the id.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from operator import is_not

from planctl.claims import held
from planctl.operations import Draft
from planctl.plan import Plan, Step, TaskStatus
from planctl.readiness import ready
from planctl.sanitize import clean, shown
from planctl.text import MARKS, progress_line, tree_order
from planctl.working import Working

OPENING = '<plan-reminder>\n'
CLOSING = '\n</plan-reminder>'

INTRODUCTION = 'Automatic, not from the user. The plan now:'
FINISHED = 'Automatic, not from the user. Nothing in the plan is open any more:'
KEEP_CURRENT = 'Keep it current with {tool}.'
LEFT_OUT = '{count} more open steps are not listed here.'
LEFT_OUT_READ = '{count} more open steps are not listed here; {tool} lists every step.'
ADDED, CHANGED = 'added by someone else', 'changed by someone else'
REMOVED = 'Removed by someone else: {ids}'

TOOLS: Mapping[str, str] = {name: name for name in ('read_plan', 'update_task_status', 'write_plan')}
"""The tools that the reminder may name, as an agent with all of them calls them."""

MAX_LINES, MAX_CHARACTERS = 40, 6_000
WITHOUT_READING = 4
"""How many times as much is shown when nothing else shows the rest."""
LINE, LINE_IN_PROGRESS = 200, 1_000
CUT = '…'

# Whatever stands between the letters, a reader of tags could take it for ours.
_TAG = re.compile(r'<(?=[\W_]{0,40}plan[\W_]{0,20}reminder)', re.IGNORECASE)
_RESERVED = 500
"""Characters kept for everything but the lines of steps."""


@dataclass(frozen=True, slots=True)
class Reminder:
    """The text, empty when the plan has no steps, and what its reader then knows: pairs of id and `fingerprint`.

    `rest` are the steps that no line shows, as far as that is not known already; the resolved ones among them have an
    empty fingerprint. `gone` were known and are no longer there.
    """

    text: str = ''
    shown: tuple[tuple[str, str], ...] = ()
    rest: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()


def remind(
    plan: Plan,
    *,
    tools: Mapping[str, str] = TOOLS,
    known: Mapping[str, str] | None = None,
    last: Sequence[Step] = (),
    actor: str | None = None,
    now: float = 0.0,
) -> Reminder:
    """Return the reminder of a plan, without its opening tag and with its closing one.

    `tools` maps the names of the registered plan tools to what the model calls them. `known` is what the reader knew
    after the last reminder and its own operations since; whatever differs was done by somebody else and is marked.
    `last` are the steps of the plan that the last reminder was made of: what is still the same object there is known.
    `now` is in seconds since the epoch; it says whose leases still run. Near-linear in the size of the plan.
    """
    if not plan.steps:
        return Reminder(gone=tuple(known or ()))
    prints, marks = _news(plan, known, last)
    progress = plan.progress
    lines = _Lines(plan, marks, actor, now)
    factor = 1 if 'read_plan' in tools else WITHOUT_READING
    chosen = _choose(plan, lines, MAX_LINES * factor, MAX_CHARACTERS * factor - _RESERVED)
    text = [INTRODUCTION if progress.open else FINISHED]
    text.extend(lines.of(step).text(depth) for depth, step in tree_order(chosen))
    open_count = progress.open - sum(not step.resolved for step in chosen)
    if open_count:
        reading = tools.get('read_plan')
        text.append((LEFT_OUT_READ if reading else LEFT_OUT).format(count=open_count, tool=reading))
    removed = known.keys() - plan.index.keys() if known else ()
    gone = [step_id for step_id in known or () if step_id in removed] if removed else []
    if gone:
        text.append(REMOVED.format(ids=_few(gone, 120)))
    text.append(progress_line(progress))
    updating = next((tools[name] for name in tools if name.startswith('update_')), tools.get('write_plan'))
    if progress.open and updating:
        text.append(KEEP_CURRENT.format(tool=updating))
    listed = {step.id: '' if step.resolved and step.id not in marks else step.fingerprint for step in chosen}
    rest = tuple((step_id, known_as) for step_id, known_as in prints.items() if step_id not in listed)
    return Reminder('\n'.join(text) + CLOSING, tuple(listed.items()), rest, tuple(gone))


def _news(plan: Plan, known: Mapping[str, str] | None, last: Sequence[Step]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fingerprints that are not known (empty for a step long resolved), and the marks of what others did."""
    prints: dict[str, str] = {}
    marks: dict[str, str] = {}
    before_of = (known or {}).get
    # Compared in C: of a large plan hardly anything changes from one request to the next.
    for step in (*compress(plan.steps, map(is_not, plan.steps, last)), *plan.steps[len(last) :]):
        before: str | None = before_of(step.id)
        if not before and step.resolved:
            if before is None:
                prints[step.id] = ''
            continue
        current = step.fingerprint
        if before == current:
            if step.resolved:
                prints[step.id] = ''
            continue
        prints[step.id] = current
        if known is not None:
            marks[step.id] = ADDED if before is None else CHANGED
    return prints, marks


# --- One line ---------------------------------------------------------------------------------------------------


class _Lines:
    """The lines of a plan, each made when it is first asked for, and what else is asked of the plan for them."""

    def __init__(self, plan: Plan, marks: Mapping[str, str], actor: str | None, now: float) -> None:
        self.plan, self.marks, self.actor, self.now = plan, marks, actor, now
        self._made: dict[str, _Line] = {}

    def of(self, step: Step) -> _Line:
        line = self._made.get(step.id)
        if line is None:
            line = self._made[step.id] = _Line(self.plan, step, self._remarks(step))
        return line

    def _remarks(self, step: Step) -> Iterator[str]:
        if held(step, self.now) and step.owner != self.actor:
            yield f'held by {shown(step.owner or "")[:40]}'
        if step.id in self.marks:
            yield self.marks[step.id]


class _Line:
    """A step on one line: mark, id, text, what is said of it. Only the text, the activity and the note are cut."""

    def __init__(self, plan: Plan, step: Step, remarks: Iterable[str]) -> None:
        waits = [on for on in step.depends_on if (other := plan.get(on)) is not None and not other.resolved]
        said = [f'waits for {_few(waits, 60)}'] if waits else []
        self._mark = MARKS[step.status]
        self._id = safe(step.id)[:64]
        limit = LINE_IN_PROGRESS if step.status is TaskStatus.in_progress else LINE
        tail = ''.join(f' ({remark})' for remark in (*said, *remarks))
        extra = ''
        if step.status is TaskStatus.in_progress and step.active_form:
            extra += f' ({_cut(safe(step.active_form), limit // 4)})'
        if step.note:
            extra += f' -- {_cut(safe(step.note), limit // 3)}'
        room = limit - len(self._mark) - len(self._id) - 2 - len(tail) - len(extra)
        self._body = f'{_cut(safe(step.content), max(room, 40))}{extra}{tail}'

    def text(self, depth: int) -> str:
        return f'{"  " * min(depth, 8)}{self._mark} {self._id} {self._body}'

    def __len__(self) -> int:
        return len(self.text(0))


def safe(text: str) -> str:
    """Return stored text as it stands in the reminder: on one line, and without anything that could end it."""
    return _TAG.sub('&lt;', shown(text))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + CUT


def _few(ids: Sequence[str], limit: int) -> str:
    """Return as many ids as fit, at least one, and how many more there are."""
    named = safe(ids[0])[:64]
    for at, step_id in enumerate(ids[1:], 1):
        more = f'{named}, {safe(step_id)[:64]}'
        if len(more) > limit:
            return f'{named} and {len(ids) - at} more'
        named = more
    return named


# --- Which lines ------------------------------------------------------------------------------------------------


_MARGIN = 17
"""Characters of a line break and the deepest indentation."""


def _choose(plan: Plan, lines: _Lines, max_lines: int, max_characters: int) -> list[Step]:
    """Return the steps to list, in plan order; those furthest from being available are left out first."""
    if plan.progress.open <= max_lines:
        wanted = [step for step in plan.steps if not step.resolved or step.id in lines.marks]
        if len(wanted) <= max_lines and sum(len(lines.of(step)) + _MARGIN for step in wanted) <= max_characters:
            return wanted
    chosen: set[str] = set()
    missed = 0
    for step in _nearest(lines):
        if len(chosen) == max_lines or missed == max_lines:
            break
        size = len(lines.of(step)) + _MARGIN
        if size <= max_characters:
            chosen.add(step.id)
            max_characters -= size
        else:
            missed += 1
    return [step for step in plan.steps if step.id in chosen]


def _nearest(lines: _Lines) -> Iterator[Step]:
    """Yield steps to list, each once: in progress, touched by others, available, by distance; within that in order."""
    plan = lines.plan
    can_start: set[str] = set()

    def leaves() -> Iterator[Step]:
        for entry in ready(plan, lines.actor, lines.now):
            can_start.add(entry.step.id)
            if not entry.open_children:
                yield entry.step

    yielded: set[str] = set()
    first = (
        (step for step in plan.steps if step.status is TaskStatus.in_progress) if plan.progress.in_progress else (),
        (plan.index[step_id] for step_id in lines.marks),
        leaves(),
    )
    for step in chain.from_iterable(first):
        if step.id not in yielded:
            yielded.add(step.id)
            yield step
    distance = _distances(plan, can_start)
    rest = (step for step in plan.steps if not step.resolved and step.id not in yielded)
    yield from sorted(rest, key=lambda step: distance.get(step.id, 0.0))


def _distances(plan: Plan, can_start: Container[str]) -> dict[str, float]:
    """Return for each open step how many others have to be resolved one after the other before it can start.

    A step that is ready but has open subtasks comes behind the leaves. What a loop made by another program holds is
    furthest away.
    """
    work = Working(plan)
    before = {step.id: _openers(work, step) for step in plan.steps if not step.resolved}
    after: dict[str, list[tuple[str, float]]] = {}
    missing = {step_id: len(openers) for step_id, openers in before.items()}
    for step_id, openers in before.items():
        for opener, weight in openers:
            after.setdefault(opener, []).append((step_id, weight))
    distance = dict.fromkeys(before, 0.0)
    queue = [step_id for step_id, count in missing.items() if count == 0]
    for step_id in queue:
        for later, weight in after.get(step_id, ()):
            distance[later] = max(distance[later], distance[step_id] + weight)
            missing[later] -= 1
            if missing[later] == 0:
                queue.append(later)
    for step_id in before:
        if missing[step_id]:
            distance[step_id] = float(len(before))
        else:
            distance[step_id] = 0.5 if step_id in can_start else max(distance[step_id], 1.0)
    return distance


def _openers(work: Working, step: Step) -> list[tuple[str, float]]:
    """Return what this step comes after: its prerequisites, one later each, and its parent."""
    found = [(on, 1.0) for on in work.open_prerequisites(step)]
    parent = work.steps.get(step.parent_id) if step.parent_id is not None else None
    if parent is not None and not parent.resolved:
        found.append((parent.id, 0.0))
    return found


# --- Back again -------------------------------------------------------------------------------------------------


def restated(plan: Plan, items: Iterable[Draft]) -> tuple[Draft, ...]:
    """Return the items with every text that restates a cut or escaped line put back to what is stored.

    A model that copies a line of its reminder into a whole-plan write means the step, not a new and shorter text.
    """
    return tuple(_whole(plan, item) for item in items)


def _whole(plan: Plan, item: Draft) -> Draft:
    text = item.content
    if CUT not in text and '&lt;' not in text and '\\u' not in text:
        return item
    text = clean(text)
    is_cut = text.endswith(CUT)
    step = plan.get(item.id) if item.id is not None else None
    if step is None or not _restates(text, step, is_cut):
        matches = [other for other in plan.steps if _restates(text, other, is_cut)]
        if len(matches) != 1 or item.id is not None:
            return item
        step = matches[0]
    return replace(item, content=step.content)


def _restates(text: str, step: Step, is_cut: bool) -> bool:
    if step.content == text:
        return True
    said = safe(step.content)
    return said == text or (is_cut and len(text) > 20 and len(said) > len(text) and said.startswith(text[:-1].rstrip()))
