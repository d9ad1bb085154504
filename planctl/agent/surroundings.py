"""What is around the capability in a run: wrappers, other hooks, a durable engine. Looks, and changes nothing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.capabilities import (
    AbstractCapability,
    CombinedCapability,
    Instrumentation,
    PrefixTools,
    WrapperCapability,
)
from pydantic_ai.tools import RunContext

if TYPE_CHECKING:
    from pydantic_ai.durable_exec import BaseDurabilityCapability

_HOOKS = ('before_tool_execute', 'wrap_tool_execute')


def needs_barrier(ctx: RunContext[Any], mine: AbstractCapability[Any]) -> bool:
    """Whether something of this run could bring the plan tool calls of one response out of their order.

    The store takes calls in the order in which they come. Another capability's hook around a tool call can delay one
    of them, and an engine that replays tools numbers their steps as they start; only there is a barrier worth its
    price, which is that no other tool of the response runs beside it.
    """
    root = ctx.root_capability
    if root is None:
        return False
    found: list[bool] = []

    def see(leaf: AbstractCapability[Any]) -> None:
        leaf = unwrapped(leaf)
        # What a combination holds is visited too.
        if not isinstance(leaf, (type(mine), Instrumentation, CombinedCapability)):
            found.append(any(getattr(type(leaf), hook) is not getattr(AbstractCapability, hook) for hook in _HOOKS))

    root.apply(see)
    return any(found) or _replays_tools(ctx)


def unwrapped(capability: AbstractCapability[Any]) -> AbstractCapability[Any]:
    """Return what wrappers such as `prefix_tools` are around."""
    while isinstance(capability, WrapperCapability):
        capability = capability.wrapped
    return capability


def durability(ctx: RunContext[Any]) -> BaseDurabilityCapability[Any] | None:
    """Return the durable engine's capability of this run's agent, if any."""
    # Without the module no such capability can exist, and importing it would cost every run.
    module = sys.modules.get('pydantic_ai.durable_exec._base')
    if module is None or ctx.root_capability is None:
        return None
    found: list[BaseDurabilityCapability[Any]] = []

    def see(leaf: AbstractCapability[Any]) -> None:
        leaf = unwrapped(leaf)
        if isinstance(leaf, module.BaseDurabilityCapability):
            found.append(cast('BaseDurabilityCapability[Any]', leaf))

    ctx.root_capability.apply(see)
    return found[0] if found else None


def _replays_tools(ctx: RunContext[Any]) -> bool:
    engine = durability(ctx)
    return engine is not None and ctx.in_durable_context and 'function' not in engine.engine_spec.wrapped_toolset_kinds


def actor_of(ctx: RunContext[Any]) -> str:
    """Return the name in which a run writes when it was given none."""
    run_id = ctx.run_id
    # The end of a run's id is random; its beginning is the time.
    return f'agent:{run_id[-8:]}' if isinstance(run_id, str) and run_id else 'agent'


def key_of(ctx: RunContext[Any]) -> str | None:
    """Return what tells this operation from any other, where an engine may run it twice; elsewhere nothing is kept."""
    if durability(ctx) is None:
        return None
    return f'{ctx.run_id}:{ctx.run_step}:{ctx.tool_call_id}'


def prefixes_of(root: AbstractCapability[Any] | None, target: AbstractCapability[Any]) -> list[str]:
    """Return what `prefix_tools` puts before the names of the target's tools, the outermost first."""
    found: list[str] = []

    def see(leaf: AbstractCapability[Any]) -> None:
        prefixes: list[str] = []
        while isinstance(leaf, WrapperCapability):
            if isinstance(leaf, PrefixTools):
                prefixes.append(leaf.prefix)
            leaf = leaf.wrapped
        if leaf is target:
            found[:] = prefixes

    if root is not None:
        root.apply(see)
    return found
