"""MCP servers from a file of the `mcpServers` shape: checked here, started by the run that uses them, and no sooner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from planctl.agent.entries import choice
from planctl.agent.essence import names_secret
from planctl.agent.models import one_line
from planctl.agent.specfile import SpecFile, kind_of, read_spec_file
from planctl.errors import ExtraMissing, SpecError

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.toolsets import AbstractToolset

_STDIO = {'command': str, 'args': list, 'env': dict, 'cwd': str}
_HTTP = {'url': str, 'headers': dict}
_KINDS = {'stdio': _STDIO, 'http': _HTTP, 'streamable-http': _HTTP, 'sse': _HTTP}


class Servers:
    """The servers of one file, by name. Tools are called `SERVER_TOOL`."""

    def __init__(self, label: str, toolsets: dict[str, AbstractToolset[Any]], secrets: Sequence[str] = ()) -> None:
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

        return [Toolset(toolset) for toolset in self._toolsets.values()]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep every server up for the length of the block, whoever asks it for what.

        Raises `SpecError` for one that cannot be started or reached.
        """
        async with AsyncExitStack() as stack:
            for name, toolset in self._toolsets.items():
                try:
                    await stack.enter_async_context(toolset)
                except asyncio.CancelledError:
                    raise
                except Exception as error:
                    raise SpecError(
                        f'{self.label}: mcpServers.{name}: cannot be reached: {one_line(_innermost(error))}'
                    ) from error
            yield


def load_servers(path: Path, label: str) -> Servers:
    """Return the servers of a file. A server runs in the folder of the file unless `cwd` says another.

    `${NAME}` and `${NAME:-default}` are taken from the environment. Raises `SpecError` and `ExtraMissing`.
    """
    file = read_spec_file(path, label, what='MCP file')
    servers = _checked(file)
    try:
        from pydantic_ai.mcp import load_mcp_toolsets
    except ImportError as error:
        raise ExtraMissing(f"{label}: MCP servers need the extra 'mcp'", hint="pip install 'planctl[mcp]'") from error
    try:
        toolsets = load_mcp_toolsets(path)
    except ValueError as error:
        raise SpecError(f'{label}: {one_line(error)}') from error
    for toolset, server in zip(toolsets, servers.values(), strict=True):
        if 'command' in server:
            transport: Any = cast('Any', toolset).wrapped.client.transport
            transport.cwd = str(path.parent / Path(server.get('cwd') or '.').expanduser())
            # What is over when the run is over leaves no process behind.
            transport.keep_alive = False
    secrets: list[str] = []
    for server in servers.values():
        given: dict[str, str] = {**(server.get('headers') or {}), **(server.get('env') or {})}
        secrets.extend(value for name, value in given.items() if names_secret(name))
    return Servers(label, dict(zip(servers, toolsets, strict=True)), secrets)


def _checked(file: SpecFile) -> dict[str, dict[str, Any]]:
    for key in file.data:
        if key not in ('mcpServers', '$schema'):
            raise file.error(f'unknown key{choice(key, ("mcpServers",))}; there is: mcpServers', (key,))
    servers: Any = file.data.get('mcpServers')
    if not isinstance(servers, dict):
        raise file.error(f'servers by name are expected, this is {kind_of(servers)}', ('mcpServers',))
    for name, server in cast('dict[str, Any]', servers).items():
        route = ('mcpServers', name)
        if not isinstance(server, dict):
            raise file.error(f'a mapping is expected, this is {kind_of(server)}', route)
        _check(file, route, cast('dict[str, Any]', server))
    return cast('dict[str, dict[str, Any]]', servers)


def _check(file: SpecFile, route: tuple[str, str], server: dict[str, Any]) -> None:
    kind = server.get('type', 'stdio' if 'command' in server else 'http')
    if kind not in _KINDS:
        raise file.error(f'unknown {kind!r}; there are: {", ".join(_KINDS)}', (*route, 'type'))
    known = _KINDS[kind]
    needed = next(iter(known))
    if needed not in server:
        raise file.error(f'a server has {needed!r}' if 'type' in server else "a server has 'command' or 'url'", route)
    for key, value in server.items():
        if key == 'type':
            continue
        if key not in known:
            raise file.error(f'unknown key{choice(key, known)}; there are: type, {", ".join(known)}', (*route, key))
        if value is None and key != needed:
            continue
        if not isinstance(value, known[key]):
            expected = {str: 'text', list: 'a list of texts', dict: 'a mapping of texts'}[known[key]]
            raise file.error(f'{expected} is expected, this is {kind_of(value)}', (*route, key))
        inner: Sequence[Any] = (
            [*cast('dict[str, Any]', value).values()] if known[key] is dict else cast('list[Any]', value)
        )
        wrong = next((each for each in inner if not isinstance(each, str)), None)
        if wrong is not None:
            raise file.error(f'texts are expected, one is {kind_of(wrong)}: quote it', (*route, key))


def _innermost(error: BaseException) -> BaseException:
    """Return what a group of errors, or one that only passes on another, comes from."""
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = cast('BaseExceptionGroup[BaseException]', error).exceptions[0]
        elif error.__cause__ is not None:
            error = error.__cause__
        else:
            return error
