"""Whole-plan writes while the command line, another agent or a second run changes the same plan: nothing is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_scripts import Script, answers, call
from pydantic_ai import Agent

from planctl import InMemoryPlanStore, Planning, SqlitePlanStore
from planctl.core import apply
from planctl.operations import Add, Depend, Remove
from planctl.plan import Plan

REPOSITORY = Path(__file__).parents[2]
KINDS = ['memory', 'sqlite']


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    return InMemoryPlanStore() if request.param == 'memory' else SqlitePlanStore(tmp_path / 'plan.db')


def planctl(database: Path, *words: str) -> None:
    """Run the real command line, in a process of its own."""
    environment = os.environ | {'PYTHONPATH': str(REPOSITORY), 'PLANCTL_ACTOR': 'mai'}
    command = [sys.executable, '-m', 'planctl', '--db', str(database), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def rows(plan: Plan) -> list[tuple[str, str, str]]:
    return [(step.id, step.content, step.status.value) for step in plan.steps]


def items(*contents: str, **statuses: str) -> list[dict[str, str]]:
    """Return items with the ids 1, 2, …, as a reminder shows them; `_1='completed'` states a status."""
    return [
        {'id': str(at), 'content': content} | ({'status': statuses[f'_{at}']} if f'_{at}' in statuses else {})
        for at, content in enumerate(contents, 1)
    ]


async def test_what_the_command_line_did_between_two_requests_is_not_lost_to_a_whole_plan(tmp_path):
    database = tmp_path / 'plan.db'
    planctl(database, 'add', 'a', '--quiet')
    for text in 'bcd':
        planctl(database, 'add', text)
    store = SqlitePlanStore(database)

    class Interrupted(Script):
        def _next(self, messages, info):
            turn = super()._next(messages, info)
            if len(self.requests) == 1:
                # After the reminder was sent, before the model's answer to it.
                planctl(database, 'add', 'by hand')
                planctl(database, 'done', '1')
                planctl(database, 'edit', '2', '--content', 'b, reworded')
                planctl(database, 'rm', '3')
            return turn

    # The model marks the second step as begun, leaves out the fourth and repeats the rest.
    script = Interrupted([[call('write_plan', items=items('a', 'b', 'c', _1='pending', _2='in_progress'))]])
    result = await script.agent(Planning(store=store)).run('go')
    assert rows(await store.read()) == [
        ('1', 'a', 'completed'),
        ('2', 'b, reworded', 'in_progress'),
        ('5', 'by hand', 'pending'),
    ]
    ((outcome, text),) = answers(result.all_messages())
    assert outcome == 'success'
    assert 'Removed although open, because the list left them out: 4 (d).' in text
    assert 'Kept although the list left them out' in text
    assert '5 (by hand)' in text
    assert 'Not brought back, since somebody else removed them meanwhile: 3.' in text
    assert 'theirs stands: ' in text
    assert 'step 1 status "completed"' in text
    # Told once, in the answer: the next reminder has nothing new to mark but what it did not say.
    assert 'by hand (added' not in script.reminder()
    # And the log has both writers.
    writers = [row.actor for row in await store.log()]
    assert 'mai' in writers
    assert writers[-1].startswith('agent:')


async def test_a_plan_that_another_agent_changed_while_a_tool_ran_is_shown_and_merged(store):
    await apply(store, Add('a'), Add('b'))
    inner = Script([[call('update_task_status', task_id='2', status='completed'), call('add_task', content='found')]])
    child = inner.agent(Planning(store=store, actor='child'))
    outer = Script(
        [
            # In one response: the plan is written on the base of the first reminder, after the child has changed it.
            [call('delegate'), call('write_plan', items=items('a', 'b', _1='in_progress'))],
            [call('write_plan', items=[*items('a', 'b', _1='completed'), {'content': 'last'}])],
        ]
    )
    parent = outer.agent(Planning(store=store))

    @parent.tool_plain(sequential=True)
    async def delegate() -> str:
        return (await child.run('go')).output

    result = await parent.run('go')
    told = answers(result.all_messages())
    assert '3 (found)' in told[1][1]
    # Having been told of it, the model left it out on purpose.
    assert 'because the list left them out: 3 (found).' in told[2][1]
    assert rows(await store.read()) == [('1', 'a', 'completed'), ('2', 'b', 'completed'), ('4', 'last', 'pending')]


async def test_a_plain_agent_leaves_the_structure_of_a_plan_alone(store):
    await apply(store, Add('parent'), Add('child', parent_id='1'), Add('after'), Depend('3', '1'))
    restated = items('parent', 'child', 'after', _1='in_progress', _3='pending')
    script = Script([[call('write_plan', items=restated)], [call('write_plan', items=items('parent', 'child'))]])
    result = await script.agent(Planning(store=store)).run('go')
    first, second = answers(result.all_messages())
    assert first[0] == second[0] == 'success'
    # The reminder says what is blocked; to repeat `pending` for it is no wish to start it.
    assert '[!] 3 after (waits for 1)' in script.reminder(0)
    assert '[!] 3 after (waits for 1)' in script.reminder(1)
    assert 'because the list left them out: 3 (after).' in second[1]
    plan = await store.read()
    assert [(step.id, step.parent_id, step.depends_on) for step in plan.steps] == [('1', None, ()), ('2', '1', ())]


async def test_a_plain_agent_cannot_start_what_waits_and_is_told_why(store):
    await apply(store, Add('first'), Add('then'), Depend('2', '1'))
    script = Script([[call('write_plan', items=items('first', 'then', _2='in_progress'))]])
    result = await script.agent(Planning(store=store, tools=['write_plan'])).run('go')
    ((outcome, text),) = answers(result.all_messages())
    assert outcome == 'failed'
    assert '1' in text
    assert [step.status.value for step in (await store.read()).steps] == ['pending', 'blocked']


@pytest.mark.parametrize('count', [60, 150])
async def test_one_tool_is_enough_for_a_plan_of_many_steps(store, count):
    contents = [f'step {number}' for number in range(1, count + 1)]
    await apply(store, *(Add(content) for content in contents))
    script = Script(
        [
            [call('write_plan', items=items(*contents, _1='in_progress'))],
            [call('write_plan', items=items(*contents, _1='completed', _2='in_progress'))],
            [call('write_plan', items=items(*contents[:-1], _1='completed', _2='completed'))],
        ]
    )
    result = await script.agent(Planning(store=store, tools=['write_plan'])).run('go')
    # Without a tool to read the plan the reminder shows all of it, so that nothing is kept for not having been seen.
    assert f'[ ] {count} step {count}' in script.reminder(0)
    told = [text for _, text in answers(result.all_messages())]
    assert not any('Kept although' in text for text in told)
    assert [step.id for step in (await store.read()).steps] == [str(number) for number in range(1, count)]
    assert f'because the list left them out: {count} (step {count}).' in told[2]
    assert (await store.read()).progress.completed == 2


async def test_what_even_one_tool_was_not_shown_is_kept(store):
    await apply(store, *(Add(f'step {number}') for number in range(1, 201)))
    script = Script([[call('write_plan', items=items('step 1'))]])
    result = await script.agent(Planning(store=store, tools=['write_plan'])).run('go')
    assert '40 more open steps are not listed here' in script.reminder(0)
    ids = [step.id for step in (await store.read()).steps]
    assert ids == ['1', *(str(number) for number in range(161, 201))]
    ((_, text),) = answers(result.all_messages())
    assert 'Kept although' in text
    assert len(text) < 2_500


async def test_two_runs_that_write_whole_plans_at_once_keep_each_others_steps(store):
    await apply(store, Add('shared'))
    both = asyncio.Barrier(2)

    def script(name: str) -> Script:
        class Waiting(Script):
            @property
            def model(self) -> Any:
                from pydantic_ai.models.function import FunctionModel

                async def answer(messages, info):
                    # Both have been shown the plan before either writes.
                    if not self.requests:
                        await both.wait()
                    return self._answer(messages, info)

                return FunctionModel(answer)

        return Waiting([[call('write_plan', items=[*items('shared'), {'content': f'of {name}'}])]])

    scripts = [script('one'), script('two')]
    results = await asyncio.gather(*(one.agent(Planning(store=store)).run('go') for one in scripts))
    assert sorted(step.content for step in (await store.read()).steps) == ['of one', 'of two', 'shared']
    assert len({step.id for step in (await store.read()).steps}) == 3
    told = [answers(result.all_messages())[0][1] for result in results]
    assert sum('Kept although' in text for text in told) == 1


async def test_what_one_run_has_seen_is_nothing_to_another(store):
    await apply(store, Add('a'), Add('b'))
    agent = Script([]).agent(Planning(store=store))
    await agent.run('look')
    await apply(store, Add('c'))
    # The next run of the same agent is shown everything anew, and leaves out what it wants.
    script = Script([[call('write_plan', items=items('a'))]])
    with agent.override(model=script.model):
        await agent.run('go')
    assert rows(await store.read()) == [('1', 'a', 'pending')]
    assert 'someone else' not in script.reminder(0)


async def test_a_step_whose_removal_was_shown_can_be_stated_again(store):
    await apply(store, Add('a'), Add('b'))

    again = call('write_plan', items=items('a'))
    script = Script([[call('read_plan')], [call('remove_task', task_id='2')], [again]])
    agent = script.agent(Planning(store=store))
    async with agent.iter('go') as run:
        async for node in run:
            if Agent.is_model_request_node(node) and len(script.requests) == 1:
                await apply(store, Remove('1'), actor='ann')
    assert rows(await store.read()) == [('1', 'a', 'pending')]
