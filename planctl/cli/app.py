"""`run`: one command from its words to its exit status. Every exception ends here, as one line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from planctl.cli.commands import application
from planctl.cli.complete import mend_words
from planctl.cli.failure import DONE, INTERNAL, INTERRUPTED, is_usage, report
from planctl.cli.output import begin


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    begin(words)
    try:
        mend_words()
        status = application()(words, prog_name='planctl', standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except SystemExit as ended:
        # Typer ends the process itself when help is read by a pipe that closes, which is no failure.
        if isinstance(ended.__context__, BrokenPipeError):
            return DONE
        raise
    except Exception as error:
        if isinstance(error, BrokenPipeError) and not is_usage(error):
            return DONE
        return report(error)
    return status if isinstance(status, int) else INTERNAL
