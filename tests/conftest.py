"""What holds for every test."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Heed signals again that whoever started the tests lets be ignored: the processes of the tests inherit that.

    `nohup` ignores the one of a closed terminal, a script's `&` that of Ctrl-C.
    """
    for name in ('SIGHUP', 'SIGINT', 'SIGTERM'):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == 'SIGINT' else signal.SIG_DFL)
