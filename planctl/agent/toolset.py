"""The plan tools: what a model calls, translated into operations and back into answers. No rule of plans is here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import AgentDepsT, RunContext, Tool, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool

from planctl.agent import prompts
from planctl.agent.answers import Refusal
from planctl.agent.arguments import BadArguments, LenientValidator, check_reading, operations_of
from planctl.agent.replies import refusal_text, reply
from planctl.agent.surroundings import key_of, needs_barrier, workflow_key
from planctl.items import PlanItem, PlanStatusUpdate
from planctl.operations import Add, Depend, Draft, Operation, Remove, Replace, SetStatus, Undepend
from planctl.plan import TaskStatus

if TYPE_CHECKING:
    from planctl.agent.capability import Planning

TOOL_NAME = 'planctl_tool'
"""The key of a tool's metadata under which it says which plan tool it is; see `plan_tool`."""

READING = {'read_plan': 'tree', 'get_available_tasks': 'available'}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says, and whether that is a refusal."""

    text: str
    failed: bool = False


class PlanningToolset(FunctionToolset[AgentDepsT]):
    """The plan tools of a `Planning`, also without the capability: `Agent(toolsets=[PlanningToolset(Planning())])`.

    The methods named like tools return what the tool answers, refusals included; `StorageError` is raised. Each is
    one transaction. Without the capability there are no reminders and no events.
    """

    def __init__(self, capability: Planning[AgentDepsT]) -> None:
        super().__init__(id=capability.id or 'planning')
        self.capability = capability
        mode, descriptions = capability.mode, capability.descriptions or {}
        for name in mode.tools:
            tool = Tool[Any].from_schema(
                _unused, name, descriptions.get(name, mode.description(name)), mode.schema(name), takes_ctx=True
            )
            tool.metadata = {TOOL_NAME: name}
            # On the schema, so that it also holds where an engine rebuilds the tool from its definition.
            cast(Any, tool.function_schema).validator = LenientValidator()
            self.add_tool(tool)
        self._own = dict(self.tools)
        self._listed: dict[tuple[int, bool, str | None], dict[str, ToolsetTool[AgentDepsT]]] = {}

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        """Return this toolset where the capability brought it, else a copy with a plan of this run's own."""
        if self.capability.of_run(ctx, self) is not None:
            return self
        bare = await self.capability.for_run(ctx)
        bare.inject = False
        return PlanningToolset(bare)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the tools, each running alone only where their order could not be kept otherwise."""
        barrier, key = needs_barrier(ctx, self.capability), workflow_key(ctx)
        known = self._listed.get((ctx.max_retries, barrier, key))
        # Nothing else makes a difference to our own tools, and they are asked for with each request.
        if known is not None and self.tools == self._own:
            return dict(known)
        tools = await super().get_tools(ctx)
        for name, tool in tools.items():
            metadata = tool.tool_def.metadata if key is None else {**(tool.tool_def.metadata or {}), key: False}
            tool_def = replace(tool.tool_def, sequential=barrier or tool.tool_def.sequential, metadata=metadata)
            tools[name] = replace(tool, tool_def=tool_def)
        self._listed[ctx.max_retries, barrier, key] = tools
        return dict(tools)

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        """Do what the model asked. A slip or a refusal is an answer marked as failed; it costs no retry."""
        answer = await self._call(name, tool_args, ctx)
        if answer.failed:
            raise ToolFailed(answer.text)
        return answer.text

    async def _call(self, name: str, arguments: Mapping[str, Any], ctx: RunContext[AgentDepsT]) -> Answer:
        mode = self.capability.mode
        try:
            if name in READING:
                check_reading(name, arguments, mode)
                tree = name != 'read_plan' or arguments.get('hierarchical') is not False
                return await self._read(ctx, READING[name] if tree else 'flat')
            operations = operations_of(name, arguments, mode)
        except BadArguments as error:
            return Answer(str(error), failed=True)
        # The methods below are given no key: a tool that calls one of them twice means two changes.
        return await self._apply(ctx, *operations, key=key_of(ctx))

    # --- The tools as methods -----------------------------------------------------------------------------------

    async def write_plan(self, ctx: RunContext[AgentDepsT], items: list[PlanItem]) -> str:
        """Replace the whole plan, in this order. A field that was not given to an item is left alone."""
        mode = self.capability.mode
        drafts: list[Draft] = []
        for item in items:
            if not mode.subtasks and (item.parent_id is not None or item.depends_on):
                name = 'depends_on' if item.depends_on else 'parent_id'
                return prompts.ONLY_WITH_SUBTASKS.format(name=name)
            if item.status not in mode.statuses:
                return _not_offered(item.status, mode.statuses)
            drafts.append(_draft(item, subtasks=mode.subtasks))
        return (await self._apply(ctx, Replace(tuple(drafts), plain=not mode.subtasks))).text

    async def read_plan(self, ctx: RunContext[AgentDepsT]) -> str:
        """Return every step with its id, and the progress."""
        return (await self._read(ctx, 'tree')).text

    async def read_plan_tree(self, ctx: RunContext[AgentDepsT], hierarchical: bool = False) -> str:
        """Return every step with its id, flat or, with `hierarchical`, subtasks indented under their step."""
        return (await self._read(ctx, 'tree' if hierarchical else 'flat')).text

    async def add_task(self, ctx: RunContext[AgentDepsT], content: str, active_form: str = '') -> str:
        """Add a pending step at the end."""
        return (await self._apply(ctx, Add(content, active_form=active_form))).text

    async def update_task_status(
        self, ctx: RunContext[AgentDepsT], task_id: str, status: TaskStatus, note: str | None = None
    ) -> str:
        """Move a step to a status; a `note` says why."""
        statuses = self.capability.mode.statuses
        if status not in statuses:
            return _not_offered(status, statuses)
        return (await self._apply(ctx, SetStatus(task_id, TaskStatus(status), note=note))).text

    async def update_task_statuses(self, ctx: RunContext[AgentDepsT], updates: list[PlanStatusUpdate]) -> str:
        """Move several steps, all or nothing, judged together in any order."""
        if not updates:
            return prompts.NO_UPDATES
        statuses = self.capability.mode.statuses
        if unfit := next((update.status for update in updates if update.status not in statuses), None):
            return _not_offered(unfit, statuses)
        return (await self._apply(ctx, *(SetStatus(update.task_id, update.status) for update in updates))).text

    async def remove_task(self, ctx: RunContext[AgentDepsT], task_id: str) -> str:
        """Remove a step, everything under it and every reference to those."""
        return (await self._apply(ctx, Remove(task_id, cascade=True))).text

    async def add_subtask(
        self, ctx: RunContext[AgentDepsT], parent_id: str, content: str, active_form: str = ''
    ) -> str:
        """Add a pending step under another."""
        return (await self._apply(ctx, Add(content, active_form=active_form, parent_id=parent_id))).text

    async def set_dependency(
        self, ctx: RunContext[AgentDepsT], task_id: str, depends_on_id: str, remove: bool = False
    ) -> str:
        """Make a step wait for another, or with `remove` no longer."""
        operation = Undepend(task_id, depends_on_id) if remove else Depend(task_id, depends_on_id)
        return (await self._apply(ctx, operation)).text

    async def get_available_tasks(self, ctx: RunContext[AgentDepsT]) -> str:
        """Return the steps that can be worked on now."""
        return (await self._read(ctx, 'available')).text

    # --- Both ways ----------------------------------------------------------------------------------------------

    async def _apply(self, ctx: RunContext[AgentDepsT], *operations: Operation, key: str | None = None) -> Answer:
        planning = self._planning(ctx)
        outcome = await planning.change_plan(ctx, operations, key)
        if isinstance(outcome, Refusal):
            return Answer(refusal_text(outcome, planning.tool_names(ctx)), failed=True)
        return Answer(reply(operations, outcome, reminded=planning.reminds))

    async def _read(self, ctx: RunContext[AgentDepsT], what: str) -> Answer:
        return Answer(await self._planning(ctx).view_plan(ctx, what))

    def _planning(self, ctx: RunContext[AgentDepsT]) -> Planning[AgentDepsT]:
        """Return this run's copy of the capability; the toolset itself is shared by all runs."""
        return self.capability.of_run(ctx, self) or self.capability


