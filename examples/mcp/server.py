"""A glossary as an MCP server over stdio. One of its tools only reads, and says so: planners are offered that one."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer('glossary')
words = {'plan': 'steps, and what waits for what'}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look_up(word: str) -> str:
    """Say what a word means."""
    return words.get(word, 'not in the glossary')


@server.tool(annotations=ToolAnnotations(read_only_hint=False))
def define(word: str, meaning: str) -> str:
    """Write down what a word means."""
    words[word] = meaning
    return f'{word}: {meaning}'


if __name__ == '__main__':
    server.run('stdio')
