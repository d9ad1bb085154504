"""What an agent has as planner and as executor: its tools, its store, its plan capability. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from pydantic_ai.capabilities import AbstractCapability, LocalWorkspace
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext, ToolDefinition

from planctl.agent.capability import Planning
from planctl.agent.guidance import guidance_for
from planctl.agent.mode import offered_tools
from planctl.agent.own_step import OwnStep
from planctl.agent.spec import LoadedAgent
from planctl.agent.surroundings import leaves_of, places
from planctl.agent.toolset import plan_tool
from planctl.errors import SpecError
from planctl.stores.base import BaseStore

READING_KINDS = frozenset(
    f'file_system.{name}'
    for name in ('read_file', 'list_directory', 'search_files', 'find_files', 'file_info', 'list_files', 'grep')
)
READING_NATIVE = frozenset({'web_search', 'x_search', 'web_fetch', 'file_search'})
WORKING_TOOLS = frozenset({'update_task_status', 'update_task_statuses'})
"""Plan tools that do nothing but move steps along, which a planner has no use for."""
WORKER_TOOLS = frozenset({'read_plan', 'add_task', 'update_task_status', 'add_subtask'})
"""Plan tools that leave the steps of others alone, or can be held to it."""


@dataclass(frozen=True, slots=True)
class Role:
    """What is handed to the agent for one phase, beside the prompt."""

    capabilities: tuple[AbstractCapability[Any], ...]
    reading_only: ReadingOnly | None = None

    @property
    def left_out(self) -> list[str]:
        """What was taken away, as far as it is known when the model is asked."""
        return [] if self.reading_only is None else self.reading_only.named


def planner_role(loaded: LoadedAgent, store: BaseStore, actor: str) -> Role:
    """Return the agent as a planner: it gets plan tools on `store` and otherwise only tools that read."""
    planning = _planning(loaded, store, actor, planner=True)
    reading_only = ReadingOnly()
    reading_only.has_workspace = any(isinstance(c, LocalWorkspace) for c in leaves_of(loaded.agent.root_capability))
    workspaces = [
        replace(capability, read_only=True)
        for capability in leaves_of(loaded.agent.root_capability)
        if isinstance(capability, LocalWorkspace)
    ]
    return Role((*planning, *workspaces, *loaded.server_tools(), reading_only), reading_only)


def executor_role(loaded: LoadedAgent, store: BaseStore, actor: str) -> Role:
    """Return the agent as an executor: everything that it has, with the plan on `store`."""
    return Role((*_planning(loaded, store, actor, planner=False), *loaded.server_tools()))


def require_folders(loaded: LoadedAgent) -> None:
    """Raise `SpecError` when an agent works in a folder that is not there: its first step would find that out."""
    for capability in leaves_of(loaded.agent.root_capability):
        if isinstance(capability, LocalWorkspace) and not (folder := Path(capability.working_dir)).is_dir():
            raise SpecError(f'{loaded.label}: LocalWorkspace: there is no folder {folder}')


def require_tools(loaded: LoadedAgent, *, plans: bool) -> None:
    """Raise `SpecError` when an executor's own options leave out what it cannot do without."""
    own = own_planning(loaded)
    if own is None or own.tools is None:
        return
    needed = [('update_task_status', 'update_task_statuses')]
    if plans:
        needed.append(('write_plan', 'add_task'))
    for names in needed:
        if not {*names} & {*own.tools}:
            raise SpecError(
                f'{loaded.label}: its Planning has none of the tools {" and ".join(names)}',
                hint=f'add {names[0]} to `tools`' + (', or plan with --plan-first' if names[0] == 'write_plan' else ''),
            )


def worker_role(loaded: LoadedAgent, store: BaseStore, actor: str, step_id: str) -> Role:
    """Return the agent as one of several executors, with one step. `SpecError` where its plan cannot be told apart."""
    own = own_planning(loaded)
    if own is not None and _is_wrapped(loaded, own):
        raise SpecError(
            f'{loaded.label}: a Planning inside of another capability cannot be shared by workers',
            hint='put it on the list of its own',
        )
    (planning,) = _planning(loaded, store, actor, planner=False)
    offered = [name for name in offered_tools(subtasks=planning.enable_subtasks) if name in WORKER_TOOLS]
    # Whatever else the agent's own options leave out, what becomes of the step has to be said.
    kept = [name for name in offered if planning.tools is None or name in (*planning.tools, 'update_task_status')]
    return Role((replace(planning, tools=kept), OwnStep(step_id=step_id), *loaded.server_tools()))


