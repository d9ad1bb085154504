"""Does and measures on one side what `sides.Side` asks for: JSON lines in, JSON lines out.

Both sides run the same code, since planctl has the names of the harness; where they differ the side is asked for. It
runs in the environment of the harness too, so it imports nothing of planctl for that side.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

OURS = sys.argv[1] == 'ours'
RUN_IN_PROGRESS = ('in_progress', 'completed')


def library() -> Any:
    if OURS:
        import planctl as found
    else:
        from pydantic_ai_harness import planning as found
    return found


def content(number: int) -> str:
    return f'Port module {number} to the new client'


def items(steps: int) -> list[Any]:
    make = library().PlanItem
    return [make(id=str(number), content=content(number)) for number in range(1, steps + 1)]


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# --- Stores -----------------------------------------------------------------------------------------------------


async def fill(path: str, steps: int) -> bool:
    """Make a database with a plan of so many steps."""
    await library().SqlitePlanStore(path).set_items(items(steps))
    return True


def scratch(path: str) -> str:
    """Return a copy of a filled database that may be changed, and that was not written to this very moment."""
    copy = f'{path}.{os.getpid()}'
    for end in ('', '-wal', '-shm'):
        Path(copy + end).unlink(missing_ok=True)
    shutil.copy(path, copy)
    os.utime(copy, (time.time() - 60, time.time() - 60))
    return copy


@asynccontextmanager
async def opened(kind: str, place: str, steps: int) -> Any:
    """Yield a store with a plan of so many steps: `place` is a filled file, or the URL of a server."""
    found = library()
    match kind:
        case 'memory':
            store = found.InMemoryPlanStore()
            await store.set_items(items(steps))
            yield store
        case 'sqlite':
            yield found.SqlitePlanStore(scratch(place))
        case 'postgres':
            import asyncpg

            table = f'plan_{"ours" if OURS else "theirs"}'
            async with asyncpg.create_pool(place, min_size=1, max_size=2) as pool:
                store = found.PostgresPlanStore(pool, table=table, session=str(steps))
                await store.set_items(items(steps))
                yield store
        case _:
            from redis.asyncio import Redis

            async with Redis.from_url(place) as client:
                prefix = 'ours' if OURS else 'theirs'
                store = found.RedisPlanStore(client, key_prefix=prefix, session=str(steps))
                await store.set_items(items(steps))
                yield store


async def call_store(kind: str, place: str, method: str, steps: int, count: int) -> float:
    """Return the seconds that one call of a method of a store takes, on a plan of so many steps."""
    status = library().TaskStatus
    async with opened(kind, place, steps) as store:
        if OURS:
            await store.__aenter__()
        whole = items(steps)
        start = time.perf_counter()
        for at in range(count):
            step = str(at % steps + 1)
            match method:
                case 'get_items':
                    await store.get_items()
                case 'get_item':
                    await store.get_item(step)
                case 'add_item':
                    await store.add_item(library().PlanItem(id=f'new{at}', content='One more'))
                case 'update_item':
                    await store.update_item(step, status=status(RUN_IN_PROGRESS[at // steps % 2]))
                case 'remove_item':
                    await store.remove_item(step)
                case 'set_items':
                    await store.set_items(whole)
                case _:
                    await operate(store, step, RUN_IN_PROGRESS[at // steps % 2])
        taken = (time.perf_counter() - start) / count
        if OURS:
            await store.aclose()
    return taken


async def operate(store: Any, step: str, status: str) -> None:
    """Change one status by the rules, with its log row: what everything that changes a plan comes to."""
    from planctl import TaskStatus, apply
    from planctl.operations import SetStatus

    await apply(store, SetStatus(step, TaskStatus(status)), actor='benchmark')


def bare(place: str, method: str, steps: int, count: int) -> float:
    """Return the seconds of the least that SQLite has to do: rows read, or one row written, in one transaction."""
    path = scratch(place)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute('PRAGMA journal_mode = wal')
    connection.execute('PRAGMA synchronous = FULL')
    query = 'SELECT id, content, status, active_form, parent_id, depends_on FROM plan_items ORDER BY seq'

    def work() -> None:
        for at in range(count):
            if method == 'read':
                connection.execute(query).fetchall()
                continue
            connection.execute('BEGIN IMMEDIATE')
            given = (RUN_IN_PROGRESS[at // steps % 2], str(at % steps + 1))
            connection.execute('UPDATE plan_items SET status = ? WHERE id = ?', given)
            connection.execute('COMMIT')

    taken = timed(work) / count
    connection.close()
    return taken


# --- Several processes ------------------------------------------------------------------------------------------


async def contend(path: str, who: int, of: int, steps: int, count: int, begin: float, held: bool) -> list[float]:
    """From a moment on change the status of this process's own steps; return when that ended, and what was lost.

    Lost is what failed, and what was said to be stored and is not. A writer that is told that the file is locked, as
    those of the reference are when there are many, goes on.
    """
    found = library()
    store = found.SqlitePlanStore(path)
    own = [str(number) for number in range(who + 1, steps + 1, of)]
    if OURS and held:
        await store.__aenter__()
    wanted = {item.id: item.status.value for item in await store.get_items() if item.id in own}
    time.sleep(max(0.0, begin - time.time()))
    lost = 0
    for at in range(count):
        step = own[at % len(own)]
        # Never the status that it has: that would be no change, and nothing to store.
        status = RUN_IN_PROGRESS[wanted[step] == 'in_progress']
        try:
            if OURS:
                await operate(store, step, status)
            else:
                await store.update_item(step, status=found.TaskStatus(status))
        except sqlite3.OperationalError:
            lost += 1
        else:
            wanted[step] = status
    end = time.time()
    stored = {item.id: item.status.value for item in await store.get_items()}
    if OURS:
        await store.aclose()
    return [end, lost + sum(stored.get(step) != status for step, status in wanted.items())]


# --- Through an agent -------------------------------------------------------------------------------------------


def arguments(tool: str, at: int, steps: int) -> dict[str, Any]:
    """Return what the model gives to a tool at its n-th call."""
    step = str(at // 2 % steps + 1)
    status = RUN_IN_PROGRESS[at % 2]
    match tool:
        case 'write_plan':
            plan = [{'id': str(number), 'content': content(number)} for number in range(1, steps + 1)]
            plan[at % steps]['status'] = 'completed'
            return {'items': plan}
        case 'add_task':
            return {'content': f'One more step, the {at}th'}
        case 'update_task_status':
            return {'task_id': step, 'status': status}
        case 'update_task_statuses':
            return {'updates': [{'task_id': str((at + more) % steps + 1), 'status': status} for more in range(3)]}
        case 'remove_task':
            return {'task_id': str(at + 1)}
        case 'add_subtask':
            return {'parent_id': str(steps), 'content': f'One more step, the {at}th'}
        case 'set_dependency':
            return {'task_id': str(steps - at), 'depends_on_id': '1'}
        case _:
            return {}


def does_nothing(tool: str) -> Callable[..., str]:
    """Return a function that takes what the tool takes, declared as the author of a tool would, and does nothing."""
    from pydantic import BaseModel

    class Item(BaseModel):
        content: str
        id: str | None = None
        status: str = 'pending'
        active_form: str = ''
        parent_id: str | None = None
        depends_on: list[str] = []

    class Update(BaseModel):
        task_id: str
        status: str

    def write_plan(items: list[Item]) -> str:
        return 'ok'

    def add_task(content: str) -> str:
        return 'ok'

    def update_task_status(task_id: str, status: str) -> str:
        return 'ok'

    def update_task_statuses(updates: list[Update]) -> str:
        return 'ok'

    def remove_task(task_id: str) -> str:
        return 'ok'

    def add_subtask(parent_id: str, content: str) -> str:
        return 'ok'

    def set_dependency(task_id: str, depends_on_id: str) -> str:
        return 'ok'

    def nothing() -> str:
        return 'ok'

    function = locals().get(tool, nothing)
    # Annotations are text here, and these classes are known to nobody else.
    function.__annotations__ = get_type_hints(function, localns=locals())
    return function


def scripted(tool: str, steps: int, count: int) -> Any:
    """Return a model that calls a tool so often, one call a response, and then is done."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage

    calls = [ToolCallPart(tool, json.dumps(arguments(tool, at, steps))) for at in range(count)]

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        # A usage is given, or the model would count the words of the whole conversation at every request.
        at = len(messages) // 2
        part = calls[at] if at < count else TextPart('done')
        return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=1, output_tokens=1))

    return FunctionModel(answer)


