"""Where the cache point lands in the bodies that real provider clients send, captured without a network."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from agent_scripts import call
from pydantic_ai import Agent, CachePoint
from pydantic_ai.messages import ToolCallPart

from planctl import InMemoryPlanStore, Planning
from planctl.core import apply
from planctl.operations import Add

anthropic = pytest.importorskip('anthropic')
openai = pytest.importorskip('openai')


class Provider:
    """Answers with the turns, one after the other, and keeps the bodies that it was sent."""

    def __init__(self, *turns: ToolCallPart | str) -> None:
        self.turns = turns
        self.bodies: list[dict[str, Any]] = []

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.handle))

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        turn = self.turns[len(self.bodies)] if len(self.bodies) < len(self.turns) else 'done'
        self.bodies.append(body)
        return self.answer(body, turn)

    def answer(self, body: dict[str, Any], turn: ToolCallPart | str) -> httpx2.Response:
        raise NotImplementedError


class Anthropic(Provider):
    def model(self):
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = anthropic.AsyncAnthropic(api_key='x', http_client=self.client())
        return AnthropicModel('claude-sonnet-5-5', provider=AnthropicProvider(anthropic_client=client))

    def answer(self, body, turn):
        block = (
            {'type': 'text', 'text': ''}
            if isinstance(turn, str)
            else {'type': 'tool_use', 'id': f't{len(self.bodies)}', 'name': turn.tool_name, 'input': {}}
        )
        delta = (
            {'type': 'text_delta', 'text': turn}
            if isinstance(turn, str)
            else {'type': 'input_json_delta', 'partial_json': turn.args_as_json_str()}
        )
        message = {
            'id': 'm', 'type': 'message', 'role': 'assistant', 'model': body['model'], 'content': [],
            'stop_reason': None, 'stop_sequence': None, 'usage': {'input_tokens': 1, 'output_tokens': 1},
        }  # fmt: skip
        reason = 'end_turn' if isinstance(turn, str) else 'tool_use'
        if not body.get('stream'):
            content = [block | ({'text': turn} if isinstance(turn, str) else {'input': turn.args_as_dict()})]
            return httpx2.Response(200, json=message | {'content': content, 'stop_reason': reason})
        events = [
            {'type': 'message_start', 'message': message},
            {'type': 'content_block_start', 'index': 0, 'content_block': block},
            {'type': 'content_block_delta', 'index': 0, 'delta': delta},
            {'type': 'content_block_stop', 'index': 0},
            {'type': 'message_delta', 'delta': {'stop_reason': reason}, 'usage': {'output_tokens': 1}},
            {'type': 'message_stop'},
        ]
        text = ''.join(f'event: {event["type"]}\ndata: {json.dumps(event)}\n\n' for event in events)
        return httpx2.Response(200, text=text, headers={'content-type': 'text/event-stream'})


def blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every content block of an Anthropic request, in order, with the role of its message."""
    found: list[dict[str, Any]] = []
    for message in body['messages']:
        content = message['content']
        content = [{'type': 'text', 'text': content}] if isinstance(content, str) else content
        found += [{'role': message['role'], **block} for block in content]
    return found


def plain(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != 'cache_control'}


async def filled() -> InMemoryPlanStore:
    store = InMemoryPlanStore()
    await apply(store, Add('a'), Add('b'))
    return store


