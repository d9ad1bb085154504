"""Every command times everything that can come of it: exit status, stdout and stderr, as text and as JSON."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_helpers import Cli, Outcome, store

from planctl.operations import Add, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.sqlite_file import SqliteFile
from planctl.stores.sqlite_sessions import Sessions

# What each command is given; ID stands for a step.
WORDS = {
    'show': ('show', 'ID'),
    'next': ('next',),
    'next --claim': ('next', '--claim'),
    'add': ('add', 'One more', '--depends-on', 'ID'),
    'add --under': ('add', 'One more', '--under', 'ID'),
    'add --before': ('add', 'One more', '--before', 'ID'),
    'add --after': ('add', 'One more', '--after', 'ID'),
    'edit': ('edit', 'ID', '--content', 'Other words'),
    'edit --under': ('edit', 'third', '--under', 'ID'),
    'edit --depends-on': ('edit', 'third', '--depends-on', 'ID'),
    'edit --drop-dependency': ('edit', 'third', '--drop-dependency', 'ID'),
    'edit --before': ('edit', 'third', '--before', 'ID'),
    'edit --after': ('edit', 'third', '--after', 'ID'),
    'edit --objective': ('edit', '--objective', 'To be done'),
    'start': ('start', 'ID'),
    'done': ('done', 'ID'),
    'cancel': ('cancel', 'ID'),
    'block': ('block', 'ID'),
    'reopen': ('reopen', 'ID'),
    'rm': ('rm', 'ID'),
    'undo': ('undo', '1'),
    'undo --dry-run': ('undo', '1', '--dry-run'),
    'log': ('log', 'ID'),
    'import': ('import', 'list.md'),
    'import --replace': ('import', 'list.md', '--replace'),
    'import --dry-run': ('import', 'list.md', '--dry-run'),
    'export': ('export',),
    'export FILE': ('export', 'out.md'),
    'export --db': ('export', '--db', 'copy.db'),
    'session': ('session',),
    'session list': ('session', 'list'),
    'session copy': ('session', 'copy', 'default', 'new'),
    'session rename': ('session', 'rename', 'default', 'new'),
    'session rm': ('session', 'rm', 'default'),
    'session rm --purge': ('session', 'rm', 'default', '--purge'),
    'where': ('where',),
}
READS = {'show', 'next', 'where', 'undo --dry-run', 'log', 'export', 'session', 'session list', 'import --dry-run'}
CREATES = {'add', 'edit --objective', 'import', 'import --replace', 'import --dry-run'}
OF_SESSIONS = {name for name in WORDS if name.startswith('session')}
WHOLE = {'where', 'export --db', *OF_SESSIONS}
"""Commands that are not about the session that is meant."""
ANSWERS = {name for name in WORDS if name not in {'where', 'log', 'export FILE', 'export --db', *OF_SESSIONS}}
"""Commands that answer with the document about a plan."""
TAKES_ID = [name for name, words in WORDS.items() if 'ID' in words]


def with_id(name: str, step_id: str) -> list[str]:
    return [step_id if word == 'ID' else word for word in WORDS[name]]


@pytest.fixture(autouse=True)
def checklist(folder: Path) -> Path:
    path = folder / 'list.md'
    path.write_text('- [ ] One more\n')
    return path


def at(path: str, words: list[str]) -> list[str]:
    """Name a database in front of the command: behind it `export --db` names a copy."""
    return ['--db', path, *words]


@pytest.fixture
def database(folder: Path) -> Path:
    path = folder / 'plan.db'
    store(path, Add('First', id='42d1ca5e'), Add('Second', id='42d9beef'), Add('Third', id='third'), Add('Number'))
    return path


def both_fail(cli: Cli, words: list[str], status: int, code: str) -> Outcome:
    """Assert that the command fails the same way for people and for scripts, with nothing on stdout."""
    text = cli(*words)
    assert (text.status, text.out) == (status, '')
    assert text.err.startswith('planctl: ')
    assert text.err.count('\n') == 1
    scripted = cli('--json', *words)
    assert scripted.status == status
    assert scripted.error['code'] == code
    assert set(scripted.error) == {'code', 'message', 'ids', 'hint'}
    assert scripted.error['message'] in text.err
    return text


@pytest.mark.parametrize('name', WORDS)
def test_works(cli: Cli, database: Path, name: str) -> None:
    outcome = cli.ok(*with_id(name, '42d1ca5e'))
    assert outcome.out.endswith('\n')
    assert outcome.err == ''


@pytest.mark.parametrize('name', WORDS)
def test_works_with_json(cli: Cli, database: Path, name: str) -> None:
    document = cli.json(*with_id(name, '42d1ca5e'))
    kinds = {'session': 'session list', 'session rm --purge': 'session rm'}
    assert document['kind'] == (kinds.get(name, name) if name in OF_SESSIONS else WORDS[name][0])
    assert document['schema'] == 1
    if name not in OF_SESSIONS:
        assert document['session'] == 'default'
    if name in ANSWERS:
        assert 'items' in document
        nothing = {'show', 'next', 'export', 'reopen', 'edit --drop-dependency', 'edit --objective'}
        assert bool(document['changed']) == (name not in nothing)


@pytest.mark.parametrize('name', WORDS)
def test_quiet_prints_ids_of_new_and_claimed_steps_alone(cli: Cli, database: Path, name: str) -> None:
    outcome = cli.ok(*with_id(name, '42d1ca5e'), '--quiet')
    if name == 'next --claim':
        assert outcome.out == '42d1ca5e\n'
    else:
        assert outcome.out == ('2\n' if name.startswith(('add', 'import')) else '')


@pytest.mark.parametrize('name', TAKES_ID)
def test_a_shortened_id_is_taken(cli: Cli, database: Path, name: str) -> None:
    assert cli(*with_id(name, '42d1')).status == 0


@pytest.mark.parametrize('name', TAKES_ID)
def test_a_missing_id(cli: Cli, database: Path, name: str) -> None:
    before = cli.json('show')
    both_fail(cli, with_id(name, 'nope'), 3, 'step_not_found')
    assert cli.json('show') == before


@pytest.mark.parametrize('name', TAKES_ID)
def test_an_ambiguous_id_lists_the_candidates(cli: Cli, database: Path, name: str) -> None:
    before = cli.json('show')
    outcome = both_fail(cli, with_id(name, '42d'), 3, 'ambiguous_id')
    assert '42d1ca5e, 42d9beef' in outcome.err
    assert cli(*with_id(name, '42d'), '--json').error['ids'] == ['42d1ca5e', '42d9beef']
    assert cli.json('show') == before


@pytest.mark.parametrize('name', TAKES_ID)
@pytest.mark.parametrize('word', ['', ' ', 'a b', '<1>', 'x' * 65])
def test_what_is_no_id(cli: Cli, database: Path, name: str, word: str) -> None:
    both_fail(cli, with_id(name, word), 2, 'invalid_id')


@pytest.mark.parametrize(
    ('words', 'items'),
    [
        (('edit', '1', '--content', 'One'), ['1']),
        (('edit', '1', '--under', 'none'), ['1']),
        (('edit', '2', '--depends-on', '1'), ['2']),
        (('edit', '1', '--drop-dependency', '2'), ['1']),
        (('edit', '--objective', ''), []),
        (('start', '3'), ['3']),
        (('done', '4'), ['4']),
        (('cancel', '5'), ['5']),
        (('block', '6'), ['6']),
        (('reopen', '1'), ['1']),
    ],
)
def test_repeating_a_state_that_holds_changes_nothing(cli: Cli, words: tuple[str, ...], items: list[str]) -> None:
    store(cli.folder / 'plan.db', Add('One'), Add('Two', depends_on=('1',)), *(Add(text) for text in '3456'))
    for step_id, status in (('3', 'in_progress'), ('4', 'completed'), ('5', 'cancelled'), ('6', 'blocked')):
        store(cli.folder / 'plan.db', SetStatus(step_id, TaskStatus(status)))
    before = cli.json('show')
    document = cli.json(*words)
    assert (document['changed'], document['unblocked']) == ([], [])
    assert [item['id'] for item in document['items']] == items
    assert cli.json('show') == before
    assert cli.ok(*words).out.count('\n') == 1


def test_there_is_nothing_to_do(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Add('One'), Add('Two', depends_on=('1',)))
    store(cli.folder / 'plan.db', SetStatus('1', TaskStatus.blocked))
    assert 'blocked' in both_fail(cli, ['next'], 3, 'none_available').err
    cli.ok('start', '1')
    assert 'worked on' in both_fail(cli, ['next', '--claim', '--actor', 'other'], 3, 'none_available').err
    cli.ok('done', '1', '2')
    assert 'finished' in both_fail(cli, ['next'], 3, 'none_available').err
    assert both_fail(cli, ['rm', '7'], 3, 'step_not_found')
    cli.ok('rm', '1', '2')
    assert cli.ok('show').out == 'no steps\n'
    assert cli.json('show')['state'] == 'empty'
    assert 'no steps' in both_fail(cli, ['next'], 3, 'none_available').err


def test_a_database_without_a_session_is_no_silence(cli: Cli, database: Path) -> None:
    cli.ok('session', 'rm', 'default')
    for words in (['session'], ['session', 'list']):
        listed = cli.ok(*words)
        assert (listed.out, listed.err) == ('', 'planctl: there is no session in plan.db\n')
        assert cli.ok(*words, '--quiet').err == ''
        scripted = cli.ok(*words, '--json')
        assert (scripted.document['sessions'], scripted.err) == ([], '')


@pytest.mark.parametrize('name', WORDS)
def test_a_missing_database(cli: Cli, name: str) -> None:
    words = ['add', 'One more'] if name == 'add' else with_id(name, '1')
    if name in CREATES:
        outcome = cli.ok(*words)
        dry = name.endswith('--dry-run')
        assert outcome.err == ('' if dry else 'planctl: new database plan.db\n')
        assert (cli.folder / 'plan.db').exists() != dry
        return
    code = 'step_not_found' if name.startswith('add') else 'database_not_found'
    outcome = both_fail(cli, words, 3, code)
    assert name.startswith('add') or str(cli.folder) in outcome.err
    both_fail(cli, at('typo.db', words), 3, code)
    assert sorted(path.name for path in cli.folder.iterdir()) == ['.git', 'list.md']


@pytest.mark.parametrize('name', WORDS)
def test_a_missing_session(cli: Cli, database: Path, name: str) -> None:
    words = [*(['add', 'One more'] if name == 'add' else with_id(name, '1')), '--session', 'nowhere']
    before = database.read_bytes()
    if name in OF_SESSIONS - {'session', 'session list'}:
        words = ['nowhere' if word == 'default' else word for word in WORDS[name]]
    elif name in CREATES | WHOLE:
        assert cli.ok(*words).err == ''
        return
    both_fail(cli, words, 3, 'step_not_found' if name.startswith('add') else 'session_not_found')
    assert database.read_bytes() == before


@pytest.mark.parametrize('name', WORDS)
def test_bad_usage(cli: Cli, database: Path, name: str) -> None:
    both_fail(cli, [*with_id(name, '1'), '--bogus'], 2, 'usage')
    both_fail(cli, [*with_id(name, '1'), '--db'], 2, 'usage')
    if name not in WHOLE - {'where'}:
        both_fail(cli, [*with_id(name, '1'), '--session', ''], 2, 'invalid_name')
    both_fail(cli, at('', with_id(name, '1')), 2, 'usage')


@pytest.mark.parametrize(
    'words',
    [
        ['nonsense'],
        ['--bogus'],
        ['add'],
        ['done'],
        ['edit'],
        ['edit', '1'],
        ['edit', '--content', 'x'],
        ['edit', '1', '--objective', 'x'],
        ['edit', '1', '--before', '1', '--after', '2'],
        ['edit', '--objective', '-', '--brief', '-'],
        ['add', 'x', '--before', '1', '--after', '2'],
        ['next', '-n', '0'],
        ['next', '-n', 'many'],
        ['next', 'surplus'],
        ['where', 'surplus'],
        ['show', '--status', 'failed'],
        ['show', '-o', 'xml'],
        ['undo', '0'],
        ['undo', 'x'],
        ['log', '-n', '0'],
        ['log', '--since', '-1'],
        ['log', '1', '2'],
        ['import'],
        ['import', 'nowhere.md'],
        ['import', '.'],
        ['import', 'list.md', '--append', '--replace'],
        ['import', 'list.md', '--db', 'plan.db?table=1'],
        ['export', '-o', 'pdf'],
        ['export', '-o', 'md'],
        ['export', 'x.md', '--db', 'copy.db'],
        ['export', '--db', 'copy.db', '-o', 'md'],
        ['session', 'nonsense'],
        ['session', 'copy', 'default'],
        ['session', 'copy', 'default', ''],
        ['session', 'rename', '', 'x'],
        ['session', 'rename', 'default', 'x' * 201],
        ['session', 'rm'],
        ['session', 'rm', 'a\nb'],
        ['show', '--db', 'https://example.org/plan.db'],
        ['show', '--db', 'plan.db?table=no%20table'],
        ['show', '--db', ':memory:'],
        ['add', 'x', '--db', '--quiet'],
        ['add', 'x', '--session', '--quiet'],
    ],
)
def test_words_that_make_no_sense(cli: Cli, database: Path, words: list[str]) -> None:
    status = cli(*words, '--json')
    assert status.status == 2
    assert status.error['code'] in ('usage', 'invalid_name')
    assert cli('--json', *words).error == status.error


@pytest.mark.parametrize('words', [['add', ''], ['add', ' \t'], ['add', '\n'], ['edit', 'third', '--content', ' ']])
def test_blank_text(cli: Cli, database: Path, words: list[str]) -> None:
    both_fail(cli, words, 2, 'blank_text')


@pytest.mark.parametrize('name', [name for name in WORDS if name != 'where'])
@pytest.mark.parametrize('what', ['text', 'truncated', 'folder', 'foreign'])
def test_a_file_that_is_no_plan(cli: Cli, database: Path, name: str, what: str) -> None:
    if (name, what) == ('export --db', 'foreign'):
        return  # A copy of a database is a copy of whatever is in it.
    path = cli.folder / 'other'
    if what == 'text':
        path.write_text('not a database, but long enough to be looked at ' * 20)
    elif what == 'truncated':
        path.write_bytes(database.read_bytes()[:1500])
    elif what == 'folder':
        path.mkdir()
    else:
        foreign = sqlite3.connect(path)
        foreign.execute('CREATE TABLE plan_items (other TEXT)')
        foreign.close()
    before = path.read_bytes() if path.is_file() else sorted(path.iterdir())
    both_fail(cli, at('other', with_id(name, '1')), 5, 'damaged')
    assert before == (path.read_bytes() if path.is_file() else sorted(path.iterdir()))
    assert {entry.name for entry in cli.folder.iterdir()} == {'.git', 'list.md', 'other', 'plan.db'}


@pytest.mark.parametrize('name', WORDS)
def test_a_database_of_a_newer_planctl(cli: Cli, database: Path, name: str) -> None:
    connection = sqlite3.connect(database)
    connection.execute('UPDATE planctl_schema SET version = 99')
    connection.commit()
    connection.close()
    before = database.read_bytes()
    if name in ('where', 'export --db'):
        assert cli(*with_id(name, '42d1ca5e')).status == 0
    else:
        both_fail(cli, with_id(name, '42d1ca5e'), 5, 'newer_schema')
    assert database.read_bytes() == before


@pytest.mark.parametrize('name', WORDS)
def test_a_database_that_is_locked(cli: Cli, database: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for method in (SqliteFile.__init__, Sessions.__init__):
        assert method.__kwdefaults__ is not None
        monkeypatch.setitem(method.__kwdefaults__, 'wait', 0.02)
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute('BEGIN IMMEDIATE')
    try:
        if name in READS | {'export FILE', 'export --db'}:
            assert cli(*with_id(name, '42d1ca5e')).status == 0
        else:
            outcome = both_fail(cli, with_id(name, '42d1ca5e'), 5, 'unavailable')
            assert 'locked' in outcome.err
    finally:
        writer.close()
    assert cli.json('show')['revision'] == 1


# --- Read-only ----------------------------------------------------------------------------------------------------


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be somebody to whom permissions mean something; to root they mean nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.mark.skipif(not hasattr(os, 'setresuid'), reason='root may write anywhere, and cannot be another user here')
@pytest.mark.parametrize('name', [name for name in WORDS if name not in ('export FILE', 'export --db')])
def test_a_read_only_plan_can_be_read(cli: Cli, database: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    words = with_id(name, '42d1ca5e')
    cli.ok(*words)  # Whatever has to be imported for it is, by one who may.
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = folder / 'plan.db'
        store(path, Add('First', id='42d1ca5e'), Add('Third', id='third'))
        (folder / 'list.md').write_text('- One more')
        before = path.read_bytes()
        monkeypatch.chdir(folder)
        path.chmod(0o444)
        folder.chmod(0o555)
        with unprivileged():
            outcome = cli(*words, '--json')
        if name in READS:
            assert outcome.status == 0, outcome
            assert outcome.document['schema'] == 1
        else:
            assert outcome.status == 5, outcome
            assert outcome.error['code'] == 'storage'
            assert 'read-only' in outcome.error['message']
        assert path.read_bytes() == before
        assert sorted(entry.name for entry in folder.iterdir()) == ['list.md', 'plan.db']
        folder.chmod(0o755)
        monkeypatch.chdir(cli.folder)
