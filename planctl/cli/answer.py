"""What a command that changed something says: one short true line, ids alone, or the JSON document."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planctl.change import Change
from planctl.cli.database import actor_of
from planctl.cli.output import emit, emit_json, emit_text
from planctl.cli.settings import Settings
from planctl.plan import Step, TaskStatus
from planctl.sanitize import shown
from planctl.text import WORDS, waits_for


def answer(settings: Settings, kind: str, change: Change, named: Sequence[str], text: str) -> None:
    """Say what `kind` did: the document with `--json`, ids of new and claimed steps with `--quiet`, else the text."""
    if settings.json:
        from planctl.cli.document import document

        plan = change.before if kind == 'rm' else change.after
        steps = [step for step_id in named if (step := plan.get(step_id)) is not None]
        emit_json(
            document(
                kind,
                change.after,
                steps,
                actor=actor_of(settings),
                now=time.time(),
                changed=[entry.step.id for entry in change.steps],
                unblocked=[step.id for step in change.unblocked],
            )
        )
    elif not settings.quiet:
        emit_text(text)
    elif kind in ('add', 'next'):
        emit(''.join(f'{shown(step_id)}\n' for step_id in named))


def added(change: Change, steps: Sequence[Step]) -> str:
    """Return one line for each new step."""
    lines: list[str] = []
    for step in steps:
        waits = waits_for(change.after, step)
        lines.append(f'added {step.id}  {shown(step.content)}' + (f' (waits for {", ".join(waits)})' if waits else ''))
    return '\n'.join(lines)


def restated(change: Change) -> str:
    """Return what came of a plan that was edited as a text: what changed, and what others had done meanwhile."""
    if not change.changed:
        return 'nothing to change'
    parts = [
        f'edited the {name}'
        for name in ('objective', 'brief')
        if getattr(change.before, name) != getattr(change.after, name)
    ]
    if new := [step.id for step in change.created]:
        parts.append(f'added {_ids(new)}')
    parts.extend(f'{shown(entry.step.id)} is {WORDS[entry.step.status]}' for entry in change.status_changed)
    places: list[str] = []
    changed: list[str] = []
    for entry in change.updated:
        step, was = entry.step, entry.before or entry.step
        if step.parent_id != was.parent_id:
            places.append(_place(step))
        if not entry.status_changed and step != replace(was, parent_id=step.parent_id):
            changed.append(step.id)
    if changed:
        parts.append(f'edited {_ids(changed)}')
    parts.extend(places)
    if moved := [entry.step.id for entry in change.steps if entry.moved and entry.before == entry.after]:
        parts.append(f'moved {_ids(moved)}')
    if change.deleted:
        parts.append(f'removed {_ids([step.id for step in change.deleted])}')
    if kept := change.remark('kept'):
        parts.append(f'{_ids(kept)} kept: new or changed by another since')
    if gone := change.remark('stays_deleted'):
        parts.append(f'{_ids(gone)} stays removed by another')
    overruled = change.remark('overruled')
    parts.extend(
        f'another had made {name.replace("_", " ")} of {shown(step_id)} {shown(value)!r}'
        for step_id, name, value in zip(overruled[::3], overruled[1::3], overruled[2::3], strict=True)
    )
    merged = change.remark('merged')
    if merged:
        parts.append(f'changes of another kept in {_ids(tuple(dict.fromkeys(merged[::3])))}')
    return ' · '.join([*parts, *_consequences(change, [entry.step.id for entry in change.steps])])


def brought(change: Change, ids: Sequence[str], renamed: Mapping[str, str], *, dry_run: bool) -> str:
    """Return what an import brought in, or would."""
    if not change.changed:
        return 'nothing to change'
    new = [step.id for step in change.created]
    named = set(ids)
    parts = [f'{len(new)} {"step" if len(new) == 1 else "steps"} added: {_few(new)}'] if new else []
    if updated := [entry.step.id for entry in change.updated if entry.step.id in named]:
        parts.append(f'{len(updated)} changed: {_few(updated)}')
    if change.deleted:
        parts.append(f'{len(change.deleted)} removed: {_few([step.id for step in change.deleted])}')
    if renamed:
        parts.append('taken ids: ' + ', '.join(f'{shown(old)} is now {shown(new)}' for old, new in renamed.items()))
    return ('would be: ' if dry_run else '') + ' · '.join([*parts, *_consequences(change, ids)])


def _few(ids: Sequence[str]) -> str:
    return _ids(ids) if len(ids) <= 12 else f'{_ids(ids[:10])} … {_ids(ids[-1:])}'


def moved(change: Change, named: Sequence[str], verb: str, status: TaskStatus) -> str:
    """Return what became of steps that were to be put into a status; `verb` is in the past tense."""
    after = change.after
    by_name = set(named)
    # With `cascade` others came along: to the same end, or, above one that is opened again, out of it.
    reached = [
        entry.step.id
        for entry in change.status_changed
        if entry.step.id in by_name
        or (entry.step.status is status and status.resolved)
        or (entry.before is not None and entry.before.resolved and not entry.step.resolved)
    ]
    parts = [f'{verb} {_ids(reached)}'] if reached else []
    rest = by_name.difference(reached)
    if noted := [entry.step.id for entry in change.steps if entry.step.id in rest]:
        parts.append(f'noted on {_ids(noted)}')
    rest.difference_update(noted)
    if same := [step_id for step_id in named if step_id in rest]:
        parts.append(', '.join(_already(after.step(step_id)) for step_id in same))
    parts.extend(
        f'{shown(step_id)} waits for {_ids(waits)}'
        for step_id in reached
        if after.step(step_id).status is TaskStatus.blocked and (waits := waits_for(after, after.step(step_id)))
    )
    return ' · '.join([*parts, *_consequences(change, reached)])


def _already(step: Step) -> str:
    # Whoever starts what another has taken must not take it for theirs.
    taken = f', taken by {shown(step.owner)}' if step.owner and step.status is TaskStatus.in_progress else ''
    return f'{shown(step.id)} is {WORDS[step.status]} already{taken}'


def removed(change: Change) -> str:
    """Return what was removed and whom that frees."""
    return ' · '.join([f'removed {_ids([step.id for step in change.deleted])}', *_consequences(change, ())])


def edited(change: Change, named: Sequence[str]) -> str:
    """Return what an edit changed: a step, or the session's objective and brief."""
    before, after = change.before, change.after
    what = [name for name in ('objective', 'brief') if getattr(before, name) != getattr(after, name)]
    if what:
        return f'edited the {" and the ".join(what)}'
    if not change.changed:
        return 'nothing to change'
    mended = change.remark('mended')
    parts = [f'{"mended" if mended else "edited"} {_ids(named)}']
    for step_id in named:
        step = after.step(step_id)
        earlier = before.get(step_id)
        if step_id in mended:
            on = f'depends on {_ids(step.depends_on)}' if step.depends_on else 'depends on nothing'
            parts.append(f'{shown(step_id)} is {WORDS[step.status]} and {on}')
            continue
        if earlier is not None and earlier.parent_id != step.parent_id:
            parts.append(_place(step))
        if earlier is not None and earlier.status is not step.status:
            waits = waits_for(after, step)
            parts.append(f'{shown(step_id)} ' + (f'waits for {_ids(waits)}' if waits else f'is {WORDS[step.status]}'))
    return ' · '.join([*parts, *_consequences(change, named)])


def _place(step: Step) -> str:
    place = f'under {shown(step.parent_id)}' if step.parent_id else 'at the top level'
    return f'{shown(step.id)} is {place} now'


def _consequences(change: Change, named: Sequence[str]) -> list[str]:
    parts: list[str] = []
    by_name = set(named)
    if free := [step.id for step in change.unblocked if step.id not in by_name]:
        parts.append(f'{_ids(free)} can start now')
    if waiting := [
        entry.step.id
        for entry in change.status_changed
        if entry.step.status is TaskStatus.blocked and entry.step.id not in by_name
    ]:
        parts.append(f'{_ids(waiting)} blocked')
    if completable := change.remark('completable'):
        parts.append(f'all of {_ids(completable)} is resolved')
    if several := change.remark('several_in_progress'):
        parts.append(f'in progress: {_ids(several)}')
    progress = change.after.progress
    if not change.before.progress.finished and progress.finished:
        parts.append('the plan is finished')
    elif not change.before.progress.abandoned and progress.abandoned:
        parts.append('every step is cancelled')
    return parts


def _ids(ids: Sequence[str]) -> str:
    return shown(', '.join(ids))
