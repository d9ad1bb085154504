"""Whether somebody is there. Knows nothing of what they are told or asked."""

from __future__ import annotations

import sys


def is_conversation() -> bool:
    """Whether a person sees what is on stderr and can answer on stdin."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
