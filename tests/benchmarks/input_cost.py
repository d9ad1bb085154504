"""What a plan costs in input: the same 50 requests with and without one, through the real mapping to Anthropic.

Counts the bytes of every request as the provider bills them: 0.1 where the cache is read, 1.25 where it is written, 1
elsewhere. `python tests/benchmarks/input_cost.py` prints a table and exits with 1 when a goal is missed.
"""

# ruff: noqa: T201

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / 'agent'))

from agent_scripts import call
from provider_bodies import Anthropic, count_markers, without_markers
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, Caching
from pydantic_ai.messages import ToolCallPart

from planctl import InMemoryPlanStore, Planning
from planctl.core import apply, read
from planctl.operations import Add
from planctl.text import render_tree

REQUESTS = 50
GOALS = {20: 1.2, 40: 1.35, 100: 1.5, 1000: 2.5}
"""By number of steps: how many times the input of the same run without a plan may cost."""

READ, WRITE, PLAIN = 0.1, 1.25, 1.0
LOOKBACK = 20
"""How many blocks before a point the provider looks for what it has cached."""


# --- The run ----------------------------------------------------------------------------------------------------

PROMPT = 'Move every module of this repository to the new client, and keep the tests green. ' * 4
RULES = '\n'.join(
    f'{number}. Look at the callers of a function before you change what it returns, and say what you found.'
    for number in range(1, 61)
)
OUTPUT = '\n'.join(f'src/client/session_{number:02}.py: ok, 14 passed' for number in range(38))


def content(number: int) -> str:
    return f'Port module {number} to the new client'


