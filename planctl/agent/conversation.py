"""One agent, asked until it stops or is stopped between two requests. Knows models and messages, not plans."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic_ai import Agent
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelContextWindowExceededError, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequestPart,
    ModelResponsePart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_graph import End

from planctl.agent.failures import ToolFailures, ended_by, is_cancelled
from planctl.agent.limits import LimitName, Limits
from planctl.agent.models import in_words, one_line
from planctl.agent.outcome import Phase
from planctl.agent.retrying import Retrying, pause_before
from planctl.agent.toolset import plan_tool
from planctl.agent.watch import Answered, Requested, ToolCalled, ToolReturned, Watcher
from planctl.errors import ModelError, PlanctlError, ToolError

RETRIES = 1_000
"""Slips that an agent may make, in calling tools or by answering nothing: a plan that does not move ends a run."""

_ARGUMENTS = 200
_TICK = 0.05

R = TypeVar('R')


@dataclass(frozen=True, slots=True)
class Turn(Generic[R]):
    """How a call of the agent ended: with an output, or with a `stop` between two requests."""

    messages: list[ModelMessage]
    output: Any = None
    stop: R | None = None


class LimitReached(Exception):
    """A limit ended the call: the time, or one that the agent brings with it."""

    def __init__(self, message: str, limit: LimitName) -> None:
        super().__init__(message)
        self.limit: LimitName = limit


def seconds_left(limits: Limits, phase: Phase) -> float | None:
    """Return how many seconds a phase still has, 0 when its time is over, `None` without a limit."""
    return None if limits.timeout is None else max(0.0, limits.timeout - phase.clock)


def out_of_time(limits: Limits, phase: Phase) -> LimitReached:
    """Return the error that says so."""
    return LimitReached(limits.words('timeout', planning=phase.name == 'plan'), 'timeout')


class ContextLost(ModelError):
    """The conversation cannot go on as it is, but a fresh one may: the context is full, or an answer broke off."""

    def __init__(self, message: str, *, why: str, requests: int, pause: float | None = None) -> None:
        super().__init__(message)
        self.why = why
        self.requests = requests
        """How many requests the call had made."""
        self.pause = pause
        """Seconds to wait before that, where it is the provider's fault; `None` where nothing passes by waiting."""


class FreshStarts:
    """Decides whether a context that was lost is worth another one.

    A fresh one that came to nothing is not helped by another, unless the provider was to blame.
    """

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._in_vain = 0

    def went_well(self) -> None:
        """Begin to count anew."""
        self._in_vain = 0

    async def after(self, error: ContextLost, *, fresh: bool) -> None:
        """Wait before the next start, or raise the error; `fresh` is whether the lost context had just begun."""
        self._in_vain = self._in_vain + 1 if fresh and error.requests < 2 else 0
        if self._in_vain > (self._retries if error.pause is not None else 0):
            raise error
        await asyncio.sleep(error.pause or 0)