def _draft(item: PlanItem, *, subtasks: bool) -> Draft:
    given = item.model_fields_set
    return Draft(
        item.content,
        id=item.id,
        status=item.status if 'status' in given else None,
        active_form=item.active_form if 'active_form' in given else None,
        parent_id=(item.parent_id or '') if subtasks and 'parent_id' in given else None,
        depends_on=tuple(item.depends_on) if subtasks and 'depends_on' in given else None,
    )


def _not_offered(status: object, statuses: Iterable[TaskStatus]) -> str:
    got = repr(str(getattr(status, 'value', status)))
    return prompts.UNKNOWN_STATUS.format(name='status', got=got, statuses=', '.join(s.value for s in statuses))


async def _unused(ctx: RunContext[Any], **arguments: Any) -> str:
    raise AssertionError('plan tools are called through their toolset')


def plan_tool(tool: ToolDefinition) -> str | None:
    """Return which plan tool a definition is of, whatever a wrapper calls it; `None` for any other tool."""
    return cast('str | None', (tool.metadata or {}).get(TOOL_NAME))


def names_of(tool_defs: Sequence[ToolDefinition], capability_id: str | None) -> dict[str, str]:
    """Return what the model calls each plan tool of this capability, from the definitions of a request."""
    names: dict[str, str] = {}
    for tool in tool_defs:
        name = plan_tool(tool)
        if name is not None and tool.capability_id == capability_id:
            names[name] = tool.name
    return {name: names[name] for name in (*prompts.CORE_TOOLS, *prompts.SUBTASK_TOOLS) if name in names}
