"""What `--events` writes, how it goes with the other ways of watching, and spans for those who collect them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from process_helpers import AGENT, environment, plan_in, planctl, started, under_way, until
from runner_helpers import Scripted, moving, running, stored, three_steps, write, writing

from planctl.agent import eventlog, job
from planctl.agent.eventlog import EventLog
from planctl.agent.limits import Limits
from planctl.agent.runner import run
from planctl.agent.spec import LoadedAgent
from planctl.agent.watch import PlanSeen, ToolCalled, ToolReturned
from planctl.cli.app import run as command
from planctl.core import apply
from planctl.operations import Add, Move, Remove, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.memory import InMemoryPlanStore
from planctl.stores.sqlite import SqlitePlanStore

EVERYWHERE = {'schema', 'event', 'at', 'run', 'session'}
FIELDS = {
    'phase': {'name', 'model', 'revision', 'counts'},
    'request': {'number', 'input_tokens', 'output_tokens', 'cost'},
    'answer': {'number', 'input_tokens', 'output_tokens', 'cost'},
    'retry': {'attempt', 'of', 'seconds', 'why'},
    'tool_call': {'id', 'name', 'arguments', 'is_plan'},
    'tool_result': {'id', 'name', 'outcome', 'is_plan'},
    'approval': {'name', 'arguments', 'allowed', 'asked'},
    'context': {'number', 'why'},
    'plan': {'by', 'revision', 'counts', 'changes'},
    'say': {'text'},
}
CHANGE = {'change', 'from', 'step'}
STEP = {'id', 'content', 'status', 'note', 'parent_id', 'depends_on'}


def checked(lines: list[dict[str, Any]]) -> list[str]:
    """Hold every line against the schema and return the kinds in order."""
    for line in lines:
        kind = line['event']
        assert line['schema'] == 1
        if kind != 'result':
            assert line.keys() - {'worker'} == EVERYWHERE | FIELDS[kind], kind
        for change in line.get('changes', ()) if kind == 'plan' else ():
            assert change.keys() == CHANGE
            assert change['step'].keys() == STEP
    return [line['event'] for line in lines]


def test_the_schema_names_every_event_and_every_field() -> None:
    words = eventlog.__doc__ or ''
    for kind, fields in FIELDS.items():
        entry = words.partition(f'\n{kind} ')[2].partition('\n\n')[0]
        assert entry, kind
        if kind != 'answer':
            for field in fields:
                assert f'`{field}`' in entry, (kind, field)
    for field in CHANGE | STEP | EVERYWHERE | {'worker'}:
        assert f'`{field}`' in words


async def test_every_event_is_one_object_in_order() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.tools import Tool

    lines: list[dict[str, Any]] = []
    events: list[Any] = []

    def look(where: str) -> str:
        return where

    executor = Scripted(
        [*moving('completed', '1'), ('board_add_task', {'where': 'there'})],
        [('launch', {'where': 'x'})],
        moving('completed', '2'),
        'ok',
    )
    planner = Scripted(writing('a', 'b'), 'brief')
    agent = Agent(
        executor.model, tools=[Tool(look, name='board_add_task'), Tool(look, name='launch', requires_approval=True)]
    )
    result = await running(
        InMemoryPlanStore(),
        executor,
        planner=planner,
        agent=agent,
        objective='X',
        plan_first=True,
        steps_per_context=1,
        events=events,
    )
    log = EventLog('0123abcd', 'default', lines.append, lambda: 12.3456)
    for event in events:
        log(event)
    log.finish(result)
    kinds = checked(lines)
    assert {'phase', 'request', 'answer', 'tool_call', 'tool_result', 'approval', 'context', 'plan', 'say'} <= {*kinds}
    assert (kinds.count('phase'), kinds[-1], kinds.count('result')) == (2, 'result', 1)
    assert {line['at'] for line in lines} == {12.346}
    of_look = [line for line in lines if line.get('name') == 'board_add_task']
    assert [line['event'] for line in of_look] == ['tool_call', 'tool_result']
    assert (of_look[0]['arguments'], of_look[0]['is_plan'], of_look[1]['outcome']) == (
        '{"where":"there"}',
        False,
        'success',
    )
    of_the_plan = {line['name'] for line in lines if line.get('is_plan')}
    assert of_the_plan == {'write_plan', 'update_task_status'}
    assert [line['outcome'] for line in lines if line['event'] == 'tool_result' and line['name'] == 'launch'] == [
        'denied'
    ]
    last = [line for line in lines if line['event'] == 'plan'][-1]
    assert last['changes'][-1]['from'] == 'pending'
    assert (last['by'], last['changes'][-1]['step']['status']) == ('run', 'completed')
    assert lines[-1].items() >= {k: v for k, v in result.document().items() if k not in ('kind',)}.items()
    assert kinds.count('request') == kinds.count('answer') == result.document()['usage']['requests']


async def test_each_call_has_one_result_whatever_becomes_of_it() -> None:
    from pydantic import BaseModel
    from pydantic_ai import Agent

    class Report(BaseModel):
        done: int

    async def hang() -> None:
        await asyncio.sleep(600)

    script = Scripted(
        [('read_plan', {'no': 1}), ('look', {})], moving('completed', '1', '2', '3'), [('final_result', {'done': 3})]
    )
    events: list[Any] = []
    agent = Agent(script.model, output_type=Report, tools=[hang])
    await running(await three_steps(), script, agent=agent, events=events)
    script = Scripted([('hang', {}), *moving('in_progress', '1')])
    agent = Agent(script.model, tools=[hang])
    await running(await three_steps(), script, agent=agent, events=events, limits=Limits(timeout=0.2))
    calls = {event.id: event.name for event in events if isinstance(event, ToolCalled)}
    results = [event for event in events if isinstance(event, ToolReturned)]
    assert sorted(calls) == sorted(event.id for event in results)
    outcomes = {event.name: event.outcome for event in results}
    assert outcomes['final_result'] == 'success'
    assert outcomes['hang'] == 'interrupted'


async def test_what_others_do_is_told_with_what_became_of_each_step() -> None:
    store = await stored(Add('a'), Add('b'), Add('c'), Add('d'))
    lines: list[dict[str, Any]] = []
    log = EventLog('r', 's', lines.append, lambda: 0.0)
    log(PlanSeen(await store.read()))
    await apply(store, SetStatus('1', TaskStatus.completed), Move('4', before='1'), Remove('3'), Add('e'))
    log(PlanSeen(await store.read()))
    checked(lines)
    assert [line['by'] for line in lines] == ['other', 'other']
    assert {(change['step']['id'], change['change'], change['from']) for change in lines[1]['changes']} == {
        ('1', 'updated', 'pending'),
        ('4', 'moved', 'pending'),
        ('3', 'deleted', 'pending'),
        ('5', 'created', None),
    }


@pytest.mark.parametrize('workers', [1, 3])
async def test_what_each_of_several_executors_does_has_its_number(workers: int) -> None:
    from pydantic_ai import Agent

    started = asyncio.Event()

    async def together(messages: Any, info: Any) -> Any:
        step_id = str(messages[0].parts).partition('Work on step ')[2].partition(',')[0]
        if len(script.asked) == 1:
            await apply(store, Add('by hand', id='x', depends_on=('1', '2', '3')))
        if len(script.asked) == 3:
            started.set()
        await started.wait()
        return moving('completed', step_id or 'x') if workers > 1 else moving('completed', '1', '2', '3', 'x')

    if workers == 1:
        started.set()
    script = Scripted(together, together, together, together, 'done')
    store = await three_steps()
    lines: list[dict[str, Any]] = []
    log = EventLog('0123abcd', 'default', lines.append, lambda: 0.0)
    run_of = job.Job(store, LoadedAgent(Agent(script.model), 'test', None), job.Wanted(workers=workers), log)
    log.finish(await run(run_of, planner=None, executor=script.model))
    checked(lines)
    told = {(line['event'], line.get('by')) for line in lines if 'worker' in line}
    if workers == 1:
        assert not told
        return
    # Whatever a worker does has a number, and nothing else has.
    assert told == {(name, None) for name in ('request', 'answer', 'tool_call', 'tool_result')} | {('plan', 'run')}
    done_by = [
        (change['step']['id'], line['worker'], change['step']['status'])
        for line in lines
        if line['event'] == 'plan' and line['by'] == 'run'
        for change in line['changes']
    ]
    assert {number for _, number, _ in done_by} == {1, 2, 3}
    for step_id in '123':
        assert len({number for found, number, status in done_by if found == step_id and status != 'pending'}) == 1


# --- Other processes ------------------------------------------------------------------------------------------------


async def test_what_others_do_is_seen_while_the_model_thinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, 'LOOK_OUT', 0.01)
    store = SqlitePlanStore(tmp_path / 'plan.db')
    await three_steps(store)
    events: list[Any] = []

    async def thinks(*_: Any) -> Any:
        await apply(SqlitePlanStore(tmp_path / 'plan.db'), Add('by hand'), actor='ann')
        while not any(isinstance(event, PlanSeen) for event in events):
            await asyncio.sleep(0.01)
        return moving('completed', '1', '2', '3', '4')

    result = await running(store, Scripted(thinks, 'done'), events=events)
    assert result.stop_reason.value == 'finished'
    assert [len(event.plan.steps) for event in events if isinstance(event, PlanSeen)] == [4]


async def test_what_the_run_itself_does_is_never_told_as_another_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, 'LOOK_OUT', 0.0)
    store = SqlitePlanStore(tmp_path / 'plan.db')
    await three_steps(store)
    events: list[Any] = []
    turns = [moving(status, str(at)) for _ in range(20) for at in (1, 2, 3) for status in ('in_progress', 'pending')]
    script = Scripted(*turns, moving('completed', '1', '2', '3'), 'done')
    result = await running(store, script, events=events, max_idle=500)
    assert result.stop_reason.value == 'finished'
    assert not [event for event in events if isinstance(event, PlanSeen)]


def test_a_run_in_a_pipe_tells_of_another_process_before_its_own_next_request(tmp_path: Path) -> None:
    write(tmp_path, 'agents.py', AGENT)
    checklist = '1. wait `while ! test -e go; do sleep 0.05; done`'
    with started(tmp_path, checklist, '--plan-first', '--agent', 'agents:agent', '--events', 'events.jsonl') as process:
        until(under_way(tmp_path, '1'))
        assert planctl(tmp_path, 'add', 'by hand').returncode == 0

        def told() -> bool:
            text = (tmp_path / 'events.jsonl').read_text(encoding='utf-8')
            return any('"by":"other"' in line for line in text.splitlines())

        until(told)
        write(tmp_path, 'go', '')
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert 'added [ ] 2 by hand (by somebody else)' in err.splitlines()


# --- On the line ----------------------------------------------------------------------------------------------------


def test_events_go_where_they_are_sent(tmp_path: Path) -> None:
    to_stdout = planctl(tmp_path, 'run', '1. a', '--plan-first', '--model', 'offline', '--events', '-', '--quiet')
    assert (to_stdout.returncode, to_stdout.stderr) == (0, '')
    kinds = checked([json.loads(line) for line in to_stdout.stdout.splitlines()])
    assert kinds[-1] == 'result'
    write(tmp_path, 'events.jsonl', to_stdout.stdout)
    words = ('run', '1. b', '--plan-first', '--model', 'offline', '--session', 'other', '--events', 'events.jsonl')
    to_file = planctl(tmp_path, *words, '--json')
    assert to_file.returncode == 0
    lines = [json.loads(line) for line in (tmp_path / 'events.jsonl').read_text().splitlines()]
    checked(lines)
    document = json.loads(to_file.stdout)
    assert (lines[-1]['stop_reason'], lines[-1]['session']) == (document['stop_reason'], 'other')
    assert len({line['run'] for line in lines}) == 1


def test_events_and_the_final_document_cannot_share_stdout(tmp_path: Path) -> None:
    both = planctl(tmp_path, 'run', '1. a', '--plan-first', '--model', 'offline', '--events', '-', '--json')
    assert (both.returncode, both.stdout) == (2, '')
    assert json.loads(both.stderr)['error']['code'] == 'usage'
    nowhere = planctl(tmp_path, 'run', '1. a', '--plan-first', '--model', 'offline', '--events', 'no/such/file')
    assert (nowhere.returncode, nowhere.stderr.count('\n')) == (5, 1)
    assert not (tmp_path / 'plan.db').exists()


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='needs a device that is always full')
def test_events_that_cannot_be_written_do_not_end_the_run(tmp_path: Path) -> None:
    words = ('run', '1. a', '--plan-first', '--model', 'offline', '--events')
    done = planctl(tmp_path, *words, '/dev/full')
    assert done.returncode == 0
    assert done.stderr.count('no more events are written') == 1
    assert plan_in(tmp_path).progress.completed == 1
    with open('/dev/full', 'w') as full:
        lost = planctl(tmp_path, *words, '-', '--session', 'other', stdout=full)
    # There they are the answer, and that is lost.
    assert lost.returncode == 5
    assert lost.stderr.count('no more events are written') == 1
    assert 'planctl: the plan is finished: 1 of 1 steps completed' in lost.stderr.splitlines()


@pytest.mark.parametrize('option', ['--events', '--record'])
def test_nothing_is_written_over_but_what_was_written_by_the_option_itself(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ('--plan-first', '--model', 'offline', '--quiet')
    assert command(['run', '1. a', *words, option, 'first']) == 0
    for name in ('plan.db', 'agents.py', '.env'):
        file = tmp_path / name
        if not file.exists():
            write(tmp_path, name, 'mine')
        before = file.read_bytes()
        assert command(['run', '1. b', *words, option, name]) == 2
        assert 'is something else, which would be lost (name a new file)' in capsys.readouterr().err
        assert file.read_bytes() == before
    write(tmp_path, 'empty', '')
    for name in ('first', 'empty'):
        assert command(['run', '1. c', *words, option, name, '--session', name]) == 0
        assert (tmp_path / name).read_text().count('"result"' if option == '--events' else '"recording"') == 1


def test_a_run_that_is_refused_leaves_the_events_of_the_other_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ('--model', 'offline', '--quiet', '--events', 'events.jsonl')
    assert command(['run', '1. a', '--plan-first', *words]) == 0
    before = (tmp_path / 'events.jsonl').read_bytes()
    assert command(['run', '1. b', '--plan-only', '--model', 'offline', '--quiet']) == 0
    assert command(['run', '1. c', '--plan-first', *words]) == 4
    assert (tmp_path / 'events.jsonl').read_bytes() == before


# --- Spans ----------------------------------------------------------------------------------------------------------

TRACED = """
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, INVALID_SPAN_CONTEXT

