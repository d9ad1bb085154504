"""Planner and executor as two agents: which file, which model and which limits each of them gets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from process_helpers import plan_in
from runner_helpers import Scripted, moving, running, three_steps, write, writing

from planctl.agent.job import Job, Wanted
from planctl.agent.limits import Limits
from planctl.agent.outcome import StopReason
from planctl.agent.runner import run as run_job
from planctl.agent.spec import LoadedAgent
from planctl.cli.app import run
from planctl.errors import InputError
from planctl.stores.memory import InMemoryPlanStore

TWO = """
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def plans(messages, info):
    if len(messages) > 1:
        return ModelResponse(parts=[TextPart('The brief of ' + (info.instructions or '')[:12])])
    return ModelResponse(parts=[ToolCallPart('write_plan', {'items': [{'content': 'a'}]})])


def works(messages, info):
    if len(messages) > 1:
        return ModelResponse(parts=[TextPart('The work of ' + (info.instructions or '')[:12])])
    return ModelResponse(parts=[ToolCallPart('update_task_status', {'task_id': '1', 'status': 'completed'})])


planner = Agent(FunctionModel(plans, model_name='planning-model'), instructions='THE PLANNER.')
worker = Agent(FunctionModel(works, model_name='working-model'), instructions='THE WORKER..')
bare = Agent(instructions='NO MODEL....')
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith('PLANCTL_'):
            monkeypatch.delenv(name)
    write(tmp_path, 'two.py', TWO)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    sys.modules.pop('two', None)


def models(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    """Run and return which model each phase had."""
    status = run(['run', '1. a', '--replan', '--json', *words])
    out, err = capsys.readouterr()
    assert status == 0, err
    return {phase['name']: phase['model'] for phase in json.loads(out)['phases']}


P, W, B = 'two:planner', 'two:worker', 'two:bare'
CASTS: list[tuple[tuple[str, ...], tuple[str, str]]] = [
    (('--planner', P, '--executor', W), ('planning-model', 'working-model')),
    (('--planner', P, '--agent', W), ('planning-model', 'working-model')),
    (('--agent', P, '--executor', W), ('planning-model', 'working-model')),
    (('--planner', P, '--agent', B, '--model', 'offline'), ('planning-model', 'offline')),
    (('--planner', B, '--agent', W, '--planner-model', 'offline'), ('offline', 'working-model')),
    (('--planner', P, '--agent', W, '--planner-model', 'offline'), ('offline', 'working-model')),
    (('--planner', B, '--model', 'offline'), ('offline', 'offline')),
    (('--agent', W, '--planner-model', 'offline'), ('offline', 'working-model')),
    (('--planner', P, '--executor', 'doing.yaml'), ('planning-model', 'offline')),
    (('--planner', P), ('planning-model', 'offline')),
]


@pytest.mark.parametrize(('words', 'cast'), CASTS, ids=lambda value: ' '.join(value))
def test_what_is_said_of_one_role_beats_what_is_said_of_both(
    words: tuple[str, ...], cast: tuple[str, str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here, 'agent.yaml', 'model: offline')
    write(here, 'doing.yaml', 'model: offline\nname: doing')
    assert models(capsys, *words) == dict(zip(('plan', 'execute'), cast, strict=True))


def test_each_has_instructions_of_its_own_and_the_brief_crosses(here: Path, capsys: Any) -> None:
    assert run(['run', 'X', '--plan-first', '--planner', P, '--executor', W]) == 0
    out, err = capsys.readouterr()
    assert out == 'The work of THE WORKER..\n'
    assert plan_in(here).brief == 'The brief of THE PLANNER.'
    assert err.startswith('planctl: two:planner · two:worker · plan.db (new) · session default\n')


def test_planning_alone_needs_no_executor_and_carrying_out_no_planner(here: Path, capsys: Any) -> None:
    assert run(['run', 'X', '--plan-only', '--planner', P]) == 0
    assert run(['run', '--executor', W, '--planner', 'no/such.yaml']) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (('--planner', 'two:nobody', '--agent', W), "--planner two:nobody: the module has no 'nobody'"),
        (('--executor', 'two:nobody'), "--executor two:nobody: the module has no 'nobody'"),
        (('--planner', 'no.yaml', '--agent', W), 'no.yaml: there is no such agent file'),
        (('--planner', B, '--executor', W), 'two:bare: no model'),
    ],
)
def test_what_is_wrong_names_the_option(words: tuple[str, ...], message: str, here: Path, capsys: Any) -> None:
    assert run(['run', 'X', '--plan-first', *words]) == 7
    assert capsys.readouterr().err.startswith(f'planctl: {message}')
    assert not (here / 'plan.db').exists()


# --- Limits ---------------------------------------------------------------------------------------------------------


