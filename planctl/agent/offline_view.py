"""What the offline model can tell from its messages: the plan as the reminder shows it, and what it did. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.tools import ToolDefinition

from planctl.agent.tail import reminder_in
from planctl.agent.toolset import plan_tool
from planctl.text import MARKS

SHELL = 'run_command'

_STATUS = {mark: status.value for status, mark in MARKS.items()}
_LINE = re.compile(r'(?P<indent> *)(?P<mark>\[[ ~x!-]\]) (?P<id>\S+) (?P<text>.*)')
_REMARK = re.compile(r' \((?:waits for|held by|added by|changed by) [^()]*\)$')
_ADDED = re.compile(r'Added step (\S+?)(?: under \S+)?\.')
_EXIT = re.compile(r'\[exit code: (-?\d+)\](?:\n\[[^\n]*\])?\Z')
_TIMEOUT = re.compile(r'\[Command timed out after [^\]]*\]\Z')
_LABEL = re.compile(r'\[(?:stdout|stderr|exit code: -?\d+)\]|\(no output\)')
_SAID = 160


@dataclass(frozen=True, slots=True)
class Line:
    """One open step as it is shown. `text` is without remarks; it may be cut."""

    id: str
    status: str
    text: str
    waits: bool = False
    """It, or something that it is a part of, waits for another step; or another worker holds it."""
    has_open_children: bool = False


def plan_view(messages: Sequence[ModelMessage]) -> list[Line]:
    """Return the open steps as the reminder of the last request lists them; none without a reminder."""
    last = messages[-1] if messages else None
    if not isinstance(last, ModelRequest):
        return []
    reminders = (text for part in last.parts if (text := reminder_in(part)) is not None)
    return lines_of(next(reminders, ''))


def lines_of(text: str) -> list[Line]:
    """Return the open steps of an indented list."""
    found: list[tuple[int, Line]] = []
    above: list[tuple[int, int]] = []
    for raw in text.split('\n'):
        match = _LINE.fullmatch(raw)
        if match is None:
            continue
        depth, rest, waits = len(match['indent']), match['text'], False
        while (remark := _REMARK.search(rest)) is not None:
            waits = waits or remark[0].startswith((' (waits', ' (held'))
            rest = rest[: remark.start()]
        while above and above[-1][0] >= depth:
            above.pop()
        if above:
            parent_depth, parent = found[above[-1][1]]
            waits = waits or parent.waits
            found[above[-1][1]] = (
                parent_depth,
                Line(parent.id, parent.status, parent.text, parent.waits, has_open_children=True),
            )
        above.append((depth, len(found)))
        found.append((depth, Line(match['id'], _STATUS[match['mark']], rest, waits)))
    return [line for _, line in found if line.status not in ('completed', 'cancelled')]


def verdict(output: Output) -> str | None:
    """Return why a command failed, or `None` when it ended with status 0."""
    text = output.text.rstrip('\n')
    if not output.ran:
        return f'failed: {_short(text)}'
    if (timeout := _TIMEOUT.search(text)) is not None:
        return timeout[0].strip('[]').removeprefix('Command ')
    code = _EXIT.search(text)
    if code is None:
        return None
    said = [line for line in text[: code.start()].splitlines() if line.strip() and not _LABEL.fullmatch(line.strip())]
    because = f': {_short(said[-1])}' if said else ''
    return f'ended with status {code[1]}{because}'


def _short(text: str) -> str:
    flat = ' '.join(text.split())
    return flat if len(flat) <= _SAID else f'{flat[: _SAID - 1]}…'


@dataclass(frozen=True, slots=True)
class Tools:
    """The plan tools that are offered, by what they are, and the shell."""

    plan: dict[str, ToolDefinition]
    shell: str | None

    @classmethod
    def of(cls, definitions: Sequence[ToolDefinition]) -> Self:
        """Return the tools of a request."""
        plan: dict[str, ToolDefinition] = {}
        shell: str | None = None
        for tool in definitions:
            if (name := plan_tool(tool)) is not None:
                plan.setdefault(name, tool)
            elif tool.name == SHELL or tool.name.endswith(f'_{SHELL}'):
                shell = shell or tool.name
        return cls(plan, shell)

    def can(self, name: str) -> bool:
        """Whether a plan tool is offered."""
        return name in self.plan

    def takes(self, name: str, argument: str) -> bool:
        """Whether a plan tool, or an item of it, has this argument."""
        if name not in self.plan:
            return False
        properties: dict[str, Any] = self.plan[name].parameters_json_schema.get('properties', {})
        items = properties.get('items', {}).get('items', {}).get('properties', {})
        return argument in properties or argument in items

    def call(self, name: str, arguments: dict[str, Any], call_id: str) -> ToolCallPart:
        """Return a call of a plan tool, by the name that it has here."""
        return ToolCallPart(self.plan[name].name, arguments, tool_call_id=call_id)


@dataclass(frozen=True, slots=True)
class Output:
    """What the shell said of a command; not `ran` when it was refused, or broken off without a status."""

    command: str
    text: str
    ran: bool


@dataclass(slots=True)
class Log:
    """What the model did in this conversation, read back from the calls that it made and their answers."""

    written: bool = False
    failed_plan: str | None = None
    added: dict[int, str] = field(default_factory=dict[int, str])
    """Entries of the checklist that were added one by one, and their ids."""
    linked: bool = False
    current: str | None = None
    outputs: list[Output] = field(default_factory=list[Output])
    """What the commands of the current step said."""
    read: dict[str, str] | None = None
    """Whole texts by id, where the list was asked for since the current step was started."""
    completed: dict[str, None] = field(default_factory=dict[str, None])
    blocked: dict[str, None] = field(default_factory=dict[str, None])
    refused: set[str] = field(default_factory=set[str])
    """Steps that could not be moved; they are left alone from then on."""

    @property
    def plans(self) -> bool:
        """Whether a plan was begun here and is not known to be whole."""
        return bool(self.added) and not self.linked

    @property
    def works(self) -> bool:
        """Whether any step was moved here, or tried to be."""
        return bool(self.completed or self.blocked or self.refused or self.current)

    @classmethod
    def of(cls, messages: Sequence[ModelMessage], tools: Tools) -> Self:
        """Read the log from the messages."""
        log = cls()
        names = {tool.name: name for name, tool in tools.plan.items()}
        if tools.shell is not None:
            names[tools.shell] = SHELL
        calls: dict[str, ToolCallPart] = {}
        for message in messages:
            if isinstance(message, ModelResponse):
                calls = {part.tool_call_id: part for part in message.parts if isinstance(part, ToolCallPart)}
                continue
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and part.tool_call_id in calls:
                    call = calls[part.tool_call_id]
                    done = part.outcome == 'success'
                    log._take(names.get(call.tool_name, call.tool_name), call, str(part.content), done=done)
        return log

    def _take(self, name: str, call: ToolCallPart, answer: str, *, done: bool) -> None:
        arguments = call.args_as_dict()
        match name:
            case 'write_plan':
                self.written = self.written or done
                self.failed_plan = None if done else answer
            case 'add_task' | 'add_subtask':
                match_ = _ADDED.match(answer) if done else None
                if match_ is None:
                    self.failed_plan = answer
                else:
                    self.added[int(call.tool_call_id.removeprefix('add-'))] = match_[1]
            case 'set_dependency':
                self.linked = True
                self.failed_plan = self.failed_plan if done else answer
            case 'read_plan':
                self.read = {line.id: line.text for line in lines_of(answer)}
            case 'run_command':
                self.outputs.append(Output(str(arguments.get('command')), answer, done))
            case 'update_task_status':
                self._moved(str(arguments['task_id']), str(arguments['status']), done=done)
            case _:
                pass

    def _moved(self, step_id: str, status: str, *, done: bool) -> None:
        self.outputs, self.read = [], None
        if not done:
            self.refused.add(step_id)
            self.current = None
        elif status == 'in_progress':
            self.current = step_id
        else:
            self.current = None
            # Something moved: what was refused before may be possible now.
            self.refused.clear()
            (self.completed if status == 'completed' else self.blocked)[step_id] = None