class Tracer(trace.NoOpTracer):
    def start_span(self, name, *args, **more):
        print(name, file=open('spans', 'a'))
        return NonRecordingSpan(INVALID_SPAN_CONTEXT)

class Provider(trace.NoOpTracerProvider):
    def get_tracer(self, *args, **more):
        return Tracer()

trace.set_tracer_provider(Provider())

from pydantic_ai import Agent
from planctl.agent.offline import offline_model

agent = Agent(offline_model(), name='watched')
"""


def test_where_a_tracer_is_set_up_a_run_is_traced(tmp_path: Path) -> None:
    write(tmp_path, 'agents.py', TRACED)
    done = planctl(tmp_path, 'run', '1. a', '--plan-first', '--agent', 'agents:agent')
    assert done.returncode == 0, done.stderr
    names = (tmp_path / 'spans').read_text()
    assert 'invoke_agent watched' in names
    assert 'chat offline' in names


def test_an_endpoint_without_an_sdk_is_said_and_no_end_of_the_run(tmp_path: Path) -> None:
    code = "import sys; sys.modules['opentelemetry.sdk'] = None; from planctl.cli import main; main()"
    done = subprocess.run(
        [sys.executable, '-c', code, 'run', '1. a', '--plan-first', '--model', 'offline'],
        cwd=tmp_path,
        env=environment() | {'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://127.0.0.1:9'},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("planctl: no traces are sent, OpenTelemetry's SDK is not installed")
