"""The global options: every position, the environment, and which database and session they come to."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import Cli, environment, fill, process

import planctl
from planctl.cli import commands
from planctl.cli.settings import Settings


def contents(cli: Cli, *where: str) -> list[str]:
    return [item['content'] for item in cli.json('show', *where)['items']]


@pytest.mark.parametrize('position', range(4))
def test_an_option_beats_the_environment_in_every_position(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, position: int
) -> None:
    monkeypatch.setenv('PLANCTL_DB', 'a.db')
    monkeypatch.setenv('PLANCTL_SESSION', 'from the environment')
    monkeypatch.setenv('PLANCTL_ACTOR', 'env')
    words = ['add', 'x', '--active-form=y']
    words[position:position] = ['--db', 'b.db', '--session', 's', '--actor', 'me']
    cli.ok(*words)
    assert not (cli.folder / 'a.db').exists()
    assert contents(cli, '--db', 'b.db', '--session', 's') == ['x']
    cli.ok('start', '1', '--db', 'b.db', '--session', 's')
    assert cli.json('--db', 'b.db', 'show', '--session', 's')['items'][0]['owner'] == 'env'


def test_the_environment_counts_when_nothing_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PLANCTL_DB', 'a.db')
    monkeypatch.setenv('PLANCTL_SESSION', 's')
    cli.ok('add', 'x')
    assert contents(cli, '--db', 'a.db', '--session', 's') == ['x']
    monkeypatch.setenv('PLANCTL_SESSION', '')
    assert cli('show').status == 3
    assert "'default'" in cli('show').err


def test_the_last_one_wins(cli: Cli) -> None:
    cli.ok('--db', 'a.db', 'add', 'x', '--db', 'b.db', '--db', 'c.db')
    assert [path.name for path in cli.folder.glob('*.db')] == ['c.db']


def test_flags_count_anywhere_before_two_dashes(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'One')
    for words in itertools.permutations(['done', '1', '--json']):
        if words.index('done') < words.index('1'):
            assert json.loads(cli.ok(*words).out)['kind'] == 'done'
    assert cli.ok('add', '--', '--json').out == 'added 2  --json\n'
    assert cli('done', '--', '--json').err.startswith('planctl: ')
    for words in (['--json', 'bogus'], ['bogus', '--json'], ['--json', '--bogus'], ['add', '--json']):
        outcome = cli(*words)
        assert (outcome.status, outcome.error['code']) == (2, 'usage')


@pytest.mark.parametrize(
    ('words', 'message'),
    [
        (['--db', '--json', 'show'], '--db needs a value before --json'),
        (['show', '--session', '-q', '--json'], '--session needs a value before -q'),
        (['done', '1', '-m', '--json'], '-m needs a value before --json'),
        (['done', '1', '--note', '--cascade', '--json'], '--note needs a value before --cascade'),
        (['add', 'x', '--active-form', '--under', '1', '--json'], '--active-form needs a value before --under'),
        (['add', 'x', '--depends-on', '1', '--depends-on', '--json'], '--depends-on needs a value before --json'),
        (['show', '--status', '--json'], '--status needs a value before --json'),
        (['export', '--db', '--json'], '--db needs a value before --json'),
        (['run', '--agent', '--json'], '--agent needs a value before --json'),
    ],
)
def test_an_option_never_takes_another_for_its_value(cli: Cli, words: list[str], message: str) -> None:
    fill(cli.folder / 'plan.db', 'One')
    outcome = cli(*words)
    assert (outcome.status, outcome.error['code'], outcome.error['message']) == (2, 'usage', message)
    assert [item['status'] for item in cli.json('show')['items']] == ['pending']
    assert not (cli.folder / words[-1]).exists()


def test_a_value_that_is_called_like_an_option_is_taken_behind_an_equals_sign(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'One')
    assert cli.json('done', '1', '--note=--json')['items'][0]['note'] == '--json'
    assert cli.json('block', '1', '-m', '--force')['items'][0]['note'] == '--force'


def test_bare_options_show_the_plan(cli: Cli) -> None:
    fill(cli.folder / 'other.db', 'One')
    assert cli.json('--db', 'other.db')['kind'] == 'show'
    assert cli.ok('--db', 'other.db').lines[0] == '[ ] 1 One'


@pytest.mark.parametrize('words', [['--version'], ['show', '--version'], ['done', '--version'], ['--version', 'add']])
def test_version(cli: Cli, words: list[str]) -> None:
    assert cli.ok(*words).out == f'planctl {planctl.__version__}\n'
    assert cli.ok(*words, '--json').document == {'schema': 1, 'kind': 'version', 'version': planctl.__version__}


def test_debug_adds_the_traceback(cli: Cli) -> None:
    assert 'Traceback' not in cli('done', 'x').err
    outcome = cli('done', 'x', '--debug')
    assert 'Traceback (most recent call last)' in outcome.err
    assert outcome.err.splitlines()[-1].startswith('planctl: ')
    assert 'DatabaseNotFound' in cli('done', 'x', '--debug', '--json').error['traceback']


def test_every_error_has_its_status() -> None:
    from planctl import errors
    from planctl.cli.failure import INTERNAL, MEANINGS, status_of

    def leaves(kind: type[errors.PlanctlError]) -> list[type[errors.PlanctlError]]:
        return [kind, *(leaf for below in kind.__subclasses__() for leaf in leaves(below))]

    named = [kind for kind in leaves(errors.PlanctlError) if kind.__module__ == 'planctl.errors']
    assert len(named) > 25
    for kind in named:
        assert status_of(kind()) in MEANINGS
        assert (status_of(kind()) == INTERNAL) == (kind is errors.PlanctlError)


def test_every_end_of_a_run_has_a_status_that_means_something() -> None:
    from planctl.agent.outcome import STATUS, StopReason
    from planctl.cli.failure import MEANINGS

    assert {*StopReason} - {*STATUS} == {StopReason.error}
    assert {*STATUS.values()} <= {*MEANINGS}


def test_what_nobody_foresaw_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from planctl.cli import reading

    def broken(settings: Settings) -> None:
        raise ValueError('one\ntwo \x1b[31m')

    fill(cli.folder / 'plan.db', 'One')
    monkeypatch.setattr(reading, 'read', broken)
    outcome = cli('show')
    assert (outcome.status, outcome.out) == (1, '')
    assert outcome.err == 'planctl: internal error: ValueError: one two \ufffd[31m (--debug shows where)\n'
    assert cli('show', '--json').error['code'] == 'internal'


def test_words_that_make_no_sense_lead_to_the_help_of_their_command(cli: Cli) -> None:
    for words, command in (
        (['help'], 'planctl'),
        (['help', 'show'], 'planctl'),
        (['add'], 'planctl add'),
        (['next', '--clam'], 'planctl next'),
        (['session', 'lst'], 'planctl session'),
        (['session', 'copy', 'one'], 'planctl session copy'),
    ):
        assert cli(*words).err.endswith(f'{command} --help)\n'), words
    assert '--claim' in cli('next', '--clam').err


def test_help_has_a_short_option_everywhere(cli: Cli) -> None:
    for words in ([], ['show'], ['session'], ['session', 'rm']):
        assert cli.ok(*words, '-h').out == cli.ok(*words, '--help').out


def test_text_that_looks_like_an_option_gets_a_hint(cli: Cli) -> None:
    assert 'behind --' in cli('add', '-x').err


def test_actors_must_have_a_name(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'One')
    assert cli('start', '1', '--actor', ' \t').status == 2
    cli.ok('start', '1')
    assert re.fullmatch(r'\S+@\S+', cli.json('show')['items'][0]['owner'])


def test_every_command_explains_itself_and_ends_with_an_example(cli: Cli) -> None:
    listing = cli.ok('--help').out
    assert listing.isascii()
    for name in commands.COMMANDS:
        assert re.search(rf'^  {name} +\S', listing, re.MULTILINE), name
        text = cli.ok(name, '--help').out
        assert f'Usage: planctl {name} ' in text
        assert f'Example: planctl {name}' in text
        for option in ('--db', '--session', '--actor', '--json', '--quiet', '--debug'):
            assert option in text


def test_only_the_command_that_is_asked_for_is_built(folder: Path) -> None:
    fill(folder / 'plan.db', 'One')
    script = 'import sys; from planctl.cli import main; main(["show"]); sys.exit("planctl.cli.changing" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', script], cwd=folder, env=environment(), stdout=-1).returncode == 0


# --- Finding the database -----------------------------------------------------------------------------------------


def test_the_nearest_database_up_to_the_repository(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    below = folder / 'a' / 'b'
    below.mkdir(parents=True)
    fill(folder / 'plan.db', 'above')
    monkeypatch.chdir(below)
    assert contents(cli) == ['above']
    cli.ok('add', 'from below')
    assert not (below / 'plan.db').exists()
    fill(folder / 'a' / '.agent-plan.db', 'nearer')
    assert contents(cli) == ['nearer']
    fill(folder / 'a' / 'plan.db', 'first of two')
    assert contents(cli) == ['first of two']


def test_a_write_makes_a_database_here_and_says_so(cli: Cli) -> None:
    assert process('add', 'x', '--json', cwd=cli.folder).err == 'planctl: new database plan.db\n'
    assert process('add', 'y', cwd=cli.folder).err == ''


def test_outside_a_repository_only_this_folder_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    if any((parent / '.git').exists() for parent in tmp_path.parents):
        pytest.skip('the temporary folder is in a repository, and this is about being in none')
    below = tmp_path / 'below'
    below.mkdir()
    fill(tmp_path / 'plan.db', 'above')
    monkeypatch.chdir(below)
    outcome = cli('show')
    assert outcome.status == 3
    assert str(below) in outcome.err
    assert 'above' not in outcome.err


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / 'gone'
    gone.mkdir()
    script = f'import os, sys; from planctl.cli import main; os.rmdir({os.fspath(gone)!r}); sys.exit(main(["show"]))'
    ended = subprocess.run(
        [sys.executable, '-c', script], cwd=gone, env=environment(), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (3, '')
    assert 'gone' in ended.stderr
