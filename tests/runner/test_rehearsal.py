"""Runs that are recorded and played again: the same asks get the same answers, and what differs is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from process_helpers import plan_in, planctl
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from runner_helpers import write

from planctl.agent.essence import Secrets, difference
from planctl.agent.rehearsal import Recorder, Recording
from planctl.errors import ReplayError

# A model that exists where the run is recorded, and in no other place.
RECORDED = '''
import os
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

SECRET = os.environ.get('REHEARSED_API_KEY', 'no secret here')

def respond(messages, info):
    tools = {tool.name for tool in info.function_tools}
    answers = [part for m in messages for part in m.parts if isinstance(part, ToolReturnPart)]
    if 'update_task_status' not in tools:
        if answers:
            return ModelResponse(parts=[TextPart(f'the brief, and {SECRET}')])
        return ModelResponse(parts=[ToolCallPart('write_plan', {'items': [
            {'content': 'look'}, {'content': 'leap'}]})])
    todo = ['in_progress', 'completed']
    if len(answers) < 4:
        step = str(len(answers) // 2 + 1)
        call = ToolCallPart('update_task_status', {'task_id': step, 'status': todo[len(answers) % 2]})
        return ModelResponse(parts=[call])
    return ModelResponse(parts=[TextPart('all done')])

async def stream(messages, info):
    for at, part in enumerate(respond(messages, info).parts):
        if isinstance(part, ToolCallPart):
            yield {at: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
        else:
            yield part.content

agent = Agent(FunctionModel(respond, stream_function=stream, model_name='rehearsed'), instructions='Be kind.')

@agent.tool_plain(metadata={'read_only': True})
def look_around() -> str:
    """Look around."""
    return 'nothing'
'''
PLAYED = RECORDED.replace(
    'def respond(messages, info):', 'def respond(messages, info):\n    raise ConnectionError("asked")'
)
WORDS = ('run', 'look and leap', '--plan-first', '--agent', 'agents:agent')


ENTRY = {'thread': 'executor', 'request': {'tools': []}, 'response': {'parts': []}}


@pytest.fixture(scope='module')
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run was recorded."""
    folder = tmp_path_factory.mktemp('original')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('REHEARSED_API_KEY', 'sesame-open-1234')
        write(folder, 'agents.py', RECORDED)
        done = planctl(folder, *WORDS, '--record', 'run.jsonl')
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def recorded(original: Path, tmp_path: Path) -> Path:
    """A folder with a recording, in which the model is gone."""
    write(tmp_path, 'agents.py', PLAYED)
    shutil.copy(original / 'run.jsonl', tmp_path)
    return tmp_path


def changed(folder: Path, old: str, new: str) -> None:
    assert old in PLAYED
    write(folder, 'agents.py', PLAYED.replace(old, new))


def entries(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / 'run.jsonl').read_text(encoding='utf-8').splitlines()]


def test_a_recorded_run_is_played_again_without_its_model(recorded: Path, original: Path) -> None:
    done = planctl(recorded, *WORDS, '--replay', 'run.jsonl', '--json')
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document['stop_reason'], document['output']) == ('finished', 'all done')
    assert [phase['model'] for phase in document['phases']] == ['rehearsed', 'rehearsed']
    before, after = plan_in(original), plan_in(recorded)
    assert [(s.id, s.content, s.status) for s in after.steps] == [(s.id, s.content, s.status) for s in before.steps]
    assert (after.objective, after.brief) == ('look and leap', 'the brief, and ***')
    # In the same order, too.
    told = [line for line in done.stderr.splitlines() if line.startswith('[')]
    assert told == ['[~] 1 look', '[x] 1 look', '[~] 2 leap', '[x] 2 leap']


def test_a_recording_holds_what_matters_and_no_secret(recorded: Path, original: Path) -> None:
    head, *requests = entries(recorded)
    assert head == {'schema': 1, 'kind': 'recording'}
    assert [entry['thread'] for entry in requests] == ['planner'] * 2 + ['executor'] * 5
    assert 'look_around()' in requests[0]['request']['tools']
    assert requests[2]['request']['plan'][1:3] == ['[ ] 1 look', '[ ] 2 leap']
    assert 'Be kind.' in ' '.join(requests[2]['request']['prompt'])
    assert requests[1]['response']['parts'] == [{'content': 'the brief, and ***', 'part_kind': 'text'}]
    text = (recorded / 'run.jsonl').read_text(encoding='utf-8')
    assert 'sesame' not in text
    assert 'timestamp' not in text
    assert str(original) not in text


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        (
            'def look_around(',
            'def look_about(',
            'request 1 of planner differs, - recorded and + asked now: tools offered: - look_around() | + look_about()',
        ),
        ('def look_around()', 'def look_around(far: bool)', 'tools offered: - look_around() | + look_around(far)'),
        ('Be kind.', 'Be quick.', 'request 1 of planner differs, - recorded and + asked now: prompt: - Be kind.'),
    ],
)
def test_another_agent_is_told_from_the_recorded_one(old: str, new: str, message: str, recorded: Path) -> None:
    changed(recorded, old, new)
    done = planctl(recorded, *WORDS, '--replay', 'run.jsonl')
    assert done.returncode == 7
    last = done.stderr.splitlines()[-1]
    assert last.startswith('planctl: run.jsonl: request 1 of planner differs')
    assert message in last


