"""The real clients of pydantic-ai over HTTP, against a provider on loopback that fails in every way that they know."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from loopback import Cut, Fail, Loopback, Say, Silence
from process_helpers import plan_in, planctl
from pydantic_ai import Agent
from runner_helpers import running, statuses, stored, three_steps, write

from planctl.agent import retrying
from planctl.agent.limits import Limits
from planctl.agent.outcome import STATUS, StopReason
from planctl.agent.watch import Retried, StartedAnew
from planctl.errors import ModelError
from planctl.operations import Add
from planctl.stores.sqlite import SqlitePlanStore

pytest.importorskip('openai')
pytest.importorskip('anthropic')

# What a provider says of its models' age depends on the day.
pytestmark = pytest.mark.filterwarnings('ignore:The model .* is deprecated')

CLIENTS = ('chat', 'responses', 'messages')
ONE_DONE = Say(calls=[('update_task_status', {'task_id': '1', 'status': 'completed'})])
ALL_DONE = Say(
    calls=[('update_task_statuses', {'updates': [{'task_id': str(at), 'status': 'completed'} for at in (1, 2, 3)]})]
)
READ = Say(calls=[('read_plan', {})])
BYE = Say('That is all.')


@dataclass
class Client:
    """Stands where a scripted model stands: a real one, of a provider that is here."""

    model: Any


def client(kind: str, server: Loopback, name: str | None = None) -> Client:
    if kind == 'messages':
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        there = AnthropicProvider(api_key='no-key', base_url=server.root)
        return Client(AnthropicModel(name or 'claude-opus-5', provider=there))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(api_key='no-key', base_url=f'{server.root}/v1')
    kinds = {'chat': OpenAIChatModel, 'responses': OpenAIResponsesModel}
    return Client(kinds[kind](name or 'gpt-4o', provider=provider))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying, 'FIRST_PAUSE', 0.001)


# --- Faults that pass -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', CLIENTS)
@pytest.mark.parametrize(
    ('faults', 'why'),
    [
        ([Fail(429)], 'the provider answered 429: no'),
        ([Fail(500, message=''), Fail(503, message='')], 'the provider answered 50'),
        ([Cut()], ''),
    ],
    ids=['429', '500', 'cut'],
)
async def test_what_passes_is_asked_for_again_and_the_run_goes_on(kind: str, faults: list[Any], why: str) -> None:
    events: list[Any] = []
    with Loopback(*faults, ALL_DONE, *faults, BYE) as server:
        result = await running(await three_steps(), client(kind, server), events=events)
    assert result.stop_reason is StopReason.finished
    # The faults are no requests of the agent, and nothing but us asked again: no SDK did behind our back.
    assert (result.phases[0].requests, len(server.requests)) == (2, 2 + 2 * len(faults))
    retried = [event for event in events if isinstance(event, Retried)]
    assert [(event.attempt, event.of) for event in retried] == [(at, 5) for at in range(1, len(faults) + 1)] * 2
    assert all(why in event.why for event in retried)


@pytest.mark.parametrize('header', [{'Retry-After-Ms': '400'}, {'Retry-After': '1'}])
async def test_a_provider_that_says_when_to_come_back_is_not_asked_before(header: dict[str, str]) -> None:
    with Loopback(Fail(429, header), ALL_DONE, BYE) as server:
        before = time.monotonic()
        result = await running(await three_steps(), client('chat', server))
        assert time.monotonic() - before >= (0.4 if 'Retry-After-Ms' in header else 1.0)
    assert result.stop_reason is StopReason.finished


async def test_one_that_wants_to_be_left_alone_for_an_hour_ends_the_run_at_once() -> None:
    with Loopback(Fail(429, {'Retry-After': '3600'})) as server:
        result = await running(await three_steps(), client('chat', server))
    assert (result.stop_reason, len(server.requests)) == (StopReason.error, 1)
    assert result.message == 'gpt-4o: the provider answered 429: no; it asks to be left alone for 1 h'


@pytest.mark.parametrize('kind', CLIENTS)
async def test_it_is_asked_again_so_often_and_no_more(kind: str) -> None:
    for retries in (0, 2):
        with Loopback(Fail(500, message='out of order')) as server:
            result = await running(await three_steps(), client(kind, server), limits=Limits(retries=retries))
        assert (result.stop_reason, len(server.requests)) == (StopReason.error, retries + 1)
        assert result.message.endswith(': the provider answered 500: out of order')
        assert (result.error and result.error.code, set(statuses(result.plan).values())) == ('model', {'pending'})


@pytest.mark.parametrize('fault', [Fail(400), Fail(401), Fail(404), Fail(429, code='insufficient_quota')])
async def test_what_does_not_pass_is_not_asked_for_again(fault: Fail) -> None:
    with Loopback(fault) as server:
        result = await running(await three_steps(), client('chat', server))
    assert (result.stop_reason, len(server.requests)) == (StopReason.error, 1)
    assert f'the provider answered {fault.status}' in result.message


async def test_nobody_there() -> None:
    with Loopback(BYE) as server:
        pass
    result = await running(await three_steps(), client('chat', server), limits=Limits(retries=1))
    assert (result.stop_reason, result.error and result.error.code) == (StopReason.error, 'model')
    assert 'Connection' in result.message


# --- Answers that are no good ---------------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', CLIENTS)
async def test_arguments_that_are_no_json_are_answered_and_put_right(kind: str) -> None:
    bad = Say(calls=[('update_task_status', '{"task_id": "1", "sta')])
    with Loopback(bad, *[bad] * 5, ALL_DONE, BYE) as server:
        result = await running(await three_steps(), client(kind, server))
    assert result.stop_reason is StopReason.finished
    assert 'arguments' in server.said(1)


@pytest.mark.parametrize('kind', CLIENTS)
async def test_a_model_that_refuses(kind: str) -> None:
    with Loopback(Say('I must not.', refused=True)) as server:
        result = await running(await three_steps(), client(kind, server), max_nudges=1)
    assert STATUS.get(result.stop_reason, 7) in (6, 7)
    assert len(server.requests) <= 2
    assert set(statuses(result.plan).values()) == {'pending'}


@pytest.mark.parametrize('kind', CLIENTS)
async def test_a_full_context_is_left_for_a_fresh_one_with_objective_brief_and_plan(kind: str) -> None:
    code = 'invalid_request_error' if kind == 'messages' else 'context_length_exceeded'
    full = Fail(400, code=code, message='prompt is too long: 300000 tokens > 200000 maximum')
    events: list[Any] = []
    store = await stored(Add('a'), Add('b'), Add('c'))
    with Loopback(Say('THINKING', [('read_plan', {})]), ONE_DONE, full, ALL_DONE, BYE) as server:
        result = await running(store, client(kind, server), objective='Cross the street', events=events)
    assert (result.stop_reason, result.phases[0].contexts) == (StopReason.finished, 2)
    assert [event.why for event in events if isinstance(event, StartedAnew)] == ['the context is full']
    assert 'THINKING' in server.said(2)
    assert 'THINKING' not in server.said(3)
    assert 'Cross the street' in server.said(3)
    assert '[ ] 2 b' in server.said(3)


async def test_a_context_that_is_full_at_once_is_an_error_and_no_loop() -> None:
    with Loopback(Fail(400, code='context_length_exceeded')) as server:
        result = await running(await three_steps(), client('chat', server))
    assert (result.stop_reason, len(server.requests)) == (StopReason.error, 1)


async def test_a_stream_that_somebody_listens_to_and_that_breaks_off_is_begun_anew() -> None:
    from pydantic_ai import Agent

    with Loopback(ONE_DONE, Cut(), ALL_DONE, BYE) as server:
        agent = Agent(client('chat', server).model)

        @agent.on_event
        async def listen(ctx: Any, event: Any) -> None:
            pass

        result = await running(await three_steps(), client('chat', server), agent=agent)
    assert all(request.get('stream') for request in server.requests)
    assert (result.stop_reason, len(server.requests)) == (StopReason.finished, 4)
    assert result.phases[0].contexts == 2


# --- Limits ---------------------------------------------------------------------------------------------------------


async def test_silence_ends_with_the_time_of_the_phase() -> None:
    with Loopback(ONE_DONE, Silence()) as server:
        before = time.monotonic()
        result = await running(await three_steps(), client('chat', server), limits=Limits(timeout=0.5))
        assert time.monotonic() - before < 10
    assert (result.stop_reason, result.limit) == (StopReason.limit, 'timeout')
    assert result.message == 'the limit of 0.5 s was reached (--timeout); 2 steps are open, `planctl run` goes on'
    assert statuses(result.plan) == {'1': 'completed', '2': 'pending', '3': 'pending'}


async def test_a_silent_request_is_made_again_after_the_time_that_the_agent_gives_it() -> None:
    def answer(body: dict[str, Any]) -> Say:
        return BYE if any(message['role'] == 'tool' for message in body['messages']) else ALL_DONE

    events: list[Any] = []
    with Loopback(Silence(), answer) as server:
        script = client('chat', server)
        agent = Agent(script.model, model_settings={'timeout': 1.0})
        result = await running(await three_steps(), script, agent=agent, events=events)
    assert result.stop_reason is StopReason.finished
    assert 'timed out' in next(event for event in events if isinstance(event, Retried)).why


async def test_tokens_and_dollars_are_counted_and_end_the_run() -> None:
    for limits, words in (
        (Limits(max_tokens=2_000), '2,000 tokens was reached (--max-tokens)'),
        (Limits(max_cost=Decimal('0.005')), '$0.0050 was reached (--max-cost)'),
    ):
        with Loopback(READ) as server:
            result = await running(await three_steps(), client('chat', server), limits=limits)
        # gpt-4o: 2.50 dollars a million tokens in, 10 out; an answer here is 1,000 in and 50 out.
        assert (result.stop_reason, len(server.requests)) == (StopReason.limit, 2)
        assert words in result.message
        usage = result.document()['usage']
        assert (usage['input_tokens'], usage['output_tokens'], usage['cost']) == (2_000, 100, 0.006)


async def test_a_model_without_a_known_price_is_refused_before_the_first_request() -> None:
    store, limits = await three_steps(), Limits(max_cost=Decimal(1))
    with Loopback(BYE) as server, pytest.raises(ModelError) as caught:
        await running(store, client('chat', server, 'my-own'), limits=limits)
    assert caught.value.message.startswith("--max-cost: the price of model 'my-own' is not known")
    assert server.requests == []


# --- Whole processes ------------------------------------------------------------------------------------------------

TOOLS = """
from pydantic_ai import Agent
from pydantic_ai.tools import Tool

