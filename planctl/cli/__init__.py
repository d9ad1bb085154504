"""The command line: translates words into operations and changes into text. The only place with typer and rich."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; never raises but for `SystemExit`.

    `argv` are the words after `planctl`, those of this process by default.
    """
    try:
        from planctl.cli.app import run
    except KeyboardInterrupt:
        return 130
    return run(argv)
