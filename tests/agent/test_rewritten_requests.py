"""Beside capabilities that rewrite a conversation before it is sent: one reminder a request, and none is ever kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from agent_scripts import Script, call, has_point, reminders
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, Hooks, ProcessHistory
from pydantic_ai.messages import ModelMessagesTypeAdapter, SystemPromptPart, UserPromptPart

from planctl import InMemoryPlanStore, Planning
from planctl.core import apply
from planctl.operations import Add


@dataclass
class Compaction(AbstractCapability[Any]):
    """Sends what it makes of the history, as those do that cut a conversation down."""

    async def before_model_request(self, ctx, request_context):
        request_context.messages = [*ctx.messages[:1], *ctx.messages[-2:]] if len(ctx.messages) > 3 else ctx.messages[:]
        return request_context


@dataclass
class InPlace(AbstractCapability[Any]):
    """Asks for a place of its own, and makes the history what it sends."""

    def get_ordering(self):
        return CapabilityOrdering(wrapped_by=[ProcessHistory])

    async def before_model_request(self, ctx, request_context):
        ctx.messages[:] = request_context.messages
        return request_context


@dataclass
class ByItsOptions(InPlace):
    """Says its place by what it was made with, so that its kind cannot be asked."""

    def get_ordering(self):
        return CapabilityOrdering() if vars(self) else None


def window(messages: list[Any]) -> list[Any]:
    return messages[-3:] if len(messages) > 4 else messages


async def keep_what_is_sent(ctx, request_context):
    ctx.messages[:] = request_context.messages = window(request_context.messages)
    return request_context


REWRITERS: dict[str, Callable[[], AbstractCapability[Any]]] = {
    'as it was': lambda: ProcessHistory(lambda messages: messages),
    'a window': lambda: ProcessHistory(window),
    'messages made anew': lambda: ProcessHistory(lambda messages: [replace(message) for message in messages]),
    'compaction': Compaction,
    'with a place of its own': InPlace,
    'with a place by its options': ByItsOptions,
    'a hook': lambda: Hooks(before_model_request=keep_what_is_sent),
}


@pytest.mark.parametrize('place', ['before', 'behind'])
@pytest.mark.parametrize('how', REWRITERS)
async def test_each_request_has_one_reminder_at_its_end_and_no_history_has_any(how, place):
    store = InMemoryPlanStore()
    await apply(store, Add('a'))
    script = Script([[call('add_task', content=f'x{number}')] for number in range(5)])
    other, planning = REWRITERS[how](), Planning(store=store)
    agent = script.agent(*((other, planning) if place == 'before' else (planning, other)))
    result = await agent.run('go')
    result = await agent.run('go on', message_history=result.all_messages())
    assert len(script.requests) == 7
    for at, (messages, _) in enumerate(script.requests):
        assert script.reminder(at) is not None
        assert has_point(messages)
    kept = ModelMessagesTypeAdapter.dump_json(result.all_messages()).decode()
    assert 'plan-reminder' not in kept
    assert 'cache-point' not in kept
    assert '[ ] 6 x4' in str(script.reminder())


@dataclass
class Last(AbstractCapability[Any]):
    """Comes behind all others, and looks at what is sent."""

    seen: int = 0

    def get_ordering(self):
        return CapabilityOrdering(position='innermost')

    async def before_model_request(self, ctx, request_context):
        self.seen += len(reminders(request_context.messages))
        return request_context


@dataclass
class BehindThePlan(Last):
    def get_ordering(self):
        return CapabilityOrdering(wrapped_by=[AbstractCapability])


@pytest.mark.parametrize('other', [Last(), BehindThePlan()])
async def test_one_that_asks_to_come_behind_all_others_sees_what_is_sent(other):
    store = InMemoryPlanStore()
    await apply(store, Add('a'))
    await Script([]).agent(other, Planning(store=store)).run('go')
    assert other.seen == 1


@pytest.mark.parametrize('place', ['before', 'behind'])
async def test_a_hook_sees_the_reminder_only_where_it_asks_to_come_last(place):
    async def look(ctx, request_context):
        found.append(len(reminders(request_context.messages)))
        return request_context

    found: list[int] = []
    store = InMemoryPlanStore()
    await apply(store, Add('a'))
    innermost = CapabilityOrdering(position='innermost')
    for hooks in (Hooks(before_model_request=look), Hooks(before_model_request=look, ordering=innermost)):
        listed = [hooks, Planning(store=store)]
        await Script([]).agent(*(listed if place == 'before' else reversed(listed))).run('go')
    assert found == [0, 1]


async def test_what_is_said_for_one_request_alone_stands_behind_the_reminder():
    script = Script([[call('steer')], [call('steer')]])
    store = InMemoryPlanStore()
    await apply(store, Add('a'))
    agent = script.agent(Planning(store=store))

    @agent.tool
    def steer(ctx) -> str:
        ctx.enqueue(UserPromptPart('for good'))
        ctx.enqueue(SystemPromptPart('for this request alone', scope='request'))
        return 'steered'

    await agent.run('go')
    for messages, _ in script.requests[1:]:
        said = [str(part.content) for part in messages[-1].parts]
        order = [
            next(at for at, text in enumerate(said) if words in text)
            for words in ('steered', 'for good', 'plan-reminder', 'for this request alone')
        ]
        assert order == sorted(order)
