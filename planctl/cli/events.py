"""Where the events of a run go as JSON, one object a line. A place that takes no more of them is no end of the run."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from planctl.agent.eventlog import EventLog
from planctl.cli.output import answer_stream, complain, dump, emit
from planctl.errors import StorageError


@contextmanager
def event_log(file: str, run: str, session: str) -> Generator[EventLog]:
    """Yield what takes the events of a run: `-` is stdout, else a file, which is emptied first.

    Raises `StorageError` when the file cannot be written at the beginning.
    """
    if file == '-':
        yield EventLog(run, session, lambda fields: emit(dump(fields, answer_stream()) + '\n'), time.time)
        return
    try:
        stream = open(file, 'w', encoding='utf-8', buffering=1)  # noqa: SIM115 - closed below, where it may fail
    except OSError as error:
        raise StorageError(f'--events {file}: {error.strerror or error}') from error
    writer = _Writer(file, stream)
    try:
        yield EventLog(run, session, writer.write, time.time)
    finally:
        writer.close()


class _Writer:
    """Writes lines until that fails once, which is said."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream: TextIO | None = stream

    def write(self, fields: dict[str, Any]) -> None:
        if self._stream is not None:
            try:
                self._stream.write(dump(fields, self._stream) + '\n')
            except OSError as error:
                self._give_up(error)

    def close(self) -> None:
        if self._stream is not None:
            try:
                self._stream.close()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        stream, self._stream = self._stream, None
        complain(f'planctl: --events {self._name}: {error.strerror or error}; no more events are written')
        if stream is not None:
            with suppress(OSError):
                stream.close()
