"""Requests that a provider could not serve are made again, after a pause. Nothing else is, and nothing is swallowed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    FallbackExceptionGroup,
    ModelConnectionError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from planctl.agent.failures import ended_by
from planctl.agent.models import behind, in_words
from planctl.agent.watch import Retried
from planctl.errors import ModelError
from planctl.text import elapsed

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
PATIENCE = 600.0
"""Seconds of `Retry-After` that are waited for; a provider that asks for more is out of reach, and the run ends."""

_PASSING = (
    ModelConnectionError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
)
_PASSING_STATUSES = frozenset({408, 409, 425})


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed later: 429, 5xx, no connection, or what the provider itself says."""
    if isinstance(error, FallbackExceptionGroup):
        return any(may_pass(each) for each in error.exceptions)
    if isinstance(error, ModelHTTPError):
        if error.provider_retry_hint is not None:
            return error.provider_retry_hint
        if error.status_code in _PASSING_STATUSES:
            return True
    return isinstance(error, _PASSING)


def asked_for(error: BaseException) -> float | None:
    """Return how many seconds the provider asks to wait, if it says."""
    if isinstance(error, FallbackExceptionGroup):
        waits = [seconds for each in error.exceptions if (seconds := asked_for(each)) is not None]
        return min(waits, default=None)
    seconds: float | None = getattr(error, 'retry_after', None)
    return seconds


def pause_before(attempt: int, error: BaseException) -> float:
    """Return how many seconds to wait before attempt 1, 2, …: what the provider says, else twice as long each time.

    A little chance keeps many runs that were refused together from coming back together.
    """
    asked = asked_for(error)
    if asked is not None:
        return asked + random.uniform(0, 0.1)  # noqa: S311
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (attempt - 1)) * random.uniform(0.75, 1.25)  # noqa: S311


@dataclass(kw_only=True)
class Retrying(AbstractCapability[Any]):
    """Makes failed requests of one run again, at most `retries` times in a row. SDKs do not retry on their own then."""

    retries: int
    watch: Callable[[Retried], None]
    id: str | None = 'planctl_retrying'
    broken_off: Exception | None = None
    """The error that ended a stream in the middle, when it may pass: what was passed on cannot be asked for again."""

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Wrap the model, whichever it is in the end."""
        return RetryingModel(model, self)


class RetryingModel(WrapperModel):
    """A model that is asked again; a stream only until it has begun."""

    def __init__(self, wrapped: Model, how: Retrying) -> None:
        super().__init__(wrapped)
        self._how = how
        self._counts_alone = all('max_retries' not in each.unsupported_settings for each in behind(wrapped))

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask until there is an answer, or an error that does not pass."""
        settings, attempt = self._unrepeated(model_settings), 0
        while True:
            try:
                with self._outlived():
                    return await self.wrapped.request(messages, settings, model_request_parameters)
            except Exception as error:
                attempt += 1
                await self._wait(attempt, error)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Ask until a stream begins, or an error that does not pass."""
        settings, attempt = self._unrepeated(model_settings), 0
        while True:
            async with AsyncExitStack() as stack:
                stack.enter_context(self._outlived())
                try:
                    stream = await stack.enter_async_context(
                        self.wrapped.request_stream(messages, settings, model_request_parameters, run_context)
                    )
                except Exception as error:
                    attempt += 1
                    await self._wait(attempt, error)
                    continue
                try:
                    yield stream
                except Exception as error:
                    self._how.broken_off = error if may_pass(error) else None
                    raise
                return

    @contextmanager
    def _outlived(self) -> Generator[None]:
        """Turn what would end the process into an error of the model: asyncio lets nothing come between the two."""
        try:
            yield
        except SystemExit as error:
            raise ModelError(f'{self.model_name.rstrip(":")}: {ended_by(error)}') from error

    def _unrepeated(self, given: ModelSettings | None) -> ModelSettings | None:
        # What an SDK repeats behind our back would be neither counted nor seen.
        if not self._counts_alone or (given is not None and 'max_retries' in given):
            return given
        settings = given.copy() if given is not None else ModelSettings()
        settings['max_retries'] = 0
        return settings

    async def _wait(self, attempt: int, error: Exception) -> None:
        """Wait before the attempt, or raise the error."""
        seconds = pause_before(attempt, error)
        if attempt > self._how.retries or not may_pass(error):
            raise error
        if seconds > PATIENCE:
            words = f'{in_words(error)}; it asks to be left alone for {elapsed(seconds)}'
            raise ModelError(f'{self.model_name.rstrip(":")}: {words}') from error
        self._how.watch(Retried(attempt, self._how.retries, seconds, in_words(error)))
        await asyncio.sleep(seconds)
