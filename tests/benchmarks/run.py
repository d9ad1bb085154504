"""`python tests/benchmarks/run.py`: measures planctl against the reference and the floor, side by side in one run.

Prints a table and exits with 1 when a goal is missed by more than the noise. `--quick` checks what is no noise.
"""

# ruff: noqa: E402, T201

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

import costs
import peak_memory
import processes
import quick
import reminders
import startup
import store_calls
import tool_calls
from measure import Row, markdown, table
from sides import Bench, Reference, Side, reference

PARTS: dict[str, Callable[[Bench], Iterator[Row]]] = {
    'startup': startup.rows,
    'tools': tool_calls.rows,
    'processes': processes.rows,
    'reminder': reminders.rows,
    'input': costs.rows,
    'stores': store_calls.rows,
    'memory': peak_memory.rows,
}


def main(words: Sequence[str] | None = None) -> int:
    """Measure and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or '').partition('\n')[0])
    parser.add_argument('--quick', action='store_true', help='check only what is no noise; takes a few seconds')
    parser.add_argument('--part', choices=PARTS, action='append', help='measure only this part; may be repeated')
    parser.add_argument('--rounds', type=int, default=11, help='how often each pair is measured (default: 11)')
    parser.add_argument('--markdown', action='store_true', help='print the goals as a table for the README, too')
    parser.add_argument('--no-reference', action='store_true', help='measure planctl alone')
    given = parser.parse_args(words)
    if given.quick:
        return _print(quick.rows())
    start = time.monotonic()
    other = Reference(None, 'no reference') if given.no_reference else reference()
    print(f'{machine()}\n{other.said}\n')
    measured: list[Row] = []
    status = 0
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix='planctl-benchmarks-'))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        sides = {'ours': stack.enter_context(Side('ours', sys.executable))}
        if other.python is not None:
            sides['reference'] = stack.enter_context(Side('reference', other.python))
        bench = Bench(folder, other, sides, given.rounds)
        for name in given.part or PARTS:
            print(f'--- {name}')
            found = list(_followed(PARTS[name](bench)))
            status |= _print(found)
            measured += found
    missed = [row.what for row in measured if row.missed]
    print(f'{time.monotonic() - start:.0f} s; {"missed: " + "; ".join(missed) if missed else "every goal holds"}')
    if given.markdown:
        print('\n'.join(markdown(measured)))
    return status


def machine() -> str:
    """Return what this was measured on."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path('/proc/cpuinfo').read_text('utf-8').splitlines()
        model = next((line.partition(': ')[2] for line in lines if line.startswith('model name')), model)
    except OSError:
        pass
    return (
        f'{os.cpu_count()} x {model}, {platform.system()} {platform.release()}, Python {platform.python_version()}, '
        f'SQLite {sqlite3.sqlite_version}'
    )


def _followed(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows, and say on a terminal how far it is: some take a while."""
    follows = sys.stderr.isatty()
    for row in rows:
        if follows:
            print(f'\r\x1b[K{row.what}', end='', file=sys.stderr, flush=True)
        yield row
    if follows:
        print('\r\x1b[K', end='', file=sys.stderr, flush=True)


def _print(rows: Iterator[Row] | Sequence[Row]) -> int:
    found = list(rows)
    print('\n'.join(table(found)) + '\n', flush=True)
    return int(any(row.missed for row in found))


if __name__ == '__main__':
    sys.exit(main())
