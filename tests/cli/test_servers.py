"""Plans on real servers, by URL: every command, no password anywhere, and what is said when it cannot be."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cli_helpers import Cli, process
from servers import Place, place, postgres, postgres_server, valkey_server

from planctl.stores import opening

__all__ = ['place', 'postgres', 'postgres_server', 'valkey_server']


def test_every_command_works_on_a_server(cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PLANCTL_DB', place.db)
    assert cli('show', '--json').error['code'] == 'session_not_found'
    assert cli.ok('add', 'Build').err == ''
    cli.ok('add', 'Test', '--depends-on', '1')
    assert cli.ok('next', '--claim', '--quiet').out == '1\n'
    assert cli.ok('done', '1').out == 'done 1 · 2 can start now\n'
    assert cli.ok('edit', '2', '--content', 'Test all', '--actor', 'ada').out == 'edited 2\n'
    assert cli.ok('undo', '--actor', 'ada').out.startswith('undid ')
    assert cli.ok('show').lines == ['[x] 1 Build', '[ ] 2 Test', '1 of 2 resolved']
    assert len(cli.json('log')['entries']) >= 6
    (cli.folder / 'list.md').write_text('- [ ] More\n')
    cli.ok('import', 'list.md')
    exported = cli.json('export')
    assert [item['content'] for item in exported['items']] == ['Build', 'Test', 'More']
    cli.ok('session', 'copy', 'default', 'copy')
    assert cli.json('export', '--session', 'copy')['items'] == exported['items']
    for words in (
        ['session'],
        ['session', 'rename', 'copy', 'x'],
        ['session', 'rm', 'copy'],
        ['export', '--db', 'c.db'],
    ):
        assert cli(*words, '--json').error['code'] == 'unsupported'
    assert sorted(path.name for path in cli.folder.iterdir()) == ['.git', 'list.md']


def test_a_plan_on_a_server_can_be_watched(cli: Cli, place: Place) -> None:
    import subprocess

    from cli_helpers import environment

    url = place.db
    command = subprocess.Popen(
        [sys.executable, '-m', 'planctl', 'show', '--watch', '--check', '--db', url],
        cwd=cli.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert command.stderr is not None
        assert command.stdout is not None
        assert command.stderr.readline() == "planctl: waiting for session 'default'\n"
        cli.ok('add', 'one', '--db', url)
        assert [command.stdout.readline() for _ in range(2)] == ['[ ] 1 one\n', '0 of 1 resolved\n']
        cli.ok('done', '1', '--db', url)
        assert command.communicate(timeout=30) == ('[x] 1 one\n1 of 1 resolved, finished\n', '')
        assert command.returncode == 0
    finally:
        command.kill()
        command.communicate()


SECRETS = [
    'postgresql://user:s3cr3t@127.0.0.1:1/db',
    'postgresql://user:s3cr3t@127.0.0.1:1/db?table=x',
    'postgresql://127.0.0.1:1/db?user=u&password=s3cr3t',
    'postgresql://user:s3cr3t%2Fx@127.0.0.1:port/db',
    'postgresql://user:s3cr3t@127.0.0.1/db?nonsense=1&port=1&host=127.0.0.1',
    'redis://:s3cr3t@127.0.0.1:1/0',
    'redis://:s3cr3t@127.0.0.1:1/0?protocol=7',
    'redis://user:s3cr3t@127.0.0.1:1',
    'redis://:s3cr3t@127.0.0.1:port/0',
    'rediss://:s3cr3t@127.0.0.1:1/0?prefix=x',
    'rediss://:s3cr3t@127.0.0.1:1/0?nonsense=1',
]


@pytest.mark.parametrize('url', SECRETS)
def test_a_password_is_shown_nowhere(cli: Cli, url: str) -> None:
    for words in (['show'], ['add', 'x', '--json'], ['show', '--debug'], ['done', '1', '--debug', '--json'], ['log']):
        outcome = cli('--db', url, *words)
        assert outcome.status in (2, 5), outcome
        assert outcome.out == ''
        assert 's3cr3t' not in outcome.err
        # A URL that cannot be read is not repeated at all: nobody can say what in it is the password.
        assert ('127.0.0.1' in outcome.err) is (':port' not in url)
    for words in (['where'], ['where', '--json']):
        where = cli('--db', url, *words)
        assert (where.status == 0) is (':port' not in url)
        assert 's3cr3t' not in where.out + where.err


@pytest.mark.parametrize(
    ('scheme', 'package', 'extra'), [('postgresql', 'asyncpg', 'postgres'), ('redis', 'redis', 'redis')]
)
def test_a_missing_driver_is_named_with_its_extra(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, scheme: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    outcome = cli('show', '--db', f'{scheme}://u:s3cr3t@host/0', '--json')
    assert (outcome.status, outcome.error['code']) == (5, 'driver_missing')
    assert outcome.error['hint'] == f"pip install 'planctl[{extra}]'"
    assert 's3cr3t' not in outcome.err


def test_a_file_does_not_pay_for_servers(folder: Path) -> None:
    import subprocess

    from cli_helpers import environment

    code = "from planctl.cli import main; import sys; main(['add', 'x']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert not {'asyncio', 'asyncpg', 'redis', 'rich', 'pydantic'} & set(done.stderr.split())
    assert process('show', cwd=folder).status == 0


def test_what_is_refused_on_a_server_with_a_password_ends_in_one_line_without_it(cli: Cli, place: Place) -> None:
    # The servers of the tests let everybody in: a password that nobody asked for is shown no more than another.
    scheme, _, rest = place.db.partition('://')
    login, at, where = rest.rpartition('@')
    url = place.db
    if place.kind != 'redis':
        url = f'{scheme}://{login.partition(":")[0] or "postgres"}:s3cr3t{at or "@"}{where}'
    for words in (['show'], ['show', '9', '--json']):
        outcome = cli('--db', url, *words)
        assert outcome.status == 3
        assert 's3cr3t' not in outcome.err
    cli.ok('--db', url, 'add', 'A')
    for words in (['done', '9'], ['done', '9', '--json'], ['show', '9'], ['edit', '1', '--depends-on', '1']):
        outcome = cli('--db', url, *words)
        assert outcome.status in (3, 4), outcome
        assert outcome.err.count('\n') == 1
        assert 's3cr3t' not in outcome.err


def test_what_a_server_answers_does_not_pass_and_its_silence_may(
    cli: Cli, postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = cli('show', '--json', '--db', urlsplit(postgres.db)._replace(path='/nosuch').geturl())
    assert (outcome.status, outcome.error['code']) == (5, 'storage')
    assert 'does not exist' in outcome.error['message']
    monkeypatch.setattr(opening, 'WAIT', 0.2)
    with socket.create_server(('127.0.0.1', 0)) as silent:
        outcome = cli('show', '--json', '--db', f'postgresql://u:s3cr3t@127.0.0.1:{silent.getsockname()[1]}/db')
    assert (outcome.status, outcome.error['code']) == (5, 'unavailable')
    assert outcome.error['message'].endswith('cannot be reached: no answer in 0.2 seconds')


def test_errors_that_caused_each_other_are_read_once() -> None:
    from planctl.stores.opening import _texts

    one, two = ValueError('one'), ValueError('two')
    one.__cause__, two.__cause__ = two, one
    assert [text.strip() for text in _texts(one)] == ['one', 'two']
