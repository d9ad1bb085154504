"""Several processes that write one session at once: operations a second, against the reference, and what is lost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from measure import Row, paired
from sides import Bench, Side
from tool_calls import database

GOALS = {20: 1.0, 100: 1.0, 1000: 0.5}
"""By number of steps: how many times the operations a second of the reference four processes do at least."""
CALLS = {4: 50, 16: 15}
"""Operations of each process, by their number."""


def rows(bench: Bench) -> Iterator[Row]:
    """Yield what is measured. What of ours is lost is held to nothing.

    The goals are for stores that are held, as agents and runs hold theirs; one that is not, which opens the file and
    reads the whole plan for each operation, is there to compare.
    """
    for steps in GOALS:
        yield from _together(bench, 4, steps, held=True)
    for steps in GOALS:
        yield from _together(bench, 4, steps, held=False)
    yield from _together(bench, 16, 100, held=True)


def _together(bench: Bench, writers: int, steps: int, *, held: bool) -> Iterator[Row]:
    lost: dict[str, float] = {}
    pythons = {'ours': sys.executable, 'reference': bench.reference.python}
    with ExitStack() as stack:

        def measuring(name: str, python: str) -> Callable[[], float]:
            sides = [stack.enter_context(Side(name, python)) for _ in range(writers)]
            path = f'{database(bench, sides[0], steps)}.shared'
            sides[0].ask('fill', path=path, steps=steps)
            # All of them have imported what they need before the clock starts.
            for side in sides:
                side.tell('contend', path=path, who=0, of=steps, steps=steps, count=1, begin=0.0, held=False)
            for side in sides:
                side.hear()

            def measure() -> float:
                begin = time.time() + 0.2
                for who, side in enumerate(sides):
                    side.tell(
                        'contend',
                        path=path,
                        who=who,
                        of=writers,
                        steps=steps,
                        count=CALLS[writers],
                        begin=begin,
                        held=held,
                    )
                answers = [side.hear() for side in sides]
                lost[name] = lost.get(name, 0.0) + sum(gone for _, gone in answers)
                return writers * CALLS[writers] / (max(end for end, _ in answers) - begin)

            return measure

        measures = [measuring(name, python) for name, python in pythons.items() if python is not None]
        rounds = max(5, bench.rounds // 2) if writers == 4 else 2
        ours, *theirs = paired(rounds, *measures)
    how = 'connection held' if held else 'opened each time'
    goal = GOALS[steps] if writers == 4 and held else None
    reference = theirs[0] if theirs else ()
    against = 'reference' if theirs else ''
    what = f'{writers} processes, {steps:,} steps, {how}'
    yield Row(what, '/s', ours, reference, reference, against, goal if theirs else None, bound='at least')
    yield Row(f'{what}: lost', 'x', (lost['ours'],), (lost['reference'],) if theirs else (), goal=0)
