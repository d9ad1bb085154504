"""The `Planning` capability: plan tools, and the plan shown with every request without touching the prompt cache.

It holds no rule of plans: every change is an operation that goes through `planctl.core.apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, durable_operation
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart
from pydantic_ai.tools import AgentDepsT, RunContext, ToolDefinition
from pydantic_ai.toolsets import AgentToolset

from planctl.agent.access import catch_up, perform, view
from planctl.agent.answers import Applied, Refusal, View
from planctl.agent.guidance import guidance_for
from planctl.agent.mode import Mode, check_names, mode_of, offered_tools
from planctl.agent.options import DATABASE, check_options, check_spec, check_store, store_of
from planctl.agent.run import Run, calling, current_call
from planctl.agent.seen import Seen
from planctl.agent.surroundings import (
    actor_of,
    leaves_of,
    prefix_of,
    refuse_two,
    rewriters_but,
    two_plans,
    unwrapped,
)
from planctl.agent.tail import reminded
from planctl.agent.toolset import PlanningToolset, names_of
from planctl.operations import Operation
from planctl.stores.base import BaseStore, PlanStore
from planctl.stores.memory import InMemoryPlanStore

if TYPE_CHECKING:
    from pydantic_ai._instructions import AgentInstructions
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.capabilities.abstract import WrapModelRequestHandler, WrapRunHandler, WrapToolExecuteHandler
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult


@dataclass
class Planning(AbstractCapability[AgentDepsT]):
    """A plan that the model owns, kept in a store, and shown with each request at no cost to the prompt cache.

    By default each run has a plan of its own, in memory. With a `store` the plan outlives the run, and people and
    scripts read and change the same one.
    """

    guidance: str | None = None
    """What the instructions say of planning: `None` is the built-in text for the registered tools, '' nothing."""

    cache_ttl: Literal['5m', '1h'] = '5m'
    """How long the provider keeps what stands before the reminder; no longer than the user asks for elsewhere."""

    store: PlanStore | None = None
    """Where the plan is kept; `None` is a fresh one in memory for each run."""

    store_resolver: Callable[[RunContext[AgentDepsT]], PlanStore] | None = None
    """Chooses the store of each run, e.g. `lambda ctx: ctx.deps.plan_store`; beats `store`."""

    enable_subtasks: bool = False
    """Adds the tools for subtasks and dependencies, and the status `blocked`."""

    inject: bool = True
    """Shows the plan with each request."""

    tools: Sequence[str] | None = None
    """The tools to register, by name; `None` is all. A name that the mode does not have is a `ValueError`."""

    descriptions: dict[str, str] | None = None
    """Other descriptions for tools, by name. A name that the mode does not have is a `ValueError`."""

    _: KW_ONLY

    id: str | None = 'planning'
    """One id per class: an agent has one plan."""

    actor: str | None = None
    """Who the plan's log says wrote, and who holds a step in progress; `None` is `agent:` and part of the run's id."""

    enable_blocking: bool = False
    """Offers `blocked`, with a note that says why, also without subtasks."""

    _toolset: PlanningToolset[AgentDepsT] | None = field(default=None, init=False, repr=False, compare=False)
    """Shared by all copies, since engines bind the one that was registered at construction."""

    _memory: PlanStore | None = field(default=None, init=False, repr=False, compare=False)
    """The plan of a toolset whose methods are called without any run."""

    _run: Run | None = field(default=None, init=False, repr=False, compare=False)
    """`None` on what an agent was built with; a copy for each run has one."""

    def __post_init__(self) -> None:
        check_options(
            enable_subtasks=self.enable_subtasks, inject=self.inject, cache_ttl=self.cache_ttl, tools=self.tools
        )
        if self.store is not None:
            check_store(self.store, 'store')
        check_names('descriptions', self.descriptions or (), offered_tools(subtasks=self.enable_subtasks))
        _ = self.mode  # Raises for `tools`.

    @property
    def mode(self) -> Mode:
        """What the options offer to a model. `ValueError` for a tool that there is not."""
        return mode_of(subtasks=self.enable_subtasks, blocking=self.enable_blocking, tools=self.tools)

    @classmethod
    def combine(cls, capabilities: Sequence[AbstractCapability[AgentDepsT]]) -> AbstractCapability[AgentDepsT]:
        """Refuse: two of them state two plans, and no merging of their options is what both meant."""
        raise two_plans(capabilities)

    def for_agent(self, agent: AbstractAgent[AgentDepsT, Any]) -> AbstractCapability[AgentDepsT]:
        """Refuse a second one, also under another id."""
        refuse_two(agent.root_capability, Planning)
        return self

    # --- What it brings to an agent -----------------------------------------------------------------------------

    def get_toolset(self) -> AgentToolset[AgentDepsT] | None:
        """Return the toolset, the same one for every copy."""
        if self._toolset is None:
            self._toolset = PlanningToolset(self)
        return self._toolset

    def get_instructions(self) -> AgentInstructions[AgentDepsT] | None:
        """Return the guidance: static, so that it stays in the cached prefix, and naming only registered tools."""
        if self.guidance is not None:
            return self.guidance or None
        # What is given to a run can be wrapped too, which only its requests tell; it is the same for all of them.
        if self._run is not None and not self._run.is_placed:
            return self._guidance
        names = self._run.names if self._run is not None else self._names()
        return guidance_for(names, inject=self.inject) or None

    def _guidance(self, ctx: RunContext[AgentDepsT]) -> str:
        return guidance_for(self._names(prefix_of(ctx, self)), inject=self.inject)

    def tool_names(self, ctx: RunContext[AgentDepsT]) -> Mapping[str, str]:
        """Return the registered tools and what the model calls them."""
        return self._run.names if self._run is not None else self._names(prefix_of(ctx, self))

    def _names(self, prefix: str | None = None) -> dict[str, str]:
        return {name: f'{prefix or ""}{name}' for name in self.mode.tools}

    # --- A run --------------------------------------------------------------------------------------------------

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> Planning[AgentDepsT]:
        """Return a copy with this run's store and nothing seen yet. Nothing is opened here."""
        self.get_toolset()
        clone = copy(self)
        clone._memory = None
        prefix = prefix_of(ctx, self)
        clone._run = Run(
            store=self._new_store(ctx),
            actor=self.actor or actor_of(ctx),
            names=self._names(prefix),
            is_placed=prefix is not None,
        )
        return clone

    def resolve_store(self, ctx: RunContext[AgentDepsT]) -> PlanStore:
        """Return this run's store; outside a run the one that the options name, else one plan in memory."""
        if self._run is not None:
            return self._run.store
        if self.store_resolver is not None or self.store is not None:
            return self._new_store(ctx)
        if self._memory is None:
            self._memory = InMemoryPlanStore()
        return self._memory

    def _new_store(self, ctx: RunContext[AgentDepsT]) -> PlanStore:
        if self.store_resolver is not None:
            store = self.store_resolver(ctx)
            check_store(store, 'what store_resolver returns')
            return store
        return self.store if self.store is not None else InMemoryPlanStore()

    def of_run(self, ctx: RunContext[AgentDepsT], toolset: PlanningToolset[AgentDepsT]) -> Planning[AgentDepsT] | None:
        """Return the copy of this run that brought `toolset`, or `None` when no capability did."""
        call = current_call()
        if call is not None and call.planning._toolset is toolset:
            return call.planning
        own = (
            leaf for leaf in leaves_of(ctx.root_capability) if isinstance(leaf, Planning) and leaf._toolset is toolset
        )
        return cast('Planning[AgentDepsT] | None', next(own, None))

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Hold the store open for the length of the run. Refuse a second plan, which only the run was given."""
        refuse_two(ctx.root_capability, Planning)
        store = self.resolve_store(ctx)
        if not isinstance(store, BaseStore):
            return await handler()
        async with store:
            return await handler()

    @property
    def reminds(self) -> bool:
        """Whether the model of this run is shown the plan with each request."""
        return self.inject and self._run is not None

    # --- The reminder -------------------------------------------------------------------------------------------

    def get_ordering(self) -> CapabilityOrdering:
        """Come behind all that may rewrite a request, so that none of them sees, keeps or loses the reminder."""
        return CapabilityOrdering(wrapped_by=[rewriters_but(Planning)])

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Return the request with the plan behind it: in a copy, behind a cache point, never in the history.

        `StorageError` fails the run: a plan that the model cannot see is not a state to go on in.
        """
        run = self._run
        messages = request_context.messages
        if run is not None:
            run.names = names_of(request_context.model_request_parameters.function_tools, self._own_id(ctx))
        if not self.inject or not messages or not isinstance(messages[-1], ModelRequest):
            return request_context
        known = run.seen.known if run is not None else None
        reminder = await self._read(ctx, 'reminder', dict(self.tool_names(ctx)), known)
        if run is not None:
            run.seen.remind(reminder.shown, reminder.rest, reminder.gone, messages=len(messages))
        if not reminder.text:
            return request_context
        return reminded(request_context, reminder.text, self.cache_ttl, ctx.messages)

    async def wrap_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        """Send the request with the plan behind it, where this is called outside of a run, which does that last."""
        if self._run is None:
            request_context = await self.before_model_request(ctx, request_context)
        return await handler(request_context)

    # --- Tool calls ---------------------------------------------------------------------------------------------

    async def wrap_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Let a plan tool find this run, and emit what it changed once that is stored."""
        if tool_def.capability_id is None or tool_def.capability_id != self._own_id(ctx):
            return await handler(args)
        async with calling(self, ctx):
            return await handler(args)

    def _own_id(self, ctx: RunContext[AgentDepsT]) -> str | None:
        if self.id is not None and self.id in ctx.capabilities:
            return self.id
        return next((key for key, other in ctx.capabilities.items() if unwrapped(other) is self), self.id)

    async def change_plan(
        self, ctx: RunContext[AgentDepsT], operations: Iterable[Operation], key: str | None = None
    ) -> Applied | Refusal:
        """Apply operations as this run: one transaction, its difference noted as seen and to be emitted.

        With a `key` that was used before, nothing is changed, and what that came to is returned.
        """
        run = self._run
        if run is None:
            return await self._apply(ctx, list(operations), key)
        async with run.turn:
            based = [run.seen.based(operation) if self.inject else operation for operation in operations]
            outcome = await self._apply(ctx, based, key)
            if isinstance(outcome, Applied):
                if self.store is None and self.store_resolver is None:
                    await catch_up(run.store, outcome, actor=run.actor)
                run.seen.did(outcome.steps)
                run.seen.tell(outcome.named)
                if outcome.steps and (call := current_call()) is not None and call.planning is self:
                    call.changes.append(outcome.steps)
        return outcome

    async def view_plan(self, ctx: RunContext[AgentDepsT], what: str) -> str:
        """Return a text about the plan: `tree`, `flat` or `available`."""
        run = self._run
        if run is None:
            return (await self._read(ctx, what, {}, None)).text
        async with run.turn:
            answer = await self._read(ctx, what, {}, None)
            run.seen.answer(answer.shown)
        return answer.text

    # The two ways to the store. An engine records what they return, so that a recovered run repeats nothing.

    @durable_operation('read')
    async def _read(self, ctx: RunContext[Any], what: str, tools: dict[str, str], known: dict[str, str] | None) -> View:
        seen = self._run.seen if self._run is not None else Seen()
        store, actor = self.resolve_store(ctx), self._actor_of(ctx)
        return await view(store, what, actor=actor, tools=tools, known=known, seen=seen)

    @durable_operation('apply')
    async def _apply(self, ctx: RunContext[Any], operations: list[Operation], key: str | None) -> Applied | Refusal:
        return await perform(self.resolve_store(ctx), operations, actor=self._actor_of(ctx), key=key)

    def _actor_of(self, ctx: RunContext[Any]) -> str:
        return self._run.actor if self._run is not None else self.actor or actor_of(ctx)

    # --- Agent files --------------------------------------------------------------------------------------------

    @classmethod
    def from_spec(
        cls,
        *entry: object,
        backend: Literal['memory', 'sqlite'] = 'memory',
        database: str = DATABASE,
        session: str = 'default',
        enable_subtasks: bool = False,
        inject: bool = True,
        guidance: str | None = None,
        cache_ttl: Literal['5m', '1h'] = '5m',
        tools: list[str] | None = None,
        **unknown: object,
    ) -> Planning[AgentDepsT]:
        """Build the capability from an agent file. `ValueError` says which option is wrong and what it takes."""
        check_spec(cls.from_spec, entry, unknown, guidance=guidance)
        return cls(
            guidance=guidance,
            cache_ttl=cache_ttl,
            store=store_of(backend, database, session),
            enable_subtasks=enable_subtasks,
            inject=inject,
            tools=tools,
        )

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return what agent files call it."""
        return 'Planning'
