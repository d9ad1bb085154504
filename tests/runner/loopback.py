"""A provider on loopback: speaks OpenAI Chat, OpenAI Responses and Anthropic Messages, streamed or not, by a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

IN, OUT = 1_000, 50
"""Tokens that each answer costs."""


@dataclass(frozen=True)
class Say:
    """An answer: text, or calls of tools, whose arguments are data or, as text, whatever they are."""

    text: str = ''
    calls: Sequence[tuple[str, Any]] = ()
    refused: bool = False


@dataclass(frozen=True)
class Fail:
    """An error status, with headers and the error's code and words."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    code: str = 'error'
    message: str = 'no'


@dataclass(frozen=True)
class Cut:
    """An answer that breaks off in the middle."""


@dataclass(frozen=True)
class Silence:
    """No answer, for as long as the server is there."""


Answer: TypeAlias = Say | Fail | Cut | Silence
Script: TypeAlias = Answer | Callable[[dict[str, Any]], Answer]


class Loopback:
    """The server; it answers one turn of the script after the other, the last one for ever, and keeps what it got."""

    def __init__(self, *script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                with server._lock:
                    turn = server.script[min(len(server.requests), len(server.script) - 1)]
                    server.requests.append(body)
                    server.paths.append(self.path)
                server._answer(self, body, turn(body) if callable(turn) else turn)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self._server.daemon_threads = True
        self.root = f'http://127.0.0.1:{self._server.server_address[1]}'

    def __enter__(self) -> Loopback:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What points the SDKs here."""
        return {
            'OPENAI_BASE_URL': f'{self.root}/v1',
            'OPENAI_API_KEY': 'no-key',
            'ANTHROPIC_BASE_URL': self.root,
            'ANTHROPIC_API_KEY': 'no-key',
            'NO_PROXY': '127.0.0.1',
        }

    def said(self, request: int = 0) -> str:
        """Everything that a request holds, as text."""
        return json.dumps(self.requests[request], ensure_ascii=False)

    def tools(self, request: int = 0) -> set[str]:
        """The names of the tools that a request offers."""
        return {tool.get('name') or tool['function']['name'] for tool in self.requests[request].get('tools', ())}

    def _answer(self, http: BaseHTTPRequestHandler, body: dict[str, Any], answer: Answer) -> None:
        kind = http.path.rsplit('/', 1)[-1]
        match answer:
            case Silence():
                self._over.wait(60)
                http.close_connection = True
            case Fail(status, headers, code, message):
                error = {'type': code, 'code': code, 'message': message}
                payload = {'type': 'error', 'error': error} if kind == 'messages' else {'error': error}
                _send(http, status, json.dumps(payload), 'application/json', headers)
            case Cut():
                pieces = list(_EVENTS[kind](body, Say('This is only the beginn')))
                text = ''.join(pieces[: len(pieces) // 2]) if body.get('stream') else '{"id": "x", "obj'
                _send(http, 200, text, _type(body), missing=1_000)
            case Say():
                if body.get('stream'):
                    _send(http, 200, ''.join(_EVENTS[kind](body, answer)), 'text/event-stream')
                else:
                    _send(http, 200, json.dumps(_WHOLE[kind](body, answer)), 'application/json')


def _type(body: dict[str, Any]) -> str:
    return 'text/event-stream' if body.get('stream') else 'application/json'


def _send(
    http: BaseHTTPRequestHandler, status: int, text: str, kind: str, headers: Any = None, *, missing: int = 0
) -> None:
    raw = text.encode()
    http.send_response(status)
    for name, value in {'Content-Type': kind, 'Content-Length': str(len(raw) + missing), **(headers or {})}.items():
        http.send_header(name, value)
    http.end_headers()
    http.wfile.write(raw)
    http.wfile.flush()
    if missing:
        http.close_connection = True


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


# --- OpenAI Chat ----------------------------------------------------------------------------------------------------


def _chat_calls(say: Say) -> list[dict[str, Any]]:
    return [
        {
            'index': at,
            'id': f'call_{id(say)}_{at}',
            'type': 'function',
            'function': {'name': name, 'arguments': _arguments(arguments)},
        }
        for at, (name, arguments) in enumerate(say.calls)
    ]


def _chat(body: dict[str, Any], say: Say) -> dict[str, Any]:
    message: dict[str, Any] = {'role': 'assistant', 'content': None if say.refused else say.text or None}
    if say.refused:
        message['refusal'] = say.text
    if say.calls:
        message['tool_calls'] = _chat_calls(say)
    return {
        'id': 'chat_1',
        'object': 'chat.completion',
        'created': 1,
        'model': body['model'],
        'choices': [{'index': 0, 'message': message, 'finish_reason': 'tool_calls' if say.calls else 'stop'}],
        'usage': {'prompt_tokens': IN, 'completion_tokens': OUT, 'total_tokens': IN + OUT},
    }


def _chat_events(body: dict[str, Any], say: Say) -> Iterator[str]:
    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choices = [{'index': 0, 'delta': delta, 'finish_reason': finish}]
        head = {'id': 'chat_1', 'object': 'chat.completion.chunk', 'created': 1, 'model': body['model']}
        return f'data: {json.dumps({**head, "choices": choices, **more})}\n\n'

    yield chunk({'role': 'assistant', 'content': ''})
    for at in range(0, len(say.text), 5):
        yield chunk({'refusal' if say.refused else 'content': say.text[at : at + 5]})
    if say.calls:
        yield chunk({'tool_calls': _chat_calls(say)})
    yield chunk({}, 'tool_calls' if say.calls else 'stop')
    usage = {'prompt_tokens': IN, 'completion_tokens': OUT, 'total_tokens': IN + OUT}
    yield chunk({}, None, usage=usage).replace(
        '"choices": [{"index": 0, "delta": {}, "finish_reason": null}]', '"choices": []'
    )
    yield 'data: [DONE]\n\n'


# --- OpenAI Responses -----------------------------------------------------------------------------------------------


def _output(say: Say) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = []
    if say.text:
        part = (
            {'type': 'refusal', 'refusal': say.text}
            if say.refused
            else {'type': 'output_text', 'text': say.text, 'annotations': []}
        )
        output.append({'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'status': 'completed', 'content': [part]})
    output.extend(
        {
            'id': f'fc_{at}',
            'type': 'function_call',
            'call_id': f'call_{id(say)}_{at}',
            'name': name,
            'arguments': _arguments(arguments),
            'status': 'completed',
        }
        for at, (name, arguments) in enumerate(say.calls)
    )
    return output


def _responses(body: dict[str, Any], say: Say, *, begun: bool = False) -> dict[str, Any]:
    return {
        'id': 'resp_1',
        'object': 'response',
        'created_at': 1,
        'model': body['model'],
        'status': 'in_progress' if begun else 'completed',
        'output': [] if begun else _output(say),
        'parallel_tool_calls': True,
        'tool_choice': 'auto',
        'tools': [],
        'usage': None
        if begun
        else {
            'input_tokens': IN,
            'input_tokens_details': {'cached_tokens': 0},
            'output_tokens': OUT,
            'output_tokens_details': {'reasoning_tokens': 0},
            'total_tokens': IN + OUT,
        },
    }


def _responses_events(body: dict[str, Any], say: Say) -> Iterator[str]:
    number = 0

    def event(kind: str, **fields: Any) -> str:
        nonlocal number
        number += 1
        return f'event: {kind}\ndata: {json.dumps({"type": kind, "sequence_number": number, **fields})}\n\n'

    yield event('response.created', response=_responses(body, say, begun=True))
    for at, item in enumerate(_output(say)):
        where = {'output_index': at, 'item_id': item['id']}
        if item['type'] == 'message':
            yield event('response.output_item.added', output_index=at, item={**item, 'content': []})
            part = item['content'][0]
            if part['type'] == 'refusal':
                yield event('response.refusal.delta', **where, content_index=0, delta=say.text)
                yield event('response.refusal.done', **where, content_index=0, refusal=say.text)
            else:
                yield event('response.content_part.added', **where, content_index=0, part={**part, 'text': ''})
                yield event('response.output_text.delta', **where, content_index=0, delta=say.text, logprobs=[])
                yield event('response.output_text.done', **where, content_index=0, text=say.text, logprobs=[])
        else:
            yield event('response.output_item.added', output_index=at, item={**item, 'arguments': ''})
            yield event('response.function_call_arguments.delta', **where, delta=item['arguments'])
            done = {'arguments': item['arguments'], 'name': item['name']}
            yield event('response.function_call_arguments.done', **where, **done)
        yield event('response.output_item.done', output_index=at, item=item)
    yield event('response.completed', response=_responses(body, say))


# --- Anthropic Messages ---------------------------------------------------------------------------------------------


def _reason(say: Say) -> str:
    return 'refusal' if say.refused else 'tool_use' if say.calls else 'end_turn'


def _messages(body: dict[str, Any], say: Say) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{'type': 'text', 'text': say.text}] if say.text else []
    content.extend(
        {'type': 'tool_use', 'id': f'toolu_{id(say)}_{at}', 'name': name, 'input': arguments}
        for at, (name, arguments) in enumerate(say.calls)
    )
    return {
        'id': 'msg_1',
        'type': 'message',
        'role': 'assistant',
        'model': body['model'],
        'content': content,
        'stop_reason': _reason(say),
        'stop_sequence': None,
        'usage': {'input_tokens': IN, 'output_tokens': OUT},
    }


def _messages_events(body: dict[str, Any], say: Say) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return f'event: {kind}\ndata: {json.dumps({"type": kind, **fields})}\n\n'

    message = {**_messages(body, Say()), 'content': [], 'stop_reason': None}
    yield event('message_start', message={**message, 'usage': {'input_tokens': IN, 'output_tokens': 1}})
    at = 0
    if say.text:
        yield event('content_block_start', index=at, content_block={'type': 'text', 'text': ''})
        for piece in range(0, len(say.text), 5):
            delta = {'type': 'text_delta', 'text': say.text[piece : piece + 5]}
            yield event('content_block_delta', index=at, delta=delta)
        yield event('content_block_stop', index=at)
        at += 1
    for name, arguments in say.calls:
        block = {'type': 'tool_use', 'id': f'toolu_{id(say)}_{at}', 'name': name, 'input': {}}
        yield event('content_block_start', index=at, content_block=block)
        delta = {'type': 'input_json_delta', 'partial_json': _arguments(arguments)}
        yield event('content_block_delta', index=at, delta=delta)
        yield event('content_block_stop', index=at)
        at += 1
    delta = {'stop_reason': _reason(say), 'stop_sequence': None}
    yield event('message_delta', delta=delta, usage={'output_tokens': OUT})
    yield event('message_stop')


_WHOLE = {'completions': _chat, 'responses': _responses, 'messages': _messages}
_EVENTS = {'completions': _chat_events, 'responses': _responses_events, 'messages': _messages_events}