def test_another_plan_is_told_from_the_recorded_one(recorded: Path) -> None:
    assert planctl(recorded, 'run', 'look and leap', '--plan-only', '--model', 'offline').returncode == 0
    assert planctl(recorded, 'edit', '1', '--content', 'look twice').returncode == 0
    assert planctl(recorded, 'add', 'leap').returncode == 0
    lines = (recorded / 'run.jsonl').read_text().splitlines(keepends=True)
    write(recorded, 'run.jsonl', ''.join(line for line in lines if '"thread": "planner"' not in line))
    done = planctl(recorded, 'run', '--agent', 'agents:agent', '--replay', 'run.jsonl')
    assert done.returncode == 7
    last = done.stderr.splitlines()[-1]
    assert (
        'request 1 of executor differs, - recorded and + asked now: plan shown: - [ ] 1 look | + [ ] 1 look twice; '
        in last
    )
    # Nothing was half done: the plan is as it was.
    assert all(step.status.value == 'pending' for step in plan_in(recorded).steps)


def test_another_objective_is_told_from_the_recorded_one(recorded: Path) -> None:
    done = planctl(recorded, 'run', 'look first', *WORDS[2:], '--replay', 'run.jsonl', '--json')
    assert done.returncode == 7
    problem = json.loads(done.stderr.splitlines()[-1])['error']
    assert problem['code'] == 'replay'
    assert 'prompt: - look and leap | + look first' in problem['message']
    assert json.loads(done.stdout)['error']['code'] == 'replay'


def test_more_or_fewer_requests_than_were_recorded(recorded: Path) -> None:
    lines = (recorded / 'run.jsonl').read_text().splitlines(keepends=True)
    write(recorded, 'short.jsonl', ''.join(lines[:-1]))
    done = planctl(recorded, *WORDS, '--replay', 'short.jsonl')
    assert 'short.jsonl: request 5 of executor was not recorded; there are 2 of planner, 4 of executor' in done.stderr
    done = planctl(recorded, *WORDS[:2], '--plan-only', *WORDS[3:], '--session', 'b', '--replay', 'run.jsonl')
    assert done.returncode == 7
    assert 'run.jsonl: recorded requests were not made: 5 of executor' in done.stderr.splitlines()[-1]


def test_a_file_that_names_a_model_needs_no_key_to_be_played(recorded: Path) -> None:
    write(recorded, 'agent.yaml', 'model: openai:gpt-5\n')
    words = ('run', '* a', '--plan-first', '--session', 'c')
    assert planctl(recorded, *words, '--model', 'offline', '--record', 'c.jsonl').returncode == 0
    words = (*words[:-1], 'd')
    assert 'OPENAI_API_KEY' in planctl(recorded, *words).stderr
    assert planctl(recorded, *words, '--replay', 'c.jsonl').returncode == 0
    again = (*words[:-1], 'e', '--planner', 'agent.yaml', '--executor', 'agent.yaml')
    assert planctl(recorded, *again, '--replay', 'c.jsonl').returncode == 0