async def test_everything_before_the_point_is_the_start_of_the_next_request():
    provider = Anthropic(
        call('update_task_status', task_id='1', status='in_progress'),
        call('add_task', content='c'),
        call('update_task_status', task_id='1', status='completed'),
        call('read_plan', {}),
    )
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled())], instructions='Be brief.')
    await agent.run('go')
    assert len(provider.bodies) == 5
    for body in provider.bodies:
        found = blocks(body)
        pointed = [at for at, block in enumerate(found) if 'cache_control' in block]
        # Behind the point there is the reminder, alone.
        assert pointed == [len(found) - 3]
        assert found[-2]['text'] == '<plan-reminder>\n'
        assert found[pointed[0]]['cache_control'] == {'type': 'ephemeral', 'ttl': '5m'}
        assert 'plan-reminder' not in json.dumps([body.get('system'), body['tools'], *found[:-2]])
    for body, following in zip(provider.bodies, provider.bodies[1:], strict=False):
        prefix = [plain(block) for block in blocks(body)[:-2]]
        assert [plain(block) for block in blocks(following)[: len(prefix)]] == prefix
        assert (body['tools'], body['system']) == (following['tools'], following['system'])
    assert [block['type'] for block in blocks(provider.bodies[1])][-3] == 'tool_result'


@pytest.mark.parametrize('prompt', [None, '', [''], [CachePoint()]])
async def test_a_first_request_with_nothing_before_the_reminder_is_sent_without_a_point(prompt):
    provider = Anthropic()
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled())], instructions='Be brief.')
    result = await agent.run(prompt)
    assert prompt in (None, *(part.content for message in result.all_messages() for part in message.parts[:1]))
    assert 'cache_control' not in json.dumps(provider.bodies[0]['messages'])
    assert '[ ] 1 a' in blocks(provider.bodies[0])[-1]['text']


async def test_an_empty_prompt_in_a_conversation_still_has_its_point():
    provider = Anthropic()
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled(), cache_ttl='1h')])
    first = await agent.run('go')
    await agent.run('', message_history=first.all_messages())
    pointed = [block for block in blocks(provider.bodies[1]) if 'cache_control' in block]
    assert [block['cache_control']['ttl'] for block in pointed] == ['1h']


async def test_a_users_own_point_at_the_end_is_enough():
    provider = Anthropic()
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled(), cache_ttl='1h')])
    await agent.run(['go', CachePoint(ttl='5m')])
    pointed = [block for block in blocks(provider.bodies[0]) if 'cache_control' in block]
    assert [(block['text'], block['cache_control']['ttl']) for block in pointed] == [('go', '5m')]


class OpenAI(Provider):
    def model(self, name: str = 'gpt-5'):
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        client = openai.AsyncOpenAI(api_key='x', http_client=self.client())
        return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))

    def answer(self, body, turn):
        message: dict[str, Any] = {'role': 'assistant', 'content': turn if isinstance(turn, str) else None}
        if not isinstance(turn, str):
            function = {'name': turn.tool_name, 'arguments': turn.args_as_json_str()}
            message['tool_calls'] = [{'id': f't{len(self.bodies)}', 'type': 'function', 'function': function}]
        reason = 'stop' if isinstance(turn, str) else 'tool_calls'
        choice = {'index': 0, 'message': message, 'finish_reason': reason}
        usage = {'prompt_tokens': 1, 'completion_tokens': 1, 'total_tokens': 2}
        answer = {'id': 'c', 'object': 'chat.completion', 'created': 1, 'model': body['model'], 'choices': [choice]}
        return httpx2.Response(200, json=answer | {'usage': usage})


async def test_a_model_without_points_gets_the_reminder_and_a_refusal_as_an_error():
    provider = OpenAI(call('update_task_status', task_id='9', status='completed'))
    agent = Agent(provider.model(), capabilities=[Planning(store=await filled())])
    await agent.run('go')
    first, second = provider.bodies
    assert 'prompt_cache_breakpoint' not in json.dumps([first, second])
    assert '[ ] 1 a' in json.dumps(first['messages'][-1])
    answer = next(message for message in second['messages'] if message['role'] == 'tool')
    assert "there is no step '9'" in answer['content']
    assert 'Plan:' not in answer['content']


async def test_the_tools_are_as_small_on_the_wire():
    provider = Anthropic()
    await Agent(provider.model(), capabilities=[Planning()]).run('go')
    assert len(json.dumps(provider.bodies[0]['tools'])) <= 1_700
