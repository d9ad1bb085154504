"""What showing a plan with every request costs: characters and time."""

from __future__ import annotations

from collections.abc import Iterator

from measure import Row, paired
from sides import Bench

SIZES = (10, 100, 1000, 10_000)
LONGEST = 6_000
"""Characters of a reminder, however long the plan."""
TOOLS = {False: 2_000, True: 3_000}
"""Characters of the definitions of the tools, without and with those for subtasks."""
CALLS = 10


def rows(bench: Bench) -> Iterator[Row]:
    """Yield what is measured."""
    ours, *reference = bench.sides_of('ours', 'reference')
    for subtasks in (False, True):
        mine, *theirs = (side.ask('sizes', steps=20, subtasks=subtasks) for side in (ours, *reference))
        for part in ('tools', 'instructions'):
            compared = tuple(float(their[part]) for their in theirs)
            goal = TOOLS[subtasks] if part == 'tools' else None
            kind = ' with subtasks' if subtasks else ''
            yield Row(f'{part}{kind}', 'chars', (float(mine[part]),), compared, goal=goal)
    for steps in SIZES:
        mine, *theirs = (side.ask('sizes', steps=steps, subtasks=False) for side in (ours, *reference))
        compared = tuple(float(their['reminder']) for their in theirs)
        yield Row(f'reminder, {steps:,} steps', 'chars', (float(mine['reminder']),), compared, goal=LONGEST)
    for steps in SIZES:

        def asking(side: object, plan: bool, steps: int = steps) -> float:
            return side.ask('request', place='', steps=steps, count=CALLS, plan=plan)  # type: ignore[attr-defined]

        without, with_plan, *theirs = paired(
            max(3, bench.rounds // 2),
            lambda: asking(ours, False),
            lambda: asking(ours, True),
            *((lambda side=side: asking(side, True)) for side in reference),
        )
        compared = theirs[0] if theirs else ()
        yield Row(f'request with the plan, {steps:,} steps', 'ms', with_plan, compared, without, 'without a plan')
