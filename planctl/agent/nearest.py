"""Where the agent file is. Standard library only, so that it can be asked before pydantic-ai is imported."""

from __future__ import annotations

from pathlib import Path

AGENT_FILE = 'agent.yaml'
MCP_FILE = 'mcp.json'
"""MCP servers, taken without being named when the file stands beside the agent file."""


def nearest_agent_file(folder: Path) -> Path | None:
    """Return the nearest agent file, from `folder` up to the one that holds `.git`; in no repository only there."""
    folders = [folder, *folder.parents]
    root = next((at for at, candidate in enumerate(folders) if (candidate / '.git').exists()), 0)
    return next((path for candidate in folders[: root + 1] if (path := candidate / AGENT_FILE).is_file()), None)
