"""The command line: translates words into operations and changes into text. The only place with typer and rich."""

from __future__ import annotations

import gc
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; never raises but for `SystemExit`.

    `argv` are the words after `planctl`. Without it those of this process count, which is taken to end afterwards.
    """
    if argv is not None:
        return _run(argv)
    # Most of a plan command is importing and, at its end, taking apart again: a fifth of it was the collector's.
    # A command that lives long switches it on again.
    gc.disable()
    try:
        return _run(None)
    finally:
        gc.freeze()


def _run(argv: Sequence[str] | None) -> int:
    try:
        from planctl.cli.app import run
    except KeyboardInterrupt:
        return 130
    return run(argv)
