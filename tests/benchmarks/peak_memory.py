"""The most memory that commands take, against `python -c pass`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from measure import Row
from sides import Bench, environment
from startup import COMMAND, PASS, READING, Folder

SIZES = (20, 1000, 10_000)


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
    with subprocess.Popen(
        arguments, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as command:
        _, status, used = os.wait4(command.pid, 0)
        command.returncode = os.waitstatus_to_exitcode(status)
    if command.returncode != 0:
        raise RuntimeError(f'{arguments} ended with {command.returncode}')
    # Kilobytes on Linux, bytes on macOS.
    return used.ru_maxrss / (1024 if sys.platform != 'darwin' else 1024 * 1024)
