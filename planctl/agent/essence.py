"""What matters of a request to a model, in lines that people can compare, and what must not be written. Pure."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from typing import Any, cast

from pydantic_ai.messages import ModelMessage, ModelRequest, SystemPromptPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from planctl.agent.tail import reminder_in
from planctl.sanitize import shown

_SECRET_NAME = re.compile(r'KEY|TOKEN|SECRET|PASS|_PWD|_PAT$|CREDENTIAL|AUTH', re.IGNORECASE)
_SECRET = re.compile(
    # By how its issuer marks it. What only begins like it, such as `sk_etch_of_the_page`, is a name.
    r'\b(?:sk|pk|rk)-[\w-]{16,}|\b(?:sk|pk|rk)_(?:live|test)_\w{16,}|\bgh[opsu]_\w{16,}|\bgithub_pat_\w{16,}'
    r'|\bglpat-[\w-]{16,}|\bxox[abeprs]-[\w-]{10,}|\bhf_[A-Za-z0-9]{30,}|\bAKIA[A-Z0-9]{16}\b|\bAIza[\w-]{30,}'
    r'|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|\bBearer [\w.~+/-]{8,}=*|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)'
)
_PASSED_OVER = (
    (re.compile(r'\b(planner|executor|agent):[0-9a-f]{8}(?:\.\d+)?\b'), r'\1:…'),
    (re.compile(r'\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b'), '(id)'),
    (re.compile(r'\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z| ?[+-]\d\d:?\d\d)?)?'), '(time)'),
    (re.compile(r'\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b'), '(time)'),
)
_SHOWN_LINES = 4
_LINE = 160


def names_secret(name: str) -> bool:
    """Whether what has this name, a variable or a header, is likely to be a secret."""
    return _SECRET_NAME.search(name) is not None


class Secrets:
    """Knows what must not be written: what the environment names like a secret, and what looks like one."""

    def __init__(self, environment: Mapping[str, str], more: Iterable[str] = ()) -> None:
        named = (value for name, value in environment.items() if names_secret(name))
        forms = (form for value in (*named, *more) for form in _forms(value))
        # A short one would be found in any text; the longest first, since one may be a part of another.
        self._values = sorted({form for form in forms if len(form) >= 8}, key=len, reverse=True)

    def hide(self, value: Any) -> Any:
        """Return JSON without them."""
        match value:
            case str():
                for secret in self._values:
                    value = value.replace(secret, '***')
                return _SECRET.sub('***', value)
            case list():
                return [self.hide(each) for each in cast('list[Any]', value)]
            case dict():
                return {self.hide(key): self.hide(each) for key, each in cast('dict[str, Any]', value).items()}
            case _:
                return value


def _forms(secret: str) -> list[str]:
    """Return how a secret may be written: as it is, inside of JSON, and line by line, as a prompt is kept."""
    return [secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], *secret.splitlines()]


def essence(
    messages: Sequence[ModelMessage], parameters: ModelRequestParameters, *, step_id: str | None = None
) -> dict[str, Any]:
    """Return what matters of a request: the tools that are offered, the plan that is shown, the prompts.

    Of the plan, one of several executors is held to its own step: what has become of the others is a matter of time.
    """
    plan: list[str] = []
    prompts: list[str] = []
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        for part in message.parts:
            if (reminder := reminder_in(part)) is not None:
                plan = reminder.split('\n')
            elif isinstance(part, UserPromptPart):
                prompts.extend(_texts(part))
            elif isinstance(part, SystemPromptPart):
                prompts.append(part.content)
    if step_id is not None:
        plan = [line.strip() for line in plan if line.strip()[3:].startswith(f' {step_id} ')]
    instructions = [message.instructions or '' for message in messages if isinstance(message, ModelRequest)][-1:]
    lines = [line for text in (*instructions, *prompts) if text for line in text.split('\n')]
    tools = [_signature(tool) for tool in (*parameters.function_tools, *parameters.output_tools)]
    native = [f'{tool.kind} of the provider' for tool in parameters.native_tools]
    return {
        'tools': sorted((*tools, *native)),
        'plan': [_plain(line) for line in plan],
        'prompt': [_plain(line) for line in lines],
    }


def _texts(part: UserPromptPart) -> list[str]:
    return [part.content] if isinstance(part.content, str) else [each for each in part.content if isinstance(each, str)]


def _signature(tool: ToolDefinition) -> str:
    schema = tool.parameters_json_schema
    required: Any = schema.get('required', ())
    names: dict[str, Any] = schema.get('properties', {})
    return f'{tool.name}({", ".join(name if name in required else f"{name}?" for name in sorted(names))})'


def _plain(line: str) -> str:
    """Return a line without what differs between two runs of one thing: run ids, times, the folder."""
    line = line.replace(os.getcwd(), '.')
    for pattern, stand_in in _PASSED_OVER:
        line = pattern.sub(stand_in, line)
    return line


_NAMES = {'tools': 'tools offered', 'plan': 'plan shown', 'prompt': 'prompt'}


def difference(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return in one line what differs between two requests; nothing when nothing that matters does."""
    parts: list[str] = []
    for key, name in _NAMES.items():
        before, after = list(recorded.get(key, ())), list(asked.get(key, ()))
        if before != after:
            changed = [
                line
                for line in unified_diff(before, after, n=0, lineterm='')
                if not line.startswith(('---', '+++', '@@'))
            ]
            told = [_short(line) for line in changed[:_SHOWN_LINES]]
            more = f' and {len(changed) - _SHOWN_LINES} more' if len(changed) > _SHOWN_LINES else ''
            parts.append(f'{name}: {" | ".join(told)}{more}')
    return '; '.join(parts)


def _short(line: str) -> str:
    text = f'{line[0]} {shown(line[1:].strip())}'
    return text if len(text) <= _LINE else f'{text[: _LINE - 1]}…'