async def call_tool(kind: str, place: str, tool: str, steps: int, count: int) -> float:
    """Return the seconds of one call of a plan tool by a model, the request with the plan in it counted in."""
    from pydantic_ai import Agent

    async with opened(kind, place, steps) as store:
        planning = library().Planning(store=store, enable_subtasks=True)
        agent = Agent(scripted(tool, steps, count), capabilities=[planning])
        start = time.perf_counter()
        result = await agent.run('go')
        taken = (time.perf_counter() - start) / count
    require_success(result, count)
    return taken


async def call_nothing(tool: str, steps: int, count: int) -> float:
    """Return the seconds of one call of a tool that does nothing with what the plan tool is given."""
    from pydantic_ai import Agent

    function = does_nothing(tool)
    agent = Agent(scripted(function.__name__ if function.__name__ != 'nothing' else tool, steps, count))
    agent.tool_plain(function, name=tool)
    start = time.perf_counter()
    result = await agent.run('go')
    taken = (time.perf_counter() - start) / count
    require_success(result, count)
    return taken


def require_success(result: Any, count: int) -> None:
    """Fail when a call was refused: what was measured would not be what is said."""
    answers = [
        part
        for message in result.all_messages()
        for part in message.parts
        if part.part_kind in ('tool-return', 'retry-prompt')
    ]
    refused = [part for part in answers if getattr(part, 'outcome', 'retried') != 'success']
    if refused or len(answers) != count:
        raise RuntimeError(f'{len(answers)} answers to {count} calls, refused: {refused[:1]}')


