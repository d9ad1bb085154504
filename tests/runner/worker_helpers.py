"""Forty steps that wait for each other, models that work on them, and what has to be true when they are done."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo
from runner_helpers import Scripted, moving
from servers import Place

from planctl.agent.job import Job, Stop, Wanted
from planctl.agent.outcome import Result
from planctl.agent.runner import help_out, run
from planctl.agent.spec import LoadedAgent
from planctl.agent.watch import RunEvent
from planctl.agent.workers import Lease
from planctl.core import apply, log
from planctl.operations import Add, Describe
from planctl.stores.base import BaseStore
from planctl.stores.memory import InMemoryPlanStore
from planctl.stores.sqlite import SqlitePlanStore

COUNT = 40
SHORT = Lease(1.0, 0.25)


async def forty(store: BaseStore, more: str = '') -> None:
    """Forty steps; each but the first two waits for one or two before it."""
    steps = [Add(f'step {n}{more}', id=str(n), depends_on=needs(n)) for n in range(1, COUNT + 1)]
    await apply(store, Describe(objective='count to forty'), *steps)


def needs(n: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(m) for m in (n // 2, n - 3) if m > 0))


def assigned(messages: list[ModelMessage]) -> str:
    """The step that a worker was given."""
    match = re.search(r'Work on step (\S+), and on no other:', str(messages[0].parts))
    assert match is not None
    return match[1]


def diligent(messages: list[ModelMessage], info: AgentInfo) -> Any:
    return moving('completed', assigned(messages))


async def working(
    store: BaseStore,
    model: Scripted,
    workers: int = 4,
    *,
    helps: bool = False,
    lease: Lease | None = None,
    events: list[RunEvent] | None = None,
    stop: Stop | None = None,
    agent: Agent[Any, Any] | None = None,
    **wanted: Any,
) -> Result:
    loaded = LoadedAgent(agent or Agent(model.model), 'test', None)
    seen: list[RunEvent] = [] if events is None else events
    job = Job(store, loaded, Wanted(workers=workers, helps=helps, **wanted), seen.append)
    if helps:
        return await help_out(job, model.model, stop, lease=lease)
    return await run(job, planner=None, executor=model.model, stop=stop)


async def worked_exactly_once(store: BaseStore) -> Counter[str]:
    """Assert that each step was taken and completed once, after what it waits for; return who took how many."""
    taken: dict[str, int] = {}
    completed: dict[str, int] = {}
    by: Counter[str] = Counter()
    for at, row in enumerate(await log(store)):
        for name, found in (('in_progress', taken), ('completed', completed)):
            if row.after is not None and f'"{name}"' in row.after:
                assert row.id not in found, f'{row.id} is {name} twice'
                found[row.id] = at
                if name == 'in_progress':
                    by[row.actor] += 1
    assert len(taken) == len(completed) == COUNT
    for n in range(1, COUNT + 1):
        assert all(completed[need] < taken[str(n)] for need in needs(n))
    return by


@asynccontextmanager
async def opened(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseStore]:
    if kind == 'sqlite':
        yield SqlitePlanStore(tmp_path / 'plan.db', session='s')
    elif kind == 'memory':
        yield InMemoryPlanStore(session='s')
    else:
        place: Place = request.getfixturevalue(kind)
        async with place.open('s') as store:
            yield store
