"""Where the reminder goes: behind a cache point at the end of a copy of the request. Never changes what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from pydantic_ai.messages import (
    BaseToolReturnPart,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.settings import ModelSettings

from planctl.agent.models import behind
from planctl.reminder import CLOSING, OPENING

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

Ttl: TypeAlias = Literal['5m', '1h']

_SHORT = ('5m', '30m')
_RETRIES = ('retry-prompt', 'retry-feedback')
_EXPLICIT = frozenset({'anthropic', 'bedrock', 'openrouter'})
"""Providers that cache up to the points of a request and nowhere else, four of them at most."""
_ANYWHERE = frozenset({'anthropic', 'bedrock'})
"""Those of them that take a point behind whatever was said, and not only behind what a user said."""
_REACH = 18
"""How many blocks behind the end of the last request a point still finds what was cached there; they say about 20."""


def reminded(request: ModelRequestContext, text: str, ttl: Ttl, history: Sequence[ModelMessage]) -> ModelRequestContext:
    """Return the request with the reminder in its last message, which must be a `ModelRequest`, behind what lasts.

    `history` tells what lasts: what others put behind it, for this request alone, stays behind the reminder. A
    `CachePoint` opens it where there is something for it to stand behind: everything before it is the start of the
    next request too, and everything behind it is not. It then is the point that caches the conversation: the one that
    the setting `cache` puts at the end of a request would stand behind the reminder, and cost a write that nothing
    reads and one of the four.
    """
    settings = request.model_settings or ModelSettings()
    stated: dict[str, Any] = {**(request.model.settings or {}), **settings}
    models = list(behind(request.model))
    for model in models:
        stated = {**(model.settings or {}), **stated}
    cache: object = stated.get('cache')
    retention = _retention(cache)
    if ttl == '1h' and _wants_less(request.messages, stated):
        ttl = '5m'
    # Of a model that falls back on others any may be asked.
    providers = {model.system for model in models}
    own_settings = any(f'{provider}_cache' in name for provider in providers for name in stated)
    takes_over = providers <= _EXPLICIT and cache not in (None, False) and not own_settings
    if takes_over and retention == '1h':
        ttl = '1h'
    messages, has_point = with_reminder(request.messages, text, ttl, history)
    if has_point and providers & _ANYWHERE:
        messages = _within_reach(messages, ttl)
    if has_point and takes_over:
        prefix: Any = {'messages': False} | ({} if retention in (None, True) else {'retention': retention})
        settings = cast(ModelSettings, {**settings, 'cache': prefix})
    return replace(request, messages=messages, model_settings=settings)


def with_reminder(
    messages: Sequence[ModelMessage], text: str, ttl: Ttl, history: Sequence[ModelMessage]
) -> tuple[list[ModelMessage], bool]:
    """Return the messages with the reminder behind them, and whether a point, ours or the user's, stands before it."""
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    end = _end_of_lasting(last, history)
    parts, behind = [*last.parts[:end]], last.parts[end:]
    content: list[UserContent] = [OPENING, text]
    before = _said_before([*messages[:-1], replace(last, parts=parts)])
    has_point = bool(before) and not all(isinstance(said, CachePoint) for said in before)
    if has_point and not isinstance(before[0], CachePoint):
        content.insert(0, CachePoint(ttl=ttl))
    elif before and not has_point:
        # A prompt of points alone: they stand behind nothing, and providers refuse such a request.
        parts = [part for part in parts if not isinstance(part, UserPromptPart)]
    return [*messages[:-1], replace(last, parts=[*parts, UserPromptPart(content=content), *behind])], has_point


def reminder_in(part: ModelRequestPart) -> str | None:
    """Return the text of the reminder that a part of a request is, without its tags; `None` for any other part."""
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return None
    match [said for said in part.content if not isinstance(said, CachePoint)]:
        case [opening, str(text)] if opening == OPENING:
            return text.removesuffix(CLOSING)
        case _:
            return None


def _end_of_lasting(last: ModelRequest, history: Sequence[ModelMessage]) -> int:
    """Return how many parts of the last message are in the next request too, as far as the history tells."""
    own = history[-1].parts[-1] if history and history[-1].parts else None
    end = next((at for at, part in enumerate(last.parts, 1) if part is own), len(last.parts))
    while end and isinstance(said := last.parts[end - 1], SystemPromptPart) and said.scope == 'request':
        end -= 1
    return end


def _within_reach(messages: list[ModelMessage], ttl: Ttl) -> list[ModelMessage]:
    """Return the messages with a point where the last request ended, when a long turn took that out of reach."""
    answer = next((at for at in reversed(range(len(messages))) if isinstance(messages[at], ModelResponse)), 0)
    end = next((at for at in reversed(range(answer)) if isinstance(messages[at], ModelRequest)), None)
    if end is None or sum(len(message.parts) for message in messages[end + 1 :]) < _REACH:
        return messages
    request, before = messages[end], _said_before(messages[: end + 1])
    if not before or isinstance(before[0], CachePoint) or not isinstance(request, ModelRequest):
        return messages
    point = UserPromptPart(content=[CachePoint(ttl=ttl)])
    return [*messages[:end], replace(request, parts=[*request.parts, point]), *messages[end + 1 :]]


def _wants_less(messages: Sequence[ModelMessage], settings: Mapping[str, Any]) -> bool:
    """Whether the user asks for less than an hour anywhere.

    Providers take no longer point behind a shorter one, so an hour here would turn the user's own into hours.
    """
    for name, value in settings.items():
        if 'cache' in name and _retention(value) in _SHORT:
            return True
    return any(isinstance(said, CachePoint) and said.ttl == '5m' for said in _contents(messages))


def _retention(setting: object) -> object:
    return cast(dict[str, object], setting).get('retention') if isinstance(setting, dict) else setting


def _contents(messages: Sequence[ModelMessage]) -> Iterator[UserContent]:
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
                yield from part.content


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
