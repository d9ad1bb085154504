"""What is no noise, counted: commits, statements, reads of the store, imported modules, characters, steps of a machine.

Growth is counted in bytecodes of Python and instructions of SQLite, which a busy machine does not change.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from measure import Row
from sides import environment

from planctl import InMemoryPlanStore, Planning, SqlitePlanStore, StoreWrapper
from planctl.core import apply, drive, read
from planctl.operations import Add, Depend, Edit, Move, Operation, Remove, SetStatus
from planctl.plan import Plan, TaskStatus
from planctl.readiness import available
from planctl.reminder import remind
from planctl.stores.sqlite_file import SqliteFile
from planctl.text import render_tree

SMALL, LARGE = 1000, 10_000
GROWTH = 12
"""How many times as much ten times as many steps may take."""


def rows() -> Iterator[Row]:
    """Yield everything that is counted, each against its bound."""
    with tempfile.TemporaryDirectory() as folder:
        yield from commits(Path(folder))
        yield from store_reads(Path(folder))
        yield from modules(Path(folder))
        yield from characters()
        yield from growth(Path(folder))


def exactly(what: str, count: float, goal: float) -> Row:
    return Row(what, 'x', (count,), goal=goal, bound='exactly')


# --- One operation is one commit --------------------------------------------------------------------------------


@dataclass
class Statements:
    """The SQL that connections opened meanwhile were given, and the instructions that SQLite ran for it."""

    texts: list[str] = field(default_factory=list[str])
    instructions: int = 0

    def count(self, start: str) -> int:
        return sum(text.lstrip().upper().startswith(start) for text in self.texts)

    def tick(self) -> None:
        self.instructions += _EVERY

    @property
    def written(self) -> int:
        return self.count('INSERT') + self.count('UPDATE') + self.count('DELETE')


_EVERY = 100
"""Instructions between two counts."""


@contextmanager
def statements() -> Iterator[Statements]:
    """Count what is asked of SQLite by connections opened inside."""
    asked = Statements()
    connect = sqlite3.connect

    def counted(*given: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*given, **named)
        connection.set_trace_callback(asked.texts.append)
        connection.set_progress_handler(asked.tick, _EVERY)
        return connection

    sqlite3.connect = counted
    try:
        yield asked
    finally:
        sqlite3.connect = connect


OPERATIONS: dict[str, Sequence[Operation]] = {
    'add': [Add('One more')],
    'three adds': [Add('One'), Add('Two'), Add('Three')],
    'set_status': [SetStatus('1', TaskStatus.in_progress)],
    'edit': [Edit('2', content='Another text')],
    'depend': [Depend('4', on='3')],
    'move': [Move('9', before='2')],
    'remove': [Remove('8')],
}
WRITTEN = {'add': 4, 'set_status': 4, 'edit': 4, 'depend': 4, 'remove': 4}
"""Rows written: of the step two (in the shared table and in ours), of the session one, of the log one."""


def commits(folder: Path) -> Iterator[Row]:
    path = folder / 'commits.db'
    drive(apply(SqliteFile(path), *(Add(f'Step {at}') for at in range(SMALL))))
    for name, operations in OPERATIONS.items():
        with statements() as asked:
            drive(apply(SqliteFile(path), *operations))
        yield exactly(f'commits of {name}', asked.count('COMMIT'), 1)
        if name in WRITTEN:
            yield Row(f'rows written by {name}', 'x', (asked.written,), goal=WRITTEN[name])
    with statements() as asked:
        drive(apply(SqliteFile(path), SetStatus('1', TaskStatus.in_progress)))
    yield exactly('commits of what is so already', asked.count('COMMIT'), 0)
    with statements() as asked:
        drive(read(SqliteFile(path)))
    yield Row('statements of a read', 'x', (len(asked.texts),), goal=9)


# --- The plan is read once a request, and its rows only when they changed ---------------------------------------


class Counting(StoreWrapper):
    """Counts what is asked of the store inside."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.counts: Counter[str] = Counter()

    async def read(self) -> Plan:
        self.counts['read'] += 1
        return await super().read()

    async def update(self, *given: Any, **named: Any) -> Any:
        self.counts['update'] += 1
        return await super().update(*given, **named)


CALLS = 6


