"""What others say on stderr while a run goes on, one line each and below no drawing: log records, servers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

from planctl.agent.models import one_line
from planctl.cli.output import complain
from planctl.cli.settings import Settings
from planctl.sanitize import shown


class _Lines(logging.Handler):
    """Writes a record, and what was raised, on one line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record."""
        text = record.getMessage()
        if record.exc_info is not None and (error := record.exc_info[1]) is not None:
            text = f'{text}: {type(error).__name__}: {one_line(error)}'
        complain(f'planctl: {record.name}: {shown(" ".join(text.split()))}')


@contextmanager
def asides(settings: Settings) -> Generator[Callable[[str], None]]:
    """Let warnings that nobody set up logging for be lines of ours, and yield what takes the lines of a server.

    Quiet leaves both out; `--debug` keeps the tracebacks of the records.
    """
    before = logging.lastResort
    if settings.quiet:
        logging.lastResort = logging.NullHandler()
    elif not settings.debug:
        logging.lastResort = _Lines(logging.WARNING)
    try:
        yield (lambda _: None) if settings.quiet else lambda line: complain(f'planctl: {shown(line)}')
    finally:
        logging.lastResort = before
