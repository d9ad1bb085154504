"""Typed events of a run: the exact difference of each call, once, in order, and nothing left over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from agent_scripts import Script, answers, call
from pydantic_ai import CapabilityEvent
from pydantic_ai.capabilities import AbstractCapability

from planctl import (
    PLANNING_EVENTS,
    InMemoryPlanStore,
    PlanCompletedEvent,
    PlanCreatedEvent,
    PlanDeletedEvent,
    Planning,
    PlanStatusChangedEvent,
    PlanUpdatedEvent,
    SqlitePlanStore,
)
from planctl.core import apply
from planctl.operations import Add

Heard = list[tuple[str, str, str, str | None]]


def told(event: CapabilityEvent) -> tuple[str, str, str, str | None]:
    before = event.previous_state
    return event.kind.removeprefix('planctl.'), event.item.id, event.item.status.value, before and before.status.value


async def heard(turns: Sequence, *capabilities: AbstractCapability, **options) -> tuple[Heard, list[CapabilityEvent]]:
    """Run the turns and return every event, in the order in which a listener got them."""
    script = Script(turns)
    agent = script.agent(*capabilities, **options)
    events: list[CapabilityEvent] = []

    @agent.on_event(CapabilityEvent)
    async def listen(ctx, event):
        events.append(event)

    await agent.run('go')
    return [told(event) for event in events], events


async def test_each_tool_tells_exactly_what_it_changed():
    turns = [
        [
            call(
                'write_plan',
                items=[{'content': 'a'}, {'content': 'b', 'depends_on': ['x']}, {'id': 'x', 'content': 'c'}],
            )
        ],
        [call('update_task_status', task_id='x', status='in_progress')],
        [call('update_task_status', task_id='x', status='in_progress')],
        [call('update_task_status', task_id='x', status='completed')],
        [call('add_subtask', parent_id='1', content='d')],
        [call('set_dependency', task_id='2', depends_on_id='1')],
        [call('update_task_status', task_id='nope', status='completed')],
        [
            call(
                'update_task_statuses',
                updates=[{'task_id': 1, 'status': 'completed'}, {'task_id': 3, 'status': 'cancelled'}],
            )
        ],
        [call('remove_task', task_id='1')],
        [call('read_plan'), call('get_available_tasks')],
        [call('write_plan', items=[{'id': '2', 'content': 'b, reworded'}, {'content': 'e'}])],
    ]
    store = InMemoryPlanStore()
    kinds, events = await heard(turns, Planning(store=store, enable_subtasks=True))
    assert kinds == [
        ('created', '1', 'pending', None),
        ('created', '2', 'blocked', None),
        ('created', 'x', 'pending', None),
        ('updated', 'x', 'in_progress', 'pending'),
        ('status_changed', 'x', 'in_progress', 'pending'),
        # Completing it frees who waited for it; plan order.
        ('updated', '2', 'pending', 'blocked'),
        ('status_changed', '2', 'pending', 'blocked'),
        ('updated', 'x', 'completed', 'in_progress'),
        ('status_changed', 'x', 'completed', 'in_progress'),
        ('completed', 'x', 'completed', 'in_progress'),
        ('created', '3', 'pending', None),
        ('updated', '2', 'blocked', 'pending'),
        ('status_changed', '2', 'blocked', 'pending'),
        ('updated', '1', 'completed', 'pending'),
        ('status_changed', '1', 'completed', 'pending'),
        ('completed', '1', 'completed', 'pending'),
        ('updated', '2', 'pending', 'blocked'),
        ('status_changed', '2', 'pending', 'blocked'),
        ('updated', '3', 'cancelled', 'pending'),
        ('status_changed', '3', 'cancelled', 'pending'),
        # The reference to a removed step goes with it; deleted ones come last.
        ('updated', '2', 'pending', 'pending'),
        ('deleted', '1', 'completed', None),
        ('deleted', '3', 'cancelled', None),
        ('updated', '2', 'pending', 'pending'),
        ('created', '4', 'pending', None),
        ('deleted', 'x', 'completed', None),
    ]
    assert {event.capability_id for event in events} == {'planning'}
    assert all(event.tool_call_id and event.tool_name for event in events)
    assert [event.tool_name for event in events[:4]] == ['write_plan'] * 3 + ['update_task_status']


async def test_events_come_after_the_change_is_stored(tmp_path):
    store = SqlitePlanStore(tmp_path / 'plan.db', session='s')
    script = Script([[call('add_task', content='a')]])
    agent = script.agent(Planning(store=store))
    found: list[list[str]] = []

    @agent.on_event(PlanCreatedEvent)
    async def look(ctx, event):
        found.append([item.content for item in await SqlitePlanStore(store.path, session='s').get_items()])

    await agent.run('go')
    assert found == [['a']]


@pytest.mark.parametrize('make', [lambda path: InMemoryPlanStore(), lambda path: SqlitePlanStore(path / 'plan.db')])
async def test_calls_of_one_response_tell_in_call_order(tmp_path, make):
    texts = [f'step {number}' for number in range(12)]
    _, events = await heard([[call('add_task', content=text) for text in texts]], Planning(store=make(tmp_path)))
    assert [(event.kind, event.item.content) for event in events] == [('planctl.created', text) for text in texts]


async def test_prefixed_tools_tell_too():
    kinds, events = await heard([[call('p_add_task', content='a')]], Planning().prefix_tools('p'))
    assert kinds == [('created', '1', 'pending', None)]
    assert events[0].tool_name == 'p_add_task'


async def test_an_own_id_or_none_tells_too():
    for chosen in ('mine', None):
        kinds, _ = await heard([[call('add_task', content='a')]], Planning(id=chosen))
        assert kinds == [('created', '1', 'pending', None)]


async def test_changes_outside_tools_are_no_events_of_the_run():
    store = InMemoryPlanStore()
    await apply(store, Add('before'))
    kinds, _ = await heard([[call('read_plan')]], Planning(store=store))
    assert kinds == []


async def test_a_listener_that_raises_fails_the_call_and_not_the_change():
    store = InMemoryPlanStore()
    script = Script([[call('add_task', content='a')]])
    agent = script.agent(Planning(store=store))

    @agent.on_event(PlanCreatedEvent)
    async def fail(ctx, event):
        raise RuntimeError('listener')

    with pytest.raises(RuntimeError, match='listener'):
        await agent.run('go')
    assert [step.content for step in (await store.read()).steps] == ['a']


async def test_what_was_stored_is_told_when_a_hook_behind_it_fails():
    from dataclasses import dataclass

    from pydantic_ai.exceptions import ToolFailed

    @dataclass
    class Fails(AbstractCapability):
        async def after_tool_execute(self, ctx, *, call, tool_def, args, result):
            raise ToolFailed('no')

    kinds, _ = await heard([[call('add_task', content='a')]], Planning(), Fails())
    assert kinds == [('created', '1', 'pending', None)]


async def test_the_stream_carries_the_events():
    script = Script([[call('add_task', content='a')]])
    agent = script.agent(Planning())
    async with agent.run_stream_events('go') as stream:
        kinds = [event.kind async for event in stream if isinstance(event, CapabilityEvent)]
    assert kinds == ['planctl.created']


async def test_a_child_agent_with_a_plan_of_its_own_leaves_its_parents_plan_alone():
    child_store, parent_store = InMemoryPlanStore(), InMemoryPlanStore()
    child = Script([[call('write_plan', items=['child step'])]]).agent(Planning(store=child_store))
    parent = Script([[call('add_task', content='parent step'), call('delegate')]]).agent(Planning(store=parent_store))

    @parent.tool_plain
    async def delegate() -> str:
        return (await child.run('go')).output

    events: list[str] = []

    @parent.on_event(CapabilityEvent)
    async def listen(ctx, event):
        events.append(event.item.content)

    result = await parent.run('go')
    assert [outcome for outcome, _ in answers(result.all_messages())] == ['success', 'success']
    assert [step.content for step in (await child_store.read()).steps] == ['child step']
    assert [step.content for step in (await parent_store.read()).steps] == ['parent step']
    assert events == ['parent step']


def test_the_events_have_a_namespace_of_their_own():
    assert PLANNING_EVENTS == 'planctl'
    family = {PlanCreatedEvent, PlanUpdatedEvent, PlanStatusChangedEvent, PlanCompletedEvent, PlanDeletedEvent}
    assert {event.__dataclass_fields__['kind'].default for event in family} == {
        f'planctl.{what}' for what in ('created', 'updated', 'status_changed', 'completed', 'deleted')
    }


@pytest.mark.parametrize('first', ['planctl', 'pydantic_ai_harness.planning'])
def test_both_packages_can_be_imported_in_either_order(first):
    import subprocess
    import sys

    pytest.importorskip('pydantic_ai_harness')
    names = ['planctl', 'pydantic_ai_harness.planning']
    names.sort(key=lambda name: name != first)
    code = '\n'.join(f'from {name} import Planning, PlanCreatedEvent, PlanStore' for name in names)
    subprocess.run([sys.executable, '-W', 'error::SyntaxWarning', '-c', code], check=True)
