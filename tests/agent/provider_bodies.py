"""Real provider clients without a network: they answer from a script and keep every body that they were sent."""

from __future__ import annotations

import io
import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import Model

Turn = Sequence[ToolCallPart] | ToolCallPart | str
Block = tuple[str, dict[str, Any]]
"""Whose message a block is in, and the block."""

MARKERS = ('cache_control', 'prompt_cache_breakpoint', 'cachePoint')


class Provider(ABC):
    """Answers with the turns, one after the other, and then with 'done'."""

    marker: str | None = None
    """The key under which a block says that the cache ends behind it."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.bodies: list[dict[str, Any]] = []

    @property
    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._handle), timeout=1200)

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        return self._answer(json.loads(request.content))

    def _answer(self, body: dict[str, Any]) -> httpx2.Response:
        return httpx2.Response(200, json=self.reply(body, self.record(body)))

    def record(self, body: dict[str, Any]) -> list[ToolCallPart] | str:
        """Keep a body and return the turn that answers it."""
        at = len(self.bodies)
        self.bodies.append(body)
        turn = self.turns[at] if at < len(self.turns) else 'done'
        return [turn] if isinstance(turn, ToolCallPart) else turn if isinstance(turn, str) else list(turn)

    def tool_id(self, at: int) -> str:
        return f'call-{len(self.bodies)}-{at}'

    @abstractmethod
    def model(self, name: str = '') -> Model: ...

    @abstractmethod
    def reply(self, body: dict[str, Any], turn: list[ToolCallPart] | str) -> Any: ...

    # --- Reading a body -----------------------------------------------------------------------------------------

    def head(self, body: dict[str, Any]) -> str:
        """Return what stands before the conversation, as bytes of JSON."""
        return json.dumps([without_markers(body.get(name)) for name in ('tools', 'system')])

    def blocks(self, body: dict[str, Any]) -> list[Block]:
        """Return every block of the conversation in its order."""
        found: list[Block] = []
        for message in body['messages']:
            content = message.get('content')
            content = [{'type': 'text', 'text': content}] if isinstance(content, str) else content or []
            about = {name: value for name, value in message.items() if name not in ('role', 'content')}
            found += [(message['role'], {**block, **about}) for block in content] or [(message['role'], about)]
        return found

    def points(self, body: dict[str, Any]) -> list[int]:
        """Return behind how many blocks of the conversation there is a point, for each, in order."""
        return [at for at, (_, block) in enumerate(self.blocks(body), 1) if self.marker in block]

    def before(self, body: dict[str, Any], count: int | None = None) -> list[str]:
        """Return the first blocks as JSON, without any point."""
        bare = [json.dumps([role, without_markers(block)]) for role, block in self.blocks(body)]
        return bare[:count]


def without_markers(value: Any) -> Any:
    """Return a part of a body without its cache points: what a provider compares."""
    if isinstance(value, dict):
        return {name: without_markers(entry) for name, entry in value.items() if name not in MARKERS}
    if isinstance(value, list):
        return [without_markers(entry) for entry in value]
    return value


def count_markers(value: Any) -> int:
    """Return how many cache points there are in a part of a body."""
    return sum(1 for _ in _markers(value))


def _markers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, entry in value.items():
            if name in MARKERS:
                yield entry
            yield from _markers(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _markers(entry)


class Anthropic(Provider):
    marker = 'cache_control'

    def model(self, name: str = 'claude-sonnet-5-5') -> Model:
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(api_key='x', http_client=self.client)
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))

    def _answer(self, body: dict[str, Any]) -> httpx2.Response:
        content = self.reply(body, self.record(body))
        reason = 'tool_use' if content[0]['type'] == 'tool_use' else 'end_turn'
        message = {
            'id': 'm', 'type': 'message', 'role': 'assistant', 'model': body['model'], 'content': [],
            'stop_reason': None, 'stop_sequence': None, 'usage': {'input_tokens': 1, 'output_tokens': 1},
        }  # fmt: skip
        if not body.get('stream'):
            return httpx2.Response(200, json=message | {'content': content, 'stop_reason': reason})
        events: list[dict[str, Any]] = [{'type': 'message_start', 'message': message}]
        for at, block in enumerate(content):
            empty = block | ({'text': ''} if block['type'] == 'text' else {'input': {}})
            delta = (
                {'type': 'text_delta', 'text': block['text']}
                if block['type'] == 'text'
                else {'type': 'input_json_delta', 'partial_json': json.dumps(block['input'])}
            )
            events += [
                {'type': 'content_block_start', 'index': at, 'content_block': empty},
                {'type': 'content_block_delta', 'index': at, 'delta': delta},
                {'type': 'content_block_stop', 'index': at},
            ]
        events += [
            {'type': 'message_delta', 'delta': {'stop_reason': reason}, 'usage': {'output_tokens': 1}},
            {'type': 'message_stop'},
        ]
        text = ''.join(f'event: {event["type"]}\ndata: {json.dumps(event)}\n\n' for event in events)
        return httpx2.Response(200, text=text, headers={'content-type': 'text/event-stream'})

    def reply(self, body: dict[str, Any], turn: list[ToolCallPart] | str) -> list[dict[str, Any]]:
        if isinstance(turn, str):
            return [{'type': 'text', 'text': turn}]
        return [
            {'type': 'tool_use', 'id': self.tool_id(at), 'name': part.tool_name, 'input': part.args_as_dict()}
            for at, part in enumerate(turn)
        ]


class Bedrock(Provider):
    marker = 'cachePoint'

    def model(self, name: str = 'us.anthropic.claude-opus-5-5') -> Model:
        import boto3
        from botocore.config import Config
        from pydantic_ai.models.bedrock import BedrockConverseModel
        from pydantic_ai.providers.bedrock import BedrockProvider

        client = boto3.client(
            'bedrock-runtime',
            region_name='us-east-1',
            aws_access_key_id='x',
            aws_secret_access_key='x',
            config=Config(retries={'max_attempts': 0}),
        )
        # The last moment before the network: what is answered from here is never sent.
        for operation in ('Converse', 'ConverseStream'):
            client.meta.events.register(f'before-send.bedrock-runtime.{operation}', self._send)
        return BedrockConverseModel(name, provider=BedrockProvider(bedrock_client=client))

    def _send(self, request: Any, **_: Any) -> Any:
        from botocore.awsrequest import AWSResponse

        body = json.loads(request.body)
        reply = self.reply(body, self.record(body))
        streams = request.url.endswith('converse-stream')
        data = b''.join(_frame(*event) for event in _events(reply)) if streams else json.dumps(reply).encode()
        kind = 'application/vnd.amazon.eventstream' if streams else 'application/json'

        class Raw(io.BytesIO):
            def stream(self) -> Iterator[bytes]:
                yield self.read()

        return AWSResponse(request.url, 200, {'content-type': kind}, Raw(data))

    def reply(self, body: dict[str, Any], turn: list[ToolCallPart] | str) -> Any:
        content: list[dict[str, Any]] = (
            [{'text': turn}]
            if isinstance(turn, str)
            else [
                {'toolUse': {'toolUseId': self.tool_id(at), 'name': part.tool_name, 'input': part.args_as_dict()}}
                for at, part in enumerate(turn)
            ]
        )
        return {
            'output': {'message': {'role': 'assistant', 'content': content}},
            'stopReason': 'end_turn' if isinstance(turn, str) else 'tool_use',
            'usage': {'inputTokens': 1, 'outputTokens': 1, 'totalTokens': 2},
            'metrics': {'latencyMs': 1},
        }

    def head(self, body: dict[str, Any]) -> str:
        return json.dumps([without_markers(body.get(name)) for name in ('toolConfig', 'system')])

    def blocks(self, body: dict[str, Any]) -> list[Block]:
        return [block for block in super().blocks(body) if 'cachePoint' not in block[1]]

    def points(self, body: dict[str, Any]) -> list[int]:
        found, said = [], 0
        for _, block in super().blocks(body):
            if 'cachePoint' in block:
                found.append(said)
            else:
                said += 1
        return found


def _events(reply: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a reply as the events that stream it."""
    yield 'messageStart', {'role': 'assistant'}
    for at, block in enumerate(reply['output']['message']['content']):
        if 'toolUse' in block:
            use = dict(block['toolUse'])
            text = json.dumps(use.pop('input'))
            yield 'contentBlockStart', {'contentBlockIndex': at, 'start': {'toolUse': use}}
            yield 'contentBlockDelta', {'contentBlockIndex': at, 'delta': {'toolUse': {'input': text}}}
        else:
            yield 'contentBlockDelta', {'contentBlockIndex': at, 'delta': block}
        yield 'contentBlockStop', {'contentBlockIndex': at}
    yield 'messageStop', {'stopReason': reply['stopReason']}
    yield 'metadata', {'usage': reply['usage'], 'metrics': reply['metrics']}