def note(text: str) -> str:
    return text

reads = Tool(note, name='look_up', metadata={'read_only': True})
acts = [Tool(note, name=name) for name in ('write_file', 'run_command')]
agent = Agent(tools=[reads, *acts])
"""
PLAN = Say(calls=[('write_plan', {'items': [{'content': 'fold the paper'}, {'content': 'fly it'}]})])
WORK = Say(calls=[('update_task_statuses', {'updates': [{'task_id': i, 'status': 'completed'} for i in ('1', '2')]})])


@pytest.mark.parametrize('model', ['openai:gpt-4o', 'anthropic:claude-opus-5'])
def test_what_a_planner_and_an_executor_are_really_sent(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 'agents.py', TOOLS)
    secret = Say('PLANNER THOUGHT', [('look_up', {'text': 'PLANNER FINDING'})])
    with Loopback(secret, PLAN, Say('THE BRIEF: mind the wind.'), WORK, BYE) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        words = ('run', 'Build a plane', '--plan-first', '--agent', 'agents:agent', '--model', model)
        done = planctl(tmp_path, *words, '--json')
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 5
    assert {'look_up', 'write_plan'} <= server.tools(0)
    assert not server.tools(0) & {'write_file', 'run_command', 'update_task_status', 'update_task_statuses'}
    assert {'look_up', 'write_file', 'run_command', 'update_task_status'} <= server.tools(3)
    assert 'PLANNER FINDING' in server.said(2)
    first = server.said(3)
    for text in ('Build a plane', 'THE BRIEF: mind the wind.', '<plan-reminder>', '[ ] 1 fold the paper'):
        assert text in first
    assert 'PLANNER' not in first
    document = json.loads(done.stdout)
    assert [phase['name'] for phase in document['phases']] == ['plan', 'execute']
    assert document['usage']['cost'] == pytest.approx(0.015 if 'gpt' in model else 0.03125)
    assert plan_in(tmp_path).brief == 'THE BRIEF: mind the wind.'


async def test_a_process_that_is_told_to_wait_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await three_steps(SqlitePlanStore(tmp_path / 'plan.db'))
    with Loopback(Fail(429, {'Retry-After': '1'}, message='slow down'), READ) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        done = planctl(tmp_path, 'run', '--model', 'openai-chat:gpt-4o', '--max-requests', '2', '--json')
        assert len(server.requests) == 3
        unknown = planctl(tmp_path, 'run', '--model', 'openai-chat:mine', '--max-cost', '1', '--json')
        assert len(server.requests) == 3
    assert done.returncode == 6
    assert 'planctl: the provider answered 429: slow down; asking again in 1 s (1 of 5)' in done.stderr.splitlines()
    document = json.loads(done.stdout)
    assert (document['stop_reason'], document['limit']) == ('limit', 'max_requests')
    assert document['message'].startswith('the limit of 2 requests was reached (--max-requests); ')
    assert (unknown.returncode, unknown.stdout) == (7, '')
    error = json.loads(unknown.stderr.splitlines()[-1])['error']
    assert error['code'] == 'model'
    assert 'the price of model' in error['message']
