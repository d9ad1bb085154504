"""MCP servers from a file of the `mcpServers` shape: checked here, started by the run that uses them, and no sooner."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast
from urllib.parse import parse_qsl, urlsplit

from planctl.agent.entries import choice
from planctl.agent.essence import names_secret
from planctl.agent.models import one_line
from planctl.agent.specfile import Route, SpecFile, kind_of, read_spec_file
from planctl.errors import ExtraMissing, SpecError

if TYPE_CHECKING:
    from fastmcp.client.transports import ClientTransport
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.mcp import MCPToolset

_STDIO = {'command': str, 'args': list, 'env': dict, 'cwd': str}
_HTTP = {'url': str, 'headers': dict}
_KINDS = {'stdio': _STDIO, 'http': _HTTP, 'streamable-http': _HTTP, 'sse': _HTTP}


PATIENCE = 30.0
"""Seconds that a server has to answer at the start; one that has to be fetched first takes its time."""

_VARIABLE = re.compile(r'\$\{([^}:]+)(?::-([^}]*))?\}')


class Servers:
    """The servers of one file, by name. Tools are called `SERVER_TOOL`."""

    def __init__(self, label: str, toolsets: dict[str, MCPToolset[Any]], secrets: Sequence[str] = ()) -> None:
        self.label = label
        self.secrets = secrets
        """What the file gives them in headers and in the environment, to be kept out of recordings."""
        self._toolsets = toolsets

    @property
    def names(self) -> list[str]:
        """The names of the servers, as in the file."""
        return list(self._toolsets)

    def capabilities(self) -> list[AbstractCapability[Any]]:
        """Return what gives an agent their tools for a run."""
        from pydantic_ai.capabilities import Toolset

        return [Toolset(toolset.prefixed(_prefix(name))) for name, toolset in self._toolsets.items()]

    @asynccontextmanager
    async def running(self, hear: Callable[[str], None]) -> AsyncGenerator[None]:
        """Keep every server up for the length of the block, whoever asks it for what.

        What they write to stderr is told line by line, on a thread. Raises `SpecError` for one that cannot be started
        or reached.
        """
        async with AsyncExitStack() as stack:
            for name, toolset in self._toolsets.items():
                said: deque[str] = deque(maxlen=1)

                def note(line: str, name: str = name, said: deque[str] = said) -> None:
                    said.append(line)
                    hear(f'{name}: {line}')

                hearing = stack.enter_context(ExitStack())
                transport: Any = toolset.client.transport
                if hasattr(transport, 'log_file'):
                    transport.log_file = hearing.enter_context(_heard(note))
                try:
                    await stack.enter_async_context(toolset)
                except asyncio.CancelledError:
                    raise
                except Exception as error:
                    hearing.close()
                    raise self._unreachable(name, error, said) from error
            yield

    def _unreachable(self, name: str, error: Exception, said: Sequence[str]) -> SpecError:
        cause = _innermost(error)
        words = f'no answer in {PATIENCE:.0f} s' if isinstance(cause, TimeoutError) else one_line(cause)
        last = f'; the last that it wrote: {said[-1]}' if said else ''
        # What a server over HTTP answers, such as 401, its client does not pass on.
        is_http = hasattr(self._toolsets[name].client.transport, 'url')
        hint = 'is it up, and do `url` and `headers` say what it asks for?' if is_http else None
        return SpecError(f'{self.label}: mcpServers.{name}: cannot be reached: {words}{last}', hint=hint)


def load_servers(path: Path, label: str) -> Servers:
    """Return the servers of a file. A server runs in the folder of the file unless `cwd` says another.

    `${NAME}` and `${NAME:-default}` are taken from the environment. Raises `SpecError` and `ExtraMissing`.
    """
    file = read_spec_file(path, label, what='MCP file')
    servers = _checked(file)
    try:
        from pydantic_ai.mcp import MCPToolset
    except ImportError as error:
        raise ExtraMissing(f"{label}: MCP servers need the extra 'mcp'", hint="pip install 'planctl[mcp]'") from error
    toolsets: dict[str, MCPToolset[Any]] = {}
    secrets: list[str] = []
    for name, server in servers.items():
        toolsets[name] = MCPToolset(_transport(server, path.parent), id=name, init_timeout=PATIENCE)
        given = [*server.get('headers', {}).items(), *server.get('env', {}).items()]
        given += parse_qsl(urlsplit(str(server.get('url', ''))).query)
        for value in (value for key, value in given if names_secret(key)):
            # `Bearer SECRET` is one with the word and without it.
            secrets.extend((value, value.rpartition(' ')[2]))
    return Servers(label, toolsets, secrets)


def _transport(server: dict[str, Any], folder: Path) -> ClientTransport:
    from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
    from fastmcp.mcp_config import infer_transport_type_from_url

    if 'command' in server:
        return StdioTransport(
            server['command'],
            server.get('args', []),
            env=server.get('env'),
            cwd=str(folder / Path(server.get('cwd', '.')).expanduser()),
            # What is over when the run is over leaves no process behind.
            keep_alive=False,
        )
    kind = server.get('type') or infer_transport_type_from_url(server['url'])
    return (SSETransport if kind == 'sse' else StreamableHttpTransport)(server['url'], headers=server.get('headers'))


@contextmanager
def _heard(note: Callable[[str], None]) -> Generator[TextIO]:
    """Yield a file to write to; each line of it is noted on a thread, the last ones before the end of the block."""
    readable, writable = os.pipe()

    def read() -> None:
        with open(readable, encoding='utf-8', errors='replace') as lines:
            for line in lines:
                if text := line.strip():
                    note(text)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        with open(writable, 'w', encoding='utf-8') as file:
            yield file
    finally:
        # A child of a server may have outlived it, and hold the other end.
        reader.join(1.0)


def _prefix(name: str) -> str:
    """Return what the tools of a server begin with: providers take no other signs in the name of a tool."""
    return re.sub(r'[^A-Za-z0-9_-]', '_', name)


def _checked(file: SpecFile) -> dict[str, dict[str, Any]]:
    """Return the servers of a file, with what they take from the environment."""
    for key in file.data:
        if key not in ('mcpServers', '$schema'):
            raise file.error(f'unknown key{choice(key, ("mcpServers",))}; there is: mcpServers', (key,))
    servers: Any = file.data.get('mcpServers')
    if not isinstance(servers, dict):
        raise file.error(f'servers by name are expected, this is {kind_of(servers)}', ('mcpServers',))
    found: dict[str, dict[str, Any]] = {}
    for name, server in cast('dict[str, Any]', servers).items():
        route = ('mcpServers', name)
        if not name.strip():
            raise file.error('a server has a name', route)
        same = next((other for other in found if _prefix(other) == _prefix(name)), None)
        if same is not None:
            raise file.error(f'its tools would have the names of those of {same!r}: {_prefix(name)}_…', route)
        if not isinstance(server, dict):
            raise file.error(f'a mapping is expected, this is {kind_of(server)}', route)
        found[name] = _check(file, route, cast('dict[str, Any]', server))
    return found


def _check(file: SpecFile, route: tuple[str, str], server: dict[str, Any]) -> dict[str, Any]:
    kind = server.get('type', 'stdio' if 'command' in server else 'http')
    if not isinstance(kind, str) or kind not in _KINDS:
        raise file.error(f'unknown {kind!r}; there are: {", ".join(_KINDS)}', (*route, 'type'))
    known = _KINDS[kind]
    needed = next(iter(known))
    if needed not in server:
        raise file.error(f'a server has {needed!r}' if 'type' in server else "a server has 'command' or 'url'", route)
    found: dict[str, Any] = {}
    for key, value in server.items():
        if key != 'type' and key not in known:
            raise file.error(f'unknown key{choice(key, known)}; there are: type, {", ".join(known)}', (*route, key))
        if value is None and key != needed:
            continue
        if key != 'type' and not isinstance(value, known[key]):
            expected = {str: 'text', list: 'a list of texts', dict: 'a mapping of texts'}[known[key]]
            raise file.error(f'{expected} is expected, this is {kind_of(value)}', (*route, key))
        found[key] = _filled(file, (*route, key), value)
    if needed == 'url' and not found['url'].startswith(('http://', 'https://')):
        raise file.error('a URL begins with http:// or https://', (*route, 'url'))
    return found


def _filled(file: SpecFile, route: Route, value: Any) -> Any:
    """Return text, or a list or mapping of texts, with what stands in the place of variables."""
    match value:
        case str():
            for found in _VARIABLE.finditer(value):
                if found[1] not in os.environ and found[2] is None:
                    raise file.error(f'the environment variable {found[1]} is not set', route)
            return _VARIABLE.sub(lambda found: os.environ.get(found[1], found[2]), value)
        case list():
            return [_filled(file, route, _text(file, route, each)) for each in cast('list[Any]', value)]
        case _:
            return {k: _filled(file, route, _text(file, route, v)) for k, v in cast('dict[str, Any]', value).items()}


def _text(file: SpecFile, route: Route, value: Any) -> str:
    if not isinstance(value, str):
        raise file.error(f'texts are expected, one is {kind_of(value)}: quote it', route)
    return value


def _innermost(error: BaseException) -> BaseException:
    """Return what a group of errors, or one that only passes on another, comes from."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = cast('BaseExceptionGroup[BaseException]', error).exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        else:
            return error
