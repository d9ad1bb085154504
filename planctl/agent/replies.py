"""What a plan tool answers, in words: short, true, with ids, and with a way out among the tools this agent has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from planctl.agent import prompts
from planctl.agent.answers import MAX_IDS, Applied, Refusal
from planctl.change import Remark, StepChange
from planctl.operations import Add, Depend, Operation, Remove, Replace, SetStatus, Undepend
from planctl.plan import Step, TaskStatus
from planctl.sanitize import shown
from planctl.text import progress_line

TEXT = 60
NAMED = 10
"""How many steps an answer gives with their text; the others are given by id."""


def reply(operations: Sequence[Operation], applied: Applied, *, reminded: bool = False) -> str:
    """Return the answer to a tool that changed the plan, or found it as it was asked to be.

    `reminded` says that a reminder follows, which has the progress: an answer is paid for again with every request.
    """
    parts = [_done(operations, applied), *_consequences(operations, applied), *_notes(applied)]
    if applied.progress.total and not reminded:
        parts.append(prompts.PROGRESS.format(progress=progress_line(applied.progress)))
    return '\n'.join(part for part in parts if part)


def refusal_text(refusal: Refusal, names: Mapping[str, str]) -> str:
    """Return the answer to a tool that changed nothing. `names` maps the tools there are to what they are called."""
    parts = [prompts.REFUSED.format(message=refusal.message)]
    if refusal.code == 'step_not_found':
        there = prompts.THE_IDS.format(ids=id_list(refusal.there)) if refusal.there else prompts.NO_IDS
        parts.append(there)
    blocking = id_list(refusal.ids[1:])
    updates = any(name.startswith('update_') or name == 'write_plan' for name in names)
    for tool, sentence in prompts.WAYS_OUT.get(refusal.code, ()):
        if tool == '' or tool in names or (tool == 'update' and updates):
            parts.append(sentence.format_map({**names, 'blocking': blocking}))
    if refusal.hint:
        parts.append(f'{refusal.hint}.')
    return ' '.join(parts)


# --- What was done ----------------------------------------------------------------------------------------------


def _done(operations: Sequence[Operation], applied: Applied) -> str:
    match operations:
        case [Replace()]:
            if not applied.ids:
                return prompts.SAVED_EMPTY
            saved = prompts.SAVED if applied.steps else prompts.SAVED_UNCHANGED
            return saved.format(ids=id_list(applied.ids))
        case [Add(parent_id=parent)]:
            step = next((change.after for change in applied.steps if change.before is None), None)
            assert step is not None
            template = prompts.ADDED if parent is None else prompts.ADDED_UNDER
            return template.format(id=step.id, parent=parent)
        case [Remove()]:
            return prompts.REMOVED.format(ids=id_list([c.step.id for c in applied.steps if c.after is None]))
        case [Depend(id=step_id, on=on)]:
            return prompts.WAITS.format(id=step_id, on=on, status=_status(applied, step_id))
        case [Undepend(id=step_id, on=on)]:
            return prompts.WAITS_NO_LONGER.format(id=step_id, on=on, status=_status(applied, step_id))
        case _:
            return _moved([op for op in operations if isinstance(op, SetStatus)], applied)


def _status(applied: Applied, step_id: str) -> str:
    step = applied.step(step_id)
    return '' if step is None else step.status.value


def _moved(moves: Sequence[SetStatus], applied: Applied) -> str:
    changes = {change.step.id: change for change in applied.steps if change.after is not None}
    ids = dict.fromkeys(move.id for move in moves)
    moved = [changes[step_id].step for step_id in ids if step_id in changes]
    unchanged = [step_id for step_id in ids if step_id not in changes]
    lines: list[str] = []
    if len(moved) == 1:
        step = moved[0]
        lines.append(prompts.MOVED.format(id=step.id, text=_text(step), status=step.status.value))
    elif moved:
        by_status: dict[TaskStatus, list[str]] = {}
        for step in moved:
            by_status.setdefault(step.status, []).append(step.id)
        lines.extend(
            prompts.MOVED_SEVERAL.format(status=status.value, ids=id_list(ids)) for status, ids in by_status.items()
        )
    if unchanged:
        lines.append(prompts.ALREADY.format(ids=id_list(unchanged)))
    wanted = {move.id: move.status for move in moves}
    if any(step.status is TaskStatus.blocked and wanted[step.id] is not TaskStatus.blocked for step in moved):
        lines.append(prompts.BUT_WAITS)
    return ' '.join(lines)


def _consequences(operations: Sequence[Operation], applied: Applied) -> Iterable[str]:
    """Yield what happened to steps that the call did not name."""
    whole = any(isinstance(operation, Replace) for operation in operations)
    named = {getattr(operation, 'id', None) for operation in operations}
    unnamed = [change for change in applied.steps if change.step.id not in named]
    if unblocked := [change.step for change in unnamed if _unblocked(change)]:
        yield prompts.UNBLOCKED.format(ids=with_text(unblocked))
    blocked = [change.step for change in unnamed if _blocked(change, created=whole)]
    if blocked:
        yield prompts.NOW_BLOCKED.format(ids=id_list([step.id for step in blocked]))


def _unblocked(change: StepChange) -> bool:
    before, after = change.before, change.after
    return before is not None and before.status is TaskStatus.blocked and after is not None and _is_pending(after)


def _is_pending(step: Step) -> bool:
    return step.status is TaskStatus.pending


def _blocked(change: StepChange, *, created: bool) -> bool:
    before, after = change.before, change.after
    if after is None or after.status is not TaskStatus.blocked or not after.depends_on:
        return False
    return created if before is None else before.status is not TaskStatus.blocked


def _notes(applied: Applied) -> Iterable[str]:
    for remark in applied.remarks:
        steps = [step for step_id in remark.ids if (step := applied.step(step_id)) is not None]
        match remark.code:
            case 'dropped':
                yield prompts.DROPPED.format(ids=with_text(steps))
            case 'kept':
                yield prompts.KEPT.format(ids=with_text(steps))
            case 'identified_by_text' | 'id_taken':
                template = prompts.BY_TEXT if remark.code == 'identified_by_text' else prompts.ID_TAKEN
                pairs = zip(remark.ids[::2], remark.ids[1::2], strict=True)
                yield template.format(
                    ids=', '.join(prompts.BY_TEXT_PAIR.format(given=given, taken=taken) for given, taken in pairs)
                )
            case 'several_in_progress':
                yield prompts.SEVERAL_IN_PROGRESS.format(ids=id_list(remark.ids))
            case 'completable':
                yield prompts.COMPLETABLE.format(ids=with_text(steps))
            case 'stays_deleted':
                yield prompts.STAYS_DELETED.format(ids=id_list(remark.ids))
            case 'overruled':
                yield prompts.OVERRULED.format(values=_values(remark))
            case 'merged':
                yield prompts.MERGED.format(values=_values(remark))
            case 'claimed':
                pass
            case _:
                yield prompts.OTHER_REMARK.format(code=remark.code.replace('_', ' '), ids=id_list(remark.ids))


# --- Parts ------------------------------------------------------------------------------------------------------


def id_list(ids: Iterable[str]) -> str:
    """Return ids in their order; four or more consecutive numbers become a range, and a long list is cut."""
    parts: list[str] = []
    run: list[str] = []
    expected = None

    def end() -> None:
        parts.extend([f'{run[0]} to {run[-1]}'] if len(run) >= 4 else run)
        run.clear()

    for step_id in ids:
        if step_id != expected:
            end()
        run.append(step_id)
        expected = str(int(step_id) + 1) if len(step_id) < 10 and step_id.isdecimal() else None
    end()
    if len(parts) > MAX_IDS:
        return f'{", ".join(parts[:MAX_IDS])} and more'
    return ', '.join(parts)


def with_text(steps: Sequence[Step]) -> str:
    """Return steps as id and text, the first of many; of the others the id."""
    named = [f'{step.id} ({_text(step)})' for step in steps[:NAMED]]
    return ', '.join([*named, *(step.id for step in steps[NAMED:])])


def _text(step: Step) -> str:
    return _cut(step.content)


def _values(remark: Remark) -> str:
    triples = zip(remark.ids[::3], remark.ids[1::3], remark.ids[2::3], strict=True)
    return ', '.join(prompts.VALUE.format(id=one, field=name, value=_cut(value)) for one, name, value in triples)


def _cut(stored: str) -> str:
    text = shown(stored)
    return text if len(text) <= TEXT else f'{text[: TEXT - 1].rstrip()}…'
