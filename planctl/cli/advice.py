"""What to do next after an error, as a command to type. Never one that takes something away."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from planctl.cli.settings import Settings
from planctl.errors import PlanctlError

_SESSIONS = 'those there are: {database} session list'
_HINTS: Mapping[tuple[str, str | None], str] = {
    ('session_not_found', 'session'): _SESSIONS,
    ('session_not_found', 'undo'): _SESSIONS,
    ('session_not_found', 'log'): _SESSIONS,
    ('session_not_found', 'export'): _SESSIONS,
    ('session_not_found', None): f"{_SESSIONS}; to begin it: {{planctl}} add 'The first step'",
    ('session_exists', None): f'choose another name; {_SESSIONS}',
    ('session_held', None): 'wait until that run has ended, or stop it',
    ('undo_conflict', None): 'what was done: {planctl} log {first}',
    ('revision_not_found', None): 'what was done: {planctl} log',
    ('step_not_found', None): 'the steps there are: {planctl} show',
    ('none_available', None): 'how far it is: {planctl} show',
    ('ambiguous_id', None): 'give more of the id',
    **{
        ('invalid_id', command): f'why goes behind -m: {{planctl}} {command} ID -m TEXT'
        for command in ('start', 'done', 'cancel', 'block', 'reopen')
    },
    ('cycle', 'edit'): 'what waits for what: {planctl} show',
    ('open_children', 'done'): 'to complete them too: {planctl} done {first} --cascade',
    ('open_children', None): 'to see them: {planctl} show {first} --tree',
    ('has_children', None): 'to see them: {planctl} show {first} --tree',
    ('open_prerequisite', None): 'what can be started: {planctl} next',
    ('lost_claim', None): 'what can be started: {planctl} next',
    ('resolved_parent', 'start'): 'to open that as well: {planctl} reopen {first} --cascade',
    ('resolved_parent', 'block'): 'to open that as well: {planctl} reopen {first} --cascade',
    ('resolved_parent', 'reopen'): 'to open that as well: {planctl} reopen {first} --cascade',
    ('resolved_parent', None): 'to open it: {planctl} reopen {last}',
    ('nothing_to_wait_for', None): 'to see it: {planctl} show {first}',
    ('unavailable', None): 'it may pass: try again',
    ('damaged', None): 'planctl has not touched it',
}
"""What to say to a code from a command, and from any other (`None`). `database` is `planctl` without the session."""


def advise(error: PlanctlError, command: str | None, settings: Settings) -> None:
    """Give the error a hint by its code, where it has none and there is one. `command` is its first word."""
    error.hint = _hint(error, command, settings) if error.hint is None else aimed(error.hint, settings)


def aimed(text: str, settings: Settings) -> str:
    """Return a text with the commands that it names, in back-ticks, made to mean the same plan."""
    return re.sub(r'`planctl (?!--(?:db|session) )', lambda _: f'`{_planctl(settings)} ', text)


def _hint(error: PlanctlError, command: str | None, settings: Settings) -> str | None:
    if error.code == 'database_not_found':
        return f"to make one: {_planctl(settings)} add 'The first step'" if _can_be_made(settings.db) else None
    hint = _HINTS.get((error.code, command)) or _HINTS.get((error.code, None)) or ''
    if settings.is_server:
        hint = '; '.join(part for part in hint.split('; ') if part != _SESSIONS)  # A server does not list them.
    if not hint:
        return None
    first, last = (error.ids[0], error.ids[-1]) if error.ids else ('', '')
    database = _planctl(settings, session=False)
    return hint.format(planctl=_planctl(settings), database=database, first=first, last=last).rstrip()


def _can_be_made(db: str | None) -> bool:
    folder = os.path.dirname(db or '')
    return '://' not in folder and (not folder or os.path.isdir(folder))


def _planctl(settings: Settings, *, session: bool = True) -> str:
    """Return how planctl has to be called to mean the same plan, the environment being what it is.

    Without the `session`, the same database.
    """
    from shlex import quote

    words = ['planctl']
    for name, value in (('db', settings.db), ('session', settings.session if session else None)):
        if value is not None and value != os.environ.get(f'PLANCTL_{name.upper()}'):
            # The URL of a server may hold a password, which is never shown.
            words.append('--db URL' if name == 'db' and settings.is_server else f'--{name} {quote(value)}')
    return ' '.join(words)
