"""What holds for every test."""

from __future__ import annotations

import os
import signal


def pytest_configure() -> None:
    """Let nothing that the tests' own terminal is or does count in theirs: how wide it is, which signals it ignores.

    `nohup` ignores the one of a closed terminal, a script's `&` that of Ctrl-C, and processes inherit that.
    """
    for name in ('COLUMNS', 'LINES'):
        os.environ.pop(name, None)
    for name in ('SIGHUP', 'SIGINT', 'SIGTERM'):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == 'SIGINT' else signal.SIG_DFL)
