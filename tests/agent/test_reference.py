"""The examples of the harness's page with only the import changed, on a function model in the model's place."""

from __future__ import annotations

import json

import pytest
from agent_scripts import Script, answers, call
from pydantic_ai import Agent

from planctl import InMemoryPlanStore, PlanCompletedEvent, PlanItem, Planning, PlanStore, SqlitePlanStore


async def test_usage():
    script = Script(
        [
            [call('write_plan', items=[{'content': 'Refactor', 'status': 'in_progress'}, {'content': 'Add tests'}])],
            [call('update_task_status', task_id='1', status='completed')],
            'Refactored.',
        ]
    )
    agent = Agent(script.model, capabilities=[Planning()])
    result = await agent.run('Refactor the auth module and add tests.')
    assert result.output == 'Refactored.'
    assert '[ ] 2 Add tests' in script.reminder()


async def test_the_smallest_surface():
    planning = Planning(tools=['write_plan'])
    script = Script([[call('write_plan', items=[{'content': 'a'}])]])
    await script.agent(planning).run('go')
    assert script.names() == ['write_plan']
    assert 'Keep it current with write_plan.' in script.reminder()


async def test_persistence(tmp_path):
    planning = Planning(store=SqlitePlanStore(str(tmp_path / 'plan.db'), session='user-123'))
    await Script([[call('add_task', content='a')]]).agent(planning).run('go')
    script = Script([])
    await script.agent(Planning(store=SqlitePlanStore(str(tmp_path / 'plan.db'), session='user-123'))).run('go')
    assert '[ ] 1 a' in script.reminder()
    other = Script([])
    await other.agent(Planning(store=SqlitePlanStore(str(tmp_path / 'plan.db'), session='user-456'))).run('go')
    assert other.reminder() is None


class BestEffort:
    """Serve the last known plan when the backing store is unreachable."""

    def __init__(self, inner: PlanStore) -> None:
        self._inner, self._last = inner, []

    async def get_items(self) -> list[PlanItem]:
        try:  # noqa: SIM105
            self._last = await self._inner.get_items()
        except ConnectionError:
            pass
        return self._last

    # ... delegate the other five methods to `self._inner`
    async def set_items(self, items):
        await self._inner.set_items(items)

    async def get_item(self, item_id):
        return await self._inner.get_item(item_id)

    async def add_item(self, item):
        return await self._inner.add_item(item)

    async def update_item(self, item_id, **fields):
        return await self._inner.update_item(item_id, **fields)

    async def remove_item(self, item_id):
        return await self._inner.remove_item(item_id)


async def test_a_wrapper_that_serves_the_last_known_plan():
    class Flaky(InMemoryPlanStore):
        down = False

        async def get_items(self):
            if self.down:
                raise ConnectionError('unreachable')
            return await super().get_items()

    inner = Flaky()
    store = BestEffort(inner)
    assert isinstance(store, PlanStore)
    script = Script(
        [
            [call('write_plan', items=[{'content': 'a'}, {'content': 'b'}])],
            [call('update_task_status', task_id='1', status='in_progress')],
            [call('remove_task', task_id='2')],
        ]
    )
    result = await script.agent(Planning(store=store)).run('go')
    assert [outcome for outcome, _ in answers(result.all_messages())] == ['success'] * 3
    assert [(item.id, item.status.value) for item in await inner.get_items()] == [('1', 'in_progress')]
    Flaky.down = True
    script = Script([])
    await script.agent(Planning(store=store)).run('go')
    assert '[~] 1 a' in script.reminder()
    with pytest.raises(ConnectionError):
        await Script([]).agent(Planning(store=inner)).run('go')


async def test_planning_and_executing_in_separate_runs(tmp_path):
    store = SqlitePlanStore(str(tmp_path / 'plan.db'), session='issue-403')
    plans = Script([[call('write_plan', items=[{'content': 'Find it'}, {'content': 'Fix it'}])], 'Planned.'])
    works = Script(
        [
            [call('update_task_status', task_id='1', status='completed')],
            [call('update_task_status', task_id='2', status='completed')],
            'Implemented.',
        ]
    )
    planner = Agent(plans.model, capabilities=[Planning(store=store)])
    executor = Agent(works.model, capabilities=[Planning(store=store)])

    await planner.run('Investigate the issue and write a plan. Do not implement anything.')
    await executor.run('Implement the plan.')

    first = works.requests[0][0]
    assert len(first) == 1
    assert '[ ] 1 Find it\n[ ] 2 Fix it' in works.reminder(0)
    assert 'Investigate' not in str(first)
    assert '2 of 2 resolved, finished' in works.reminder()
    assert [item.status.value for item in await store.get_items()] == ['completed', 'completed']


async def test_events(capsys):
    script = Script(
        [
            [call('write_plan', items=[{'content': 'a'}])],
            [call('update_task_status', task_id='1', status='completed')],
        ]
    )
    agent = Agent(script.model, capabilities=[Planning()])

    @agent.on_event(PlanCompletedEvent)
    async def announce(ctx, event):
        print('done:', event.item.content)  # noqa: T201

    await agent.run('go')
    assert capsys.readouterr().out == 'done: a\n'


YAML = """\
model: anthropic:claude-sonnet-5-5
capabilities:
  - Planning: {}
"""


@pytest.mark.parametrize('suffix', ['yaml', 'json'])
async def test_an_agent_file(tmp_path, suffix):
    path = tmp_path / f'agent.{suffix}'
    spec = {'model': 'anthropic:claude-sonnet-5-5', 'capabilities': [{'Planning': {}}]}
    path.write_text(YAML if suffix == 'yaml' else json.dumps(spec))
    script = Script([[call('add_task', content='a')]])
    agent = Agent.from_file(path, custom_capability_types=[Planning], model=script.model)
    result = await agent.run('...')
    assert result.output == 'done'
    assert answers(result.all_messages())[0][0] == 'success'


async def test_an_agent_file_with_every_option(tmp_path):
    path = tmp_path / 'agent.yaml'
    path.write_text(
        f"""\
model: test
capabilities:
  - Planning:
      backend: sqlite
      database: {tmp_path / 'plan.db'}
      session: s1
      enable_subtasks: true
      inject: true
      guidance: Plan well.
      cache_ttl: 1h
      tools: [read_plan, add_task, add_subtask]
"""
    )
    script = Script([[call('add_task', content='a')], [call('add_subtask', parent_id='1', content='b')]])
    agent = Agent.from_file(path, custom_capability_types=[Planning], model=script.model)
    await agent.run('go')
    assert script.names() == ['read_plan', 'add_task', 'add_subtask']
    assert script.requests[0][1].instructions == 'Plan well.'
    items = await SqlitePlanStore(tmp_path / 'plan.db', session='s1').get_items()
    assert [(item.content, item.parent_id) for item in items] == [('a', None), ('b', '1')]
