"""What a call of each plan tool costs through an agent, against a tool that does nothing with the same argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest

from measure import Row, paired
from sides import Bench, Side

TOOLS = (
    'write_plan',
    'read_plan',
    'add_task',
    'update_task_status',
    'update_task_statuses',
    'remove_task',
    'add_subtask',
    'set_dependency',
    'get_available_tasks',
)
CALLS, CALLS_FEW = 45, 8
"""In one run, each in a response of its own, so that the plan is shown with each: about as many as a run may make
unless it is told otherwise. Few of a plan of ten steps, of ten thousand and of the reference, which is only there to
compare."""
KINDS = ('memory', 'sqlite')
SIZES = (10, 100, 1000)
GOAL, GROWTH = 2.5, 15


def rows(bench: Bench) -> Iterator[Row]:
    """Yield what is measured."""
    for steps in SIZES:
        for tool in TOOLS:
            yield from _tool(bench, tool, steps)
    for tool in TOOLS:
        yield from _growth(bench, tool)


def database(bench: Bench, side: Side, steps: int) -> str:
    """Return a file with a plan of so many steps, made by the side."""
    path = bench.folder / f'{side.name}-{steps}.db'
    if not path.exists():
        side.ask('fill', path=str(path), steps=steps)
    return str(path)


def _calling(bench: Bench, side: Side, kind: str, tool: str, steps: int, count: int) -> Callable[[], float]:
    place = database(bench, side, steps)
    return lambda: side.ask('tool', kind=kind, place=place, tool=tool, steps=steps, count=count)


def _tool(bench: Bench, tool: str, steps: int) -> Iterator[Row]:
    ours, *reference = bench.sides_of('ours', 'reference')
    count = CALLS if steps > CALLS else CALLS_FEW
    nothing, *taken = paired(
        bench.rounds,
        lambda: ours.ask('nothing', tool=tool, steps=steps, count=count),
        *(_calling(bench, ours, kind, tool, steps, count) for kind in KINDS),
    )
    theirs = [paired(3, _calling(bench, side, kind, tool, steps, CALLS_FEW))[0] for side in reference for kind in KINDS]
    goal = GOAL if steps == 1000 else None
    for kind, mine, its in zip_longest(KINDS, taken, theirs, fillvalue=()):
        yield Row(f'{tool}, {kind}, {steps:,} steps', 'ms', mine, its, nothing, 'a tool that does nothing', goal)


def _growth(bench: Bench, tool: str) -> Iterator[Row]:
    ours = bench.sides['ours']
    for kind in ('memory', 'sqlite'):
        measures = (_calling(bench, ours, kind, tool, steps, CALLS_FEW) for steps in (1000, 10_000))
        small, large = paired(max(3, bench.rounds // 3), *measures)
        yield Row(f'{tool}, {kind}, 10,000 steps', 'ms', large, (), small, '1,000 steps', GROWTH)