def _frame(kind: str, payload: dict[str, Any]) -> bytes:
    """Return one message of an AWS event stream."""
    headers = b''
    for name, value in ((':message-type', 'event'), (':event-type', kind), (':content-type', 'application/json')):
        headers += bytes([len(name)]) + name.encode() + b'\7' + struct.pack('>H', len(value)) + value.encode()
    data = json.dumps(payload).encode()
    prelude = struct.pack('>II', len(headers) + len(data) + 16, len(headers))
    message = prelude + struct.pack('>I', zlib.crc32(prelude)) + headers + data
    return message + struct.pack('>I', zlib.crc32(message))


class OpenAIChat(Provider):
    marker = 'prompt_cache_breakpoint'

    def model(self, name: str = 'gpt-6-sol') -> Model:
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        client = AsyncOpenAI(api_key='x', http_client=self.client)
        return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))

    def reply(self, body: dict[str, Any], turn: list[ToolCallPart] | str) -> Any:
        message: dict[str, Any] = {'role': 'assistant', 'content': turn if isinstance(turn, str) else None}
        if not isinstance(turn, str):
            message['tool_calls'] = [
                {
                    'id': self.tool_id(at),
                    'type': 'function',
                    'function': {'name': part.tool_name, 'arguments': part.args_as_json_str()},
                }
                for at, part in enumerate(turn)
            ]
        reason = 'stop' if isinstance(turn, str) else 'tool_calls'
        choice = {'index': 0, 'message': message, 'finish_reason': reason, 'native_finish_reason': reason}
        usage = {'prompt_tokens': 1, 'completion_tokens': 1, 'total_tokens': 2}
        answer = {'id': 'c', 'object': 'chat.completion', 'created': 1, 'model': body['model'], 'choices': [choice]}
        return answer | {'usage': usage, 'provider': 'x'}


