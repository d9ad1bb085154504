"""MCP servers from a file, started for real: an executor has all of their tools, a planner those that read."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from process_helpers import environment, planctl, started, until
from runner_helpers import write

from planctl.agent import mcp
from planctl.agent.mcp import load_servers
from planctl.errors import ExtraMissing, SpecError

SERVER = Path(__file__).with_name('mcp_server.py')
HAS_MCP = importlib.util.find_spec('fastmcp') is not None and importlib.util.find_spec('mcp') is not None
needs_mcp = pytest.mark.skipif(not HAS_MCP, reason='needs the extra mcp')

ALL = {'notes_look_up', 'notes_write_down', 'notes_unmarked'}

# A model that plans one step and carries it out with the server's tools.
AGENT = """
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

def respond(messages, info):
    tools = {tool.name for tool in info.function_tools}
    answers = [part for m in messages for part in m.parts if isinstance(part, ToolReturnPart)]
    if 'update_task_status' not in tools:
        if answers:
            return ModelResponse(parts=[TextPart('look at the note')])
        assert 'notes_write_down' not in tools and 'notes_unmarked' not in tools, tools
        return ModelResponse(parts=[
            ToolCallPart('notes_look_up', {'name': 'plan'}),
            ToolCallPart('write_plan', {'items': [{'content': 'write it down'}]}),
        ])
    if not answers:
        return ModelResponse(parts=[ToolCallPart('notes_write_down', {'name': 'done', 'text': 'hello'})])
    return ModelResponse(parts=[ToolCallPart('update_task_status', {'task_id': '1', 'status': 'completed'})]
                         if len(answers) == 1 else [TextPart('done')])

