"""Tools that need approval: a person is asked where there is one, else the call is denied and the model told so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied

from planctl.agent.outcome import Phase
from planctl.agent.person import Person
from planctl.agent.watch import Decided

DENIED_BY_NOBODY = (
    'This tool needs the approval of a person, and nobody is there to give it. Do without it; if the step cannot be '
    'done without it, set the step blocked, with that reason.'
)
DENIED_BY_PERSON = 'A person denied this call. Do not try it again in other words.'
OUTSIDE = 'This tool is carried out outside of this run, which cannot wait for it. Do without it.'


@dataclass(kw_only=True)
class Approvals(AbstractCapability[Any]):
    """Decides calls that an agent would otherwise end its run over, unless a handler of its own decides them."""

    person: Person | None
    phase: Phase
    """Whose time stands still while a person is asked."""
    decided: Callable[[Decided], None]
    id: str | None = 'planctl_approvals'
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False, compare=False)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Answer every call: one question after the other."""
        approvals: dict[str, bool | ToolDenied] = {}
        async with self._lock:
            for call in requests.approvals:
                approvals[call.tool_call_id] = await self._decide(call)
        return requests.build_results(
            approvals=approvals, calls={call.tool_call_id: ToolFailed(OUTSIDE) for call in requests.calls}
        )

    async def _decide(self, call: ToolCallPart) -> bool | ToolDenied:
        arguments = call.args_as_json_str()
        allowed = False
        if self.person is not None:
            with self.phase.standing_still():
                allowed = await self.person.allow(call.tool_name, arguments)
        self.decided(Decided(call.tool_name, arguments, allowed, self.person is not None))
        if allowed:
            return True
        return ToolDenied(DENIED_BY_NOBODY if self.person is None else DENIED_BY_PERSON)
