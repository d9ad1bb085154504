"""The offline model: how it reads a checklist, and how it works off a plan."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from runner_helpers import statuses, stored

from planctl import Planning
from planctl.agent.checklist import Entry, commands, parse
from planctl.agent.job import Job, Wanted
from planctl.agent.offline import NO_SHELL, NOTHING_RUN, WHAT_IT_IS, offline_model
from planctl.agent.offline_view import Output, lines_of, verdict
from planctl.agent.outcome import Result, StopReason
from planctl.agent.runner import run
from planctl.agent.spec import LoadedAgent
from planctl.operations import Add
from planctl.stores.base import BaseStore
from planctl.stores.memory import InMemoryPlanStore

# --- Checklists -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('text', 'entries'),
    [
        ('- a\n- b', [Entry('a'), Entry('b')]),
        ('* a\n+ b\n1. c\n2) d', [Entry('a'), Entry('b'), Entry('c'), Entry('d')]),
        ('- a\n  - b\n    - c\n  - d\n- e', [Entry('a'), Entry('b', 0), Entry('c', 1), Entry('d', 0), Entry('e')]),
        ('- a\n\t- b', [Entry('a'), Entry('b', 0)]),
        ('- a\n  goes on\n- b', [Entry('a goes on'), Entry('b')]),
        ('- [ ] a\n- [x] b\n  - under b\n- [-] c\n- d', [Entry('a'), Entry('d')]),
        ('1. a\n2. b (depends on: 1)', [Entry('a'), Entry('b', None, (0,))]),
        (
            '- a\n  - a1\n- b\n- c (depends on: 1, 2)',
            [Entry('a'), Entry('a1', 0), Entry('b'), Entry('c', None, (0, 2))],
        ),
        ('5. a\n6. b (after 5)', [Entry('a'), Entry('b', None, (0,))]),
        ('- a (depends on: 9)', [Entry('a (depends on: 9)')]),
        ('- a (depends on: 1)', [Entry('a (depends on: 1)')]),
        ('- [x] a\n- b (depends on: 1)', [Entry('b')]),
        ('```\n- no bullet\n```\n- a', [Entry('a')]),
        (
            'Do this. Then that! `run. it` now?\n\nLast',
            [Entry(t) for t in ('Do this.', 'Then that!', '`run. it` now?', 'Last')],
        ),
        ('# Title\n\nOne line\nin two lines.', [Entry('One line in two lines.')]),
        ('what is 2+2', [Entry('what is 2+2')]),
        ('- [x] all is done', []),
        ('', []),
        ('-dash --option is no bullet', [Entry('-dash --option is no bullet')]),
    ],
)
def test_a_checklist_is_read(text: str, entries: list[Entry]) -> None:
    assert list(parse(text).entries) == entries


def test_what_stands_around_the_bullets_is_kept() -> None:
    assert parse('# T\n\nMind X.\n\n- a\n\nDone when Y.').around == '# T\n\nMind X.\n\nDone when Y.'


def test_a_long_checklist_is_read_in_no_time() -> None:
    assert len(parse('\n'.join(f'{"  " * (at % 50)}- step {at}' for at in range(20_000))).entries) == 20_000


def test_quoted_commands_are_found_in_order() -> None:
    assert commands('first `a b`, then ``c `d` e`` and ` `') == ['a b', 'c `d` e']


def test_the_plan_is_read_from_its_lines_as_they_are_shown() -> None:
    lines = lines_of(
        'The plan:\n[ ] 1 parent\n  [~] 2 child (changed by someone else)\n  [x] 3 done\n'
        '[!] 4 waits (waits for 1)\n  [ ] 5 under it\n[ ] 6 held (held by ann)\n1 of 6 resolved'
    )
    assert [(line.id, line.status, line.waits, line.has_open_children) for line in lines] == [
        ('1', 'pending', False, True),
        ('2', 'in_progress', False, False),
        ('4', 'blocked', True, True),
        ('5', 'pending', True, False),
        ('6', 'pending', True, False),
    ]
    assert lines[1].text == 'child'


@pytest.mark.parametrize(
    ('text', 'ran', 'failure'),
    [
        ('[stdout]\nhi\n', True, None),
        ('(no output)', True, None),
        ('[stdout]\nit printed [exit code: 3] itself\n', True, None),
        ('[stderr]\nno such file\n\n[exit code: 2]', True, 'ended with status 2: no such file'),
        ('(no output)\n[exit code: 3]', True, 'ended with status 3'),
        (
            '[stdout]\na\n[stderr]\nb\nc\n\n[exit code: 1]\n[Command failed with max_file_bytes=9; x]',
            True,
            'ended with status 1: c',
        ),
        ('[stdout]\nslow\n[Command timed out after 1.0s]', True, 'timed out after 1.0s'),
        ("Command 'rm' is denied.", False, "failed: Command 'rm' is denied."),
    ],
)
def test_an_answer_of_the_shell_is_judged(text: str, ran: bool, failure: str | None) -> None:
    assert verdict(Output('x', text, ran)) == failure


# --- Runs -----------------------------------------------------------------------------------------------------------


def run_command(command: str) -> str:
    """Run a command as the shell of the workspace extra does."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    said = ''.join(f'[{name}]\n{text}' for name, text in (('stdout', done.stdout), ('stderr', done.stderr)) if text)
    return (said or '(no output)') + (f'\n[exit code: {done.returncode}]' if done.returncode else '')