agent = Agent(FunctionModel(respond, model_name='scripted'))
"""


def stdio(folder: Path, name: str = 'notes') -> None:
    servers = {name: {'command': sys.executable, 'args': [str(SERVER)]}}
    write(folder, 'mcp.json', json.dumps({'mcpServers': servers}))


@contextmanager
def http(folder: Path, served: Path) -> Iterator[None]:
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(SERVER), str(port)],
        cwd=served,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(port))
        write(folder, 'mcp.json', json.dumps({'mcpServers': {'notes': {'url': f'http://127.0.0.1:{port}/mcp'}}}))
        yield
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(('127.0.0.1', port), 0.2).close()
    except OSError:
        return False
    return True


def offered(done: subprocess.CompletedProcess[str]) -> dict[str, set[str]]:
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document['servers'] == ['notes']
    return {role['role']: set(role['tools']) for role in document['roles']}


@needs_mcp
@pytest.mark.parametrize('kind', ['stdio', 'http'])
def test_a_server_gives_the_executor_its_tools_and_the_planner_those_that_read(kind: str, tmp_path: Path) -> None:
    agent, work = tmp_path / 'agent', tmp_path / 'work'
    agent.mkdir()
    work.mkdir()
    write(work, 'agents.py', AGENT)
    if kind == 'stdio':
        stdio(agent)
        _carried_out(agent, work)
    else:
        with http(agent, agent):
            _carried_out(agent, work)


def _carried_out(agent: Path, work: Path) -> None:
    words = ('run', 'write a note', '--plan-first', '--agent', 'agents:agent', '--mcp', str(agent / 'mcp.json'))
    shown = offered(planctl(work, *words, '--print-spec', '--json'))
    assert shown == {'planner': {'notes_look_up'}, 'executor': ALL}
    done = planctl(work, *words)
    assert done.returncode == 0, done.stderr
    assert 'left out while planning: notes_write_down, notes_unmarked' in done.stderr
    # The server works where its file is.
    assert (agent / 'done.note').read_text() == 'hello'


@needs_mcp
def test_the_file_beside_the_agent_file_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / 'sub'
    folder.mkdir()
    stdio(folder)
    write(folder, 'agent.yaml', 'model: offline')
    words = ('run', '* a', '--plan-first', '--agent', 'sub/agent.yaml')
    assert offered(planctl(tmp_path, *words, '--print-spec', '--json'))['executor'] == ALL
    assert planctl(tmp_path, *words, '--workers', '2').returncode == 0
    assert 'mcp' not in planctl(tmp_path, 'run', '--model', 'offline', '--print-spec').stdout


@needs_mcp
@pytest.mark.parametrize(
    'server',
    [
        {'command': 'no-such-program'},
        {'command': sys.executable, 'args': ['-c', '']},
        {'url': 'http://127.0.0.1:9/mcp'},
    ],
)
def test_a_server_that_does_not_come_up_ends_the_run_before_it_begins(server: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, 'mcp.json', json.dumps({'mcpServers': {'notes': server}}))
    done = planctl(tmp_path, 'run', '* a', '--plan-first', '--model', 'offline', '--mcp', 'mcp.json')
    assert done.returncode == 7
    assert 'planctl: mcp.json: mcpServers.notes: cannot be reached: ' in done.stderr
    assert ('do `url` and `headers` say what it asks for?' in done.stderr) is ('url' in server)
    assert not (tmp_path / 'plan.db').exists()


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('{"servers": {}}', 'm.json:1: servers: unknown key'),
        ('{"mcpServers": []}', 'm.json:1: mcpServers: servers by name are expected, this is a list'),
        ('{"mcpServers": {"a": 5}}', 'm.json:1: mcpServers.a: a mapping is expected, this is a number'),
        ('{"mcpServers": {"a": {}}}', "m.json:1: mcpServers.a: a server has 'command' or 'url'"),
        (
            '{"mcpServers":\n{"a":\n{"comand": "x"}}}',
            "m.json:2: mcpServers.a: a server has 'command' or 'url'",
        ),
        (
            '{"mcpServers": {"a": {"command": "x", "arg": []}}}',
            "m.json:1: mcpServers.a.arg: unknown key (did you mean 'args'?); there are: type, command, args, env, cwd",
        ),
        ('{"mcpServers": {"a": {"command": "x", "disabled": true}}}', 'm.json:1: mcpServers.a.disabled: unknown key'),
        (
            '{"mcpServers": {"a": {"command": ["x"]}}}',
            'm.json:1: mcpServers.a.command: text is expected, this is a list',
        ),
        ('{"mcpServers": {"a": {"command": "x", "args": [1]}}}', 'm.json:1: mcpServers.a.args: texts are expected'),
        (
            '{"mcpServers": {"a": {"url": "x", "headers": {"a": 1}}}}',
            'm.json:1: mcpServers.a.headers: texts are expected',
        ),
        ('{"mcpServers": {"a": {"url": "x.org/mcp"}}}', 'm.json:1: mcpServers.a.url: a URL begins with http'),
        ('{"mcpServers": {"a": {"type": [], "url": "x"}}}', 'm.json:1: mcpServers.a.type: unknown []; there are: '),
        ('{"mcpServers": {" ": {"command": "x"}}}', 'm.json:1: mcpServers. : a server has a name'),
        (
            '{"mcpServers": {"a b": {"command": "x"},\n"a.b": {"command": "y"}}}',
            "m.json:2: mcpServers.a.b: its tools would have the names of those of 'a b': a_b_…",
        ),
        (
            '{"mcpServers": {"a": {"command": "x",\n"env": {"B": "${PLANCTL_NO_SUCH}"}}}}',
            'm.json:2: mcpServers.a.env: the environment variable PLANCTL_NO_SUCH is not set',
        ),
        ('{"mcpServers": {"a": {"type": "ws", "url": "x"}}}', "m.json:1: mcpServers.a.type: unknown 'ws'; there are: "),
        ('{"mcpServers": {"a": {"type": "http", "command": "x"}}}', "m.json:1: mcpServers.a: a server has 'url'"),
        ('{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}', 'm.json:1: mcpServers.a: this key is there'),
        ('[]', 'm.json: an MCP file is a mapping of keys, this is a list'),
    ],
)
def test_a_file_that_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, 'm.json', text)
    with pytest.raises(SpecError) as caught:
        load_servers(tmp_path / 'm.json', 'm.json')
    assert caught.value.message.startswith(message)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = planctl(tmp_path, 'run', 'x', '--model', 'offline', '--mcp', 'nope.json')
    assert (done.returncode, done.stderr) == (7, 'planctl: nope.json: there is no such MCP file\n')


@needs_mcp
def test_the_environment_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PLANCTL_SOME', 'from-outside-1')
    servers = {
        'a': {'command': 'x', 'args': ['${PLANCTL_SOME}'], 'env': {'A_TOKEN': '${PLANCTL_SOME}', 'B': '${NO:-b}'}},
        'b': {'url': 'https://x.org/?api_key=in-the-url-3', 'headers': {'Authorization': 'Bearer ${NO:-by-default-2}'}},
    }
    write(tmp_path, 'm.json', json.dumps({'mcpServers': servers}))
    loaded = load_servers(tmp_path / 'm.json', 'm.json')
    assert loaded.names == ['a', 'b']
    # What is hidden from recordings is what is sent, not how the file writes it.
    assert {'from-outside-1', 'by-default-2', 'in-the-url-3'} <= set(loaded.secrets)
    assert 'b' not in loaded.secrets


@needs_mcp
def test_names_of_tools_are_such_as_providers_take(tmp_path: Path) -> None:
    stdio(tmp_path, 'my notes/ü')
    done = planctl(tmp_path, 'run', 'x', '--model', 'offline', '--mcp', 'mcp.json', '--print-spec', '--json')
    document = json.loads(done.stdout)
    assert document['servers'] == ['my notes/ü']
    assert set(document['roles'][0]['tools']) == {f'my_notes___{name.partition("_")[2]}' for name in ALL}


NOISY = """
import sys
sys.stderr.write('one\\x1b[2J\\n\\ntwo')
sys.stderr.flush()
print('no JSON', flush=True)
"""


@needs_mcp
def test_what_a_server_writes_is_told_by_the_line_with_its_name(tmp_path: Path) -> None:
    server = {'command': sys.executable, 'args': ['-c', NOISY]}
    write(tmp_path, 'mcp.json', json.dumps({'mcpServers': {'notes': server}}))
    words = ('run', '* a', '--plan-first', '--model', 'offline', '--mcp', 'mcp.json')
    loud, quiet = planctl(tmp_path, *words), planctl(tmp_path, *words, '--quiet')
    last = 'planctl: mcp.json: mcpServers.notes: cannot be reached: Connection closed; the last that it wrote: two\n'
    assert (loud.returncode, quiet.returncode, quiet.stderr) == (7, 7, last)
    lines = loud.stderr.splitlines()
    # What a library logs of it is a line as well.
    assert [line for line in lines if not line.startswith('planctl: mcp.client.stdio: ')] == [
        'planctl: notes: one\ufffd[2J',
        'planctl: notes: two',
        last.strip(),
    ]
    assert all(line.startswith('planctl: ') for line in lines)


@needs_mcp
async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, 'PATIENCE', 0.2)
    server = {'command': sys.executable, 'args': ['-c', 'import sys; sys.stdin.read()']}
    write(tmp_path, 'm.json', json.dumps({'mcpServers': {'a': server}}))
    with pytest.raises(SpecError, match='a: cannot be reached: no answer in 0 s'):
        async with load_servers(tmp_path / 'm.json', 'm.json').running(lambda _: None):
            pass


@needs_mcp
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_whose_server_does_not_come_up(number: int, tmp_path: Path) -> None:
    silent = {'command': 'sh', 'args': ['-c', 'echo $$ > pid; exec sleep 60']}
    write(tmp_path, 'mcp.json', json.dumps({'mcpServers': {'silent': silent}}))
    with started(tmp_path, 'x', '--plan-first', '--model', 'offline', '--mcp', 'mcp.json') as process:
        pid = tmp_path / 'pid'
        until(lambda: pid.exists() and pid.read_text().endswith('\n'))
        process.send_signal(number)
        if number == signal.SIGINT:  # Somebody has no patience.
            until(lambda: process.poll() is not None or process.send_signal(number) is not None, 15)
        _, err = process.communicate(timeout=15)
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGKILL)
            # Only whoever ends at once leaves it behind.
            assert number == signal.SIGINT
    at_once = 'planctl: interrupted at once; what was in progress is given back by the next `planctl run`\n'
    assert (process.returncode, err) == ((130, at_once) if number == signal.SIGINT else (143, ''))
    assert not (tmp_path / 'plan.db').exists()


def test_the_extra_is_named_when_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'pydantic_ai.mcp', None)
    write(tmp_path, 'm.json', '{"mcpServers": {"a": {"command": "x"}}}')
    with pytest.raises(ExtraMissing, match=r"m\.json: MCP servers need the extra 'mcp'"):
        load_servers(tmp_path / 'm.json', 'm.json')
