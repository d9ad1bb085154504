"""What is piped into a command. The only place that reads stdin."""

from __future__ import annotations

import sys


def read_stdin() -> str:
    """Return all of stdin, as UTF-8 whatever the terminal speaks; what is not UTF-8 becomes U+FFFD."""
    stream = sys.stdin
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - it is, after `<&-`
        return ''
    buffer = getattr(stream, 'buffer', None)
    return stream.read() if buffer is None else buffer.read().decode('utf-8-sig', 'replace')
