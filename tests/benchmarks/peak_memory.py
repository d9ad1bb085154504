"""The most memory that commands take, against `python -c pass`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from measure import Row
from sides import Bench, environment
from startup import COMMAND, PASS, READING, Folder

SIZES = (20, 1000, 10_000)
SMALL = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
print(used.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Starts a command from a small process: what the one that starts it holds counts as the command's."""


def rows(bench: Bench) -> Iterator[Row]:
    """Yield what is measured."""
    for steps in SIZES:
        folder = Folder(bench, steps).path
        floor = peak(PASS, folder)
        theirs = () if bench.reference.python is None else (peak([bench.reference.python, '-c', READING], folder),)
        for words in (['show'], ['done', str(steps)], ['add', 'One more']):
            taken = peak([sys.executable, '-c', COMMAND, *words], folder)
            reference = theirs if words == ['show'] else ()
            yield Row(f'{words[0]}, {steps:,} steps', 'MB', (taken,), reference, (floor,), 'python -c pass')


def peak(arguments: Sequence[str], folder: Path) -> float:
    """Return the most megabytes that a command held at once."""
    ended = subprocess.run(
        [sys.executable, '-c', SMALL, *arguments], cwd=folder, env=environment(), capture_output=True, check=True
    )
    # Kilobytes on Linux, bytes on macOS.
    return int(ended.stderr.splitlines()[-1]) / (1024 if sys.platform != 'darwin' else 1024 * 1024)
