"""What is piped into a command, and what its bytes mean. The only place that reads stdin."""

from __future__ import annotations

import sys


def read_stdin() -> str:
    """Return all of stdin, as UTF-8 whatever the terminal speaks; what is not UTF-8 becomes U+FFFD."""
    stream = sys.stdin
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - it is, after `<&-`
        return ''
    buffer = getattr(stream, 'buffer', None)
    return stream.read() if buffer is None else decoded(buffer.read())


def decoded(data: bytes) -> str:
    """Return the text of a file or a pipe: UTF-8, or UTF-16 where its first two bytes say so (Windows)."""
    return data.decode('utf-16' if data[:2] in (b'\xff\xfe', b'\xfe\xff') else 'utf-8-sig', 'replace')
