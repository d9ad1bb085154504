"""The examples do what they say, from their own command lines."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from process_helpers import ROOT, environment, planctl

from planctl.stores.sqlite_file import PlanFile

needs_harness = pytest.mark.skipif(
    importlib.util.find_spec('pydantic_ai_harness') is None, reason='needs the extra workspace'
)


README = (ROOT / 'examples' / 'README.md').read_text(encoding='utf-8')


def example(name: str, database: Path) -> subprocess.CompletedProcess[str]:
    """Run an example by the command that the README gives, with another database."""
    found = re.search(rf'(?m)^planctl --db (\S+) (.*examples/{name}/.*) - < (\S+)$', README)
    assert found is not None
    # In a fresh clone there is no folder to put one in.
    assert '/' not in found[1]
    return planctl(ROOT, '--db', str(database), *found[2].split(), '--json', '-', stdin=(ROOT / found[3]).read_text())


@needs_harness
def test_the_release_checklist_of_this_project_is_planned_and_carried_out(tmp_path: Path) -> None:
    database = tmp_path / 'plan.db'
    report = ROOT / 'build' / 'release-report.md'
    report.unlink(missing_ok=True)
    done = example('release', database)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document['stop_reason'], document['counts']['total']) == ('finished', document['counts']['completed'])
    steps = {step.content: step for step in PlanFile(database).read().steps}
    ran = [step for content, step in steps.items() if '`' in content]
    assert len(ran) == 5
    assert {step.note for step in ran} == {'ended with status 0'}
    assert report.read_text(encoding='utf-8').startswith('# planctl ')
    shown = planctl(ROOT, '--db', str(database), 'show')
    assert shown.stdout.count('[x]') == document['counts']['total']


@needs_harness
def test_a_step_that_fails_is_blocked_and_what_waits_for_it_stays_open(tmp_path: Path) -> None:
    done = example('failing', tmp_path / 'plan.db')
    assert done.returncode == 6
    document = json.loads(done.stdout)
    assert document['stop_reason'] == 'waiting'
    assert [(step['id'], step['status'], step['note']) for step in document['open']] == [
        ('2', 'blocked', 'ended with status 1: the server does not answer'),
        ('3', 'blocked', ''),
    ]
    assert [step['id'] for step in document['completed']] == ['1', '4']


@needs_harness
def test_the_agent_of_this_folder_needs_no_key(tmp_path: Path) -> None:
    done = planctl(ROOT, '--db', str(tmp_path / 'plan.db'), 'run', '1. Say hello `echo hello`', '--plan-first')
    assert done.returncode == 0, done.stderr
    assert 'agent.yaml · ' in done.stderr
    assert 'left out while planning: ' in done.stderr


def test_an_agent_in_python_is_heard(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / 'examples' / 'watch_an_agent.py'), str(tmp_path / 'plan.db')],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith('planned: ')][-1] == 'planned: Send the answer'
    assert [line for line in lines if line.startswith('done: ')][-1] == 'done: Send the answer'
    assert PlanFile(tmp_path / 'plan.db', session='watched').read().progress.finished
