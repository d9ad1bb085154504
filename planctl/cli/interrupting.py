"""Ctrl-C while a command only gets ready: it ends at once, since nothing was begun that would have to be ended."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

from planctl.cli.failure import INTERRUPTED


@contextmanager
def ends_at_once() -> Generator[None]:
    """Let SIGINT end the process, unless somebody has other plans for it.

    An exception would be lost where it comes out of a finalizer, or be told as a failure of what is being imported.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
