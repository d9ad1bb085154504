"""Where the events of a run go as JSON, one object a line. A place that takes no more of them is no end of the run."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from planctl.agent.eventlog import EventLog
from planctl.cli.output import answer_stream, complain, dump, emit
from planctl.cli.overwriting import require_own
from planctl.errors import StorageError

_BEGINNING = '{"schema":1,"event":'


@contextmanager
def event_log(file: str, run: str, session: str) -> Generator[EventLog]:
    """Yield what takes the events of a run: `-` is stdout, else a file, which is emptied by the first one.

    A run that is refused leaves the file as it is; it may be that of the run which it was refused for. Raises
    `InputError` for a file with anything else in it and `StorageError` for one that cannot be written. What stdout did
    not take is raised at the end: it is the answer.
    """
    if file == '-':
        writer = _Writer(file, emit, answer_stream())
        yield EventLog(run, session, writer.write, time.time)
        if writer.error is not None:
            raise writer.error
        return
    require_own(file, _BEGINNING, option='--events')
    try:
        # What two runs send to one file comes line by line.
        stream = open(file, 'a', encoding='utf-8', buffering=1)  # noqa: SIM115 - closed below, where it may fail
    except OSError as error:
        raise StorageError(f'--events {file}: {error.strerror or error}') from error
    writer = _Writer(file, _emptied(stream), stream)
    try:
        yield EventLog(run, session, writer.write, time.time)
    finally:
        writer.attempt(stream.close)
        with suppress(OSError):  # What is left in its buffer fails again.
            stream.close()


def _emptied(stream: TextIO) -> Callable[[str], Any]:
    """Return what writes to the stream; before the first text, what is in a file is taken out."""
    begun = False

    def write(text: str) -> None:
        nonlocal begun
        if not begun and stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            os.ftruncate(stream.fileno(), 0)
        begun = True
        stream.write(text)

    return write


class _Writer:
    """Writes lines until that fails once, which is said."""

    def __init__(self, name: str, put: Callable[[str], Any], stream: TextIO) -> None:
        self._name = name
        self._put = put
        self._stream = stream
        self.error: OSError | None = None

    def write(self, fields: dict[str, Any]) -> None:
        self.attempt(lambda: self._put(dump(fields, self._stream) + '\n'))

    def attempt(self, act: Callable[[], Any]) -> None:
        if self.error is None:
            try:
                act()
            except OSError as error:
                self.error = error
                complain(f'planctl: --events {self._name}: {error.strerror or error}; no more events are written')