class OpenRouter(OpenAIChat):
    marker = 'cache_control'

    def model(self, name: str = 'anthropic/claude-sonnet-5.5') -> Model:
        from openai import AsyncOpenAI
        from pydantic_ai.models.openrouter import OpenRouterModel
        from pydantic_ai.providers.openrouter import OpenRouterProvider

        client = AsyncOpenAI(api_key='x', base_url='https://openrouter.test/api/v1', http_client=self.client)
        return OpenRouterModel(name, provider=OpenRouterProvider(openai_client=client))


class OpenAIResponses(Provider):
    marker = 'prompt_cache_breakpoint'

    def model(self, name: str = 'gpt-6-sol') -> Model:
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        client = AsyncOpenAI(api_key='x', http_client=self.client)
        return OpenAIResponsesModel(name, provider=OpenAIProvider(openai_client=client))

    def reply(self, body: dict[str, Any], turn: list[ToolCallPart] | str) -> Any:
        text = {'type': 'output_text', 'text': turn, 'annotations': []}
        output: list[dict[str, Any]] = (
            [{'id': 'msg', 'type': 'message', 'role': 'assistant', 'status': 'completed', 'content': [text]}]
            if isinstance(turn, str)
            else [
                {
                    'id': f'fc-{len(self.bodies)}-{at}',
                    'type': 'function_call',
                    'status': 'completed',
                    'call_id': self.tool_id(at),
                    'name': part.tool_name,
                    'arguments': part.args_as_json_str(),
                }
                for at, part in enumerate(turn)
            ]
        )
        return {
            'id': f'resp-{len(self.bodies)}', 'object': 'response', 'created_at': 1, 'status': 'completed',
            'model': body['model'], 'output': output, 'parallel_tool_calls': True, 'tool_choice': 'auto', 'tools': [],
            'usage': {
                'input_tokens': 1, 'output_tokens': 1, 'total_tokens': 2,
                'input_tokens_details': {'cached_tokens': 0}, 'output_tokens_details': {'reasoning_tokens': 0},
            },
        }  # fmt: skip

    def head(self, body: dict[str, Any]) -> str:
        return json.dumps([without_markers(body.get(name)) for name in ('tools', 'instructions')])

    def blocks(self, body: dict[str, Any]) -> list[Block]:
        found: list[Block] = []
        for item in body['input']:
            inner = 'output' if item.get('type') == 'function_call_output' else 'content'
            role, content = item.get('role') or item['type'], item.get(inner)
            about = {name: value for name, value in item.items() if name not in ('role', inner)}
            content = [{'type': 'text', 'text': content}] if isinstance(content, str) else content or []
            found += [(role, {**about, **plain_text(block)}) for block in content] or [(role, about)]
        return found


def plain_text(block: dict[str, Any]) -> dict[str, Any]:
    """Return a text block by one type: a plain text becomes a list where a breakpoint is put on it."""
    return block | {'type': 'text'} if block.get('type') == 'input_text' else block


class Google(Provider):
    def model(self, name: str = 'gemini-4-argon') -> Model:
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(name, provider=GoogleProvider(api_key='x', http_client=self.client))

    def reply(self, body: dict[str, Any], turn: list[ToolCallPart] | str) -> Any:
        parts: list[dict[str, Any]] = (
            [{'text': turn}]
            if isinstance(turn, str)
            else [
                {'functionCall': {'id': self.tool_id(at), 'name': part.tool_name, 'args': part.args_as_dict()}}
                for at, part in enumerate(turn)
            ]
        )
        return {
            'candidates': [{'content': {'role': 'model', 'parts': parts}, 'finishReason': 'STOP'}],
            'usageMetadata': {'promptTokenCount': 1, 'candidatesTokenCount': 1, 'totalTokenCount': 2},
            'modelVersion': 'x',
            'responseId': f'r{len(self.bodies)}',
        }

    def head(self, body: dict[str, Any]) -> str:
        return json.dumps([body.get(name) for name in ('tools', 'systemInstruction')])

    def blocks(self, body: dict[str, Any]) -> list[Block]:
        return [(content['role'], part) for content in body['contents'] for part in content['parts']]

    def points(self, body: dict[str, Any]) -> list[int]:
        return []
