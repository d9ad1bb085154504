"""What a model gave a plan tool, made into operations or into an answer that says what is expected. Never raises else.

Slips of form are taken (a list as JSON text, one object for a list, numbers for ids, null for nothing); what could
mean something else than it says is answered. Nothing is ever evaluated or guessed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from planctl.agent import prompts
from planctl.agent.mode import Mode
from planctl.operations import Add, Depend, Draft, Operation, Remove, Replace, SetStatus, Undepend
from planctl.plan import STATUSES, TaskStatus
from planctl.sanitize import clean

MALFORMED = '\0malformed'
"""The one key of arguments that were no JSON object; its value says why."""

SPELLINGS: Mapping[str, TaskStatus] = {
    'todo': TaskStatus.pending,
    'to_do': TaskStatus.pending,
    'inprogress': TaskStatus.in_progress,
    'done': TaskStatus.completed,
    'complete': TaskStatus.completed,
    'canceled': TaskStatus.cancelled,
}
"""Spellings of a status that can mean nothing else, after case, spaces and dashes. `failed` is not `completed`."""


_OF_SUBTASKS = ('parent_id', 'depends_on')
# Not the tool, which a wrapper may have given another name.
_ARGUMENTS = 'the arguments'


class BadArguments(Exception):
    """The arguments cannot be used; the message is the answer to the model."""


class LenientValidator:
    """Takes any arguments for valid, so that a slip becomes an answer of ours and costs no retry of the run."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        """Return the object, or what is wrong with it below `MALFORMED`."""
        try:
            return self.validate_python(json.loads(input or '{}'))
        except (ValueError, RecursionError) as error:
            return {MALFORMED: f'JSON {str(error) or type(error).__name__}'}

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        """Return the object, or what is wrong with it below `MALFORMED`."""
        if input is None:
            return {}
        return cast('dict[str, Any]', input) if isinstance(input, dict) else {MALFORMED: _kind(input)}


def operations_of(tool: str, arguments: Mapping[str, Any], mode: Mode) -> tuple[Operation, ...]:
    """Return what a tool that changes the plan is asked to do. Raises `BadArguments`."""
    given = _checked(tool, arguments, mode)
    match tool:
        case 'write_plan':
            items, fields = _list(given.get('items'), 'items'), mode.item_fields
            drafts = tuple([_draft(item, f'items[{at}]', mode, fields) for at, item in enumerate(items)])
            return (Replace(drafts, plain=not mode.subtasks),)
        case 'add_task':
            return (Add(_text(given, 'content'), active_form=_text(given, 'active_form', '')),)
        case 'add_subtask':
            content, active_form = _text(given, 'content'), _text(given, 'active_form', '')
            return (Add(content, active_form=active_form, parent_id=_id(given, 'parent_id')),)
        case 'update_task_status':
            return (_set_status(given, '', mode),)
        case 'update_task_statuses':
            updates = _list(given.get('updates'), 'updates')
            if not updates:
                raise BadArguments(prompts.NO_UPDATES)
            fields = mode.fields('update_task_status')
            return tuple(_update(update, f'updates[{at}]', mode, fields) for at, update in enumerate(updates))
        case 'remove_task':
            return (Remove(_id(given, 'task_id'), cascade=True),)
        case 'set_dependency':
            kind = Undepend if _flag(given, 'remove') else Depend
            return (kind(_id(given, 'task_id'), _id(given, 'depends_on_id')),)
        case _:
            raise AssertionError(tool)


def check_reading(tool: str, arguments: Mapping[str, Any], mode: Mode) -> None:
    """Raise `BadArguments` when a tool that takes no arguments was given some that it does not know."""
    _checked(tool, arguments, mode, also=('hierarchical',))


def _checked(tool: str, arguments: Mapping[str, Any], mode: Mode, also: Sequence[str] = ()) -> Mapping[str, Any]:
    fields = mode.fields(tool)
    if MALFORMED in arguments:
        reason = str(arguments[MALFORMED])
        template = prompts.NOT_JSON if reason.startswith('JSON ') else prompts.NOT_AN_OBJECT
        named = ', '.join(fields) or prompts.NO_FIELDS
        raise BadArguments(template.format(reason=clean(reason.removeprefix('JSON ')), got=reason, fields=named))
    given = {name: value for name, value in arguments.items() if name not in also}
    _refuse_unknown(_ARGUMENTS, given, fields, mode)
    _require(_ARGUMENTS, arguments, mode.schema(tool).get('required', ()), fields)
    return arguments


def _refuse_unknown(where: str, given: Mapping[Any, Any], fields: Sequence[str], mode: Mode) -> None:
    for name, value in given.items():
        if name in fields:
            continue
        if name in _OF_SUBTASKS:
            if value in (None, '', []):
                continue
            if not mode.subtasks:
                raise BadArguments(prompts.ONLY_WITH_SUBTASKS.format(name=name))
        known = ', '.join(fields) or prompts.NO_FIELDS
        raise BadArguments(prompts.UNKNOWN_FIELD.format(where=where, name=_quoted(name), fields=known))


def _require(where: str, given: Mapping[Any, Any], required: Iterable[str], fields: Sequence[str]) -> None:
    for name in required:
        # A list of no steps may be written as null; anything else that is null is missing.
        if given.get(name) is None and not (name == 'items' and name in given):
            raise BadArguments(prompts.MISSING.format(where=where, name=name, fields=', '.join(fields)))


# --- Parts ------------------------------------------------------------------------------------------------------


def _draft(value: Any, where: str, mode: Mode, fields: Sequence[str]) -> Draft:
    if isinstance(value, str) and not value.lstrip().startswith(('{', '[')):
        return Draft(content=value)
    item = _object(value, where, fields)
    _refuse_unknown(where, item, fields, mode)
    _require(where, item, ('content',), fields)
    step_id, status, active_form = item.get('id'), item.get('status'), item.get('active_form')
    parent_id, depends_on = (item.get('parent_id'), item.get('depends_on')) if mode.subtasks else (None, None)
    return Draft(
        _text(item, 'content', where=where),
        None if step_id is None or step_id == '' else _id(item, 'id', where=where),
        None if status is None else _status(status, f'{where}.status', mode),
        None if active_form is None else _text(item, 'active_form', where=where),
        None if parent_id is None else _id(item, 'parent_id', where=where, empty=True),
        None if depends_on is None else _ids(depends_on, f'{where}.depends_on'),
    )


def _update(value: Any, where: str, mode: Mode, fields: Sequence[str]) -> SetStatus:
    item = _object(value, where, fields)
    _refuse_unknown(where, item, fields, mode)
    _require(where, item, ('task_id', 'status'), fields)
    return _set_status(item, where, mode)


def _set_status(given: Mapping[str, Any], where: str, mode: Mode) -> SetStatus:
    note = _text(given, 'note', '', where=where) if mode.blocking else ''
    status = _status(given['status'], _named(where, 'status'), mode)
    return SetStatus(_id(given, 'task_id', where=where), status, note=note or None)


def _status(value: Any, name: str, mode: Mode) -> TaskStatus:
    if isinstance(value, str):
        word = '_'.join(value.strip().lower().replace('-', ' ').replace('_', ' ').split())
        status = STATUSES.get(word) or SPELLINGS.get(word)
        if status is not None and status in mode.statuses:
            return status
    statuses = ', '.join(status.value for status in mode.statuses)
    raise BadArguments(prompts.UNKNOWN_STATUS.format(name=name, got=_quoted(value), statuses=statuses))


def _text(given: Mapping[str, Any], name: str, default: str | None = None, *, where: str = '') -> str:
    value = given.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise BadArguments(prompts.WRONG_TYPE.format(name=_named(where, name), expected='text', got=_kind(value)))
    # As it will be stored: half characters would not survive the way to an engine in JSON.
    return clean(value)


def _id(given: Mapping[str, Any], name: str, *, where: str = '', empty: bool = False) -> str:
    value = given.get(name)
    step_id = _id_of(value)
    if step_id is None or not (step_id or empty):
        expected = 'the id of a step'
        raise BadArguments(prompts.WRONG_TYPE.format(name=_named(where, name), expected=expected, got=_kind(value)))
    return step_id


def _id_of(value: Any) -> str | None:
    """Return an id that was given as text or as a number, or `None`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if -(10**63) < value < 10**63 else None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return None


