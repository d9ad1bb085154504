"""Agent files and modules, models by name, and every way in which they can be wrong: one line and the right status."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runner_helpers import write

from planctl.agent.nearest import nearest_agent_file
from planctl.agent.spec import load_agent
from planctl.cli.app import run

HARNESS = importlib.util.find_spec('pydantic_ai_harness') is not None
needs_harness = pytest.mark.skipif(not HARNESS, reason='needs the extra workspace')
without_harness = pytest.mark.skipif(HARNESS, reason='is about what happens without the extra workspace')


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith('PLANCTL_') or name.endswith('_API_KEY'):
            monkeypatch.delenv(name)
    path, modules = list(sys.path), set(sys.modules)
    # Whatever is installed here, these two are not.
    for package in ('google', 'groq'):
        # Another test may have used the provider, and what is imported already is not looked for.
        for name in [*sys.modules]:
            if name.startswith(f'{package}.') or (name.startswith('pydantic_ai.') and package in name):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name in ('agents', 'broken'):
            del sys.modules[name]


def refused(capsys: pytest.CaptureFixture[str], here: Path, *words: str) -> tuple[int, str]:
    """Run, and return the exit status and the one line on stderr; nothing else was written or made."""
    before = sorted(path.name for path in here.iterdir() if path.name != '__pycache__')
    status = run(['run', *words])
    out, err = capsys.readouterr()
    assert out == ''
    assert err.endswith('\n')
    assert err.count('\n') == 1
    assert sorted(path.name for path in here.iterdir() if path.name != '__pycache__') == before
    return status, err.strip()


SPECS = [
    ('a: [', 'a.yaml:1: not YAML: '),
    ('- a\n- b', 'a.yaml: an agent file is a mapping of keys, this is a list'),
    ('', 'a.yaml: an agent file is a mapping of keys, this is nothing'),
    (
        'intructions: be kind',
        "a.yaml:1: intructions: unknown key (did you mean 'instructions'?); there are: $schema, model, ",
    ),
    ('model: offline\nzzz: 1', 'a.yaml:2: zzz: unknown key'),
    ('model: 5', 'a.yaml:1: model: '),
    ('model: offline\nretries: many', 'a.yaml:2: retries: input should be a valid integer'),
    ('model: offline\ncapabilities: Planning', 'a.yaml:2: capabilities: a list of names is expected, this is text'),
    ('model: offline\ncapabilities: [5]', 'a.yaml:2: capabilities: a name, or one name with options'),
    (
        'model: offline\ncapabilities: [Planing]',
        "a.yaml:2: capabilities.Planing: unknown 'Planing' (did you mean 'Planning'?); there are: ",
    ),
    (
        'model: offline\ncapabilities: [{Planning: {sesion: x}}]',
        "a.yaml:2: capabilities.Planning.sesion: unknown option 'sesion' (did you mean 'session'?)",
    ),
    (
        'model: offline\ncapabilities: [{Planning: {session: 007}}]',
        'a.yaml:2: capabilities.Planning.session: 007 is another number in YAML: write it plainly, or quote it; '
        'taken here: text',
    ),
    (
        'model: offline\ncapabilities: [{Planning: {session: on}}]',
        'a.yaml:2: capabilities.Planning.session: on is true in YAML: write that, or quote it; taken here: text',
    ),
    (
        'model: offline\ncapabilities: [{Planning: {session: 2026-09-01}}]',
        'a.yaml:2: capabilities.Planning.session: 2026-09-01 is a date in YAML: quote it; taken here: text',
    ),
    (
        'model: offline\ncapabilities: [{Planning: {session: }}]',
        'a.yaml:2: capabilities.Planning.session: text is expected, this is nothing: quote it',
    ),
    ('model: offline\ncapabilities: [{Planning: {inject: nope}}]', 'a.yaml:2: capabilities.Planning.inject: '),
    ('model: offline\ncapabilities: [{Planning: {inject: "no"}}]', 'a.yaml:2: capabilities.Planning.inject: '),
    ('model: offline\ncapabilities: [{Planning: {cache_ttl: 9h}}]', 'a.yaml:2: capabilities.Planning.cache_ttl: '),
    ('model: offline\ncapabilities: [{Planning: {tools: write_plan}}]', 'a.yaml:2: capabilities.Planning.tools: '),
    ('model: offline\ncapabilities: [{Planning: {tools: [nope]}}]', 'a.yaml:2: capabilities.Planning: tools names '),
    (
        'model: offline\ncapabilities: [{PrefixTools: {prefix: p, capability: Planing}}]',
        "a.yaml:2: capabilities.PrefixTools.capability.Planing: unknown 'Planing'",
    ),
    (
        'model: offline\ncapabilities: [{PrefixTools: {prefix: p}}]',
        "a.yaml:2: capabilities.PrefixTools: the option 'capability' is missing",
    ),
    ('model: offline\ncapabilities: [{LocalWorkspace: 5}]', 'a.yaml:2: capabilities.LocalWorkspace.working_dir: '),
    (
        'model: offline\ncapabilities: [LocalWorkspace]',
        "a.yaml:2: capabilities.LocalWorkspace: the option 'working_dir' is missing",
    ),
    ('model: offline\ndeps_schema: {type: object}', 'a.yaml:2: deps_schema: '),
    ('name: no model', 'a.yaml: no model'),
    ('model: nope', 'a.yaml:1: model: unknown model: nope'),
    ('model: openai:gpt-5', "a.yaml:1: model: model 'openai:gpt-5' needs OPENAI_API_KEY in the environment"),
    ('model: google:gemini', "a.yaml:1: model: model 'google:gemini' needs the extra 'google'"),
]


@pytest.mark.parametrize(('text', 'message'), SPECS)
def test_a_file_that_is_wrong_is_refused_in_one_line(
    text: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here, 'a.yaml', text)
    status, line = refused(capsys, here, 'an objective', '--agent', 'a.yaml')
    assert (status, line.startswith(f'planctl: {message}')) == (7, True), line


@needs_harness
@pytest.mark.parametrize(
    ('text', 'message'),
    [
        (
            'capabilities: [Filesystem]',
            "a.yaml:2: capabilities.Filesystem: unknown 'Filesystem' (did you mean 'FileSystem'?)",
        ),
        ('capabilities: [{Shell: {allowed_commands: ls}}]', 'a.yaml:2: capabilities.Shell.allowed_commands: '),
        ('capabilities: [{Shell: {default_timeout: soon}}]', 'a.yaml:2: capabilities.Shell.default_timeout: '),
        ('capabilities: [SubAgents]', 'a.yaml:2: capabilities.SubAgents: can be given from Python only'),
    ],
)
def test_a_capability_of_the_workspace_that_is_wrong(
    text: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here, 'a.yaml', f'model: offline\n{text}')
    status, line = refused(capsys, here, 'x', '--agent', 'a.yaml')
    assert (status, line.startswith(f'planctl: {message}')) == (7, True), line


@without_harness
def test_a_capability_of_the_workspace_names_its_extra(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, 'a.yaml', 'model: offline\ncapabilities: [{LocalWorkspace: .}, Shell]')
    status, line = refused(capsys, here, 'x', '--agent', 'a.yaml')
    assert (status, line) == (
        7,
        "planctl: a.yaml:2: capabilities.Shell: needs the extra 'workspace' (pip install 'planctl[workspace]')",
    )


@pytest.mark.parametrize(
    ('words', 'status', 'message'),
    [
        (['x', '--agent', 'no.yaml'], 7, 'no.yaml: there is no such agent file'),
        (['x', '--agent', '.'], 7, '.: cannot be read'),
        (['x'], 7, 'no model: there is no agent.yaml here and no --model'),
        (['x', '--model', 'openai:gpt-5'], 7, "--model: model 'openai:gpt-5' needs OPENAI_API_KEY in the environment"),
        (['x', '--model', 'groq:x'], 7, "--model: model 'groq:x' needs the extra 'groq'"),
        (['x', '--model', 'nope'], 7, '--model: unknown model: nope'),
        (['x', '--plan-first', '--model', 'offline', '--planner-model', 'nope'], 7, '--planner-model: unknown model'),
        (['x', '--agent', 'nothere:agent'], 7, "--agent nothere:agent: there is no module 'nothere' here"),
        *(
            (['x', '--agent', given], 7, f'--agent {given}: {said}')
            for given, said in (
                ('a.py', 'an agent in Python is named module:variable (for example a:agent)'),
                ('./a/b.py:x', 'an agent in Python is named module:variable (for example a.b:x)'),
                ('a/b:x', 'an agent in Python is named module:variable (for example a.b:x)'),
                ('../a.py', 'an agent in Python is named module:variable (for example a:agent, in ..)'),
                ('a.py:x', "there is no module 'a.py' here (for example a:x)"),
            )
        ),
        ([], 3, 'there is no plan.db'),
        (['--model', 'offline', '--db', 'no.db'], 3, 'there is no plan database at no.db, and no objective was given'),
        ([''], 2, 'the objective is empty'),
        ([' \n\t', '--model', 'offline'], 2, 'the objective is empty'),
        (['x', '--append', '--replan'], 2, '--append and --replan exclude each other'),
        (['x', '--max-requests', '0'], 2, ''),
        (['x', '--max-nudges', '-1'], 2, ''),
        (['x', 'y'], 2, ''),
        (['x', '--nope'], 2, ''),
        (['x', '--model', 'offline', '--session', ''], 2, ''),
        (['x', '--model', 'offline', '--db', ''], 2, ''),
    ],
)
def test_words_that_make_no_run(
    words: list[str], status: int, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got, line = refused(capsys, here, *words)
    assert (got, line.startswith(f'planctl: {message}')) == (status, True), line


def test_asking_for_a_session_that_is_not_there_does_not_make_it(here: Path, capsys: Any) -> None:
    from planctl.stores.sqlite_file import PlanFile

    write(here, 'agent.yaml', 'model: offline')
    assert run(['add', 'a']) == 0
    before = (here / 'plan.db').read_bytes()
    capsys.readouterr()
    status, line = refused(capsys, here, '--session', 'typo')
    assert (status, line.startswith("planctl: session 'typo' has no plan")) == (3, True)
    assert (here / 'plan.db').read_bytes() == before
    assert PlanFile(here / 'plan.db', session='typo').read().owner is None


def test_an_error_in_json(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, line = refused(capsys, here, 'x', '--json')
    assert json.loads(line)['error']['code'] == 'spec'


def test_a_file_that_is_no_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / 'a.yaml').write_bytes(b'\xff\xfe\x00')
    assert refused(capsys, here, 'x', '--agent', 'a.yaml')[0] == 7
    write(here, 'a.json', '{"model": ')
    assert 'a.json:1: not JSON' in refused(capsys, here, 'x', '--agent', 'a.json')[1]


# --- Modules --------------------------------------------------------------------------------------------------------

AGENTS = """
from dataclasses import dataclass
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

