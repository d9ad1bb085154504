"""A plan that is looked at again and again: waits for it, notices every change by any process, redraws in place.

A file is looked at from outside, by its times and sizes, and read only when those moved: nothing is held open, so that
no other program finds anything beside its database that it did not leave there itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from planctl.cli import live_long
from planctl.cli.database import file_at
from planctl.cli.output import carried, complain, reader_has_gone
from planctl.cli.settings import Settings
from planctl.errors import DatabaseNotFound
from planctl.locate import Place, locate
from planctl.plan import Plan, check_session
from planctl.sanitize import shown

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from planctl.cli.view import Frame

PAUSE = 0.1
"""Seconds between two looks at a file."""
SERVER_PAUSE = 0.5
"""Seconds between two readings from a server."""
_SURE = 2.0
"""Seconds after which a file is read although nothing about it moved: some file systems are slow to tell."""
_TICK = 0.05
"""Seconds within which two writes may carry the same time."""


def changes(settings: Settings) -> Iterator[Plan]:
    """Yield the plan of the session, when it is there, and again after each change; ends when nobody reads on."""
    for seen in _looks(settings):
        if isinstance(seen, str):
            complain(f'planctl: {seen}')
        elif seen is not None:
            yield seen


def watch(
    settings: Settings,
    draw: Callable[[Plan], None],
    frame: Callable[[Plan], Frame] | None,
    is_over: Callable[[Plan], bool],
) -> Plan | None:
    """Draw the plan whenever it changed, until `is_over`; return it, or `None` when the reader of a pipe has gone.

    With a `frame` it is redrawn in place on this terminal.
    """
    if frame is None:
        for plan in changes(settings):
            draw(plan)
            if is_over(plan):
                return plan
        return None
    return _in_place(settings, frame, is_over)


def _in_place(settings: Settings, frame: Callable[[Plan], Frame], is_over: Callable[[Plan], bool]) -> Plan | None:
    from rich.console import Console
    from rich.text import Text

    from planctl.cli.redraw import Redrawn

    stream: Any = sys.stdout
    stream.reconfigure(errors='backslashreplace')  # What it cannot show it says in escapes.
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    with Redrawn(console=console, auto_refresh=False, vertical_overflow='visible') as live:
        current: Frame | None = None
        drawn = 0.0
        for seen in _looks(settings):
            if isinstance(seen, str):
                current = None
                live.update(Text(carried(f'planctl: {seen}', console.encoding), 'dim'), refresh=True)
                continue
            if seen is not None:
                current = frame(seen)
            elif current is None or time.monotonic() - drawn < 1:
                continue
            # Also when nothing changed: how long a step has been under way did, and maybe the size of the terminal.
            over = seen is not None and is_over(seen)
            live.update(replace(current, whole=over), refresh=True)
            drawn = time.monotonic()
            if over:
                return seen
    return None


def _looks(settings: Settings) -> Iterator[Plan | str | None]:
    """Yield the plan when it changed, what to say when there is none any more, else `None`, every now and then."""
    session = check_session(settings.session_name)
    live_long()
    before: Plan | None = None
    missing = False
    with _ending() as end_if_asked, _reader(settings, session) as read:
        while not reader_has_gone():
            end_if_asked()
            plan = read()
            if plan is not None and (plan.removed or (plan.revision == 0 and not plan.steps)):
                plan = None
            if plan is None:
                named = f'session {shown(repr(session))}'
                yield None if missing else f'waiting for {named}' if before is None else f'{named} is gone'
                missing, before = True, None
            elif before is None or _visible(plan) != _visible(before):
                missing, before = False, plan
                yield plan
            else:
                yield None
            time.sleep(SERVER_PAUSE if settings.is_server else PAUSE)


def _visible(plan: Plan) -> Plan:
    """Return the plan without what is renewed all the time."""
    steps = tuple(step if step.lease is None else replace(step, lease=None) for step in plan.steps)
    return replace(plan, steps=steps, owner=None, lease=None)


@contextmanager
def _reader(settings: Settings, session: str) -> Generator[Callable[[], Plan | None]]:
    """Yield a function that returns the plan as it is stored, `None` when there is none yet."""
    if settings.is_server:
        from planctl.stores.opening import reading

        with reading(locate(settings.db), session) as read:
            yield read
    else:
        yield _File(settings, session)


class _File:
    """Reads a session again when its file may have changed, and returns what it read before when it did not."""

    def __init__(self, settings: Settings, session: str) -> None:
        self._settings = settings
        self._session = session
        self._place: Place | None = None
        self._signature: object = None
        self._read_at = 0.0
        self._is_fresh = False
        self._plan: Plan | None = None

    def __call__(self) -> Plan | None:
        from planctl.core import drive

        try:
            if self._place is None or not self._place.exists:
                # Nearer ones may have come, and a file that is gone may come back elsewhere.
                self._place, self._signature = locate(self._settings.db), None
            signature, is_fresh = _signature(self._place.path)
            moved = signature != self._signature or self._is_fresh
            if moved or time.monotonic() - self._read_at > _SURE:
                self._plan = drive(file_at(self._place, self._session).read())
                self._signature, self._is_fresh, self._read_at = signature, is_fresh, time.monotonic()
        except DatabaseNotFound:
            self._place = self._plan = None
        return self._plan


def _signature(path: str) -> tuple[object, bool]:
    """Return what tells that a database was written to, and whether that was so lately that more may follow unseen."""
    path = os.path.realpath(path)
    parts: list[tuple[int, int, int] | None] = []
    latest = 0
    for name in (path, f'{path}-wal', f'{path}-journal'):
        try:
            found = os.stat(name)
        except OSError:
            parts.append(None)
        else:
            parts.append((found.st_mtime_ns, found.st_size, found.st_ino))
            latest = max(latest, found.st_mtime_ns)
    return tuple(parts), time.time_ns() - latest < _TICK * 1e9


@contextmanager
def _ending() -> Generator[Callable[[], None]]:
    """Take SIGINT and SIGTERM, and yield a function that ends when one has come.

    An exception that a handler raises is lost where it happens to come out of a finalizer, so that it is remembered.
    """
    asked: list[int] = []

    def end_if_asked() -> None:
        if signal.SIGINT in asked:
            raise KeyboardInterrupt
        if asked:
            sys.exit(128 + asked[0])

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        end_if_asked()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield end_if_asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
