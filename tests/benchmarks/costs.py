"""The input cost of a run with a plan, from `input_cost.py`, as rows of the table."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator

from measure import Row
from sides import Bench


def rows(bench: Bench) -> Iterator[Row]:
    """Yield what is counted: no time, so one run says it. The harness is the one that is installed beside planctl."""
    if importlib.util.find_spec('anthropic') is None:
        return
    yield from asyncio.run(_rows())


async def _rows() -> list[Row]:
    from input_cost import GOALS, REQUESTS, of_the_harness, ours, without_plan

    found: list[Row] = []
    base = (await without_plan()).cost
    for steps, goal in GOALS.items():
        theirs = ()
        if importlib.util.find_spec('pydantic_ai_harness') is not None:
            theirs = ((await of_the_harness(steps)).cost / base,)
        cost = ((await ours(steps)).cost / base,)
        what = f'input of {REQUESTS} requests, {steps:,} steps'
        found.append(Row(what, 'x', cost, theirs, (1.0,), 'without a plan', goal))
    return found
