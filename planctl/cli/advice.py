"""What to do next after an error, as a command to type. Never one that takes something away."""

from __future__ import annotations

import os

from planctl.cli.settings import Settings
from planctl.errors import PlanctlError


def advise(error: PlanctlError, command: str | None, settings: Settings) -> None:
    """Give the error a hint by its code, where it has none and there is one."""
    if error.hint is None:
        error.hint = _hint(error, command, settings)


def _hint(error: PlanctlError, command: str | None, settings: Settings) -> str | None:
    planctl = _planctl(settings)
    first = error.ids[0] if error.ids else ''
    last = error.ids[-1] if error.ids else ''
    match error.code, command:
        case 'database_not_found', _:
            return f"to make one: {planctl} add 'The first step'" if _can_be_made(settings.db) else None
        case 'session_not_found', str() if (command or '').startswith(('session ', 'undo', 'log', 'export')):
            return f'those there are: {planctl} session list'
        case 'undo_conflict', _:
            return f'what was done: {planctl} log{f" {first}" if first else ""}'
        case 'revision_not_found', _:
            return f'what was done: {planctl} log'
        case 'session_not_found', _:
            return f"to begin it: {planctl} add 'The first step'"
        case 'step_not_found', _:
            return f'the steps there are: {planctl} show'
        case 'ambiguous_id', _:
            return 'give more of the id'
        case 'open_children', 'done':
            return f'to complete them too: {planctl} done {first} --cascade'
        case (('open_children' | 'has_children'), _):
            return f'to see them: {planctl} show {first} --tree'
        case 'open_prerequisite', _:
            return f'what can be started: {planctl} next'
        case 'resolved_parent', 'start' | 'block' | 'reopen':
            return f'to open that as well: {planctl} reopen {first} --cascade'
        case 'resolved_parent', _:
            return f'to open it: {planctl} reopen {last}'
        case 'nothing_to_wait_for', _:
            return f'to see it: {planctl} show {first}'
        case 'unavailable', _:
            return 'it may pass: try again'
        case 'damaged', _:
            return 'planctl has not touched it'
        case _:
            return None


def _can_be_made(db: str | None) -> bool:
    folder = os.path.dirname(db or '')
    return '://' not in folder and (not folder or os.path.isdir(folder))


def _planctl(settings: Settings) -> str:
    """Return how planctl has to be called to mean the same plan, the environment being what it is."""
    from shlex import quote

    words = ['planctl']
    for name, value in (('db', settings.db), ('session', settings.session)):
        if value is not None and value != os.environ.get(f'PLANCTL_{name.upper()}'):
            # The URL of a server may hold a password, which is never shown.
            is_server = name == 'db' and '://' in value and not value.lower().startswith('sqlite')
            words.append('--db URL' if is_server else f'--{name} {quote(value)}')
    return ' '.join(words)
