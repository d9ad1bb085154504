"""Where the reminder goes: behind a cache point at the end of a copy of the request. Never changes what it is given."""

from __future__ import annotations

from collections.abc import Sequence
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
    content: list[UserContent] = [OPENING, text]
    if _takes_point(messages):
        content.insert(0, CachePoint(ttl=ttl))
    return [*messages[:-1], replace(last, parts=[*last.parts, UserPromptPart(content=content)])]


def _takes_point(messages: Sequence[ModelMessage]) -> bool:
    """Whether a provider finds something to put a cache point on: what a user, a tool or a retry said before.

    A system prompt is none of the messages that a provider is sent. A point right behind another adds nothing, and
    some providers refuse it.
    """
    for message in reversed(messages):
        if isinstance(message, ModelRequest):
            for part in reversed(message.parts):
                said = _last_said(part)
                if said is not None:
                    return not isinstance(said, CachePoint)
    return False


def _last_said(part: ModelRequestPart) -> object | None:
    """Return the last thing in a part that is sent as content, a cache point included, or `None`."""
    if isinstance(part, UserPromptPart):
        content = [part.content] if isinstance(part.content, str) else part.content
        return next((item for item in reversed(content) if _is_sent(item)), None)
    return part if isinstance(part, BaseToolReturnPart) or part.part_kind in _RETRIES else None


def _is_sent(item: UserContent) -> bool:
    if isinstance(item, TextContent):
        return bool(item.content)
    return item != ''
