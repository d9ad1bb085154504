"""Whole-plan writes of a model whose plan somebody else changes meanwhile: what becomes of it, and what is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from agent_scripts import Script, answers, call
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.capabilities import AbstractCapability

from planctl import InMemoryPlanStore, Planning
from planctl.agent.seen import Seen
from planctl.change import difference
from planctl.core import apply
from planctl.operations import Add, Edit, Remove, SetStatus
from planctl.plan import Step, TaskStatus


async def meanwhile(store, items, *operations, **options) -> tuple[str, Script]:
    """Return the answer to `write_plan(items)` when the operations come between the model's reading and its call."""
    script = Script([[call('write_plan', items=items)]])
    async with script.agent(Planning(store=store, **options)).iter('go') as run:
        async for node in run:
            if type(node).__name__ == 'CallToolsNode' and len(script.requests) == 1:
                await apply(store, *operations, actor='mai')
    ((_, text),) = answers(run.result.all_messages())
    return text, script


async def three() -> InMemoryPlanStore:
    store = InMemoryPlanStore()
    await apply(store, Add('a'), Add('b'), Add('c'))
    return store


def contents(plan) -> list[tuple[str, str, str]]:
    return [(step.id, step.content, step.status.value) for step in plan.steps]


SAME = [{'id': '1', 'content': 'a'}, {'id': '2', 'content': 'b'}, {'id': '3', 'content': 'c'}]


async def test_what_the_model_only_repeats_stays_as_the_other_made_it():
    store = await three()
    done = SetStatus('2', TaskStatus.completed)
    text, script = await meanwhile(store, SAME, Edit('1', content='a, reworded'), done)
    assert contents(await store.read()) == [
        ('1', 'a, reworded', 'pending'),
        ('2', 'b', 'completed'),
        ('3', 'c', 'pending'),
    ]
    assert 'You only repeated what somebody else had changed meanwhile, so theirs stands: ' in text
    assert 'step 1 content "a, reworded"' in text
    # Once said, it is not said again.
    assert 'a, reworded (changed' not in script.reminder(1)


async def test_where_both_changed_a_field_the_model_wins_and_is_told():
    store = await three()
    items = [{'id': '1', 'content': 'mine'}, *SAME[1:]]
    text, _ = await meanwhile(store, items, Edit('1', content='theirs'))
    assert contents(await store.read())[0] == ('1', 'mine', 'pending')
    assert 'Somebody else had changed this too; yours stands, theirs was: step 1 content "theirs".' in text


async def test_what_another_removed_stays_removed():
    store = await three()
    text, _ = await meanwhile(store, SAME, Remove('2'))
    assert [step.id for step in (await store.read()).steps] == ['1', '3']
    assert 'Not brought back, since somebody else removed them meanwhile: 2.' in text


async def test_what_another_added_or_changed_is_kept_when_it_is_left_out():
    store = await three()
    text, _ = await meanwhile(store, SAME[:1], Add('by hand'), Edit('2', content='b, changed'))
    assert contents(await store.read()) == [
        ('1', 'a', 'pending'),
        ('2', 'b, changed', 'pending'),
        ('4', 'by hand', 'pending'),
    ]
    assert 'because you were not shown them as they are now: 2 (b, changed), 4 (by hand).' in text
    assert 'Removed although open, because the list left them out: 3 (c).' in text


async def test_an_id_that_the_model_counted_on_to_is_not_that_of_a_step_which_came_meanwhile():
    store = await three()
    text, _ = await meanwhile(store, [*SAME, {'id': '4', 'content': 'mine'}], Add('by hand'))
    assert contents(await store.read()) == [
        ('1', 'a', 'pending'),
        ('2', 'b', 'pending'),
        ('3', 'c', 'pending'),
        ('4', 'by hand', 'pending'),
        ('5', 'mine', 'pending'),
    ]
    assert 'Ids in order: 1, 2, 3, 5.' in text
    assert 'Another id, since the one that you gave is that of another step: 4 is step 5.' in text


@pytest.mark.parametrize('status', [None, 'pending', 'in_progress'])
async def test_a_new_list_counted_from_one_is_not_done_because_an_old_one_was(status: str | None):
    store = InMemoryPlanStore()
    await apply(store, Add('old'), Add('older'))
    await apply(store, SetStatus('1', TaskStatus.completed), SetStatus('2', TaskStatus.completed))
    stated = {} if status is None else {'status': status}
    text, _ = await meanwhile(store, [{'id': '1', 'content': 'new', **stated}, {'id': '2', 'content': 'newer'}])
    assert contents(await store.read()) == [('3', 'new', status or 'pending'), ('4', 'newer', 'pending')]
    assert 'Another id, since the one that you gave is that of another step: 1 is step 3, 2 is step 4.' in text


async def test_who_says_that_a_step_is_done_means_the_one_that_is():
    store = InMemoryPlanStore()
    await apply(store, Add('old'), Add('open'))
    await apply(store, SetStatus('1', TaskStatus.completed))
    items = [{'id': '1', 'content': 'old, reworded', 'status': 'completed'}, {'id': '2', 'content': 'open'}]
    await meanwhile(store, items)
    assert contents(await store.read()) == [('1', 'old, reworded', 'completed'), ('2', 'open', 'pending')]


