"""Every public name of `pydantic_ai_harness.planning` is here, and takes what it takes there: one import is changed."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import planctl
from planctl import PlanItem

EVENT = 'kind=, capability_id=, tool_call_id=, tool_name=, event_kind=, item, previous_state='
EMITTER = {
    'on': 'self, event_type, callback',
    'off': 'self, event_type, callback',
    'emit': 'self, event',
    **{f'on_{what}': 'self, callback' for what in ('created', 'updated', 'status_changed', 'completed', 'deleted')},
}
STORE = {
    'get_items': 'self',
    'set_items': 'self, items',
    'get_item': 'self, item_id',
    'add_item': 'self, item',
    'update_item': 'self, item_id, *, content=None, status=None, active_form=None, parent_id=None, depends_on=None',
    'remove_item': 'self, item_id',
}
TOOLSET = {
    'get_tools': 'self, ctx',
    'call_tool': 'self, name, tool_args, ctx, tool',
    'write_plan': 'self, ctx, items',
    'read_plan': 'self, ctx',
    'read_plan_tree': 'self, ctx, hierarchical=False',
    'add_task': "self, ctx, content, active_form=''",
    'update_task_status': 'self, ctx, task_id, status',
    'update_task_statuses': 'self, ctx, updates',
    'remove_task': 'self, ctx, task_id',
    'add_subtask': "self, ctx, parent_id, content, active_form=''",
    'set_dependency': 'self, ctx, task_id, depends_on_id',
    'get_available_tasks': 'self, ctx',
}
PLANNING = {
    'for_run': 'self, ctx',
    'resolve_store': 'self, ctx',
    'get_toolset': 'self',
    'get_instructions': 'self',
    'wrap_model_request': 'self, ctx, *, request_context, handler',
    'from_spec': (
        "*, backend='memory', database='.agent-plan.db', session='default', enable_subtasks=False, inject=True, "
        "guidance=None, cache_ttl='5m', tools=None"
    ),
    'get_serialization_name': '',
}
SIGNATURES: dict[str, tuple[str, dict[str, str]]] = {
    'InMemoryPlanStore': ('*, event_emitter=None', STORE),
    'PlanCompletedEvent': (f'*, {EVENT}', {}),
    'PlanCreatedEvent': (f'*, {EVENT}', {}),
    'PlanDeletedEvent': (f'*, {EVENT}', {}),
    'PlanEvent': ('*, event_type, item, previous_state=None', {}),
    'PlanEventEmitter': ('', EMITTER),
    'PlanItem': ("*, id=, content, status=, active_form='', parent_id=None, depends_on=", {}),
    'PlanStatusChangedEvent': (f'*, {EVENT}', {}),
    'PlanStatusUpdate': ('*, task_id, status', {}),
    'PlanUpdatedEvent': (f'*, {EVENT}', {}),
    'Planning': (
        "guidance=None, cache_ttl='5m', store=None, store_resolver=None, enable_subtasks=False, inject=True, "
        "tools=None, descriptions=None, *, id='planning', description=None, defer_loading=False",
        PLANNING,
    ),
    'PlanningToolset': ('capability', TOOLSET),
    'PostgresPlanStore': ("pool, *, session='default', table='plan_items', event_emitter=None", STORE),
    'RedisPlanStore': (
        "client, *, session='default', key_prefix='plan', expire_seconds=None, event_emitter=None",
        STORE,
    ),
    'SqlitePlanStore': (
        "database='.agent-plan.db', *, session='default', table='plan_items', event_emitter=None",
        STORE,
    ),
    'render_plan': ('items', {}),
}
"""By name: what calling it takes, and what its methods take. `name=` has a default that is not compared."""
OTHERS = {
    'EventCallback',
    'PLANNING_EVENTS',
    'PlanEventType',
    'PlanStore',
    'PostgresConnection',
    'PostgresPool',
    'RedisClient',
    'TaskStatus',
}


def check(what: Callable[..., Any], expected: str) -> None:
    """Assert that `what` takes everything that is expected, in the same places and with the same defaults."""
    parameters = inspect.signature(what).parameters
    names, keyword_only = list(parameters), False
    for at, part in enumerate(expected.split(', ') if expected else []):
        if part == '*':
            keyword_only = True
            continue
        name, has_default, default = part.partition('=')
        parameter = parameters[name]
        assert (parameter.default is not parameter.empty) == bool(has_default), f'{what}: {name}'
        if default:
            assert repr(parameter.default) == default, f'{what}: {name}'
        if not keyword_only:
            assert names[at] == name, f'{what}: {name} is not at its place'
            assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    given = {part.partition('=')[0] for part in expected.split(', ')}
    more = [
        p for name, p in parameters.items() if name not in given and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    assert [p.name for p in more if p.default is p.empty] == [], f'{what} needs more than it did'


@pytest.mark.parametrize('name', SIGNATURES)
def test_every_name_takes_what_it_takes_in_the_reference(name):
    own, methods = SIGNATURES[name]
    value = getattr(planctl, name)
    check(value, own)
    for method, expected in methods.items():
        check(getattr(value, method), expected)
    if name.endswith('Store'):
        assert all(inspect.iscoroutinefunction(getattr(value, method)) for method in STORE)


@pytest.mark.parametrize('name', sorted(OTHERS | SIGNATURES.keys()))
def test_every_name_can_be_imported_and_is_listed(name):
    assert name in planctl.__all__
    assert name in dir(planctl)
    assert getattr(planctl, name) is getattr(planctl, name)


def test_nothing_of_the_reference_is_missing():
    harness = pytest.importorskip('pydantic_ai_harness.planning')
    assert {*harness.__all__} == OTHERS | SIGNATURES.keys()


def test_the_members_of_the_enumerations_are_those_of_the_reference():
    assert [status.value for status in planctl.TaskStatus] == [
        *('pending', 'in_progress', 'completed', 'cancelled', 'blocked')
    ]
    assert [kind.value for kind in planctl.PlanEventType] == [
        *('created', 'updated', 'status_changed', 'completed', 'deleted')
    ]
    assert all(isinstance(member, str) for kind in (planctl.TaskStatus, planctl.PlanEventType) for member in kind)


def test_the_namespace_leads_to_the_kinds_of_the_events():
    # The value is ours, so that both packages can be imported; what is built from it is right all the same.
    item = PlanItem(content='a')
    for what, kind in (
        ('created', planctl.PlanCreatedEvent),
        ('updated', planctl.PlanUpdatedEvent),
        ('status_changed', planctl.PlanStatusChangedEvent),
        ('completed', planctl.PlanCompletedEvent),
        ('deleted', planctl.PlanDeletedEvent),
    ):
        assert kind(item=item).kind == f'{planctl.PLANNING_EVENTS}.{what}'


def test_the_protocols_are_met_by_what_people_pass():
    asyncpg, redis = pytest.importorskip('asyncpg'), pytest.importorskip('redis.asyncio')
    assert all(hasattr(asyncpg.Pool, name) for name in ('acquire',))
    connection = ('execute', 'fetch', 'fetchrow', 'fetchval', 'transaction')
    assert all(hasattr(asyncpg.Connection, name) for name in connection)
    assert all(hasattr(planctl.PostgresConnection, name) for name in connection)
    assert hasattr(planctl.PostgresPool, 'acquire')
    needed = [name for name in vars(planctl.RedisClient) if not name.startswith('_')]
    assert all(hasattr(redis.Redis, name) for name in needed)


def test_an_item_without_an_id_gets_eight_hexadecimal_digits():
    one, other = PlanItem(content='a'), PlanItem(content='a')
    assert one.id != other.id
    assert len(one.id) == 8
    assert int(one.id, 16) >= 0
    assert (one.status, one.active_form, one.parent_id, one.depends_on) == ('pending', '', None, [])


def test_importing_the_package_imports_nothing_that_is_not_asked_for():
    code = 'import planctl, sys, json; print(json.dumps(sorted(sys.modules)))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {'pydantic', 'pydantic_ai', 'asyncpg', 'redis', 'aiosqlite', 'asyncio'}


def test_a_name_that_there_is_not_is_an_ordinary_error():
    with pytest.raises(AttributeError, match="module 'planctl' has no attribute 'Plann'"):
        _ = planctl.Plann
    with pytest.raises(ImportError):
        exec('from planctl import Plann')
