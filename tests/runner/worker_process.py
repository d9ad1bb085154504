"""One worker in a process of its own, with a short lease: `worker_process.py DATABASE SECONDS EVERY`.

Its tool begins a step, says so in the file `working`, and returns when there is a file `go`. Then the model completes
the step, in the same breath.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from planctl.agent.job import Job, Wanted
from planctl.agent.runner import help_out
from planctl.agent.spec import LoadedAgent
from planctl.agent.watch import RunEvent, Said
from planctl.agent.workers import Lease
from planctl.stores.sqlite import SqlitePlanStore

WORKING, GO = Path('working'), Path('go')


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
    sys.stdout.write(f'{text}\n')
    sys.stdout.flush()


def tell(event: RunEvent) -> None:
    if isinstance(event, Said):
        say(event.text)


async def main(database: str, seconds: float, every: float) -> None:
    model = FunctionModel(respond, model_name='slow')
    agent = Agent(model)
    agent.tool_plain(slow, sequential=True)
    job = Job(SqlitePlanStore(database, session='s'), LoadedAgent(agent, 'slow', model), Wanted(helps=True), tell)
    result = await help_out(job, model, lease=Lease(seconds, every))
    say(f'{result.stop_reason.value} {result.message}')


if __name__ == '__main__':
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
