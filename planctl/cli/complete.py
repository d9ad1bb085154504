"""What a shell offers behind a half-typed word: ids with their text, and sessions. Never says why it cannot.

Two of the shells evaluate what they are given. Words and texts are therefore cut down to what means nothing to any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import typer

# Anything else would have to be quoted, by rules that differ from shell to shell.
_PLAIN = re.compile(r'[\w./@%+,-]+')
_TEXT = re.compile(r'[^\w .,/@%+=-]+')
_LONGEST = 60


def mend_words() -> None:
    """Take `--option=value` for what it is where bash asks: it makes three words of it, which Typer does not know."""
    if os.environ.get('_PLANCTL_COMPLETE') != 'complete_bash':
        return
    words = os.environ.get('COMP_WORDS', '').split('\n')
    here = int(os.environ.get('COMP_CWORD', '0'))
    signs = [at for at, word in enumerate(words) if word == '=' and at != here and words[at - 1].startswith('--')]
    os.environ['COMP_WORDS'] = '\n'.join(word for at, word in enumerate(words) if at not in signs)
    os.environ['COMP_CWORD'] = str(here - sum(at < here for at in signs))


def ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that begin like that and that the command can do something with, each with its text."""
    return _quietly(_ids(ctx, incomplete))


def sessions(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the names of sessions that begin like that, each with how far it is."""
    return _quietly(_sessions(ctx, incomplete))


def statuses(incomplete: str) -> list[str]:
    """Return the statuses that the last of several, with commas between them, begins like."""
    from planctl.plan import STATUSES

    before, comma, last = incomplete.rpartition(',')
    return [f'{before}{comma}{name}' for name in STATUSES if name.startswith(last) and name not in before.split(',')]


def _quietly(found: Iterator[tuple[str, str]]) -> list[tuple[str, str]]:
    try:
        return [(value, _plain(text)) for value, text in found if _PLAIN.fullmatch(value)]
    except Exception:
        return []  # An error would be printed into the line that is being typed.


def _plain(text: str) -> str:
    plain = _TEXT.sub(' ', text)
    return ' '.join((plain if len(plain) <= _LONGEST else f'{plain[:_LONGEST]}...').split())


def _ids(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from planctl.cli.database import read
    from planctl.plan import TaskStatus

    plan = read(_settings(ctx))
    given = set(_words(ctx))
    command = ctx.info_name
    for step in plan.steps:
        if not step.id.startswith(incomplete) or step.id in given:
            continue
        if command == 'reopen' and step.status is TaskStatus.pending:
            continue
        if command in ('start', 'done', 'cancel', 'block') and step.resolved:
            continue
        yield step.id, step.content


def _sessions(ctx: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    from planctl.locate import locate
    from planctl.stores.sqlite_sessions import Sessions
    from planctl.text import progress_line

    place = locate(_settings(ctx).db)
    if place.url is None:
        for summary in Sessions(place.path, place.table).list():
            if summary.session.startswith(incomplete):
                yield summary.session, progress_line(summary.progress)


def _words(ctx: typer.Context) -> Iterable[str]:
    given: Any = ctx.params.get('ids')
    return given or ()


def _settings(ctx: typer.Context) -> Any:
    """Return the global options as far as they are typed, the nearest to the word first."""
    from planctl.cli.settings import Settings

    found: dict[str, str | None] = {}
    at: Any = ctx
    while at is not None:
        for name in ('db', 'session'):
            # The one option of a command that is called like a global one.
            if at.params.get(name) is not None and not (name == 'db' and at.info_name == 'export'):
                found.setdefault(name, at.params[name])
        at = at.parent
    return Settings(db=found.get('db'), session=found.get('session'))