@dataclass
class Deps:
    user: str

good = Agent('test')
without_model = Agent()
needs_deps = Agent('test', deps_type=Deps)
no_key = Agent('openai:gpt-5', defer_model_check=True)
number = 5
"""


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        ('agents:goood', "the module has no 'goood' (did you mean 'good'?)"),
        ('agents:number', "'number' is a int, not an agent"),
        ('agents:needs_deps', 'the agent needs deps (Deps), which a command line cannot give'),
        ('agents:no_key', "model 'openai:gpt-5' needs OPENAI_API_KEY in the environment"),
        ('broken:agent', 'RuntimeError: it broke'),
    ],
)
def test_a_module_that_is_wrong(name: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, 'agents.py', AGENTS)
    write(here, 'broken.py', "raise RuntimeError('it\\nbroke')")
    status, line = refused(capsys, here, 'x', '--agent', name)
    assert (status, line.partition(' (`--model offline`')[0]) == (7, f'planctl: --agent {name}: {message}')


def test_an_agent_without_a_model_needs_one_on_the_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here, 'agents.py', AGENTS)
    status, line = refused(capsys, here, 'x', '--agent', 'agents:without_model')
    assert (status, 'agents:without_model: no model' in line) == (7, True)
    assert run(['run', '* a', '--plan-first', '--agent', 'agents:without_model', '--model', 'offline']) == 0


# --- Good ones ------------------------------------------------------------------------------------------------------


def test_the_nearest_file_is_used_up_to_the_repository(here: Path) -> None:
    inner = here / 'a' / 'b'
    inner.mkdir(parents=True)
    write(here, 'agent.yaml', 'model: offline')
    assert nearest_agent_file(inner) is None
    (here / '.git').mkdir()
    assert nearest_agent_file(inner) == here / 'agent.yaml'
    write(here / 'a', 'agent.yaml', 'model: offline')
    assert nearest_agent_file(inner) == here / 'a' / 'agent.yaml'


def test_paths_are_relative_to_the_file_and_the_line_beats_the_file(here: Path, monkeypatch: Any) -> None:
    from pydantic_ai.capabilities import LocalWorkspace

    from planctl.agent.roles import own_planning
    from planctl.agent.surroundings import leaves_of

    (here / 'sub' / 'ws').mkdir(parents=True)
    (here / 'else').mkdir()
    write(
        here / 'sub',
        'a.yaml',
        'model: openai:gpt-5\ncapabilities: [{LocalWorkspace: ws}, {Planning: {backend: sqlite, session: s}}]',
    )
    monkeypatch.chdir(here / 'else')
    loaded = load_agent('../sub/a.yaml', model='offline', folder=here / 'else')
    workspace = next(c for c in leaves_of(loaded.agent.root_capability) if isinstance(c, LocalWorkspace))
    assert Path(workspace.working_dir).resolve() == (here / 'sub' / 'ws').resolve()
    planning = own_planning(loaded)
    assert planning is not None
    assert Path(planning.store.path).resolve() == (here / 'sub' / '.agent-plan.db').resolve()  # type: ignore[union-attr]
    assert loaded.model is not None
    assert loaded.model.model_name == 'offline'


def test_the_store_that_the_file_names_is_used_unless_the_line_names_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        here,
        'agent.yaml',
        'model: offline\ncapabilities: [{Planning: {backend: sqlite, database: own.db, session: mine}}]',
    )
    assert run(['run', '* a', '--plan-first', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['session'] == 'mine'
    assert sorted(path.name for path in here.glob('*.db')) == ['own.db']
    assert run(['run', '* a', '--plan-first', '--json', '--session', 'other']) == 0
    assert json.loads(capsys.readouterr().out)['session'] == 'other'
    assert run(['run', '* a', '--plan-first', '--db', 'line.db']) == 0
    _, err = capsys.readouterr()
    assert 'line.db (new) · session mine' in err
    assert sorted(path.name for path in here.glob('*.db')) == ['line.db', 'own.db']


def test_json_files_are_agent_files_too(here: Path) -> None:
    write(here, 'a.json', '{"model": "offline", "capabilities": ["Planning"]}')
    assert load_agent('a.json', model=None, folder=here).label == 'a.json'


# --- Answers --------------------------------------------------------------------------------------------------------


def test_the_answer_is_on_stdout_and_everything_else_is_not(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ['run', '* a\n* b `true`', '--plan-first', '--model', 'offline']
    assert run(words) == 6
    out, err = capsys.readouterr()
    assert out.startswith('This is the offline model')
    assert out.count('\n') == 1
    assert '[!] 2 b `true` -- a command is quoted, but this agent has no shell' in err
    assert err.splitlines()[-1].startswith('planctl: waiting: nothing can be worked on')
    assert '\x1b' not in out + err
    assert run([*words[:2], '--replan', '--model', 'offline', '--json']) == 6
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert (document['schema'], document['kind'], document['stop_reason']) == (1, 'run', 'waiting')
    assert [phase['name'] for phase in document['phases']] == ['plan', 'execute']
    assert document['open'][0].keys() == {'id', 'content', 'status', 'note', 'waits_for'}
    assert run(['run', '--model', 'offline', '--quiet']) == 6
    assert capsys.readouterr().out == ''


def test_quiet_and_finished_says_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(['run', '* a', '--plan-first', '--model', 'offline', '--quiet']) == 0
    assert capsys.readouterr() == ('', '')


def test_planning_alone_and_going_on_later(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(['run', '* a', '--plan-only', '--model', 'offline']) == 0
    assert 'planctl: planned 1 step;' in capsys.readouterr().err
    status, line = refused(capsys, here, '* b', '--plan-first', '--model', 'offline')
    assert (status, '--append adds to it' in line) == (4, True)
    assert run(['run', '--model', 'offline']) == 0
    assert run(['run', '--model', 'offline', '--json']) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (document['stop_reason'], document['phases']) == ('finished', [])


def test_no_words_of_an_error_after_the_beginning_are_lost(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        here,
        'agents.py',
        'from pydantic_ai import Agent\nfrom pydantic_ai.models.function import FunctionModel\n'
        'def fail(messages, info): raise ConnectionError("gone")\nagent = Agent(FunctionModel(fail))',
    )
    assert run(['run', 'x', '--agent', 'agents:agent', '--json']) == 7
    out, err = capsys.readouterr()
    assert (json.loads(out)['stop_reason'], json.loads(out)['error']['code']) == ('error', 'model')
    assert json.loads(err.splitlines()[-1])['error']['code'] == 'model'
