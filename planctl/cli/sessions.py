"""`planctl session`: the sessions of a database, listed, copied, renamed and removed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Annotated, Any

import typer

from planctl.cli import complete
from planctl.cli.database import actor_of, require_session, use
from planctl.cli.output import complain, emit_json, emit_lines, remember_stored
from planctl.cli.settings import Settings
from planctl.errors import Refused, SessionExists, SessionHeld, Unsupported
from planctl.locate import Place, locate
from planctl.plan import check_session, damage
from planctl.sanitize import shown

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from planctl.operations import Operation
    from planctl.plan import Plan
    from planctl.stores.sqlite_sessions import Sessions, Summary

EXAMPLES = {
    'session': 'planctl session list',
    'session list': 'planctl session list --json',
    'session copy': 'planctl session copy default before-the-rewrite',
    'session rename': 'planctl session rename default issue-403',
    'session rm': 'planctl session rm issue-403',
}

From = Annotated[
    str,
    typer.Argument(
        metavar='SESSION',
        help='The session that is there.',
        show_default=False,
        autocompletion=complete.sessions,
    ),
]
To = Annotated[str, typer.Argument(metavar='NEW', help='What the new one is called.', show_default=False)]


def sessions(settings: Settings) -> int:
    """List, copy, rename and remove the sessions of a database. Alone it lists them."""
    return list_sessions(settings)


def list_sessions(settings: Settings) -> int:
    """List the sessions, and how far each is."""
    place = locate(settings.db)
    found = _sessions(place).list()
    _answer(settings, 'session list', found, [_line(summary) for summary in found])
    if not found and not settings.json and not settings.quiet:
        complain(f'planctl: there is no session in {shown(place.shown)}')
    return 0


def copy(settings: Settings, source: From, target: To) -> int:
    """Copy a plan into a new session, with its ids. The log is not copied: the new one begins with the copy."""
    from planctl.core import apply
    from planctl.operations import Describe, Restore

    check_session(source)
    place = locate(settings.db)
    plan = use(settings, place, lambda store: store.read(), session=source)
    require_session(plan, place)
    if plan.problems:
        raise damage(plan.problems)

    def fill(into: Plan) -> Iterable[Operation]:
        if not (into.removed or (into.revision == 0 and not into.steps)):
            raise SessionExists(f'there is a session {target!r} already')
        return [Restore(plan.steps), Describe(plan.objective, plan.brief, removed=False)]

    actor = actor_of(settings)
    outcome = use(settings, place, lambda store: apply(store, fill, actor=actor, label='copy'), session=target)
    if not outcome.changed:
        raise Refused(f'session {source!r} is empty: there is nothing to copy')
    remember_stored()
    _answer(settings, 'session copy', [_summary(outcome.after)], [('', f'copied {source} to {target}')])
    return 0


def rename(settings: Settings, source: From, target: To) -> int:
    """Give a session another name; its log goes with it."""
    check_session(source)
    place = locate(settings.db)
    found = _sessions(place)
    found.rename(source, target, now=time.time())
    remember_stored()
    summary = [each for each in found.list() if each.session == target]
    _answer(settings, 'session rename', summary, [('', f'renamed {source} to {target}')])
    return 0


def remove(
    settings: Settings,
    session: From,
    purge: Annotated[
        bool, typer.Option('--purge', help='Forget its log as well. This alone can never be undone.')
    ] = False,
) -> int:
    """Remove a session. Its log stays, so that `planctl undo --session NAME` brings it back."""
    check_session(session)
    place = locate(settings.db)
    now = time.time()
    if purge:
        found = _sessions(place)
        gone = [each for each in found.list() if each.session == session]
        found.purge(session, now=now)
        remember_stored()
        _answer(settings, 'session rm', gone, [('', f'purged {session}, which cannot be undone')])
        return 0
    before = _removed(settings, place, session, now)
    remember_stored()
    said = f'removed {session}; planctl undo --session {quote(session)} restores it'
    _answer(settings, 'session rm', [_summary(before)], [('', said)])
    return 0


def _removed(settings: Settings, place: Place, session: str, now: float) -> Plan:
    from planctl.claims import session_held
    from planctl.core import apply
    from planctl.operations import Describe, Remove

    _sessions(place)  # Only where one that was removed can be told from one that is empty.
    actor = actor_of(settings)

    def clear(plan: Plan) -> Iterable[Operation]:
        require_session(plan, place)
        if session_held(plan, now):
            raise SessionHeld(f'a run works on session {session!r}: {plan.owner}')
        # Those at the top first: the others go with them.
        roots = sorted(plan.steps, key=lambda step: step.parent_id is not None)
        return [*(Remove(step.id, cascade=True) for step in roots), Describe('', '', removed=True)]

    label = 'remove session'
    return use(
        settings, place, lambda store: apply(store, clear, actor=actor, label=label, now=now), session=session
    ).before


def _sessions(place: Place) -> Sessions:
    if place.url is not None:
        raise Unsupported('the sessions of a server cannot be listed, renamed or removed')
    from planctl.stores.sqlite_sessions import Sessions

    return Sessions(place.path, place.table, shown=place.shown)


def _summary(plan: Plan) -> Summary:
    from planctl.stores.sqlite_sessions import Summary

    return Summary(plan.session, plan.revision, plan.objective, plan.progress, None)


def _line(summary: Summary) -> tuple[str, str]:
    from planctl.text import progress_line

    line = progress_line(summary.progress)
    if summary.changed_at is not None:
        line += f', changed {time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.changed_at))}'
    if summary.objective:
        line += f' -- {summary.objective.partition(chr(10))[0]}'
    return f'{summary.session}: ', line


def _answer(settings: Settings, kind: str, found: Sequence[Summary], lines: Sequence[tuple[str, str]]) -> None:

    if settings.json:
        emit_json({'schema': 1, 'kind': kind, 'sessions': [_record(summary) for summary in found]})
    elif not settings.quiet:
        emit_lines((shown(head), shown(text)) for head, text in lines)


def _record(summary: Summary) -> dict[str, Any]:
    from planctl.cli.document import COUNTS, utc
    from planctl.text import state_of

    return {
        'session': summary.session,
        'revision': summary.revision,
        'state': state_of(summary.progress),
        'objective': summary.objective,
        'counts': {name: getattr(summary.progress, name) for name in COUNTS},
        'changed_at': utc(summary.changed_at),
    }
