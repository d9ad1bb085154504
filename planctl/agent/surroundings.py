"""What is around the capability in a run: wrappers, other hooks, a durable engine. Looks, and changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic_ai.capabilities import AbstractCapability, Hooks, Instrumentation, PrefixTools, WrapperCapability
from pydantic_ai.exceptions import UserError
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
    return any(_delays_tools(leaf, mine) for leaf in leaves_of(ctx.root_capability)) or _replays_tools(ctx)


def _delays_tools(leaf: AbstractCapability[Any], mine: AbstractCapability[Any]) -> bool:
    if isinstance(leaf, (type(mine), Instrumentation)):
        return False
    if type(leaf) is Hooks:
        # It has every hook and calls what was registered; an event listener of the agent is one of these.
        registered = cast('dict[str, object] | None', getattr(leaf, '_registry', None))
        return registered is None or any(registered.get(hook) for hook in _HOOKS)
    return any(getattr(type(leaf), hook) is not getattr(AbstractCapability, hook) for hook in _HOOKS)


class Place(NamedTuple):
    """A capability in a tree, and what is around it there."""

    capability: AbstractCapability[Any]
    prefix: str
    """What `prefix_tools` puts before the names of its tools."""
    wrapped: bool


def places(root: AbstractCapability[Any] | None) -> list[Place]:
    """Return the capabilities of a tree, each once, but for those that only wrap or combine others."""
    visited: list[AbstractCapability[Any]] = []
    if root is not None:
        root.apply(visited.append)
    found: dict[int, Place] = {}
    for capability in visited:
        if not isinstance(capability, WrapperCapability):
            found.setdefault(id(capability), Place(capability, '', wrapped=False))
            continue
        prefix = f'{capability.prefix}_' if isinstance(capability, PrefixTools) else ''
        # What a combination has in a wrapper is visited again, without it.
        for leaf, inner, _ in places(capability.wrapped):
            found.setdefault(id(leaf), Place(leaf, f'{prefix}{inner}', wrapped=True))
    return list(found.values())


def leaves_of(root: AbstractCapability[Any] | None) -> list[AbstractCapability[Any]]:
    """Return the capabilities of a tree, each without what is around it."""
    return [place.capability for place in places(root)]


def unwrapped(capability: AbstractCapability[Any]) -> AbstractCapability[Any]:
    """Return what wrappers such as `prefix_tools` are around."""
    while isinstance(capability, WrapperCapability):
        capability = capability.wrapped
    return capability


def durability(ctx: RunContext[Any]) -> BaseDurabilityCapability[Any] | None:
    """Return the durable engine's capability of this run's agent, if any."""
    # Without the module no such capability can exist, and importing it would cost every run.
    module = sys.modules.get('pydantic_ai.durable_exec._base')
    if module is None:
        return None
    engines = (leaf for leaf in leaves_of(ctx.root_capability) if isinstance(leaf, module.BaseDurabilityCapability))
    return cast('BaseDurabilityCapability[Any] | None', next(engines, None))


def _replays_tools(ctx: RunContext[Any]) -> bool:
    engine = durability(ctx)
    if engine is None or not ctx.in_durable_context:
        return False
    return 'function' not in engine.engine_spec.wrapped_toolset_kinds or workflow_key(ctx) is not None


def workflow_key(ctx: RunContext[Any]) -> str | None:
    """Return the key of a tool's metadata that, being false, has this run's engine call the tool in workflow code.

    There a plan tool finds its run, and what it asks of the store is an operation that the engine records. In a unit of
    its own, maybe on another machine, it would know nothing of the run, and could tell it nothing.
    """
    engine = durability(ctx)
    return engine.engine_spec.tool_config_key if engine is not None and ctx.in_durable_context else None


class _Rewriters(type):
    """Stands, where capabilities are put in order, for every kind but `mine` that may rewrite a request."""

    mine: type[AbstractCapability[Any]]

    def __subclasscheck__(cls, subclass: type) -> bool:
        """Whether a kind has the hook, and does not itself ask for a place behind `mine`."""
        if not issubclass(subclass, AbstractCapability) or issubclass(subclass, cls.mine):
            return False
        kind = cast('type[AbstractCapability[Any]]', subclass)
        if kind.before_model_request is AbstractCapability[Any].before_model_request:
            return False
        try:
            ordering = kind.get_ordering(cast(Any, None))
        except Exception:
            # Each instance says its place, as of `Hooks`, and a kind cannot be asked. One that asks for none comes
            # first: we wait for pydantic-ai's own rewriters, which it does not.
            return False
        if ordering is None:
            return True
        before = (ref for ref in ordering.wrapped_by if isinstance(ref, type))
        return ordering.position != 'innermost' and not any(issubclass(cls.mine, ref) for ref in before)


def rewriters_but(mine: type[AbstractCapability[Any]]) -> type[AbstractCapability[Any]]:
    """Return what an ordering names to come behind all that may rewrite a request."""
    return cast('type[AbstractCapability[Any]]', _Rewriters('Rewriters', (), {'mine': mine}))


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


def prefix_of(ctx: RunContext[Any], target: AbstractCapability[Any]) -> str | None:
    """Return what `prefix_tools` puts before the names of the target's tools; `None` when the target is not to be seen.

    While a run is being set up, that is so for everything but what the agent was built with.
    """
    agent = None if ctx.agent is None else ctx.agent.root_capability
    known = (*places(ctx.root_capability), *places(agent))
    return next((place.prefix for place in known if place.capability is target), None)


def refuse_two(root: AbstractCapability[Any] | None, kind: type[AbstractCapability[Any]]) -> None:
    """Raise `two_plans` when a tree holds several of this kind, under whatever ids."""
    found = [leaf for leaf in leaves_of(root) if isinstance(leaf, kind)]
    if len(found) > 1:
        raise two_plans(found)


def two_plans(capabilities: Sequence[AbstractCapability[Any]]) -> UserError:
    """Return the error for an agent with several plans: no merging of their options is what both meant."""
    named = ' and '.join(_stated(capability) for capability in capabilities)
    return UserError(
        f'an agent has one plan, but this one has {len(capabilities)} Planning capabilities: {named}. '
        'Keep one of them; one given to `agent.run(capabilities=[…])` takes the place of that with its id.'
    )


def _stated(capability: AbstractCapability[Any]) -> str:
    """Return the capability as it was written: with the options that differ from their defaults."""
    options = [
        f'{option.name}={getattr(capability, option.name)!r}'
        for option in fields(capability)
        if option.init and getattr(capability, option.name) != option.default
    ]
    return f'{type(capability).__name__}({", ".join(options)})'
