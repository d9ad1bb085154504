"""How a run is ended from outside: signals, and what is left behind by tools that know no cancelling."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Container, Generator
from contextlib import contextmanager, suppress

from planctl.agent.job import Stop
from planctl.agent.outcome import STATUS, StopReason
from planctl.cli.output import complain


@contextmanager
def signals_end(stop: Stop, close: Callable[[], None], *, deaf: Callable[[], bool]) -> Generator[None]:
    """Let SIGINT, SIGTERM and SIGHUP end the run; the second one ends the process at once.

    While `deaf`, what is typed belongs to another program, Ctrl-C too.
    """
    loop = asyncio.get_running_loop()
    reasons = {signal.SIGINT: StopReason.interrupted, signal.SIGTERM: StopReason.terminated}
    if hasattr(signal, 'SIGHUP') and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` ignores it.
        reasons[signal.SIGHUP] = StopReason.hung_up
    asked = False

    def ask(number: int, _: object) -> None:
        # No handler of the loop: a tool or a model that blocks it must not keep the process alive.
        nonlocal asked
        reason = reasons[signal.Signals(number)]
        if reason is StopReason.interrupted and deaf():
            return
        if not asked:
            asked = True
            loop.call_soon_threadsafe(stop.request, reason)
            return
        with suppress(Exception):
            close()
            words = reason.value.replace('_', ' ')
            complain(f'planctl: {words} at once; what was in progress is given back by the next `planctl run`')
        os._exit(STATUS[reason])

    before = {number: signal.signal(number, ask) for number in reasons}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_left_behind(known: Container[threading.Thread]) -> bool:
    """Whether a tool that knows no cancelling still runs on a thread, for which the interpreter would wait.

    The `known` ones were there before the run: whose they are waits for them.
    """
    return any(not thread.daemon and not _is_idle(thread) for thread in threading.enumerate() if thread not in known)


def _is_idle(thread: threading.Thread) -> bool:
    """Whether a thread of those that run tools waits for the next one; it ends with the loop."""
    return thread in getattr(thread, 'idle_workers', ())
