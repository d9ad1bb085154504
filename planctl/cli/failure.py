"""How a command that cannot do what was asked ends: one line on stderr and an exit status. Decides nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from planctl.cli.output import complain, dump, flags, lost_answer
from planctl.errors import AgentError, InputError, NotFound, PlanctlError, Refused, StorageError
from planctl.sanitize import shown

DONE = 0
INTERNAL = 1
USAGE = 2
NOT_FOUND = 3
REFUSED = 4
STORAGE = 5
UNFINISHED = 6
AGENT = 7
HUNG_UP = 129
INTERRUPTED = 130
TERMINATED = 143

MEANINGS: Mapping[int, str] = {
    DONE: 'done; also when the reader of a pipe has gone',
    INTERNAL: 'internal error',
    USAGE: 'usage, blank text, an id or a session name that cannot be one',
    NOT_FOUND: 'no such database, session or step, no step to be had, or an ambiguous id',
    REFUSED: 'refused by the rules of the plan, a claim that was lost, another run on the session, unsupported',
    STORAGE: 'the database failed, its driver is missing, or the answer could not be written',
    UNFINISHED: 'the plan is not finished (`show --check`, `run`)',
    AGENT: 'model, provider, key, agent file, or a missing extra',
    HUNG_UP: 'the terminal of a run was closed',
    INTERRUPTED: 'interrupted',
    TERMINATED: 'terminated',
}
"""Every exit status and what it means."""

_STATUS: tuple[tuple[type[PlanctlError], int], ...] = (
    (InputError, USAGE),
    (NotFound, NOT_FOUND),
    (Refused, REFUSED),
    (StorageError, STORAGE),
    (AgentError, AGENT),
)


def status_of(error: PlanctlError) -> int:
    """Return the exit status that an error stands for."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), INTERNAL)


def report(error: Exception) -> int:
    """Say on stderr what went wrong, as the words of the command want it, and return the exit status."""
    given = flags()
    hint: str | None = None
    ids: tuple[str, ...] = ()
    if isinstance(error, PlanctlError):
        status, code, message = status_of(error), error.code, error.message
        hint, ids = error.hint, error.ids
    elif is_usage(error):
        status, code, message = USAGE, 'usage', _usage_message(error)
        hint = _usage_hint(error, message)
    elif isinstance(error, OSError) and (lost := lost_answer(error)) is not None:
        status, code, message = STORAGE, 'output', f'cannot write the answer: {lost.strerror or lost}'
        hint = 'the change is stored: do not repeat the command' if lost.stored else None
    elif isinstance(error, OSError):
        status, code, message = STORAGE, 'io', _io_message(error)
    else:
        status, code, message = INTERNAL, 'internal', f'internal error: {type(error).__name__}: {error}'
        hint = '--debug shows where'
    message, hint = shown(message), None if hint is None else shown(hint)
    trace: str | None = None
    if '--debug' in given:
        import traceback

        trace = ''.join(traceback.format_exception(error))
    if '--json' in given:
        problem: dict[str, Any] = {'code': code, 'message': message, 'ids': list(ids), 'hint': hint}
        if trace is not None:
            problem['traceback'] = trace
        complain(dump({'schema': 1, 'error': problem}, sys.stderr))
    else:
        if trace is not None:
            complain(trace.rstrip())
        complain(f'planctl: {message}' + (f' ({hint})' if hint else ''))
    return status


def _usage_message(error: Any) -> str:
    """Return what Typer says, in words that are not those of a programmer."""
    return re.sub(r'not a valid int(eger)?( range)?', 'not a whole number', str(error.format_message()))


def _usage_hint(error: Exception, message: str) -> str:
    """Return what to read next: the help of the command whose words make no sense."""
    context = getattr(error, 'ctx', None)
    command = 'planctl' if context is None else context.command_path
    dash = 'text that starts with a dash goes behind --; ' if message.startswith('No such option') else ''
    return f'{dash}{command} --help'


def _io_message(error: OSError) -> str:
    import os

    try:
        os.getcwd()
    except OSError:
        return 'this folder is gone, or may not be looked into'
    return f'{error.filename}: {error.strerror}' if error.filename and error.strerror else str(error)


def is_usage(error: BaseException) -> bool:
    """Whether Typer says that the words make no sense. Told by shape: where the class lives depends on the version."""
    return getattr(error, 'exit_code', None) == USAGE and hasattr(error, 'format_message')