def _planning(loaded: LoadedAgent, store: BaseStore, actor: str, *, planner: bool) -> tuple[Planning[Any], ...]:
    """Return the agent's own `Planning`, options and all, on another store; one with subtasks where it has none.

    Given for the run it takes the place of the agent's own. One inside a wrapper, such as `PrefixTools`, stays where
    it is and is pointed at the store, since what is given for the run would lose the wrapper.
    """
    own = own_planning(loaded)
    if own is not None and _is_wrapped(loaded, own):
        own.store, own.store_resolver, own.actor = store, None, actor
        return ()
    planning = replace(
        own or Planning[Any](enable_subtasks=True),
        store=store,
        store_resolver=None,
        actor=actor,
        # Whoever carries out a plan has to be able to say that something cannot be done.
        enable_blocking=True,
    )
    if planner:
        offered = offered_tools(subtasks=planning.enable_subtasks)
        tools = {name: name for name in offered if name not in WORKING_TOOLS}
        guidance = planning.guidance
        if guidance is None:
            guidance = guidance_for(tools, inject=planning.inject, working=False)
        planning = replace(planning, tools=list(tools), guidance=guidance)
    return (planning,)


def own_planning(loaded: LoadedAgent) -> Planning[Any] | None:
    """Return the agent's own `Planning`; `SpecError` when it has pydantic-ai-harness's, which planctl cannot read."""
    found: Planning[Any] | None = None
    for capability in leaves_of(loaded.agent.root_capability):
        if isinstance(capability, Planning):
            found = capability
        elif type(capability).__module__.startswith('pydantic_ai_harness.planning'):
            raise SpecError(
                f"{loaded.label}: the agent has pydantic-ai-harness's Planning",
                hint='`from planctl import Planning` takes the same arguments',
            )
    return found


def _is_wrapped(loaded: LoadedAgent, own: Planning[Any]) -> bool:
    return any(place.wrapped for place in places(loaded.agent.root_capability) if place.capability is own)


@dataclass
class ReadingOnly(AbstractCapability[Any]):
    """Takes away, for one run, every tool that is not known to only read: by what is allowed, not by what is not."""

    left_out: dict[str, None] = field(default_factory=dict[str, None])
    """The names of the tools that were taken away, in the order in which they were met."""

    has_workspace: bool = False
    tell: Callable[[list[str]], None] | None = None
    """Who is told what was taken away, once, before the first request."""

    id: str | None = 'planctl_reading_only'

    @property
    def named(self) -> list[str]:
        """What was taken away, in words."""
        return [*(['whatever writes to the workspace or runs in it'] if self.has_workspace else ()), *self.left_out]

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Keep the tools that only read, and those that write a plan."""
        kept: list[ToolDefinition] = []
        for tool in tool_defs:
            name = plan_tool(tool)
            if name in WORKING_TOOLS:
                continue
            if name is not None or _reads(tool):
                kept.append(tool)
            else:
                self.left_out[tool.name] = None
        return kept

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Keep, of what the provider itself does, what only reads."""
        parameters = request_context.model_request_parameters
        native = [tool for tool in parameters.native_tools if tool.kind in READING_NATIVE]
        if len(native) < len(parameters.native_tools):
            self.left_out.update((t.kind, None) for t in parameters.native_tools if t.kind not in READING_NATIVE)
            request_context.model_request_parameters = replace(parameters, native_tools=native)
        tell, self.tell = self.tell, None
        if tell is not None and (names := self.named):
            tell(names)
        return request_context


def _reads(tool: ToolDefinition) -> bool:
    metadata = tool.metadata or {}
    annotations: Any = metadata.get('annotations')
    return (
        tool.tool_kind in READING_KINDS
        or tool.unless_native in READING_NATIVE
        or metadata.get('read_only') is True
        or (isinstance(annotations, dict) and cast('dict[str, Any]', annotations).get('readOnlyHint') is True)
    )
