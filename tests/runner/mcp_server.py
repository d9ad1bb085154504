"""A small MCP server: notes in the folder that it runs in. `PORT` as an argument makes it speak HTTP, else stdio."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer('notes')


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look_up(name: str) -> str:
    """Look a note up."""
    path = Path(f'{name}.note')
    return path.read_text() if path.exists() else 'there is no such note'


@server.tool(annotations=ToolAnnotations(read_only_hint=False))
def write_down(name: str, text: str) -> str:
    """Write a note down."""
    Path(f'{name}.note').write_text(text)
    return 'written'


@server.tool()
def unmarked(name: str) -> str:
    """Say nothing of what it does."""
    return name


if __name__ == '__main__':
    if len(sys.argv) > 1:
        server.run('streamable-http', port=int(sys.argv[1]))
    else:
        server.run('stdio')