def agent(provider: Anthropic, *capabilities: AbstractCapability[Any]) -> Agent[Any, str]:
    """Return the agent that does the work, with six tools of the usual kind, and the cache on."""
    worker = Agent(provider.model(), instructions=RULES, capabilities=[Caching(), *capabilities])

    @worker.tool_plain
    def run_command(command: str, timeout_seconds: float = 30.0) -> str:
        """Run a shell command and return its output, cut at 50,000 characters."""
        return OUTPUT

    @worker.tool_plain
    def read_file(path: str, offset: int = 0, limit: int = 2000) -> str:
        """Read lines of a text file, numbered, from an offset."""
        raise AssertionError

    @worker.tool_plain
    def write_file(path: str, content: str, expected_hash: str | None = None) -> str:
        """Write a file, whole; refuse when it changed since it was read with this hash."""
        raise AssertionError

    @worker.tool_plain
    def edit_file(path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
        """Replace a text that must be there exactly once, or everywhere."""
        raise AssertionError

    @worker.tool_plain
    def search_files(pattern: str, path: str = '.', include_glob: str | None = None) -> str:
        """Search for a regular expression below a folder."""
        raise AssertionError

    @worker.tool_plain
    def list_directory(path: str = '.') -> str:
        """List the files and the folders of a folder with their sizes."""
        raise AssertionError

    return worker


def turns(steps: int) -> list[list[ToolCallPart]]:
    """Return what the model does: some work in each response, and every second time one step more is done."""
    work = [call('run_command', command=f'pytest tests/test_{at:02}.py -q') for at in range(REQUESTS - 1)]
    done: list[list[ToolCallPart]] = []
    for at, part in enumerate(work):
        step = at // 2 + 1
        moves = [{'task_id': f'{step}', 'status': 'completed'}, {'task_id': f'{step + 1}', 'status': 'in_progress'}]
        plans = at % 2 == 1 and 0 < step < steps
        done.append([part, call('update_task_statuses', updates=moves)] if plans else [part])
    return done


# --- The bill ---------------------------------------------------------------------------------------------------


@dataclass
class Bill:
    """What a provider with a prompt cache counts, request by request, in bytes."""

    read: int = 0
    written: int = 0
    plain: int = 0
    _cached: set[str] = field(default_factory=set[str])

    @property
    def cost(self) -> float:
        return READ * self.read + WRITE * self.written + PLAIN * self.plain

    def add(self, body: dict[str, Any]) -> None:
        """Count one request: read up to the longest known prefix in reach of a point, write up to the last point."""
        prefixes: list[tuple[str, int]] = [('', 0)]
        points: list[int] = []
        for role, block in _blocks(body):
            text = json.dumps(without_markers(block), separators=(',', ':'))
            digest, size = prefixes[-1]
            prefixes.append((sha256(f'{digest}{role}{text}'.encode()).hexdigest(), size + len(text)))
            if count_markers(block):
                points.append(len(prefixes) - 1)
        if 'cache_control' in body:
            points.append(len(prefixes) - 1)
        reached = {at for point in points for at in range(point, max(point - LOOKBACK, -1), -1)}
        hits = [prefixes[at][1] for at in reached if prefixes[at][0] in self._cached]
        read, end = max(hits, default=0), max((prefixes[point][1] for point in points), default=0)
        self.read += read
        self.written += end - read
        self.plain += prefixes[-1][1] - end
        self._cached.update(prefixes[point][0] for point in points)


def _blocks(body: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    yield from (('tool', tool) for tool in body['tools'])
    yield from (('system', block) for block in body['system'])
    for message in body['messages']:
        inside = message['content']
        yield from ((message['role'], block) for block in ([inside] if isinstance(inside, str) else inside))


# --- The ways to give a model its plan --------------------------------------------------------------------------


async def filled(steps: int) -> InMemoryPlanStore:
    store = InMemoryPlanStore()
    await apply(store, *(Add(content(number)) for number in range(1, steps + 1)))
    return store


async def without_plan() -> Bill:
    provider = Anthropic(*(turn[:1] for turn in turns(0)))
    await agent(provider).run(PROMPT)
    return bill(provider)


async def in_the_system_prompt(steps: int) -> Bill:
    store = await filled(steps)
    provider = Anthropic(*turns(steps))
    worker = agent(provider, Planning(store=store, inject=False))

    @worker.instructions
    async def plan(ctx: RunContext[Any]) -> str:
        return render_tree(await read(store))

    await worker.run(PROMPT)
    return bill(provider)


async def of_the_harness(steps: int) -> Bill:
    from pydantic_ai_harness import planning as harness

    store = harness.InMemoryPlanStore()
    await store.set_items([harness.PlanItem(id=f'{at}', content=content(at)) for at in range(1, steps + 1)])
    provider = Anthropic(*turns(steps))
    await agent(provider, harness.Planning(store=store)).run(PROMPT)
    return bill(provider)


async def ours(steps: int) -> Bill:
    provider = Anthropic(*turns(steps))
    await agent(provider, Planning(store=await filled(steps))).run(PROMPT)
    return bill(provider)


def bill(provider: Anthropic) -> Bill:
    assert len(provider.bodies) == REQUESTS
    total = Bill()
    for body in provider.bodies:
        total.add(body)
    return total


# --- The table --------------------------------------------------------------------------------------------------


async def main() -> int:
    """Print the table and return the exit status."""
    ways = {
        'planctl': ours,
        'plan in the system prompt': in_the_system_prompt,
    }
    if importlib.util.find_spec('pydantic_ai_harness') is not None:
        ways['pydantic-ai-harness'] = of_the_harness
    print(f'{REQUESTS} requests; read 0.1, written 1.25, else 1; cost in units of the same run without a plan')
    print(f'{"steps":>5}  {"":30}{"read":>10}{"written":>10}{"else":>10}{"cost":>8}{"goal":>8}')
    base = await without_plan()
    print(f'{"":5}  {"no plan":30}{base.read:10}{base.written:10}{base.plain:10}{1:8.2f}')
    missed = False
    for steps, goal in GOALS.items():
        ratios: dict[str, float] = {}
        for name, way in ways.items():
            total = await way(steps)
            ratios[name] = total.cost / base.cost
            said = f'{goal:8.2f}' if way is ours else ''
            print(f'{steps:5}  {name:30}{total.read:10}{total.written:10}{total.plain:10}{ratios[name]:8.2f}{said}')
        missed = missed or ratios['planctl'] > min(goal, ratios.get('pydantic-ai-harness', goal))
    return int(missed)


if __name__ == '__main__':
    sys.exit(asyncio.run(main()))