async def test_an_id_that_was_there_before_means_its_step_though_no_line_showed_it():
    store = InMemoryPlanStore()
    await apply(store, *(Add(f'step {number}') for number in range(1, 61)))
    text, _ = await meanwhile(store, [{'id': '55', 'content': 'reworded'}])
    assert (await store.read()).step('55').content == 'reworded'
    assert 'step 55 content "step 55"' in text


async def test_a_plan_that_was_empty_is_a_base_too():
    store = InMemoryPlanStore()
    text, _ = await meanwhile(store, [{'content': 'mine'}], Add('by hand'))
    assert [step.content for step in (await store.read()).steps] == ['by hand', 'mine']
    assert 'Kept although' in text


async def test_without_the_reminder_the_list_is_the_plan():
    store = await three()
    text, _ = await meanwhile(store, SAME[:1], Add('by hand'), inject=False)
    assert [step.content for step in (await store.read()).steps] == ['a']
    assert 'because the list left them out: 2 (b), 3 (c), 4 (by hand).' in text


async def test_steps_that_no_line_showed_are_kept():
    store = InMemoryPlanStore()
    await apply(store, *(Add(f'step {number}') for number in range(1, 61)))
    script = Script([[call('write_plan', items=[{'id': '1', 'content': 'step 1'}])]])
    result = await script.agent(Planning(store=store)).run('go')
    assert [step.id for step in (await store.read()).steps] == ['1', *(str(number) for number in range(41, 61))]
    assert 'Kept although' in answers(result.all_messages())[0][1]
    # After reading the whole plan it has seen them.
    script = Script([[call('read_plan')], [call('write_plan', items=[{'id': '1', 'content': 'step 1'}])]])
    await script.agent(Planning(store=store)).run('go')
    assert [step.id for step in (await store.read()).steps] == ['1']


async def test_a_whole_plan_that_waited_for_approval_removes_nothing_that_came_meanwhile():
    @dataclass
    class Approval(AbstractCapability[Any]):
        def get_wrapper_toolset(self, toolset):
            return toolset.approval_required(lambda ctx, tool, arguments: tool.name == 'write_plan')

    store = await three()
    script = Script([[call('write_plan', items=SAME[:1])]])
    agent = script.agent(Planning(store=store), Approval(), output_type=[str, DeferredToolRequests])
    asked = await agent.run('go')
    assert isinstance(asked.output, DeferredToolRequests)
    await apply(store, Add('by hand'), actor='mai')
    granted = DeferredToolResults(approvals={part.tool_call_id: True for part in asked.output.approvals})
    # The model of this run has been shown nothing when the call is carried out.
    result = await agent.run(message_history=asked.all_messages(), deferred_tool_results=granted)
    assert [step.content for step in (await store.read()).steps] == ['a', 'b', 'c', 'by hand']
    assert '4 (by hand)' in answers(result.all_messages())[-1][1]


# --- What counts as seen ----------------------------------------------------------------------------------------

A, B = Step('a', 'one'), Step('b', 'two')


def marks(*steps: Step) -> list[tuple[str, str]]:
    return [(step.id, step.fingerprint) for step in steps]


def base(seen: Seen) -> dict[str, str]:
    return dict(seen.base())


def test_an_answer_counts_before_the_first_reminder_and_an_empty_plan_is_a_base():
    seen = Seen()
    assert base(seen) == {}
    seen.answer(marks(A))
    assert base(seen) == dict(marks(A))
    seen.remind((), (), messages=1)
    assert base(seen) == dict(marks(A))


def test_the_last_reminder_counts_and_answers_until_the_conversation_is_cut():
    seen = Seen()
    seen.remind(marks(A), (), messages=1)
    seen.answer(marks(B))
    seen.remind((), [*marks(A), *marks(B)], messages=3)
    assert base(seen) == dict(marks(B))
    seen.remind(marks(A), marks(B), messages=2)
    assert base(seen) == dict(marks(A))


def test_own_changes_count_as_seen_and_those_on_top_of_others_do_not():
    seen = Seen()
    seen.remind(marks(A, B), (), messages=1)
    mine = Step('a', 'one', TaskStatus.completed)
    new = Step('c', 'three')
    seen.did(difference([A, B], [mine, B, new]))
    assert base(seen) == dict(marks(mine, B, new))
    theirs = Step('b', 'two, changed')
    seen.did(difference([mine, theirs, new], [mine, Step('b', 'two, changed', TaskStatus.completed)]))
    assert base(seen) == dict(marks(mine, B))


def test_a_newer_reminder_beats_an_older_answer():
    seen = Seen()
    changed = Step('a', 'changed')
    seen.remind((), (), messages=1)
    seen.answer(marks(A))
    seen.remind(marks(changed), (), messages=2)
    assert base(seen) == dict(marks(changed))
    seen.remind((), marks(changed), messages=3)
    assert base(seen) == dict(marks(changed))


def test_what_a_reminder_was_made_of_counts_once_it_was_shown():
    seen = Seen()
    seen.look((A,))
    assert seen.last == ()
    seen.remind(marks(A), messages=1)
    assert seen.last == (A,)
    # From a record: nothing was looked at.
    seen.remind(marks(A), messages=2)
    assert seen.last == ()
