"""What an agent's plan tools offer: which of them there are, which statuses and fields. Data only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from planctl.agent.prompts import BLOCK_WITH_NOTE, CORE_TOOLS, DESCRIPTIONS, SUBTASK_TOOLS, WRITE_SUBTASKS
from planctl.plan import TaskStatus

ALL_STATUSES = tuple(TaskStatus)
PLAIN_STATUSES = tuple(status for status in TaskStatus if status is not TaskStatus.blocked)


@dataclass(frozen=True, slots=True)
class Mode:
    """The tools that are registered, in their order, and what they take."""

    tools: tuple[str, ...]
    subtasks: bool = False
    blocking: bool = False
    """Whether a step can be set blocked, with a note that says why."""

    @property
    def statuses(self) -> tuple[TaskStatus, ...]:
        """The statuses that a model may set."""
        return ALL_STATUSES if self.blocking else PLAIN_STATUSES

    def fields(self, tool: str) -> tuple[str, ...]:
        """Return the names of the arguments of a tool."""
        return tuple(self.schema(tool)['properties'])

    @property
    def item_fields(self) -> tuple[str, ...]:
        """The fields of a step in a whole-plan write."""
        return tuple(self._item()['properties'])

    def description(self, tool: str) -> str:
        """Return what a model is told of a tool."""
        text = DESCRIPTIONS[tool]
        if tool == 'write_plan' and self.subtasks:
            text += WRITE_SUBTASKS
        if tool == 'update_task_status' and self.blocking:
            text += BLOCK_WITH_NOTE
        return text

    def schema(self, tool: str) -> dict[str, Any]:
        """Return the JSON schema of a tool's arguments: nothing in it but what the mode accepts."""
        match tool:
            case 'write_plan':
                return _object({'items': {'type': 'array', 'items': self._item()}}, 'items')
            case 'add_task':
                return _object({'content': _TEXT, 'active_form': _TEXT}, 'content')
            case 'update_task_status':
                properties = {'task_id': _TEXT, 'status': self._status}
                return _object(properties | ({'note': _TEXT} if self.blocking else {}), 'task_id', 'status')
            case 'update_task_statuses':
                update = _object({'task_id': _TEXT, 'status': self._status}, 'task_id', 'status')
                return _object({'updates': {'type': 'array', 'items': update}}, 'updates')
            case 'remove_task':
                return _object({'task_id': _TEXT}, 'task_id')
            case 'add_subtask':
                return _object({'parent_id': _TEXT, 'content': _TEXT, 'active_form': _TEXT}, 'parent_id', 'content')
            case 'set_dependency':
                properties = {'task_id': _TEXT, 'depends_on_id': _TEXT, 'remove': {'type': 'boolean'}}
                return _object(properties, 'task_id', 'depends_on_id')
            case _:
                return _object({})

    @property
    def _status(self) -> dict[str, Any]:
        return {'type': 'string', 'enum': [status.value for status in self.statuses]}

    def _item(self) -> dict[str, Any]:
        properties: dict[str, Any] = {'id': _TEXT, 'content': _TEXT, 'status': self._status, 'active_form': _TEXT}
        if self.subtasks:
            properties |= {'parent_id': _TEXT, 'depends_on': {'type': 'array', 'items': _TEXT}}
        return _object(properties, 'content')


_TEXT: dict[str, Any] = {'type': 'string'}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {'type': 'object', 'properties': properties}
    return schema | {'required': list(required)} if required else schema


def mode_of(*, subtasks: bool, blocking: bool, tools: Iterable[str] | None) -> Mode:
    """Return the mode of these options. `ValueError` when `tools` names one that the mode does not have."""
    offered = offered_tools(subtasks=subtasks)
    if tools is None:
        return Mode(offered, subtasks, blocking or subtasks)
    wanted = check_names('tools', tools, offered)
    return Mode(tuple(name for name in offered if name in wanted), subtasks, blocking or subtasks)


def offered_tools(*, subtasks: bool) -> tuple[str, ...]:
    """Return the names of the tools that there are, six or nine."""
    return (*CORE_TOOLS, *SUBTASK_TOOLS) if subtasks else CORE_TOOLS


def check_names(option: str, names: Iterable[str], offered: tuple[str, ...]) -> set[str]:
    """Return the names as a set; `ValueError` says which option named a tool that there is not."""
    given = list(names)
    unknown = [name for name in given if name not in offered]
    if unknown:
        off = ' (enable_subtasks is off)' if any(name in SUBTASK_TOOLS for name in unknown) else ''
        named = ', '.join(map(str, unknown))
        raise ValueError(f'Planning: {option} names unknown tools: {named}{off}; there are: {", ".join(offered)}')
    return set(given)
