"""How a run is ended from outside: signals, and what is left behind by tools that know no cancelling."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from planctl.agent.job import Stop
from planctl.agent.outcome import STATUS, StopReason


@contextmanager
def signals_end(stop: Stop, close: Callable[[], None], *, deaf: Callable[[], bool]) -> Generator[None]:
    """Let SIGINT and SIGTERM end the run; the second one ends the process at once.

    While `deaf`, what is typed belongs to another program, Ctrl-C too.
    """
    loop = asyncio.get_running_loop()
    reasons = {signal.SIGINT: StopReason.interrupted, signal.SIGTERM: StopReason.terminated}

    def asked(reason: StopReason) -> None:
        if reason is StopReason.interrupted and deaf():
            return
        if stop.reason is None:
            stop.request(reason)
        else:
            close()
            os._exit(STATUS[reason])

    added: list[int] = []
    for number, reason in reasons.items():
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, asked, reason)
            added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)


def is_left_behind() -> bool:
    """Whether a tool that knows no cancelling still runs on a thread, for which the interpreter would wait."""
    return any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate())
