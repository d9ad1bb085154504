"""A plan, or a part of it, as text in an editor: what is shown, and what a text read back comes to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from planctl.errors import BlankText, DuplicateId, InputError
from planctl.markdown import STEPS, MarkedStep, is_marked, read_bullets, read_marked, render_markdown
from planctl.operations import Describe, Draft, Note, Operation, Replace
from planctl.plan import Plan, Step, next_id_after
from planctl.text import MARKS, WORDS, tree_order

HELP = f"""\
<!--
One step a line. In back-ticks is its id: a line without one is a new step, a
line that is gone is removed. Leave the text as it is to change nothing.

{'  '.join(f'{mark} {WORDS[status]}' for status, mark in MARKS.items())}

Steps further to the right are subtasks of the one above them. Behind the text,
in this order: (depends on: 1, 2) (active form: the text while it is in
progress) — and a note behind a dash.
-->

"""
"""What an editor shows above a plan."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What is shown for editing: the plan as it was, the text, and which of its steps are in it (`None`: all)."""

    plan: Plan
    text: str
    root: str | None = None

    @property
    def rows(self) -> list[tuple[int, Step]]:
        """The steps that are shown, with their depths."""
        return _rows(self.plan, self.root)


def sheet(plan: Plan, root: str | None = None) -> Sheet:
    """Return the plan, or one step with all that is below it, as it is shown for editing."""
    rows = _rows(plan, root)
    of_session = plan if root is None else replace(plan, objective='', brief='')
    # What is counted below the list is nothing to be edited.
    text, _, _ = render_markdown(of_session, rows).rpartition('\n\n')
    return Sheet(plan, f'{HELP}{text or STEPS}\n' + ('' if rows else '\n- [ ] \n'), root)


def _rows(plan: Plan, root: str | None) -> list[tuple[int, Step]]:
    rows = tree_order(plan.steps)
    if root is None:
        return rows
    at = next(at for at, (_, step) in enumerate(rows) if step.id == root)
    top = rows[at][0]
    end = next((later for later in range(at + 1, len(rows)) if rows[later][0] <= top), len(rows))
    return [(depth - top, step) for depth, step in rows[at:end]]


def edited(shown: Sheet, text: str, plan: Plan) -> list[Operation]:
    """Return the operations that make of the plan, as it is now, what was made of the text that was shown.

    A three-way merge: what others changed meanwhile stays, unless the text says otherwise. None when the text says
    what was shown. Raises `InputError`, `BlankText` and `DuplicateId`; what the rules say of the outcome is theirs.
    """
    if not is_marked(text) and read_bullets(text)[0]:
        raise InputError(f'the line {STEPS} is gone from the text', hint='put it back above the first step')
    before, now = (read_marked(each, shown.plan.index) for each in (shown.text, text))
    operations: list[Operation] = []
    if shown.root is None:
        told = {name: said for name in ('objective', 'brief') if (said := getattr(now, name)) != getattr(before, name)}
        if told:
            operations.append(Describe(told.get('objective'), told.get('brief')))
    if now.steps == before.steps:
        return operations
    if not now.steps:
        raise InputError('no step is left in the text', hint='planctl rm removes steps')
    ids = _ids(now.steps, shown, plan)
    _refuse_loose_ends(now.steps, ids, shown)
    drafts = [_draft(step, ids, at, shown) for at, step in enumerate(now.steps)]
    base = {step.id: step.fingerprint for _, step in shown.rows}
    others = {} if shown.root is None else {step.id: step for step in plan.steps if step.id not in base}
    base |= {step_id: step.fingerprint for step_id, step in others.items()}
    operations.append(Replace(tuple(_ordered(drafts, others, shown, plan)), tuple(base.items())))
    operations.extend(_notes(now.steps, ids, shown))
    return operations


