"""Scripted models for the agent tests: what the model calls, request by request, and what it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import (
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from planctl.reminder import OPENING


def call(tool: str, arguments: Any = None, /, **named: Any) -> ToolCallPart:
    """Return one tool call; `arguments` may be a raw string."""
    return ToolCallPart(tool, named if arguments is None else arguments)


@dataclass
class Script:
    """A model that answers its requests with these turns, and then with 'done'."""

    turns: Sequence[Sequence[ToolCallPart] | str]
    requests: list[tuple[list[ModelMessage], AgentInfo]] = field(default_factory=list)

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._answer, stream_function=self._stream)

    def agent(self, *capabilities: Any, **options: Any) -> Agent[Any, str]:
        return Agent(self.model, capabilities=capabilities, **options)

    def reminder(self, at: int = -1) -> str | None:
        return reminder_of(self.requests[at][0])

    def names(self, at: int = 0) -> list[str]:
        return [tool.name for tool in self.requests[at][1].function_tools]

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> Sequence[ToolCallPart] | str:
        at = len(self.requests)
        self.requests.append((messages, info))
        return self.turns[at] if at < len(self.turns) else 'done'

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        turn = self._next(messages, info)
        return ModelResponse(parts=[TextPart(turn)] if isinstance(turn, str) else [*turn])

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        turn = self._next(messages, info)
        if isinstance(turn, str):
            yield turn
            return
        yield {
            at: DeltaToolCall(name=part.tool_name, json_args=part.args_as_json_str(), tool_call_id=part.tool_call_id)
            for at, part in enumerate(turn)
        }


def answers(messages: Sequence[ModelMessage]) -> list[tuple[str, str]]:
    """Return outcome and text of each tool answer, in order."""
    return [
        (part.outcome, str(part.content))
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


def reminders(messages: Sequence[ModelMessage]) -> list[UserPromptPart]:
    """Return the parts that hold a reminder."""
    return [
        part
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str) and OPENING in part.content
    ]


def reminder_of(messages: Sequence[ModelMessage]) -> str | None:
    """Return the text of the one reminder that must be the last part of a request, or `None`."""
    found = reminders(messages)
    if not found:
        return None
    assert len(found) == 1
    assert messages[-1].parts[-1] is found[0]
    content = [item for item in found[0].content if not isinstance(item, CachePoint)]
    assert content[0] == OPENING
    return str(content[1])


def has_point(messages: Sequence[ModelMessage]) -> bool:
    """Whether the reminder is opened by a cache point."""
    (part,) = reminders(messages)
    return isinstance(part.content[0], CachePoint)
