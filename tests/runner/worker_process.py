"""Workers in processes of their own, with a short lease, forked from one that has imported everything.

Of each line on stdin one thing is done and one number written: `{"start": [FOLDER, DATABASE, SECONDS, EVERY]}` starts a
worker (its process id), `{"wait": ID}` waits for it to end (its exit status).

The tool of a worker begins a step, says so in the file `working`, and returns when there is a file `go`. Then the model
completes the step, in the same breath. What the run says goes to the file `said`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from planctl.agent.job import Job, Wanted
from planctl.agent.runner import help_out
from planctl.agent.spec import LoadedAgent
from planctl.agent.watch import RunEvent, Said
from planctl.agent.workers import Lease
from planctl.locate import locate
from planctl.stores.base import BaseStore
from planctl.stores.opening import open_store
from planctl.stores.sqlite import SqlitePlanStore

WORKING, GO, SAID = Path('working'), Path('go'), Path('said')


async def slow(step_id: str) -> str:
    """Take long."""
    WORKING.write_text(step_id)
    while not GO.exists():
        await asyncio.sleep(0.01)
    return 'done'


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) > 1:
        return ModelResponse(parts=[TextPart('done')])
    prompt = str(messages[0].parts)
    step_id = prompt.partition('Work on step ')[2].partition(',')[0]
    return ModelResponse(
        parts=[
            ToolCallPart('slow', {'step_id': step_id}),
            ToolCallPart('update_task_status', {'task_id': step_id, 'status': 'completed'}),
        ]
    )


def say(text: str) -> None:
    with SAID.open('a') as file:
        file.write(f'{text}\n')


def tell(event: RunEvent) -> None:
    if isinstance(event, Said):
        say(event.text)


async def work(database: str, lease: Lease) -> None:
    if '://' not in database:
        await work_on(SqlitePlanStore(database, session='s'), lease)
        return
    async with open_store(locate(database), 's') as store:
        await work_on(store, lease)


async def work_on(store: BaseStore, lease: Lease) -> None:
    model = FunctionModel(respond, model_name='slow')
    agent = Agent(model)
    agent.tool_plain(slow, sequential=True)
    result = await help_out(Job(store, LoadedAgent(agent, 'slow', model), Wanted(helps=True), tell), model, lease=lease)
    say(f'{result.stop_reason.value} {result.message}')


def start(folder: str, database: str, seconds: float, every: float) -> int:
    if pid := os.fork():
        return pid
    try:
        os.chdir(folder)
        asyncio.run(work(database, Lease(seconds, every)))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


if __name__ == '__main__':
    for line in sys.stdin:
        order = json.loads(line)
        if 'start' in order:
            number = start(*order['start'])
        else:
            number = os.waitstatus_to_exitcode(os.waitpid(order['wait'], 0)[1])
        sys.stdout.write(f'{number}\n')
        sys.stdout.flush()
