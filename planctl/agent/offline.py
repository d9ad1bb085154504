"""`--model offline`: turns a checklist into a plan and runs what its steps quote, by fixed rules.

It needs no key and no network and gives the same answers to the same requests. It understands nothing: a step is done
when the commands that it quotes end with status 0. All that it knows it reads, as any model does, in its messages.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.usage import RequestUsage

from planctl.agent.checklist import Checklist, commands, parse
from planctl.agent.handover import ADD_ONLY, ASSIGNED
from planctl.agent.models import OFFLINE
from planctl.agent.offline_view import Line, Log, Tools, plan_view, verdict
from planctl.reminder import CUT

_ASSIGNED = re.compile('(?m)^{}$'.format(re.escape(ASSIGNED).replace(re.escape('{id}'), r'([^\s<>]+)')))

WHAT_IT_IS = 'This is the offline model of planctl: it follows fixed rules and understands nothing.'

NOTHING_RUN = 'no command is quoted, so nothing was run'
NO_SHELL = 'a command is quoted, but this agent has no shell'


def offline_model() -> FunctionModel:
    """Return the model. It plans where a plan is missing or steps cannot be moved, else it works."""
    return FunctionModel(_respond, stream_function=_stream, model_name=OFFLINE)


async def _respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    # Nothing was measured: what a step of rules costs is no number of tokens.
    return ModelResponse(parts=_parts(messages, info), usage=RequestUsage(unmeasured_requests=1))


async def _stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    for at, part in enumerate(_parts(messages, info)):
        if isinstance(part, ToolCallPart):
            yield {at: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
        else:
            yield part.content


def _parts(messages: Sequence[ModelMessage], info: AgentInfo) -> list[TextPart | ToolCallPart]:
    tools = Tools.of(info.function_tools)
    view = plan_view(messages)
    log = Log.of(messages, tools)
    planning = not tools.can('update_task_status')
    if planning or log.plans or (not view and not log.works):
        given = _given(messages)
        calls, text = _plan(given[0] if given else '', tools, log, begins=not view and ADD_ONLY not in given)
        if calls or planning or not view:
            return calls or [TextPart(text)]
    return _work(view, tools, log, _assigned(messages))


def _assigned(messages: Sequence[ModelMessage]) -> str | None:
    """Return the id of the step that the request is about, when it is about one."""
    match = _ASSIGNED.search('\n'.join(_given(messages)[:1]))
    return match[1] if match is not None else None


def _given(messages: Sequence[ModelMessage]) -> list[str]:
    """Return the texts of the first message: the objective, and then what the runner says."""
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    content = part.content
                    return [content] if isinstance(content, str) else [c for c in content if isinstance(c, str)]
    return []


# --- Planning -------------------------------------------------------------------------------------------------------


def _plan(objective: str, tools: Tools, log: Log, *, begins: bool) -> tuple[list[TextPart | ToolCallPart], str]:
    """Return the next calls that write the plan, and what there is to say when none is left.

    One that `begins` may be written as a whole.
    """
    checklist = parse(objective)
    text = _brief(checklist)
    if log.failed_plan is not None:
        return [], f'{WHAT_IT_IS} It could not write the plan: {log.failed_plan}'
    if log.written:
        return [], text
    if not tools.can('write_plan') and not tools.can('add_task'):
        return [], f'{WHAT_IT_IS} It has no tool that writes a plan.'
    if not log.added and tools.can('write_plan') and (begins or not tools.can('add_task')):
        return [tools.call('write_plan', {'items': _items(checklist, tools)}, 'write')], text
    return _additions(checklist, tools, log), text


def _items(checklist: Checklist, tools: Tools) -> list[dict[str, Any]]:
    if not tools.takes('write_plan', 'depends_on'):
        return [{'content': entry.text} for entry in checklist.entries]
    items: list[dict[str, Any]] = []
    for at, entry in enumerate(checklist.entries):
        item: dict[str, Any] = {'id': str(at + 1), 'content': entry.text}
        if entry.parent is not None:
            item['parent_id'] = str(entry.parent + 1)
        if entry.depends_on:
            item['depends_on'] = [str(other + 1) for other in entry.depends_on]
        items.append(item)
    return items


def _additions(checklist: Checklist, tools: Tools, log: Log) -> list[TextPart | ToolCallPart]:
    """Return the calls for every entry whose parent is there by now; when all are, those for the dependencies."""
    nested = tools.can('add_subtask')
    calls: list[TextPart | ToolCallPart] = []
    for at, entry in enumerate(checklist.entries):
        if at in log.added:
            continue
        if entry.parent is None or not nested:
            calls.append(tools.call('add_task', {'content': entry.text}, f'add-{at}'))
        elif (parent := log.added.get(entry.parent)) is not None:
            calls.append(tools.call('add_subtask', {'parent_id': parent, 'content': entry.text}, f'add-{at}'))
    if calls or log.linked or not tools.can('set_dependency'):
        return calls
    return [
        tools.call(
            'set_dependency', {'task_id': log.added[at], 'depends_on_id': log.added[other]}, f'link-{at}-{other}'
        )
        for at, entry in enumerate(checklist.entries)
        for other in entry.depends_on
    ]


def _brief(checklist: Checklist) -> str:
    count = len(checklist.entries)
    if not count:
        return f'{WHAT_IT_IS} It found no step in the objective.'
    quoting = sum(bool(commands(entry.text)) for entry in checklist.entries)
    text = (
        f'{WHAT_IT_IS} It made {count} {"step" if count == 1 else "steps"} of the objective, {quoting} of them with a '
        'command. A step is done when the commands that it quotes end with status 0; where none is quoted, nothing is '
        'run.'
    )
    return f'{text}\n\n{checklist.around}' if checklist.around else text


# --- Working --------------------------------------------------------------------------------------------------------


def _work(view: Sequence[Line], tools: Tools, log: Log, assigned: str | None) -> list[TextPart | ToolCallPart]:
    line = next((line for line in view if line.id == log.current), None)
    if line is None:
        return _next(view, tools, log, assigned)
    text = line.text
    if text.endswith(CUT) and tools.can('read_plan'):
        if log.read is None:
            return [tools.call('read_plan', {}, f'read-{line.id}')]
        text = log.read.get(line.id, text)
    quoted = commands(text)
    for output in log.outputs:
        if (failure := verdict(output)) is not None:
            which = f'`{output.command}` ' if len(quoted) > 1 else ''
            return [_set(tools, line.id, 'blocked', f'{which}{failure}')]
    if len(log.outputs) < len(quoted):
        if tools.shell is None:
            return [_set(tools, line.id, 'blocked', NO_SHELL)]
        command = quoted[len(log.outputs)]
        return [ToolCallPart(tools.shell, {'command': command}, tool_call_id=f'run-{line.id}-{len(log.outputs)}')]
    done = NOTHING_RUN if not quoted else 'ended with status 0'
    return [_set(tools, line.id, 'completed', done)]


def _next(view: Sequence[Line], tools: Tools, log: Log, assigned: str | None) -> list[TextPart | ToolCallPart]:
    """Start the first step that can be started, or the assigned one, which somebody else has set in progress.

    One without a command is completed in the same breath.
    """
    for line in view:
        if assigned is not None and line.id != assigned:
            continue
        is_startable = line.status == 'pending' or line.id == assigned
        if not is_startable or line.waits or line.has_open_children or line.id in log.refused:
            continue
        start = _set(tools, line.id, 'in_progress')
        if line.text.endswith(CUT) or commands(line.text):
            return [start]
        return [start, _set(tools, line.id, 'completed', NOTHING_RUN)]
    return [TextPart(f'{WHAT_IT_IS} {_report(view, log)}')]


def _report(view: Sequence[Line], log: Log) -> str:
    parts = [f'It completed {len(log.completed)} {"step" if len(log.completed) == 1 else "steps"}']
    if log.blocked:
        parts.append(f'blocked step{"s" if len(log.blocked) > 1 else ""} {", ".join(log.blocked)}')
    if view:
        parts.append(f'left {len(view)} open')
    return f'{", ".join(parts)}.'


def _set(tools: Tools, step_id: str, status: str, note: str | None = None) -> ToolCallPart:
    arguments = {'task_id': step_id, 'status': status}
    if note is not None and tools.takes('update_task_status', 'note'):
        arguments['note'] = note
    return tools.call('update_task_status', arguments, f'{status}-{step_id}')