def _ids(value: Any, name: str) -> tuple[str, ...]:
    if isinstance(value, (int, float)) or (isinstance(value, str) and not value.lstrip().startswith('[')):
        value = [value] if value != '' else []
    ids: list[str] = []
    for entry in _list(value, name):
        step_id = _id_of(entry)
        if not step_id:
            raise BadArguments(prompts.WRONG_TYPE.format(name=name, expected='a list of step ids', got=_kind(entry)))
        ids.append(step_id)
    return tuple(ids)


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in ('true', 'false', ''):
        return value.strip().lower() == 'true'
    raise BadArguments(prompts.WRONG_TYPE.format(name=name, expected='true or false', got=_kind(value)))


def _list(value: Any, name: str) -> list[Any]:
    """Return a list that was given as one, as JSON text, as its one entry, or as null."""
    if isinstance(value, str):
        value = _from_json(value, name, 'a list')
    if value is None:
        return []
    if isinstance(value, dict):
        return [cast(object, value)]
    if isinstance(value, (list, tuple)):
        return list(cast('Sequence[Any]', value))
    raise BadArguments(prompts.WRONG_TYPE.format(name=name, expected='a list', got=_kind(value)))


def _object(value: Any, where: str, fields: Sequence[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast('dict[str, Any]', value)
    expected = f'an object with: {", ".join(fields)}'
    if isinstance(value, str):
        value = _from_json(value, where, expected)
    if not isinstance(value, dict):
        raise BadArguments(prompts.WRONG_TYPE.format(name=where, expected=expected, got=_kind(value)))
    return cast('dict[str, Any]', value)


def _from_json(text: str, name: str, expected: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, str):
        raise BadArguments(prompts.WRONG_TYPE.format(name=name, expected=expected, got='text'))
    return value


def _named(where: str, name: str) -> str:
    return f'{where}.{name}' if '[' in where else name


def _quoted(value: object) -> str:
    """Return a value as an answer may quote it: short, on one line."""
    text = repr(value)
    return clean(text if len(text) <= 60 else f'{text[:59]}…')


def _kind(value: object) -> str:
    match value:
        case None:
            return 'nothing'
        case bool():
            return 'true or false'
        case int() | float():
            return 'a number'
        case str():
            return 'text' if value.strip() else 'an empty text'
        case list() | tuple():
            return 'a list'
        case dict():
            return 'an object'
        case _:
            return type(value).__name__