async def offline(
    store: BaseStore, *, shell: bool = True, planning: Planning[Any] | None = None, **wanted: Any
) -> Result:
    tools = [run_command] if shell else []
    model = offline_model()
    agent = Agent(model, tools=tools, capabilities=[planning] if planning else [])
    job = Job(store, LoadedAgent(agent, 'test', None), Wanted(**wanted), lambda event: None)
    return await run(job, planner=model, executor=model)


async def test_it_plans_and_carries_out_and_says_what_it_is(tmp_path: Path) -> None:
    text = f'Build it.\n\n- First `touch {tmp_path}/a` and `touch {tmp_path}/b`\n  - Inner\n- Second (depends on: 1)'
    result = await offline(InMemoryPlanStore(), objective=text, plan_first=True)
    assert result.stop_reason is StopReason.finished
    assert [(step.content, step.parent_id, step.depends_on) for step in result.plan.steps] == [
        (f'First `touch {tmp_path}/a` and `touch {tmp_path}/b`', None, ()),
        ('Inner', '1', ()),
        ('Second', None, ('1',)),
    ]
    assert [step.note for step in result.plan.steps] == ['ended with status 0', NOTHING_RUN, NOTHING_RUN]
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a', 'b']
    assert result.plan.brief.startswith(WHAT_IT_IS)
    assert 'Build it.' in result.plan.brief
    assert str(result.output).startswith(WHAT_IT_IS)


async def test_a_failing_command_blocks_its_step_with_the_reason_and_what_waits_stays_open() -> None:
    text = '- ok `true`\n- bad `echo oops >&2; exit 3` (depends on: 1)\n- later (depends on: 2)\n- free `true`'
    result = await offline(InMemoryPlanStore(), objective=text, plan_first=True)
    assert result.stop_reason is StopReason.waiting
    assert statuses(result.plan) == {'1': 'completed', '2': 'blocked', '3': 'blocked', '4': 'completed'}
    assert result.plan.step('2').note == 'ended with status 3: oops'


async def test_of_several_commands_the_first_that_fails_decides(tmp_path: Path) -> None:
    text = f'- do `true`, `false` and `touch {tmp_path}/never`'
    result = await offline(InMemoryPlanStore(), objective=text, plan_first=True)
    assert result.plan.step('1').note == '`false` ended with status 1'
    assert list(tmp_path.iterdir()) == []


async def test_without_a_shell_a_command_is_blocked_and_the_rest_is_done() -> None:
    result = await offline(InMemoryPlanStore(), shell=False, objective='- a `true`\n- b', plan_first=True)
    assert result.plan.step('1').note == NO_SHELL
    assert statuses(result.plan) == {'1': 'blocked', '2': 'completed'}


