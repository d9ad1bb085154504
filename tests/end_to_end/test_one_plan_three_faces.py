"""The same operation from the command line, from a model's tool call and from Python: one plan, one error code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from planctl import Change, PlanctlError, Planning, SqlitePlanStore, StoreWrapper, TaskStatus, apply
from planctl.cli import main
from planctl.core import drive
from planctl.operations import Add, Depend, Operation, Remove, SetStatus, Undepend
from planctl.plan import Plan
from planctl.stores.sqlite_file import SqliteFile

ACTOR = 'tester'
NOW = 1_800_000_000.0


@dataclass(frozen=True)
class Case:
    name: str
    words: Sequence[str]
    tool: tuple[str, dict[str, Any]]
    operations: Sequence[Operation]
    code: str | None = None


def status(step_id: str, value: str, note: str | None = None) -> SetStatus:
    return SetStatus(step_id, TaskStatus[value], note=note)


def tool_status(step_id: str, value: str, **more: str) -> tuple[str, dict[str, Any]]:
    return 'update_task_status', {'task_id': step_id, 'status': value, **more}


# The plan that each case starts from: 2 waits for 1, 4 and 5 are under 3, 6 is completed, 7 is cancelled.
START: Sequence[Operation] = (
    Add('Collect'),
    Add('Sort', depends_on=('1',)),
    Add('Print'),
    Add('Left page', parent_id='3'),
    Add('Right page', parent_id='3'),
    Add('Was done', status=TaskStatus.completed),
    Add('Was dropped', status=TaskStatus.cancelled),
)

CASES = [
    Case('add', ['add', 'New  one'], ('add_task', {'content': 'New  one'}), [Add('New  one')]),
    Case('add blank', ['add', '  '], ('add_task', {'content': '  '}), [Add('  ')], 'blank_text'),
    Case(
        'add controls',
        ['add', 'a\x1b[2J\nb'],
        ('add_task', {'content': 'a\x1b[2J\nb'}),
        [Add('a\x1b[2J\nb')],
    ),
    Case(
        'add a subtask',
        ['add', 'Cover', '--under', '3', '--active-form', 'Covering'],
        ('add_subtask', {'parent_id': '3', 'content': 'Cover', 'active_form': 'Covering'}),
        [Add('Cover', parent_id='3', active_form='Covering')],
    ),
    Case(
        'add under a resolved step',
        ['add', 'Late', '--under', '6'],
        ('add_subtask', {'parent_id': '6', 'content': 'Late'}),
        [Add('Late', parent_id='6')],
        'resolved_parent',
    ),
    Case(
        'add under nothing',
        ['add', 'Late', '--under', '99'],
        ('add_subtask', {'parent_id': '99', 'content': 'Late'}),
        [Add('Late', parent_id='99')],
        'step_not_found',
    ),
    Case('start', ['start', '1'], tool_status('1', 'in_progress'), [status('1', 'in_progress')]),
    Case('done', ['done', '1'], tool_status('1', 'completed'), [status('1', 'completed')]),
    Case('cancel', ['cancel', '1'], tool_status('1', 'cancelled'), [status('1', 'cancelled')]),
    Case('reopen', ['reopen', '6'], tool_status('6', 'pending'), [status('6', 'pending')]),
    Case('repeat', ['done', '6'], tool_status('6', 'completed'), [status('6', 'completed')]),
    Case(
        'block',
        ['block', '1', '-m', 'no paper'],
        tool_status('1', 'blocked', note='no paper'),
        [status('1', 'blocked', 'no paper')],
    ),
    Case(
        'start too early',
        ['start', '2'],
        tool_status('2', 'in_progress'),
        [status('2', 'in_progress')],
        'open_prerequisite',
    ),
    Case(
        'done too early', ['done', '2'], tool_status('2', 'completed'), [status('2', 'completed')], 'open_prerequisite'
    ),
    Case(
        'done over children', ['done', '3'], tool_status('3', 'completed'), [status('3', 'completed')], 'open_children'
    ),
    Case(
        'cancel over children',
        ['cancel', '3'],
        tool_status('3', 'cancelled'),
        [status('3', 'cancelled')],
        'open_children',
    ),
    Case(
        'done of nothing', ['done', '99'], tool_status('99', 'completed'), [status('99', 'completed')], 'step_not_found'
    ),
    Case(
        'several done, the parent first',
        ['done', '3', '5', '4'],
        ('update_task_statuses', {'updates': [{'task_id': i, 'status': 'completed'} for i in '354']}),
        [status(i, 'completed') for i in '354'],
    ),
    Case(
        'several, one refused',
        ['done', '1', '3'],
        ('update_task_statuses', {'updates': [{'task_id': i, 'status': 'completed'} for i in '13']}),
        [status(i, 'completed') for i in '13'],
        'open_children',
    ),
    Case(
        'depend',
        ['edit', '3', '--depends-on', '2'],
        ('set_dependency', {'task_id': '3', 'depends_on_id': '2'}),
        [Depend('3', '2')],
    ),
    Case(
        'depend on itself',
        ['edit', '1', '--depends-on', '1'],
        ('set_dependency', {'task_id': '1', 'depends_on_id': '1'}),
        [Depend('1', '1')],
        'cycle',
    ),
    Case(
        'depend in a loop',
        ['edit', '1', '--depends-on', '2'],
        ('set_dependency', {'task_id': '1', 'depends_on_id': '2'}),
        [Depend('1', '2')],
        'cycle',
    ),
    Case(
        'depend on the parent',
        ['edit', '4', '--depends-on', '3'],
        ('set_dependency', {'task_id': '4', 'depends_on_id': '3'}),
        [Depend('4', '3')],
        'cycle',
    ),
    Case(
        'depend on nothing',
        ['edit', '1', '--depends-on', '99'],
        ('set_dependency', {'task_id': '1', 'depends_on_id': '99'}),
        [Depend('1', '99')],
        'step_not_found',
    ),
    Case(
        'no longer depend',
        ['edit', '2', '--drop-dependency', '1'],
        ('set_dependency', {'task_id': '2', 'depends_on_id': '1', 'remove': True}),
        [Undepend('2', '1')],
    ),
    Case('remove', ['rm', '1', '--cascade'], ('remove_task', {'task_id': '1'}), [Remove('1', cascade=True)]),
    Case('remove a subtree', ['rm', '3', '--cascade'], ('remove_task', {'task_id': '3'}), [Remove('3', cascade=True)]),
    Case(
        'remove nothing',
        ['rm', '99', '--cascade'],
        ('remove_task', {'task_id': '99'}),
        [Remove('99', cascade=True)],
        'step_not_found',
    ),
]


class Listening(StoreWrapper):
    """Notes the code of what is refused."""

    code: str | None = None

    async def update(self, *args: Any, **named: Any) -> Change:
        try:
            return await super().update(*args, **named)
        except PlanctlError as error:
            self.code = error.code
            raise


def database(folder: Path, name: str) -> Path:
    path = folder / name
    drive(apply(SqliteFile(path), *START, now=NOW))
    return path


def stored(path: Path) -> Plan:
    plan = drive(SqliteFile(path).read())
    return replace(plan, steps=tuple(replace(s, started_at=s.started_at and NOW) for s in plan.steps))


async def by_tool(path: Path, case: Case) -> str | None:
    store = Listening(SqlitePlanStore(path))

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = len(messages) > 1
        return ModelResponse(parts=[TextPart('done') if asked else ToolCallPart(*case.tool)])

    planning = Planning(store=store, enable_subtasks=True, actor=ACTOR)
    await Agent(FunctionModel(answer), capabilities=[planning]).run('go')
    return store.code


def by_command(path: Path, case: Case, capsys: pytest.CaptureFixture[str]) -> str | None:
    exit_status = main(['--db', str(path), '--actor', ACTOR, '--json', *case.words])
    captured = capsys.readouterr()
    if exit_status == 0:
        return None
    return json.loads(captured.err)['error']['code']


async def by_python(path: Path, case: Case) -> str | None:
    try:
        await apply(SqlitePlanStore(path), *case.operations, actor=ACTOR)
    except PlanctlError as error:
        return error.code
    return None


@pytest.mark.parametrize('case', CASES, ids=lambda case: case.name)
async def test_every_face_does_the_same(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [database(tmp_path, f'{face}.db') for face in ('tool', 'command', 'python')]
    start = stored(paths[0])
    codes = [
        await by_tool(paths[0], case),
        by_command(paths[1], case, capsys),
        await by_python(paths[2], case),
    ]
    assert codes == [case.code] * 3
    plans = [stored(path) for path in paths]
    assert plans[0] == plans[1] == plans[2]
    assert (plans[0] == start) is (case.code is not None or case.name == 'repeat')


async def test_a_dependency_that_is_there_is_refused_to_a_model_and_a_success_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = Case(
        'depend twice',
        ['edit', '2', '--depends-on', '1'],
        ('set_dependency', {'task_id': '2', 'depends_on_id': '1'}),
        [Depend('2', '1')],
    )
    path = database(tmp_path, 'plan.db')
    assert await by_tool(path, again) == await by_python(path, again) == 'duplicate_dependency'
    assert main(['--db', str(path), '--json', *again.words]) == 0
    assert json.loads(capsys.readouterr().out)['changed'] == []
