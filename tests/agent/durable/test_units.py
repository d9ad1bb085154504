"""An engine that carries tools out in units of their own, as on other machines: the plan's are called by the run."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any

from agent_scripts import Script, answers, call
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
)

from planctl import PlanCreatedEvent, Planning, SqlitePlanStore
from planctl.core import read


class Journal(JournalCallableOperationBackend[Any]):
    """Carries units out with nothing of what is around them, and gives a later run what they came to."""

    def __init__(self, engine: Engine) -> None:
        config: Any = RoleBasedOperationConfig(
            model={}, event={}, capability={}, tool={}, resolve_tool=lambda _, tool, name: engine.config(tool, name)
        )
        super().__init__(agent_name=engine.name, config=config)
        self.engine = engine

    async def execute(self, *, operation_id, name, body, cache_key, config):
        if self.engine.recorded:
            recorded, result = self.engine.recorded.pop(0)
            assert recorded == name
            return result
        unit = [name, None]
        self.engine.units.append(unit)
        unit[1] = await asyncio.get_running_loop().create_task(body(), context=Context())
        return unit[1]


class Engine(BaseDurabilityCapability[Any]):
    engine_spec = DurabilityEngineSpec(
        engine_name='Engine',
        durable_unit_noun='unit',
        durable_container_noun='workflow',
        codec=JSON_CODEC,
        toolset_lifecycles={'function': 'enter-always', 'mcp': 'enter-never', 'dynamic': 'enter-never'},
        tool_config_key='engine',
    )

    def __init__(self, units: list[list[Any]]) -> None:
        super().__init__()
        self.units, self.recorded = units, [*units]

    @property
    def in_durable_context(self) -> bool:
        return True

    def config(self, tool: Any, name: str) -> Any:
        return self._build_resolve_tool_config({})(tool, name)

    def get_durable_operation_backend(self):
        return Journal(self)


TURNS = [
    [call('write_plan', items=[{'content': 'a'}, {'content': 'b'}]), call('look'), call('add_task', content='c')],
    [call('update_task_status', task_id='1', status='completed'), call('add_task', content='d')],
    [call('write_plan', items=[{'content': 'b'}, {'content': 'c'}, {'content': 'd'}])],
]


async def run(store: SqlitePlanStore, units: list[list[Any]]) -> tuple[list[tuple[str, str]], list[str]]:
    """Run, or replay what is in `units`; return what the tools answered and which steps were said to be new."""
    agent = Script(TURNS).agent(Planning(store=store), Engine(units), name='worker')
    created: list[str] = []

    @agent.on_event(PlanCreatedEvent)
    async def note(ctx, event):
        created.append(event.item.id)

    @agent.tool_plain
    async def look() -> str:
        return 'seen'

    result = await agent.run('go', run_id='one')
    return answers(result.all_messages()), created


async def test_plan_tools_are_called_by_the_run_and_each_is_one_recorded_operation(tmp_path):
    store = SqlitePlanStore(tmp_path / 'plan.db')
    units: list[list[Any]] = []
    told, created = await run(store, units)
    assert created == ['1', '2', '3', '4']
    assert [name for name, _ in units if 'model.request' not in name] == [
        *('worker__capability__planning.read', 'worker__capability__planning.apply'),
        *('worker__function_toolset__<agent>.call_tool:look', 'worker__capability__planning.apply'),
        *('worker__capability__planning.read', *['worker__capability__planning.apply'] * 2),
        *('worker__capability__planning.read', 'worker__capability__planning.apply'),
        'worker__capability__planning.read',
    ]
    # What the run did itself is not marked as done by somebody else.
    assert 'someone else' not in str(units)
    plan = await read(store)
    again = await run(store, [*units])
    assert again == (told, created)
    assert await read(store) == plan
