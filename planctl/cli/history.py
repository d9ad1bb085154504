"""The commands that look back: log and undo."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from planctl.cli import complete
from planctl.cli.database import actor_of, require_session, use
from planctl.cli.document import utc
from planctl.cli.ids import resolve
from planctl.cli.output import emit_json, emit_lines, emit_text, remember_stored
from planctl.cli.settings import Settings
from planctl.errors import StepNotFound, UndoConflict
from planctl.journal import OTHER, LogRow, sides
from planctl.locate import locate
from planctl.plan import STATUSES, Plan, TaskStatus, check_session
from planctl.sanitize import shown
from planctl.text import WORDS

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from planctl.change import Change
    from planctl.stores.base import BaseStore

EXAMPLES = {
    'log': 'planctl log 3 -n 5',
    'undo': 'planctl undo --dry-run',
}


# --- log ----------------------------------------------------------------------------------------------------------


def log(
    settings: Settings,
    step: Annotated[
        str | None,
        typer.Argument(
            metavar='[ID]',
            help='Only this step, also one that is gone.',
            show_default=False,
            autocompletion=complete.ids,
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option('-n', metavar='N', min=1, help='The last N changes.', show_default=False)
    ] = None,
    since: Annotated[
        int, typer.Option('--since', metavar='REV', min=0, help='Only what came after this revision.')
    ] = 0,
    follow: Annotated[bool, typer.Option('--follow', help='Go on with what is being done, until Ctrl-C.')] = False,
) -> int:
    """Tell who changed what and when, the newest last."""
    check_session(settings.session_name)
    place = locate(settings.db)

    async def looked(store: BaseStore) -> tuple[Plan, list[LogRow]]:
        plan = await store.read()
        if not plan.removed:
            require_session(plan, place)
        return plan, await _rows(store, plan, step, count, since)

    plan, rows = use(settings, place, looked)
    _tell(settings, plan, rows)
    if follow:
        _follow(settings, step, plan.revision, max([since, plan.revision, *(row.revision for row in rows)]))
    return 0


async def _rows(store: BaseStore, plan: Plan, step: str | None, count: int | None, since: int) -> list[LogRow]:
    since = min(since, plan.revision)  # No database counts any further than it has to.
    if step is None:
        # Revisions count without a gap.
        return await store.log(since=since if count is None else max(since, plan.revision - count))
    # In one revision there is one row of a step.
    limit = None if count is None else min(count, plan.revision + 1)
    try:
        return await store.log(since=since, limit=limit, step_id=resolve(plan, step))
    except StepNotFound:
        if not (rows := await store.log(since=since, limit=limit, step_id=step)):
            raise
        return rows


def _follow(settings: Settings, step: str | None, last: int, seen: int) -> None:
    from planctl.cli.watch import changes

    for plan in changes(settings):
        if plan.revision < last:
            seen = plan.revision - 1  # Another file took the place of that one, as a checkout does.
        last = plan.revision
        if plan.revision <= seen:
            continue
        rows = use(settings, locate(settings.db), _newer(seen))
        if step is not None:
            named = _named(plan, step)
            rows = [row for row in rows if row.id == named]
        seen = plan.revision
        if rows:
            seen = max(seen, rows[-1].revision)
            _tell(settings, plan, rows)


def _newer(seen: int) -> Callable[[BaseStore], Coroutine[Any, Any, list[LogRow]]]:
    return lambda store: store.log(since=seen)


def _named(plan: Plan, step: str) -> str:
    try:
        return resolve(plan, step)
    except StepNotFound:
        return step


def _tell(settings: Settings, plan: Plan, rows: Sequence[LogRow]) -> None:
    if settings.json:
        entries = [_entry(row) for row in rows]
        emit_json({'schema': 1, 'kind': 'log', 'session': plan.session, 'revision': plan.revision, 'entries': entries})
    elif not settings.quiet:
        emit_lines(_lines(rows))


def _entry(row: LogRow) -> dict[str, Any]:
    told = sides(row)
    return {
        'revision': row.revision,
        'at': utc(row.at),
        'actor': row.actor,
        'operation': row.operation,
        'id': row.id,
        'before': _record(told.before),
        'after': _record(told.after),
    }


def _record(record: dict[str, Any] | None) -> dict[str, Any] | None:
    if record is None or record.get('started_at') is None:
        return record
    return record | {'started_at': utc(record['started_at'])}


def _lines(rows: Sequence[LogRow]) -> Iterator[tuple[str, str]]:
    width = max((len(str(row.revision)) for row in rows), default=0)
    for row in rows:
        moment = time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(row.at))
        who = 'another program' if row.actor == OTHER else row.actor
        undone = f'{row.operation}: ' if row.operation.startswith('undo ') else ''
        yield shown(f'{row.revision:>{width}}  {moment}  {who}  '), shown(f'{undone}{"; ".join(_said(row))}')


def _said(row: LogRow) -> Iterator[str]:
    """Yield what a row tells, in words."""
    told = sides(row)
    before, after = told.before or {}, told.after or {}
    step_id = row.id or "''"
    if told.of_session:
        yield from _said_of_session(before, after)
    elif row.before is None:
        status = _status(after)
        yield f'added {step_id} {after.get("content", "")!s}' + ('' if status == 'pending' else f' ({status})')
    elif row.after is None:
        yield f'removed {step_id} {before.get("content", "")!s}'
    else:
        yield from _said_of_step(step_id, before, after)


def _said_of_session(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if before.get('removed') != after.get('removed'):
        yield 'removed the session' if after.get('removed') else 'restored the session'
    for name in ('objective', 'brief'):
        if before.get(name) != after.get(name):
            yield f'{name}: {after[name]}' if after.get(name) else f'took the {name} away'


def _said_of_step(step_id: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    said: list[str] = []
    if _status(before) != _status(after):
        said.append(f'{_status(before)} → {_status(after)}')
    for name in ('content', 'active_form', 'note'):
        if before.get(name) != after.get(name):
            now = after.get(name)
            word = {'content': 'text', 'active_form': 'active form', 'note': 'note'}[name]
            said.append(f'{word}: {now}' if now else f'no {word}')
    if before.get('parent_id') != after.get('parent_id'):
        parent = after.get('parent_id')
        said.append(f'under {parent}' if parent else 'at the top level')
    if before.get('depends_on') != after.get('depends_on'):
        waits: list[str] = after.get('depends_on') or []
        said.append(f'depends on {", ".join(waits)}' if waits else 'depends on nothing')
    if before.get('owner') != after.get('owner') and after.get('owner'):
        said.append(f'taken by {after["owner"]}')
    if 'behind' in after:
        said.append(f'moved behind {after["behind"]}' if after['behind'] else 'moved to the top')
    text = after.get('content', '')
    shown_text = '' if before.get('content') != after.get('content') else f' · {text}'
    yield f'{step_id} {", ".join(said) or "started anew"}{shown_text}'


def _status(record: Mapping[str, Any]) -> str:
    return WORDS[STATUSES.get(record.get('status', ''), TaskStatus.pending)]


# --- undo ---------------------------------------------------------------------------------------------------------


def undo(
    settings: Settings,
    revision: Annotated[
        int | None,
        typer.Argument(metavar='[REV]', min=1, help='What to take back, whoever did it; see `planctl log`.'),
    ] = None,
    dry_run: Annotated[bool, typer.Option('--dry-run', help='Only say what would come of it.')] = False,
) -> int:
    """Take back a change: the last one that you made, or the one with this revision.

    Refused when a later change touched the same. To undo an undo is to do it again.
    """
    from planctl import core
    from planctl.cli.advice import advise

    check_session(settings.session_name)
    place, actor = locate(settings.db), actor_of(settings)

    async def take_back(store: BaseStore) -> Change:
        plan = await store.read()
        if not plan.removed:
            require_session(plan, place)
        return await core.undo(store, revision, actor=actor, preview=dry_run)

    try:
        outcome = use(settings, place, take_back)
    except UndoConflict as error:
        if revision is None:
            # The same one would be taken the next time: what came before it has to be named.
            advise(error, 'undo', settings)
            error.hint = f'{error.hint}; an older one: planctl undo REV'
        raise
    if not dry_run:
        remember_stored()
    _say(settings, outcome, dry_run=dry_run)
    return 0


def _say(settings: Settings, outcome: Change, *, dry_run: bool) -> None:
    undone = int(outcome.remark('undone')[0])
    if settings.json:
        from planctl.cli.document import document

        emit_json(
            document(
                'undo',
                outcome.after,
                [entry.after for entry in outcome.steps if entry.after is not None],
                actor=actor_of(settings),
                now=time.time(),
                changed=[entry.step.id for entry in outcome.steps],
                unblocked=[step.id for step in outcome.unblocked],
                undone=undone,
                dry_run=dry_run,
            )
        )
    elif not settings.quiet:
        from planctl.cli.answer import restated

        start = f'would undo {undone}' if dry_run else f'undid {undone}'
        said = [restated(outcome)]
        if outcome.before.removed != outcome.after.removed:
            said.append('removed the session' if outcome.after.removed else 'restored the session')
        emit_text(f'{start}: {" · ".join(part for part in said if part)}')
