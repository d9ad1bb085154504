"""One agent, asked until it stops or is stopped between two requests. Knows models and messages, not plans."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic_ai import Agent
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_graph import End

from planctl.agent.models import one_line
from planctl.agent.outcome import Phase
from planctl.agent.prompts import CORE_TOOLS, SUBTASK_TOOLS
from planctl.agent.watch import Requested, ToolCalled, Watcher
from planctl.errors import ModelError, PlanctlError

RETRIES = 1_000
"""Slips in a row that an agent may make in calling tools: what ends a run is the plan that does not move."""

_ARGUMENTS = 200
_PLAN_TOOLS = (*CORE_TOOLS, *SUBTASK_TOOLS)

R = TypeVar('R')


@dataclass(frozen=True, slots=True)
class Turn(Generic[R]):
    """How a call of the agent ended: with an output, or with a `stop` between two requests."""

    messages: list[ModelMessage]
    output: Any = None
    stop: R | None = None


class LimitReached(Exception):
    """A limit of the agent's own ended the call."""


class Conversation(Generic[R]):
    """Calls of one agent in one phase, which share what they use.

    `before_request` is asked before each request; anything but `None` stops the call there, cleanly.
    """

    def __init__(
        self,
        agent: AbstractAgent[Any, Any],
        model: Model,
        phase: Phase,
        *,
        before_request: Callable[[], Awaitable[R | None]],
        watch: Watcher,
        capabilities: Sequence[AbstractCapability[Any]] = (),
        instructions: str | None = None,
        output_type: Any = None,
    ) -> None:
        self.phase = phase
        self._agent = agent
        self._model = model
        self._before_request = before_request
        self._watch = watch
        self._options: dict[str, Any] = {
            'model': model,
            'capabilities': list(capabilities),
            'instructions': instructions,
            'usage_limits': UsageLimits(request_limit=None),
            'usage': RunUsage(),
            'retries': {'tools': RETRIES},
            'infer_name': False,
        }
        if output_type is not None:
            self._options['output_type'] = output_type

    async def ask(self, prompt: str | Sequence[str], history: Sequence[ModelMessage] = ()) -> Turn[R]:
        """Call the agent once. What its model and its tools raise is `ModelError`; `PlanctlError` comes as it is.

        Raises `LimitReached` for a limit that the agent brings with it.
        """
        try:
            return await self._ask(prompt, history)
        except PlanctlError:
            raise
        except UsageLimitExceeded as error:
            raise LimitReached(one_line(error)) from error
        except Exception as error:
            name = type(error).__name__
            raise ModelError(f'{self._model.model_name}: {name}: {one_line(error)}') from error
        finally:
            usage: RunUsage = self._options['usage']
            self.phase.input_tokens, self.phase.output_tokens = usage.input_tokens, usage.output_tokens
            self.phase.seconds = time.monotonic() - self.phase.started

    async def _ask(self, prompt: str | Sequence[str], history: Sequence[ModelMessage]) -> Turn[R]:
        usage: RunUsage = self._options['usage']
        async with self._agent.iter(prompt, message_history=list(history), **self._options) as run:
            node = run.next_node
            while not isinstance(node, End) and run.result is None:
                if Agent.is_model_request_node(node):
                    stop = await self._before_request()
                    if stop is not None:
                        return Turn(run.all_messages(), stop=stop)
                    self.phase.requests += 1
                    self._watch(Requested(self.phase.requests, usage.input_tokens, usage.output_tokens))
                elif Agent.is_call_tools_node(node):
                    self._announce(node.model_response.parts)
                node = await run.next(node)
            assert run.result is not None
            return Turn(run.result.all_messages(), run.result.output)

    def _announce(self, parts: Sequence[Any]) -> None:
        for part in parts:
            if isinstance(part, ToolCallPart) and not part.tool_name.endswith(_PLAN_TOOLS):
                arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
                shown = arguments if len(arguments) <= _ARGUMENTS else f'{arguments[: _ARGUMENTS - 1]}…'
                self._watch(ToolCalled(part.tool_name, shown))
