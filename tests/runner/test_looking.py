"""`--print-spec`, `--dry-run` and `init`: what would run, without a request and without a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runner_helpers import write

from planctl.agent.spec import load_agent
from planctl.agent.template import agent_template
from planctl.cli.app import run

AGENTS = """
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel

def never(messages, info):
    raise AssertionError('a request was made')

async def never_streamed(messages, info):
    raise AssertionError('a request was made')
    yield ''

agent = Agent(FunctionModel(never, stream_function=never_streamed, model_name='never'))

@agent.tool_plain(metadata={'read_only': True})
def look() -> str:
    return ''

@agent.tool_plain
def act() -> str:
    return ''
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ('PLANCTL_DB', 'PLANCTL_SESSION'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(__import__('sys').modules, 'looked_at', raising=False)
    write(tmp_path, 'looked_at.py', AGENTS)
    return tmp_path


WORDS = ('run', '--agent', 'looked_at:agent')


def answer(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert run([*WORDS, *words, '--json']) == status
    out, err = capsys.readouterr()
    return json.loads(out) if status in (0, 6) else json.loads(err)['error']


def test_the_tools_of_each_role_are_listed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, 'x', '--plan-first', '--print-spec')
    planner, executor = document['roles']
    assert (document['kind'], document['where']) == ('spec', 'looked_at:agent · plan.db (new) · session default')
    assert (planner['model'], planner['tools'], planner['left_out']) == ('never', ['look'], ['act'])
    assert (executor['tools'], executor['left_out']) == (['look', 'act'], [])
    assert 'update_task_status' in executor['plan_tools']
    assert 'update_task_status' not in planner['plan_tools']
    for words in (('--workers', '2'), ('--worker',)):
        (role,) = answer(capsys, '--print-spec', *words)['roles']
        assert role['role'] == 'executor'
        assert set(role['plan_tools']) == {'read_plan', 'add_task', 'update_task_status', 'add_subtask'}
    assert not list(here.glob('*.db*'))


def test_for_people_it_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WORDS, 'x', '--plan-first', '--print-spec']) == 0
    out = capsys.readouterr().out
    assert '\nplanner   looked_at:agent with never\n' in out
    assert '\n  tools     look\n  left out  act\n' in out


@pytest.mark.parametrize(
    ('words', 'would'),
    [
        (('x', '--plan-first'), 'plan with never, then carry it out with never (one executor)'),
        (('x', '--plan-only'), 'plan with never'),
        (('x', '--plan-first', '--workers', '3'), 'plan with never, then carry it out with never (3 workers)'),
        (('x',), 'carry out the objective with never (one executor, which may plan)'),
    ],
)
def test_a_dry_run_says_what_would_be_done(
    words: tuple[str, ...], would: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, *words, '--dry-run')['would'] == would
    assert not list(here.glob('*.db*'))


def test_a_dry_run_is_refused_as_the_run_would_be(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(['add', 'a', 'step']) == 0
    before = (here / 'plan.db').read_bytes()
    capsys.readouterr()
    assert answer(capsys, 'x', '--plan-first', '--dry-run', status=4)['code'] == 'unfinished_plan'
    assert answer(capsys, '--dry-run')['would'] == 'carry out 1 open step with never (one executor)'
    assert answer(capsys, 'x', '--replan', '--dry-run')['would'].startswith('plan the open steps again with never')
    assert (here / 'plan.db').read_bytes() == before
    assert run(['block', '1', '-m', 'no key']) == 0
    capsys.readouterr()
    waiting = answer(capsys, '--dry-run', '--session', 'default', status=6)['would']
    assert waiting.startswith('ask nothing: nothing can be worked on, 1 step is open: 1 blocked; ')
    mine = 'planctl --session default'
    assert waiting.endswith(f'`{mine} reopen 1` and `{mine} run` when that is mended')
    assert run(['done', '1']) == 0
    capsys.readouterr()
    document = answer(capsys, '--dry-run')
    assert document['would'].startswith('ask nothing: the plan is finished')
    assert answer(capsys, '--dry-run', '--session', 'none', status=3)['code'] == 'not_found'


# --- init -----------------------------------------------------------------------------------------------------------


def test_init_writes_an_agent_that_runs_and_never_overwrites(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(['init', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['written'] == ['agent.yaml', '.agent.schema.json']
    first = (here / 'agent.yaml').read_text(encoding='utf-8')
    assert first.startswith('# yaml-language-server: $schema=./.agent.schema.json\n')
    assert load_agent(None, model=None, folder=here).label == 'agent.yaml'
    assert run(['init']) == 4
    assert 'are there already' in capsys.readouterr().err
    write(here, 'agent.yaml', 'mine')
    (here / '.agent.schema.json').unlink()
    assert run(['init']) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ('.agent.schema.json\n', 'planctl: agent.yaml is there already and stays as it is\n')
    assert (here / 'agent.yaml').read_text(encoding='utf-8') == 'mine'
    assert run(['init', 'agent.txt']) == 2


@pytest.mark.skipif(not Path('/dev/full').exists(), reason='needs a device that is always full')
def test_init_leaves_no_half_of_a_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(self: Path, mode: str = 'r', **more: Any) -> Any:
        if mode == 'x':
            opened(self, mode, **more).close()
            return opened(Path('/dev/full'), 'w', **more)
        return opened(self, mode, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, 'open', full)
        assert run(['init']) == 5
    assert capsys.readouterr().err == 'planctl: agent.yaml: No space left on device\n'
    assert not list(here.glob('*agent*'))
    assert run(['init']) == 0


def test_init_gives_way_to_one_that_was_faster(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from planctl.cli import starting

    write(here, 'agent.yaml', 'mine')
    write(here, '.agent.schema.json', 'mine as well')
    monkeypatch.setattr(starting, '_is_there', lambda _: False)
    assert run(['init']) == 4
    assert 'are there already' in capsys.readouterr().err
    assert (here / 'agent.yaml').read_text() + (here / '.agent.schema.json').read_text() == 'minemine as well'


def test_the_schema_knows_every_key_and_capability(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(['init', 'other.yaml']) == 0
    schema = json.loads((here / '.other.schema.json').read_text(encoding='utf-8'))
    assert {'model', 'instructions', 'capabilities', '$schema'} <= schema['properties'].keys()
    assert schema['additionalProperties'] is False
    text = json.dumps(schema)
    for name in ('enable_subtasks', 'cache_ttl', 'LocalWorkspace', 'PrefixTools'):
        assert name in text


def test_the_agent_of_this_repository_is_the_one_that_init_writes() -> None:
    pytest.importorskip('pydantic_ai_harness')
    root = Path(__file__).resolve().parents[2]
    assert (root / 'agent.yaml').read_text(encoding='utf-8') == agent_template('.agent.schema.json')