def _ids(steps: Sequence[MarkedStep], shown: Sheet, plan: Plan) -> list[str]:
    """Return what each line is called: its id, that of a line with its text that is gone, else the next integer."""
    given = Counter(step.id for step in steps if step.id)
    if new := next((step for step in steps if step.id and step.id not in shown.plan.index), None):
        raise InputError(
            f'no step has the id of the line `{new.id}` {new.content}',
            ids=[new.id],
            hint='a new step has no id; a text that begins with back-ticks has a backslash before them',
        )
    if twice := next((step_id for step_id, lines in given.items() if lines > 1), None):
        raise DuplicateId(f'two lines have the id {twice}', ids=[twice])
    gone: dict[str, list[str]] = {}
    for _, step in reversed(shown.rows):
        if step.id not in given:
            gone.setdefault(step.content, []).append(step.id)
    counter = next_id_after(plan.next_id, plan.index)
    ids: list[str] = []
    for step in steps:
        if step.id:
            ids.append(step.id)
        elif again := gone.get(step.content):
            ids.append(again.pop())
        else:
            ids.append(str(counter))
            counter += 1
    return ids


def _refuse_loose_ends(steps: Sequence[MarkedStep], ids: Sequence[str], shown: Sheet) -> None:
    """Refuse a line that waits for one that is gone: which of the two was meant cannot be told."""
    gone = {step.id for _, step in shown.rows}.difference(ids)
    for step in steps:
        if on := next(filter(gone.__contains__, step.depends_on), None):
            raise InputError(
                f'the line {f"`{step.id}` " if step.id else ""}{step.content} depends on {on}, whose line is gone',
                ids=[on],
                hint=f'put the line back, or take {on} out of (depends on: …)',
            )


def _draft(step: MarkedStep, ids: Sequence[str], at: int, shown: Sheet) -> Draft:
    if not step.content:
        raise BlankText(f'the text of step {ids[at]} is blank', ids=[ids[at]])
    if step.parent is not None:
        parent = ids[step.parent]
    else:
        parent = '' if shown.root is None else shown.plan.step(shown.root).parent_id or ''
    return Draft(step.content, ids[at], step.status, step.active_form, parent, step.depends_on)


def _ordered(drafts: Sequence[Draft], others: dict[str, Step], shown: Sheet, plan: Plan) -> Iterator[Draft]:
    """Yield the drafts in the places that their steps have among the others, which are restated as they are.

    What is shown is a tree, which need not be the plan's order: where no line was moved that order stays. New lines
    stay behind the one above them.
    """
    tree = [step.id for _, step in shown.rows]
    known = set(tree)
    followers: dict[str | None, list[Draft]] = {}
    given: dict[str, Draft] = {}
    for draft in drafts:
        if draft.id in known:
            given[draft.id or ''] = draft
        else:
            followers.setdefault(next(reversed(given), None), []).append(draft)
    in_plan = [step.id for step in plan.steps if step.id in given]
    is_moved = list(given) != [step_id for step_id in tree if step_id in given]
    sequence = list(given) if is_moved else [*in_plan, *(each for each in given if each not in plan.index)]
    places = iter(sequence)
    first = True
    for step in plan.steps:
        if step.id in others:
            yield Draft(step.content, step.id)
        elif step.id in given:
            step_id = next(places)
            yield from (*(followers.get(None, ()) if first else ()), given[step_id], *followers.get(step_id, ()))
            first = False
    if first:
        yield from followers.get(None, ())
    for step_id in places:
        yield from (given[step_id], *followers.get(step_id, ()))


def _notes(steps: Sequence[MarkedStep], ids: Sequence[str], shown: Sheet) -> Iterator[Operation]:
    """Yield the operations for notes that were edited, or kept by somebody who changed the status."""
    for step, step_id in zip(steps, ids, strict=True):
        was = shown.plan.get(step_id) or Step(step_id, '')
        if step.note != was.note or (step.note and step.status is not was.status):
            yield Note(step_id, step.note)