async def test_each_phase_counts_its_own_limits() -> None:
    planner = Scripted([('read_plan', {})], writing('a'), 'brief')
    executor = Scripted([('read_plan', {})])
    events: list[Any] = []
    from pydantic_ai import Agent

    wanted = Wanted(objective='X', plan_first=True, planner=Limits(max_requests=3), executor=Limits(max_requests=2))
    agents = [LoadedAgent(Agent(script.model), 'test', None) for script in (executor, planner)]
    job = Job(InMemoryPlanStore(), agents[0], wanted, events.append, agents[1])
    result = await run_job(job, planner=planner.model, executor=executor.model)
    assert (result.stop_reason, result.limit) == (StopReason.limit, 'max_requests')
    assert [phase.requests for phase in result.phases] == [3, 2]
    assert result.message == (
        'the limit of 2 requests was reached (--max-requests); 1 step is open, `planctl run` goes on'
    )


async def test_a_limit_of_the_planner_names_its_option_and_changes_nothing() -> None:
    planner = Scripted(writing('a'), [('read_plan', {})])
    for limits, words in (
        (Limits(max_requests=2), 'the limit of 2 requests was reached (--planner-max-requests) while planning'),
        (Limits(max_tokens=50), 'the limit of 50 tokens was reached (--planner-max-tokens) while planning'),
        (
            Limits(max_requests=2, of_both=frozenset({'max_requests'})),
            'the limit of 2 requests was reached (--max-requests) while planning',
        ),
    ):
        result = await running(InMemoryPlanStore(), planner=planner, objective='X', plan_only=True, limits=limits)
        assert (result.stop_reason, result.plan.steps) == (StopReason.limit, ())
        assert result.message == f'{words}; the plan of the session is as it was'


async def test_time_ends_what_is_under_way_and_a_finished_plan_is_finished_all_the_same() -> None:
    import asyncio

    async def slow(*_: Any) -> Any:
        await asyncio.sleep(60)

    for turns, reason in (
        ([slow], StopReason.limit),
        ([moving('completed', '1', '2', '3'), slow], StopReason.finished),
    ):
        result = await running(await three_steps(), Scripted(*turns), limits=Limits(timeout=0.1))
        assert result.stop_reason is reason
        assert '(--timeout)' in result.message
    planned = await running(
        InMemoryPlanStore(), planner=Scripted(slow), objective='X', plan_only=True, limits=Limits(timeout=0.1)
    )
    assert '(--planner-timeout) while planning' in planned.message


async def test_a_limit_that_an_agent_brings_is_a_limit() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import Hooks
    from pydantic_ai.exceptions import UsageLimitExceeded

    hooks: Any = Hooks()

    @hooks.on.before_model_request
    async def stop(ctx: Any, request_context: Any) -> Any:
        raise UsageLimitExceeded('spent')

    script = Scripted('?')
    result = await running(await three_steps(), script, agent=Agent(script.model, capabilities=[hooks]))
    assert (result.stop_reason, result.limit) == (StopReason.limit, 'agent')
    assert result.message.startswith("a limit of the agent's own was reached: spent; 3 steps are open")


def test_limits_are_read_as_people_write_them() -> None:
    from planctl.cli.limits import limits_of

    def seconds(text: str) -> float | None:
        return limits_of(None, None, None, text, None).timeout

    assert [seconds(text) for text in ('90', '90s', '1.5m', '15 min', '2h', '.5')] == [90, 90, 90, 900, 7200, 0.5]
    assert str(limits_of(None, None, '$2.50', None, None).max_cost) == '2.50'
    assert limits_of(None, None, None, None, None).retries == 5
    for bad in ('', '-1', 'soon', '1d', '0', 'nan', 'inf', '1e3'):
        with pytest.raises(InputError):
            seconds(bad)
    for bad in ('', '-1', 'free', '0', '0.00', 'nan', 'inf', '1e3'):
        with pytest.raises(InputError):
            limits_of(None, None, bad, None, None)


def test_words_that_make_no_limit_are_usage_errors(here: Path, capsys: Any) -> None:
    for words in (
        ('--max-requests', '0'),
        ('--max-tokens', 'many'),
        ('--planner-retries', '-1'),
        ('--timeout', 'soon'),
        ('--planner-max-cost', 'free'),
        ('--max-cost', '0'),
        ('--planner-timeout', '0'),
    ):
        assert run(['run', 'X', '--plan-first', '--model', 'offline', *words]) == 2, words
        err = capsys.readouterr().err
        assert (err.count('\n'), words[0] in err) == (1, True), err
    assert not (here / 'plan.db').exists()


@pytest.mark.parametrize(
    ('given', 'named'),
    [
        (['--max-requests', '1'], '--max-requests'),
        (['--max-requests', '9', '--planner-max-requests', '1'], '--planner-max-requests'),
    ],
)
def test_a_limit_that_planning_reaches_is_named_as_it_was_given(
    here: Path, capsys: Any, given: list[str], named: str
) -> None:
    assert run(['run', '1. a', '--plan-first', '--model', 'offline', *given, '--json']) == 6
    message = json.loads(capsys.readouterr().out)['message']
    assert message.startswith(f'the limit of 1 request was reached ({named}) while planning')


def test_the_offline_model_costs_nothing(here: Path, capsys: Any) -> None:
    assert run(['run', '1. a', '--plan-first', '--model', 'offline', '--max-cost', '0.01', '--json']) == 0
    usage = json.loads(capsys.readouterr().out)['usage']
    assert (usage['cost'], usage['input_tokens']) == (None, 0)
