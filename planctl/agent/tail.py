"""Where the reminder goes: behind a cache point at the end of a copy of the request. Never changes what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from pydantic_ai.messages import (
    BaseToolReturnPart,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    TextContent,
    UserContent,
    UserPromptPart,
)

from planctl.reminder import OPENING

_RETRIES = ('retry-prompt', 'retry-feedback')


def with_reminder(messages: Sequence[ModelMessage], text: str, ttl: Literal['5m', '1h']) -> list[ModelMessage]:
    """Return the messages with the reminder as the last part of the last one, which must be a request.

    A `CachePoint` opens it where there is something for it to stand behind: everything before it is the start of the
    next request too, and everything behind it is not.
    """
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    parts: list[ModelRequestPart] = [*last.parts]
    content: list[UserContent] = [OPENING, text]
    before = _said_before(messages)
    if before and not isinstance(before[0], CachePoint):
        content.insert(0, CachePoint(ttl=ttl))
    elif before and all(isinstance(said, CachePoint) for said in before):
        # A prompt of points alone: they stand behind nothing, and providers refuse such a request.
        parts = [part for part in parts if not isinstance(part, UserPromptPart)]
    return [*messages[:-1], replace(last, parts=[*parts, UserPromptPart(content=content)])]


def _said_before(messages: Sequence[ModelMessage]) -> list[object]:
    """Return what a user, a tool or a retry said last, and cache points behind it, the last first.

    A system prompt is none of the messages that a provider is sent. A point right behind another adds nothing, and
    some providers refuse it.
    """
    found: list[object] = []
    for message in reversed(messages):
        for part in reversed(message.parts) if isinstance(message, ModelRequest) else ():
            for said in _said(part):
                found.append(said)
                if not isinstance(said, CachePoint):
                    return found
    return found


def _said(part: ModelRequestPart) -> Iterator[object]:
    """Yield what is sent of a part as content, cache points included, the last first."""
    if isinstance(part, UserPromptPart):
        content = [part.content] if isinstance(part.content, str) else part.content
        yield from (item for item in reversed(content) if _is_sent(item))
    elif isinstance(part, BaseToolReturnPart) or part.part_kind in _RETRIES:
        yield part


def _is_sent(item: UserContent) -> bool:
    if isinstance(item, TextContent):
        return bool(item.content)
    return item != ''
