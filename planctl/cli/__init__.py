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
    # One that lives long calls `live_long`.
    gc.disable()
    try:
        return _run(None)
    finally:
        gc.freeze()


def live_long() -> None:
    """Switch the garbage collector on, for a command that is not over in a moment.

    To be called when all is imported: looking through that again and again is a sixth of importing pydantic-ai.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _run(argv: Sequence[str] | None) -> int:
    try:
        from planctl.cli.app import run
    except KeyboardInterrupt:
        return 130
    return run(argv)
