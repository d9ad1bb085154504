"""The agent file to begin with, and the JSON schema of agent files. Text only; nothing is written here."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

_HEAD = """\
# yaml-language-server: $schema=./{schema}
# The agent that `planctl run` uses in this folder and below. Every key is pydantic-ai's.
# `offline` needs no key and no network: it follows fixed rules and runs the commands that steps quote in back-ticks.
# For a model that understands what it does, name one here or with --model, for example anthropic:claude-sonnet-5-5.
model: offline
instructions:
  - You work in this repository. Change nothing but what the step in progress asks for.
capabilities:
  # Paths are relative to this file. What needs an extra: pip install 'planctl[workspace]'.
  - LocalWorkspace: .
"""
_WORKSPACE = """\
  - FileSystem: {}
  - Shell: {default_timeout: 600}
"""
_TAIL = """\
  # Without `backend` and `database` the plan is in the nearest plan.db, or where --db says.
  - Planning: {enable_subtasks: true}
"""


def agent_template(schema: str) -> str:
    """Return an agent file whose first line names `schema`; what needs a missing extra is a comment."""
    workspace = _WORKSPACE
    if importlib.util.find_spec('pydantic_ai_harness') is None:
        workspace = ''.join(f'  # {line.strip()}\n' for line in workspace.splitlines())
    return _HEAD.replace('{schema}', schema) + workspace + _TAIL


def schema_name(agent_file: Path) -> str:
    """Return the name of the schema that stands beside an agent file; a dot file, since nobody reads it."""
    return f'.{agent_file.stem}.schema.json'


def schema_text() -> str:
    """Return the JSON schema of agent files, with every capability that can be had here."""
    from pydantic_ai.agent.spec import AgentSpec

    from planctl.agent.capability_types import CapabilityTypes

    kinds = CapabilityTypes().everything()
    described = [kind for kind in kinds if _describes(kind)]
    schema = AgentSpec.model_json_schema_with_capabilities(described)
    entries: list[dict[str, Any]] = schema['properties']['capabilities']['items']['anyOf']
    for kind in kinds:
        if kind not in described:
            # Its options cannot be told from outside; its name can.
            name = kind.get_serialization_name()
            entries.append({'const': name})
            entries.append({'type': 'object', 'properties': {name: {}}, 'required': [name], 'maxProperties': 1})
    return json.dumps(schema, ensure_ascii=False) + '\n'


def _describes(kind: type[AbstractCapability[Any]]) -> bool:
    """Whether a schema can be made of a capability; the options of some name types that are nowhere to be had."""
    from pydantic_ai.agent.spec import AgentSpec

    try:
        AgentSpec.model_json_schema_with_capabilities([kind])
    except Exception:  # pydantic has many for this, some of them below its own.
        return False
    return True
