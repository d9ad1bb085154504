"""What shells offer behind a half-typed word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import Cli, Outcome, environment, fill, process, store

from planctl.operations import Add, SetStatus
from planctl.plan import TaskStatus

HOSTILE = '[b] "now" $(touch owned) `touch owned` \'; touch owned; \\ ) (( :'


@pytest.fixture
def plan(folder: Path) -> Path:
    store(folder / 'plan.db', Add('Build'), Add('Test [all]'), Add(HOSTILE, id='42d1ca5e'), Add('x', id="o'x"))
    store(folder / 'plan.db', SetStatus('1', TaskStatus.completed))
    fill(folder / 'plan.db', 'one', session='other')
    fill(folder / 'plan.db', 'one', session='with space')
    return folder


def complete(folder: Path, shell: str, line: str, **env: str) -> Outcome:
    words = line.split(' ')
    return process(
        cwd=folder,
        env={
            '_PLANCTL_COMPLETE': f'complete_{shell}',
            'COMP_WORDS': line,
            'COMP_CWORD': str(len(words) - 1),
            '_TYPER_COMPLETE_ARGS': line,
            '_TYPER_COMPLETE_FISH_ACTION': 'get-args',
            **env,
        },
    )


@pytest.mark.parametrize(
    ('line', 'offered'),
    [
        ('planctl sh', 'show'),
        ('planctl session ', 'list copy rename rm'),
        ('planctl done ', '2 42d1ca5e'),
        ('planctl done 2 ', '42d1ca5e'),
        ('planctl done 4', '42d1ca5e'),
        ('planctl reopen ', '1'),
        ('planctl show ', '1 2 42d1ca5e'),
        ('planctl rm ', '1 2 42d1ca5e'),
        ('planctl log 1', '1'),
        ('planctl add x --under ', '1 2 42d1ca5e'),
        ('planctl edit 2 --depends-on 1', '1'),
        ('planctl --session ', 'default other'),
        ('planctl show --session o', 'other'),
        ('planctl --session other done ', '1'),
        ('planctl done --session other ', '1'),
        ('planctl session rm d', 'default'),
        ('planctl session copy ', 'default other'),
        ('planctl show --st', '--status'),
        ('planctl show --status c', 'completed cancelled'),
        ('planctl show --status pending,completed,b', 'pending,completed,blocked'),
        ('planctl --db nowhere.db done ', ''),
        ('planctl --db . done ', ''),
        ('planctl --session nowhere done ', ''),
        ('planctl --db postgresql://u:secret@localhost:1/x --session ', ''),
    ],
)
def test_what_is_offered(plan: Path, line: str, offered: str) -> None:
    outcome = complete(plan, 'bash', line)
    assert (outcome.status, outcome.err) == (0, '')
    assert outcome.out.split() == offered.split()


@pytest.mark.parametrize(
    ('line', 'offered'),
    [
        ('planctl --db = plan.db done ', '2 42d1ca5e'),
        ('planctl --db = plan.db --session = other done ', '1'),
        ('planctl show --status = c', 'completed cancelled'),
        ('planctl show --session =', 'default other'),
        ('planctl add a = b --under ', '1 2 42d1ca5e'),
    ],
)
def test_bash_makes_three_words_of_an_option_with_its_value(plan: Path, line: str, offered: str) -> None:
    outcome = complete(plan, 'bash', line, COMP_WORDS=line.replace(' ', '\n'))
    assert (outcome.status, outcome.err) == (0, '')
    assert outcome.out.split() == offered.split()


def test_the_environment_counts(plan: Path, tmp_path: Path) -> None:
    fill(tmp_path / 'b.db', 'x', 'y', 'z', session='s')
    env = {'PLANCTL_DB': str(tmp_path / 'b.db'), 'PLANCTL_SESSION': 's'}
    assert complete(plan, 'bash', 'planctl done ', **env).out.split() == ['1', '2', '3']
    assert complete(plan, 'bash', 'planctl --db plan.db done --session other ', **env).out.split() == ['1']


def test_ids_come_with_their_text(plan: Path) -> None:
    assert complete(plan, 'zsh', 'planctl done ').out == (
        '_arguments \'*: :(("2":"Test all"\n"42d1ca5e":"b now touch owned touch owned touch owned"))\'\n'
    )
    assert complete(plan, 'fish', 'planctl done ').out == (
        '2\tTest all\n42d1ca5e\tb now touch owned touch owned touch owned\n'
    )
    assert complete(plan, 'fish', 'planctl --session d').out == 'default\t1 of 4 resolved\n'


def test_completing_writes_nothing(plan: Path) -> None:
    before = (plan / 'plan.db').read_bytes(), (plan / 'plan.db').stat().st_mtime_ns, sorted(os.listdir(plan))
    for shell in ('bash', 'zsh', 'fish'):
        complete(plan, shell, 'planctl done ')
        complete(plan, shell, 'planctl --session ')
    after = (plan / 'plan.db').read_bytes(), (plan / 'plan.db').stat().st_mtime_ns, sorted(os.listdir(plan))
    assert after == before


def test_plan_commands_do_not_pay_for_it(plan: Path) -> None:
    code = "from planctl.cli import main; import sys; main(['done', '2']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=plan, env=environment(), capture_output=True, text=True, check=True
    )
    assert not {'rich', 'pydantic', 'asyncio'} & set(done.stderr.split())


@pytest.mark.skipif(shutil.which('bash') is None, reason='bash, whose completion is tried, is not installed')
def test_a_real_bash_completes(plan: Path, tmp_path: Path) -> None:
    script = process('--show-completion', 'bash', cwd=plan, env={'_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION': '1'})
    assert script.status == 0, script
    planctl = tmp_path / 'planctl'
    planctl.write_text(f'#!/bin/sh\nexec {sys.executable} -m planctl "$@"\n')
    planctl.chmod(0o755)
    (tmp_path / 'complete.sh').write_text(script.out)
    commands = (
        f'source {tmp_path}/complete.sh; COMP_WORDS=(planctl done ""); COMP_CWORD=2;'
        ' _planctl_completion planctl "" done; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = environment({'PATH': f'{tmp_path}:{os.environ["PATH"]}'})
    done = subprocess.run(
        ['bash', '--norc', '-c', commands], cwd=plan, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ['2', '42d1ca5e']
    assert not (plan / 'owned').exists()


def test_errors_are_silent(cli: Cli, folder: Path) -> None:
    (folder / 'plan.db').write_text('not a database ' * 100)
    for shell in ('bash', 'zsh', 'fish'):
        outcome = complete(folder, shell, 'planctl done ')
        assert (outcome.status, outcome.err) == (0, '')