def test_workers_are_played_in_any_order(recorded: Path) -> None:
    checklist = '\n'.join(f'* step {n}' + (f' (depends on: {n - 2})' if n > 2 else '') for n in range(1, 9))
    words = ('run', checklist, '--plan-first', '--workers', '3', '--model', 'offline')
    assert planctl(recorded, *words, '--session', 'w1', '--record', 'w.jsonl').returncode == 0
    done = planctl(recorded, *words, '--session', 'w2', '--replay', 'w.jsonl')
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        (None, 'x.jsonl: there is no such recording'),
        ('', 'x.jsonl: this is no recording of planctl: it is empty'),
        ('{"schema": 2, "kind": "recording"}', 'x.jsonl: this is no recording of planctl, or one of a newer one'),
        ('{"kind": "plan"}', 'x.jsonl: this is no recording of planctl, or one of a newer one'),
        ('hello', 'x.jsonl:1: this is no recording of planctl: '),
        ('{"schema": 1, "kind": "recording"}\n{"thread": "a", "response": {"parts": 5}}', 'x.jsonl:2: this is no'),
        ('{"schema": 1, "kind": "recording"}\n[]', 'x.jsonl:2: this is no recording of planctl: this is no object'),
        ('[' * 100_000, 'x.jsonl:1: this is no recording of planctl: '),
        *(
            (f'{{"schema": 1, "kind": "recording"}}\n{json.dumps(ENTRY | {key: value})}', 'x.jsonl:2: this is no recor')
            for key, value in (
                ('request', None),
                ('request', [1]),
                ('request', {'tools': 5}),
                ('request', {'tools': [None]}),
                ('response', None),
                ('response', 'x'),
                ('response', {'parts': [{'part_kind': 'x'}]}),
                ('response', {'kind': 'request', 'parts': []}),
            )
        ),
        (f'{{"schema": 1, "kind": "recording"}}\n{json.dumps(ENTRY)[:40]}', 'x.jsonl:2: this is no recording'),
    ],
)
def test_what_is_no_recording(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        write(tmp_path, 'x.jsonl', text)
    with pytest.raises(ReplayError) as caught:
        Recording(tmp_path / 'x.jsonl', 'x.jsonl', Secrets({}))
    assert caught.value.message.startswith(message)
    assert '\n' not in caught.value.message


def test_a_recording_begins_anew_with_the_first_answer_and_not_before(tmp_path: Path) -> None:
    write(tmp_path, 'x.jsonl', 'old')
    recorder = Recorder(tmp_path / 'x.jsonl', 'x.jsonl', Secrets({}))
    assert (tmp_path / 'x.jsonl').read_text() == 'old'
    request = {'tools': [], 'plan': [], 'prompt': ['hello']}
    recorder.add('executor', request, ModelResponse(parts=[TextPart('hi'), ToolCallPart('go', {'far': 1})]))
    recording = Recording(tmp_path / 'x.jsonl', 'x.jsonl', Secrets({}))
    response = recording.next('executor', request)
    assert [part.part_kind for part in response.parts] == ['text', 'tool-call']
    assert recording.leftover() is None


@pytest.mark.parametrize('file', ['no/such/folder/r.jsonl', '.', ''])
def test_a_recording_that_cannot_be_written_ends_the_run_before_it_begins(file: str, tmp_path: Path) -> None:
    done = planctl(tmp_path, 'run', '* a', '--plan-first', '--model', 'offline', '--record', file)
    assert (done.returncode, done.stderr.count('\n')) == (5, 1)
    assert done.stderr.startswith(f'planctl: --record {file}: ')
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path('/dev/full').exists(), reason='needs a device that is always full')
def test_a_recording_that_breaks_off_ends_no_run_and_is_said_at_its_end(tmp_path: Path) -> None:
    done = planctl(tmp_path, 'run', '* a', '--plan-first', '--model', 'offline', '--record', '/dev/full')
    assert done.returncode == 5
    words = 'planctl: --record /dev/full: No space left on device; the recording is not complete'
    assert done.stderr.splitlines()[-1] == words
    assert plan_in(tmp_path).progress.completed == 1


def test_secrets_are_found_by_name_and_by_look() -> None:
    secrets = Secrets({'X_API_KEY': 'zyxwvuts', 'PATH': '/usr/bin/env', 'SHORT_TOKEN': 'abc'}, ['zyxwvuts-longer'])
    assert secrets.hide({'a': ['zyxwvuts', 'zyxwvuts-longer', 'abc /usr/bin/env', 5, None]}) == {
        'a': ['***', '***', 'abc /usr/bin/env', 5, None]
    }
    for text in (
        'sk-ant-api03-ponmlkjihgf0',
        'sk_live_0123456789abcdefghij',
        'ghp_0123456789abcdefghij',
        'Bearer eyJhbGciOi.abc',
        'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl',
    ):
        assert secrets.hide(f'use {text} now') == 'use *** now'
    assert secrets.hide('postgresql://me:pa55@host/db') == 'postgresql://***@host/db'
    # What merely begins like one is what it says.
    for text in (
        'skeleton_of_the_settings_page.py',
        'sk_etch_of_the_whole_page',
        'risk-of-losing-the-database',
        'a:b@c',
    ):
        assert secrets.hide(text) == text


def test_secrets_are_found_however_they_are_written() -> None:
    key = '-----BEGIN KEY-----\nMIIEvQIBADANBg"kqhki\u00e4\n-----END KEY-----\n'
    for name in ('SSH_PRIVATE_KEY', 'DB_PASS', 'MYSQL_PWD', 'GITHUB_PAT', 'my_password'):
        secrets = Secrets({name: key, 'PWD': '/a/long/folder', 'PATH': '/usr/bin:/bin'})
        arguments = json.dumps({'text': key})
        for text in (key, arguments, json.dumps({'text': key}, ensure_ascii=False), *key.splitlines()):
            assert 'MIIEv' not in str(secrets.hide(text)), (name, text)
        assert json.loads(secrets.hide(arguments)) == {'text': '***'}
        assert secrets.hide('/a/long/folder /usr/bin:/bin') == '/a/long/folder /usr/bin:/bin'


def test_a_difference_is_one_readable_line() -> None:
    plan = [f'[ ] {n} step {n}' for n in range(20)]
    text = difference({'plan': plan}, {'plan': [line.upper() for line in plan], 'tools': ['a()']})
    assert text.startswith('tools offered: + a(); plan shown: - [ ] 0 step 0 | - [ ] 1 step 1 | ')
    assert text.endswith(' and 36 more')
    assert difference({'plan': ['x\x1b[2J']}, {'plan': []}).isprintable()
    assert difference({'plan': plan}, {'plan': plan, 'tools': []}) == ''