class Conversation(Generic[R]):
    """Calls of one agent in one phase, which share what they use; several that share a phase are given one `usage`.

    `before_request` is asked before each request; anything but `None` stops the call there, cleanly.
    """

    def __init__(
        self,
        agent: AbstractAgent[Any, Any],
        model: Model,
        phase: Phase,
        *,
        limits: Limits,
        before_request: Callable[[], Awaitable[R | None]],
        watch: Watcher,
        capabilities: Sequence[AbstractCapability[Any]] = (),
        instructions: str | None = None,
        output_type: Any = None,
        usage: RunUsage | None = None,
    ) -> None:
        self.phase = phase
        self._agent = agent
        self._model = model
        self._name = model.model_name.rstrip(':')  # `function:name:` is one.
        self._limits = limits
        self._before_request = before_request
        self._watch = watch
        self._usage = RunUsage() if usage is None else usage
        self._called: dict[str, str] = {}
        self._failures = ToolFailures()
        self._plan_tools = _PlanTools()
        self._retrying = Retrying(retries=limits.retries, watch=watch)
        self._options: dict[str, Any] = {
            'model': model,
            'capabilities': [*capabilities, self._failures, self._retrying, self._plan_tools],
            'instructions': instructions,
            'usage_limits': UsageLimits(request_limit=None),
            'usage': self._usage,
            'retries': RETRIES,
            'infer_name': False,
        }
        if output_type is not None:
            self._options['output_type'] = output_type

    async def ask(self, prompt: str | Sequence[str], history: Sequence[ModelMessage] = ()) -> Turn[R]:
        """Call the agent once. What its model and its tools raise is `ModelError`; `PlanctlError` comes as it is.

        Raises `LimitReached` when the time of the phase is over, and for a limit that the agent brings with it;
        `ContextLost`, a `ModelError`, when the same could be asked in a fresh context.
        """
        asked = self.phase.requests
        clock = asyncio.timeout(None)
        try:
            async with clock:
                with self._limiting(clock):
                    return await self._ask(prompt, history)
        except PlanctlError:
            raise
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            words = 'it was cancelled from inside (asyncio.CancelledError)'
            raise ModelError(f'{self._name}: {words}') from error
        except SystemExit as error:
            raise ModelError(f'{self._name}: {ended_by(error)}') from error
        except UsageLimitExceeded as error:
            said = one_line(error).partition('. Consider raising')[0]
            raise LimitReached(f"a limit of the agent's own was reached: {said}", 'agent') from error
        except Exception as error:
            if clock.expired():
                raise out_of_time(self._limits, self.phase) from error
            if (tool := self._failures.tool_of(error)) is not None:
                raise ToolError(f'tool {tool}: {in_words(error)}') from error
            message = f'{self._name}: {in_words(error)}'
            made = self.phase.requests - asked
            if isinstance(error, ModelContextWindowExceededError):
                raise ContextLost(message, why='the context is full', requests=made) from error
            if error is self._retrying.broken_off:
                pause = pause_before(1, error)
                raise ContextLost(message, why='the answer broke off', requests=made, pause=pause) from error
            raise ModelError(message) from error
        finally:
            self._take_down()
            for call in [*self._called]:
                self._answered(call, 'interrupted')

    async def _ask(self, prompt: str | Sequence[str], history: Sequence[ModelMessage]) -> Turn[R]:
        async with self._agent.iter(prompt, message_history=list(history), **self._options) as run:
            node = run.next_node
            while not isinstance(node, End) and run.result is None:
                if Agent.is_model_request_node(node):
                    self._tell_answers(node.request.parts)
                    stop = await self._before_request()
                    if stop is not None:
                        return Turn(run.all_messages(), stop=stop)
                    self.phase.requests += 1
                    self._tell_use(Requested)
                    node = await run.next(node)
                    self._take_down()
                    self._tell_use(Answered)
                    continue
                if Agent.is_call_tools_node(node):
                    self._tell_calls(node.model_response.parts)
                node = await run.next(node)
            assert run.result is not None
            messages = run.result.all_messages()
            # Of a tool whose call is the answer no further request tells.
            self._tell_answers(messages[-1].parts)
            return Turn(messages, run.result.output)

    @contextmanager
    def _limiting(self, clock: asyncio.Timeout) -> Generator[None]:
        """End the block when the time of the phase is over. The phase may stand still meanwhile, so it is looked at."""
        loop = asyncio.get_running_loop()
        ticking: asyncio.TimerHandle | None = None

        def look() -> None:
            nonlocal ticking
            left = seconds_left(self._limits, self.phase)
            if left:
                ticking = loop.call_later(max(left, _TICK), look)
            elif left is not None:
                clock.reschedule(loop.time())

        look()
        try:
            yield
        finally:
            if ticking is not None:
                ticking.cancel()

    def _take_down(self) -> None:
        phase, usage = self.phase, self._usage
        phase.input_tokens, phase.output_tokens = usage.input_tokens, usage.output_tokens
        phase.cost = usage.cost
        phase.seconds = phase.clock

    def _tell_use(self, event: type[Requested]) -> None:
        phase = self.phase
        self._watch(event(phase.requests, phase.input_tokens, phase.output_tokens, phase.cost))

    def _tell_calls(self, parts: Sequence[ModelResponsePart]) -> None:
        for part in parts:
            if isinstance(part, ToolCallPart):
                arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
                shown = arguments if len(arguments) <= _ARGUMENTS else f'{arguments[: _ARGUMENTS - 1]}…'
                self._called[part.tool_call_id] = part.tool_name
                self._watch(
                    ToolCalled(part.tool_name, shown, part.tool_call_id, part.tool_name in self._plan_tools.names)
                )

    def _tell_answers(self, parts: Sequence[ModelRequestPart | ModelResponsePart]) -> None:
        for part in parts:
            if isinstance(part, ToolReturnPart):
                self._answered(part.tool_call_id, part.outcome)

    def _answered(self, call: str, outcome: str) -> None:
        if (name := self._called.pop(call, None)) is not None:
            self._watch(ToolReturned(name, call, outcome, name in self._plan_tools.names))


@dataclass(kw_only=True)
class _PlanTools(AbstractCapability[Any]):
    """Learns what the plan's own tools are called."""

    names: set[str] = field(default_factory=set[str])
    id: str | None = 'planctl_plan_tools'

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Change nothing."""
        self.names.update(tool.name for tool in tool_defs if plan_tool(tool) is not None)
        return tool_defs
