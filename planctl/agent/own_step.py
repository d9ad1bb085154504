"""What holds one of several executors to its one step: a tool call by what it names, a change by what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import WrapToolExecuteHandler
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition

from planctl import rules
from planctl.agent.toolset import plan_tool
from planctl.change import Change, StepChange
from planctl.errors import Refused
from planctl.operations import Renew
from planctl.plan import Plan, TaskStatus
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore, EditFunction

_WAITING = frozenset({TaskStatus.pending, TaskStatus.blocked})


class OwnStepStore(StoreWrapper):
    """The plan as the owner of one step may change it: its own step, as long as it holds it, and new ones.

    Whether it still holds the step is looked at in the transaction of the change, by the rule for renewing a claim, so
    that one who was away for longer than its lease changes nothing. Raises `LostClaim` and `Refused`.
    """

    def __init__(self, store: BaseStore, owner: str, step_id: str) -> None:
        super().__init__(store)
        self._owner = owner
        self._step_id = step_id
        self.done = False
        """Whether the owner has moved the step on, so that it holds it no longer."""

    async def update(self, edit: EditFunction, *, actor: str, label: str, now: float, key: str | None = None) -> Change:
        """Apply `edit`, unless the step was lost or another one is touched."""

        def guarded(plan: Plan) -> Change:
            if not self.done:
                rules.apply(plan, [Renew(self._owner, 1.0, self._step_id)], actor=actor, now=now)
            change = edit(plan)
            self._refuse_others(change)
            return change

        change = await super().update(guarded, actor=actor, label=label, now=now, key=key)
        own = change.after.get(self._step_id)
        self.done = own is None or own.owner != self._owner
        return change

    def _refuse_others(self, change: Change) -> None:
        others = [entry.step.id for entry in change.steps if entry.step.id != self._step_id and _is_touched(entry)]
        if others:
            raise Refused(
                f'step {self._step_id} is yours; step {", ".join(others)} is not, and stays as it is', ids=others
            )


def _is_touched(entry: StepChange) -> bool:
    """Whether a step was changed, by more than that what it waits for is resolved, or is not any more."""
    before, after = entry.before, entry.after
    if before is None:
        return False
    if after is None or (before.content, before.parent_id) != (after.content, after.parent_id):
        return True
    return before.status is not after.status and not {before.status, after.status} <= _WAITING


@dataclass(kw_only=True)
class OwnStep(AbstractCapability[Any]):
    """Answers every try to move another step than the own one."""

    step_id: str
    id: str | None = 'planctl_own_step'

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Let a call through, unless it names another step."""
        named = str(args.get('task_id', self.step_id)).strip()
        if plan_tool(tool_def) == 'update_task_status' and named != self.step_id:
            raise ToolFailed(f'Step {self.step_id} is yours to move; step {named} is for others.')
        return await handler(args)
