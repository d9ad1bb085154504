"""Models that follow a script and runs in this process, for tests of the runner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from planctl.agent.job import Job, Stop, Wanted
from planctl.agent.limits import Limits
from planctl.agent.outcome import Result
from planctl.agent.person import Person
from planctl.agent.runner import run
from planctl.agent.spec import LoadedAgent
from planctl.agent.watch import RunEvent, Said
from planctl.core import apply
from planctl.operations import Add, Operation
from planctl.plan import Plan
from planctl.stores.base import BaseStore
from planctl.stores.memory import InMemoryPlanStore

Call: TypeAlias = tuple[str, dict[str, Any]]
Turn: TypeAlias = str | Sequence[Call] | Callable[[list[ModelMessage], AgentInfo], Any]


class Scripted:
    """A model that answers one turn after the other, the last one for ever, and remembers what it was asked."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.asked: list[tuple[list[ModelMessage], AgentInfo]] = []
        self.model = FunctionModel(self._respond, stream_function=self._stream, model_name='scripted')

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn: Any = self.turns[min(len(self.asked), len(self.turns) - 1)]
        self.asked.append((list(messages), info))
        if callable(turn):
            turn = turn(messages, info)
            if hasattr(turn, '__await__'):
                turn = await turn
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in turn])

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for at, part in enumerate((await self._respond(messages, info)).parts):
            if isinstance(part, ToolCallPart):
                yield {at: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            else:
                yield part.content  # type: ignore[union-attr]

    def tools(self, request: int = 0) -> set[str]:
        """The names of the tools that a request offered."""
        return {tool.name for tool in self.asked[request][1].function_tools}

    def said(self, request: int = 0) -> str:
        """Everything that the user parts of a request say."""
        texts: list[str] = []
        for message in self.asked[request][0]:
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    content = [part.content] if isinstance(part.content, str) else part.content
                    texts.extend(text for text in content if isinstance(text, str))
        return '\n'.join(texts)


def moving(status: str, *ids: str, **more: Any) -> list[Call]:
    return [('update_task_status', {'task_id': step_id, 'status': status, **more}) for step_id in ids]


def writing(*contents: str) -> list[Call]:
    return [('write_plan', {'items': [{'content': content} for content in contents]})]


async def stored(*operations: Operation, store: BaseStore | None = None) -> BaseStore:
    store = store or InMemoryPlanStore()
    await apply(store, *operations)
    return store


async def three_steps(store: BaseStore | None = None) -> BaseStore:
    return await stored(Add('one'), Add('two'), Add('three'), store=store)


async def running(
    store: BaseStore,
    executor: Scripted | None = None,
    *,
    planner: Scripted | None = None,
    agent: Agent[Any, Any] | None = None,
    events: list[RunEvent] | None = None,
    stop: Stop | None = None,
    person: Person | None = None,
    limits: Limits | None = None,
    **wanted: Any,
) -> Result:
    """Run in this process and return the result; the limits are those of the planner and of the executor."""
    seen: list[RunEvent] = [] if events is None else events
    agent = agent or Agent(executor.model if executor else planner.model if planner else None)
    limits = limits or Limits()
    job = Job(
        store,
        LoadedAgent(agent, 'test', None),
        Wanted(planner=limits, executor=limits, approve=person is not None, **wanted),
        seen.append,
        person=person,
    )
    return await run(
        job, planner=planner.model if planner else None, executor=executor.model if executor else None, stop=stop
    )


def statuses(plan: Plan) -> dict[str, str]:
    return {step.id: step.status.value for step in plan.steps}


def lines(events: Sequence[RunEvent]) -> str:
    return '\n'.join(event.text for event in events if isinstance(event, Said))


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding='utf-8')
    return name