async def request(place: str, steps: int, count: int, plan: bool) -> float:
    """Return the seconds of one request and a call of a tool that does nothing, with or without a plan beside it."""
    from pydantic_ai import Agent

    async with opened('memory', place, steps) as store:
        beside = [library().Planning(store=store)] if plan else []
        agent = Agent(scripted('nothing', steps, count), capabilities=beside)
        agent.tool_plain(does_nothing('nothing'), name='nothing')
        start = time.perf_counter()
        await agent.run('go')
        return (time.perf_counter() - start) / count


async def sizes(steps: int, subtasks: bool) -> dict[str, int]:
    """Return the characters that a plan adds to a request: the tools, the instructions and the reminder."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    seen: list[Any] = []

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        seen.append((messages, info))
        return ModelResponse(parts=[TextPart('done')])

    async with opened('memory', '', steps) as store:
        planning = library().Planning(store=store, enable_subtasks=subtasks)
        await Agent(FunctionModel(answer), capabilities=[planning]).run('go')
    messages, info = seen[0]
    tools = [
        {'name': t.name, 'description': t.description, 'input_schema': t.parameters_json_schema}
        for t in info.function_tools
    ]
    tail = messages[-1].parts[-1].content
    texts = [] if isinstance(tail, str) else [part for part in tail if isinstance(part, str)]
    return {
        'tools': len(json.dumps(tools)),
        'instructions': len(info.instructions or ''),
        'reminder': sum(map(len, texts)),
    }


# --- The conversation -------------------------------------------------------------------------------------------

JOBS = SimpleNamespace(
    fill=fill,
    store=call_store,
    bare=bare,
    contend=contend,
    tool=call_tool,
    nothing=call_nothing,
    request=request,
    sizes=sizes,
)


def asked() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    for given in asked():
        answer = getattr(JOBS, given.pop('what'))(**given)
        result = asyncio.run(answer) if asyncio.iscoroutine(answer) else answer
        sys.stdout.write(json.dumps(result) + '\n')
        sys.stdout.flush()


if __name__ == '__main__':
    main()
