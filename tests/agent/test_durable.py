"""Plan tools under a durable engine: what is recorded, and that a recovered run repeats nothing it has a record of."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from agent_scripts import Script, answers, call
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
)
from pydantic_ai.messages import ModelResponse

from planctl import InMemoryPlanStore, Planning, SqlitePlanStore
from planctl.core import apply
from planctl.operations import Add


class Crash(Exception):
    """The process died."""


@dataclass
class Journal:
    """What an engine has recorded. `crash_before` is the number of the step that is done but not recorded."""

    steps: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0
    crash_before: int | None = None

    def names(self) -> list[str]:
        return [name.rpartition('__')[2] for name, _ in self.steps]


class Backend(JournalCallableOperationBackend[None]):
    def __init__(self, journal: Journal) -> None:
        config = RoleBasedOperationConfig[None](model=None, event=None, capability=None, tool=None)
        super().__init__(agent_name='planner', config=config)
        self.journal = journal

    async def execute(self, *, operation_id, name, body, cache_key, config) -> object:
        journal = self.journal
        if journal.at < len(journal.steps):
            recorded, payload = journal.steps[journal.at]
            assert recorded == name
        else:
            payload = json.dumps(await body())
            if journal.crash_before == journal.at:
                raise Crash
            journal.steps.append((name, payload))
        journal.at += 1
        return json.loads(payload)


class InProcess(BaseDurabilityCapability[Any]):
    """An engine that runs function tools in workflow code and records the steps that they take."""

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name='test',
        durable_unit_noun='step',
        durable_container_noun='workflow',
        codec=JSON_CODEC,
        wrapped_toolset_kinds=frozenset({'mcp', 'dynamic'}),
    )

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    @property
    def in_durable_context(self) -> bool:
        return True

    def get_durable_operation_backend(self) -> Backend:
        return Backend(self._journal)


TURNS = [
    [call('write_plan', items=[{'content': 'a'}, {'content': 'b', 'depends_on': ['1']}])],
    [call('add_task', content='c'), call('update_task_status', task_id='9', status='completed')],
    [call('update_task_status', task_id='1', status='completed')],
    [call('write_plan', items=[{'id': '2', 'content': 'b'}])],
    [call('read_plan')],
]


class Recovered(Script):
    """A model that goes on from the conversation, as one does whose earlier answers were recorded."""

    def _next(self, messages, info):
        self.requests.append((messages, info))
        at = sum(isinstance(message, ModelResponse) for message in messages)
        return self.turns[at] if at < len(self.turns) else 'done'


async def run(journal: Journal, store) -> tuple[Script, list[tuple[str, str]]]:
    """Run, or recover, the workflow."""
    journal.at = 0
    script = Recovered(TURNS)
    for turn in TURNS:
        for at, part in enumerate(turn):
            part.tool_call_id = f'{part.tool_name}-{TURNS.index(turn)}-{at}'
    agent = script.agent(Planning(store=store, enable_subtasks=True), InProcess(journal), name='planner')
    result = await agent.run('go', run_id='run-1')
    return script, answers(result.all_messages())


async def test_one_step_is_recorded_for_each_call_and_one_for_each_reminder():
    journal = Journal()
    script, told = await run(journal, InMemoryPlanStore())
    ours = [name for name in journal.names() if name.startswith('planning.')]
    tools = [name for name, _ in journal.steps if 'model' not in name]
    assert len(tools) == len(script.requests) + sum(len(turn) for turn in TURNS)
    assert ours.count('planning.apply') == 5
    assert ours.count('planning.read') == len(script.requests) + 1
    assert [outcome for outcome, _ in told] == ['success', 'success', 'failed', 'success', 'success', 'success']
    # Recorded one after the other, so their numbers are the same when the run is replayed.
    assert all(tool.sequential for tool in script.requests[0][1].function_tools)


async def test_a_replay_repeats_no_call_of_the_store_and_tells_the_same():
    journal, store = Journal(), InMemoryPlanStore()
    first, told = await run(journal, store)
    before = await store.read()
    again, told_again = await run(journal, store)
    assert told_again == told
    assert again.requests == []
    assert await store.read() == before
    assert len(first.requests) == len(TURNS) + 1


@pytest.mark.parametrize('lost', range(14))
async def test_a_crash_after_a_step_and_before_its_record_applies_nothing_twice(tmp_path, lost):
    expected = InMemoryPlanStore()
    whole = Journal()
    _, told = await run(whole, expected)
    store = SqlitePlanStore(tmp_path / 'plan.db')
    journal = Journal(crash_before=lost)
    assert lost < len(whole.steps)
    with pytest.raises(Crash):
        await run(journal, store)
    journal.crash_before = None
    _, told_again = await run(journal, store)
    assert told_again == told
    assert [(step.id, step.content, step.status) for step in (await store.read()).steps] == [
        (step.id, step.content, step.status) for step in (await expected.read()).steps
    ]


async def test_what_is_recorded_of_a_change_does_not_grow_with_the_plan():
    store = InMemoryPlanStore()
    await apply(store, *(Add(f'step {number}') for number in range(1000)))
    journal = Journal()
    script = Script([[call('update_task_status', task_id='1', status='completed')]])
    agent = script.agent(Planning(store=store), InProcess(journal), name='planner')
    await agent.run('go')
    (recorded,) = (payload for name, payload in journal.steps if name.endswith('apply'))
    assert len(recorded) < 1_500
    first, *more = (payload for name, payload in journal.steps if name.endswith('read'))
    assert more
    # The first one says what there is, for later ones to tell what others did; those say what is new.
    assert len(first) < 60_000
    assert all(len(payload) < 7_000 for payload in more)