def scripted(count: int, seen: list[Any] | None = None) -> Any:
    """Return a model that moves one step after the other, and then is done."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        if seen is not None:
            seen.append((messages, info))
        at = len(messages) // 2
        given = {'task_id': str(at + 1), 'status': 'in_progress'}
        return ModelResponse(parts=[ToolCallPart('update_task_status', given) if at < count else TextPart('done')])

    return FunctionModel(answer)


def store_reads(folder: Path) -> Iterator[Row]:
    from pydantic_ai import Agent

    async def run(store: Any) -> None:
        await Agent(scripted(CALLS), capabilities=[Planning(store=store)]).run('go')

    path = folder / 'reads.db'
    drive(apply(SqliteFile(path), *(Add(f'Step {at}') for at in range(100))))
    counting = Counting(SqlitePlanStore(path))
    with statements() as asked:
        asyncio.run(run(counting))
    # One more request than calls: the last one is answered with words.
    yield exactly('reads of the store for each request', counting.counts['read'] / (CALLS + 1), 1)
    yield exactly('transactions for each tool call', counting.counts['update'] / CALLS, 1)
    yield exactly('commits for each tool call', asked.count('COMMIT') / CALLS, 1)
    plans = sum('FROM plan_items p LEFT JOIN' in text and 'ORDER BY' in text for text in asked.texts)
    yield Row('times that a run reads all rows', 'x', (plans,), goal=2)


# --- What a command imports -------------------------------------------------------------------------------------

HEAVY = ('pydantic', 'pydantic_ai', 'rich', 'asyncio', 'aiosqlite', 'importlib.metadata', 'asyncpg', 'redis', 'httpx')
MODULES = {'show': 210, 'next': 210, 'done': 215, 'add': 215}
"""How many modules a command may import; those that typer brings are most of them."""


def modules(folder: Path) -> Iterator[Row]:
    path = folder / 'modules.db'
    drive(apply(SqliteFile(path), *(Add(f'Step {at}') for at in range(20))))
    for name, bound in MODULES.items():
        words = [name, *({'done': ['1'], 'add': ['More']}.get(name, [])), '--db', str(path)]
        code = (
            'import sys\nfrom planctl.cli import main\n'
            f'main({words!r})\nimport json\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)'
        )
        ended = subprocess.run(
            [sys.executable, '-c', code], capture_output=True, text=True, check=True, env=environment(), cwd=folder
        )
        loaded = json.loads(ended.stderr.splitlines()[-1])
        heavy = [one for one in loaded if one in HEAVY]
        yield Row(f'modules that {name} imports', 'x', (len(loaded),), goal=bound)
        yield Row(f'heavy modules that {name} imports {" ".join(heavy)}'.strip(), 'x', (len(heavy),), goal=0)


# --- What every request pays for --------------------------------------------------------------------------------

CHARACTERS = {'tools': 2000, 'instructions': 450, 'reminder': 6000}


def characters() -> Iterator[Row]:
    from pydantic_ai import Agent

    for steps in (20, LARGE):
        seen: list[Any] = []
        store = InMemoryPlanStore()
        drive(apply(store, *(Add(f'Port module {at} to the new client') for at in range(steps))))
        asyncio.run(_run(Agent(scripted(0, seen), capabilities=[Planning(store=store)])))
        messages, info = seen[0]
        tools = [[tool.name, tool.description, tool.parameters_json_schema] for tool in info.function_tools]
        tail = messages[-1].parts[-1].content
        found = {
            'tools': len(json.dumps(tools)),
            'instructions': len(info.instructions),
            'reminder': sum(len(part) for part in tail if isinstance(part, str)),
        }
        for part, bound in CHARACTERS.items():
            yield Row(f'characters of the {part}, {steps:,} steps', 'x', (found[part],), goal=bound)


async def _run(agent: Any) -> None:
    await agent.run('go')


# --- Growth -----------------------------------------------------------------------------------------------------


def bytecodes(work: Callable[[], object]) -> int:
    """Return how many instructions of Python a call runs, in our own modules."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        if event == 'call':
            if 'planctl' not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == 'opcode':
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def chained(steps: int) -> InMemoryPlanStore:
    """Return a plan in which each step waits for the one before it."""
    store = InMemoryPlanStore()
    adds = (Add(f'Step {at}', id=f'{at}', depends_on=(f'{at - 1}',) if at > 1 else ()) for at in range(1, steps + 1))
    drive(apply(store, *adds))
    return store


def nested(steps: int) -> InMemoryPlanStore:
    """Return a plan of groups of ten."""
    store = InMemoryPlanStore()
    adds = (
        Add(f'Step {at}', id=f'{at}', parent_id=f'{at // 10 * 10}' if at % 10 else None) for at in range(10, steps + 10)
    )
    drive(apply(store, *adds))
    return store


WORKS: dict[str, Callable[[InMemoryPlanStore], object]] = {
    'complete the first of a chain': lambda store: drive(
        apply(store, SetStatus('10', TaskStatus.completed, cascade=True))
    ),
    'add': lambda store: drive(apply(store, Add('More'))),
    'depend': lambda store: drive(apply(store, Depend('30', on='11'))),
    'remove': lambda store: drive(apply(store, Remove('50', cascade=True))),
    'reminder': lambda store: remind(drive(read(store))),
    'what can be started': lambda store: available(drive(read(store)), 'somebody', 0.0),
    'as text': lambda store: render_tree(drive(read(store))),
}


def growth(folder: Path) -> Iterator[Row]:
    for shape, make in (('chain', chained), ('groups', nested)):
        plans = {steps: make(steps) for steps in (SMALL, LARGE)}
        for name, work in WORKS.items():
            if shape == 'chain' and name.startswith('complete'):
                work = _complete_the_first
            if shape == 'chain' and name == 'depend':
                work = _depend_on_the_first
            counts = {steps: bytecodes(lambda w=work, s=store: w(s)) for steps, store in plans.items()}
            yield _grown(f'{name}, {shape}', counts)
    for name, operations in (('set_status', [SetStatus('1', TaskStatus.in_progress)]), ('add', [Add('More')])):
        ran: dict[int, int] = {}
        for steps in (SMALL, LARGE):
            path = folder / f'growth-{name}-{steps}.db'
            drive(apply(SqliteFile(path), *(Add(f'Step {at}') for at in range(steps))))
            with statements() as asked:
                drive(apply(SqliteFile(path), *operations))
            ran[steps] = asked.instructions
        yield _grown(f'{name} in SQLite', ran)


def _complete_the_first(store: InMemoryPlanStore) -> object:
    return drive(apply(store, SetStatus('1', TaskStatus.completed)))


def _depend_on_the_first(store: InMemoryPlanStore) -> object:
    """Ask for a loop through the whole chain: the dearest question that there is."""
    from planctl.errors import DependencyCycle

    last = drive(read(store)).steps[-1].id
    try:
        return drive(apply(store, Depend('2', on=last)))
    except DependencyCycle as error:
        return error


def _grown(what: str, counts: dict[int, int]) -> Row:
    small, large = counts[SMALL], counts[LARGE]
    return Row(f'{what}, {LARGE:,} steps', 'x', (large,), (), (max(small, 1),), f'{SMALL:,} steps', GROWTH)