async def test_a_command_longer_than_any_line_that_is_shown_is_run_whole(tmp_path: Path) -> None:
    path = tmp_path / 'out'
    result = await offline(InMemoryPlanStore(), objective=f'- long `echo {"x" * 3_000} > {path}`', plan_first=True)
    assert result.stop_reason is StopReason.finished
    assert path.stat().st_size == 3_001


async def test_it_works_off_a_large_plan() -> None:
    store = await stored(*(Add(f'step {at}') for at in range(130)))
    result = await offline(store, shell=False)
    assert (result.stop_reason, result.plan.progress.completed) == (StopReason.finished, 130)


async def test_it_starts_anew_in_the_middle_without_doing_anything_twice(tmp_path: Path) -> None:
    store = await stored(*(Add(f'step {at} `echo {at} >> {tmp_path}/log`') for at in range(9)))
    result = await offline(store, steps_per_context=2)
    assert (result.stop_reason, result.phases[0].contexts) == (StopReason.finished, 5)
    assert (tmp_path / 'log').read_text().split() == [str(at) for at in range(9)]


async def test_a_step_under_one_that_waits_comes_after_what_it_waits_for(tmp_path: Path) -> None:
    log = tmp_path / 'log'
    store = await stored(
        Add('parent', id='p', depends_on=('q',)),
        Add(f'child `echo child >> {log}`', id='c', parent_id='p'),
        Add(f'before `echo before >> {log}`', id='q'),
    )
    assert (await offline(store)).stop_reason is StopReason.finished
    assert log.read_text().split() == ['before', 'child']


async def test_it_adds_a_checklist_to_a_plan() -> None:
    store = await stored(Add('old'))
    text = '- a\n  - a1\n- b (depends on: 1)'
    result = await offline(store, objective=text, append=True, plan_only=True)
    assert [(s.id, s.content, s.parent_id, s.depends_on) for s in result.plan.steps] == [
        ('1', 'old', None, ()),
        ('2', 'a', None, ()),
        ('3', 'b', None, ('2',)),
        ('4', 'a1', '2', ()),
    ]


async def test_it_plans_again_only_what_the_objective_says() -> None:
    store = await stored(Add('old'))
    result = await offline(store, objective='- new', replan=True, plan_only=True)
    assert [step.content for step in result.plan.steps] == ['new']


async def test_it_plans_where_there_are_no_subtasks() -> None:
    result = await offline(
        InMemoryPlanStore(), planning=Planning(), objective='- a\n  - a1\n- b (depends on: 1)', plan_first=True
    )
    assert result.stop_reason is StopReason.finished
    assert [step.content for step in result.plan.steps] == ['a', 'a1', 'b']


async def test_an_objective_without_planning_is_planned_by_the_executor_and_done() -> None:
    result = await offline(InMemoryPlanStore(), objective='Say hello. Say goodbye.')
    assert result.stop_reason is StopReason.finished
    assert [step.content for step in result.plan.steps] == ['Say hello.', 'Say goodbye.']


async def test_a_checklist_that_is_ticked_off_is_nothing_to_do() -> None:
    result = await offline(InMemoryPlanStore(), objective='- [x] done', plan_first=True)
    assert result.stop_reason is StopReason.nothing_to_do


async def test_it_answers_a_stream_as_it_answers_a_request() -> None:
    from planctl import PlanCompletedEvent

    model = offline_model()
    agent = Agent(model, tools=[run_command])
    heard: list[str] = []

    @agent.on_event(PlanCompletedEvent)
    async def done(ctx: Any, event: PlanCompletedEvent) -> None:
        heard.append(event.item.content)

    job = Job(
        InMemoryPlanStore(),
        LoadedAgent(agent, 'test', None),
        Wanted(objective='- a `true`\n- b', plan_first=True),
        lambda event: None,
    )
    assert (await run(job, planner=model, executor=model)).stop_reason is StopReason.finished
    assert heard == ['a `true`', 'b']


async def test_it_says_the_same_to_the_same() -> None:
    results = [await offline(InMemoryPlanStore(), objective='- a\n- b `true`', plan_first=True) for _ in range(2)]
    assert results[0].plan.steps == results[1].plan.steps
    assert results[0].output == results[1].output
