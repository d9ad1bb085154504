"""planctl: a plan that an agent owns, in a database that people and scripts share with it.

Names are imported when they are first used, so that a plan command never pays for what only an agent needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = '0.1.0'

_WHERE = {
    'planctl.agent.capability': ('Planning',),
    'planctl.agent.events': (
        'PLANNING_EVENTS',
        'PlanCompletedEvent',
        'PlanCreatedEvent',
        'PlanDeletedEvent',
        'PlanStatusChangedEvent',
        'PlanUpdatedEvent',
    ),
    'planctl.agent.toolset': ('PlanningToolset',),
    'planctl.change': ('Change', 'StepChange'),
    'planctl.core': ('apply', 'read'),
    'planctl.errors': ('PlanctlError',),
    'planctl.items': (
        'EventCallback',
        'PlanEvent',
        'PlanEventEmitter',
        'PlanEventType',
        'PlanItem',
        'PlanStatusUpdate',
    ),
    'planctl.plan': ('Plan', 'Progress', 'Step', 'TaskStatus'),
    'planctl.stores.adapter': ('StoreWrapper',),
    'planctl.stores.base': ('BaseStore', 'PlanStore'),
    'planctl.stores.memory': ('InMemoryPlanStore',),
    'planctl.stores.postgres': ('PostgresConnection', 'PostgresPlanStore', 'PostgresPool'),
    'planctl.stores.redis': ('RedisClient', 'RedisPlanStore'),
    'planctl.stores.sqlite': ('SqlitePlanStore',),
    'planctl.text': ('render_plan',),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

__all__ = ['__version__', *sorted(_MODULE_OF)]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from planctl.agent.capability import Planning as Planning
    from planctl.agent.events import PLANNING_EVENTS as PLANNING_EVENTS
    from planctl.agent.events import PlanCompletedEvent as PlanCompletedEvent
    from planctl.agent.events import PlanCreatedEvent as PlanCreatedEvent
    from planctl.agent.events import PlanDeletedEvent as PlanDeletedEvent
    from planctl.agent.events import PlanStatusChangedEvent as PlanStatusChangedEvent
    from planctl.agent.events import PlanUpdatedEvent as PlanUpdatedEvent
    from planctl.agent.toolset import PlanningToolset as PlanningToolset
    from planctl.change import Change as Change
    from planctl.change import StepChange as StepChange
    from planctl.core import apply as apply
    from planctl.core import read as read
    from planctl.errors import PlanctlError as PlanctlError
    from planctl.items import EventCallback as EventCallback
    from planctl.items import PlanEvent as PlanEvent
    from planctl.items import PlanEventEmitter as PlanEventEmitter
    from planctl.items import PlanEventType as PlanEventType
    from planctl.items import PlanItem as PlanItem
    from planctl.items import PlanStatusUpdate as PlanStatusUpdate
    from planctl.plan import Plan as Plan
    from planctl.plan import Progress as Progress
    from planctl.plan import Step as Step
    from planctl.plan import TaskStatus as TaskStatus
    from planctl.stores.adapter import StoreWrapper as StoreWrapper
    from planctl.stores.base import BaseStore as BaseStore
    from planctl.stores.base import PlanStore as PlanStore
    from planctl.stores.memory import InMemoryPlanStore as InMemoryPlanStore
    from planctl.stores.postgres import PostgresConnection as PostgresConnection
    from planctl.stores.postgres import PostgresPlanStore as PostgresPlanStore
    from planctl.stores.postgres import PostgresPool as PostgresPool
    from planctl.stores.redis import RedisClient as RedisClient
    from planctl.stores.redis import RedisPlanStore as RedisPlanStore
    from planctl.stores.sqlite import SqlitePlanStore as SqlitePlanStore
    from planctl.text import render_plan as render_plan


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
