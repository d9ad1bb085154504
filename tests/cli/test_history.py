"""The log as people and scripts read it, undo, and the sessions of a database."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_helpers import Cli, fill, process, store

from planctl.cli.document import ENTRY_FIELDS, FIELDS, LOG_FIELDS, MORE_FIELDS, SESSION_FIELDS, SESSIONS_FIELDS
from planctl.operations import Add, Claim, Describe
from planctl.stores.sqlite_file import SqliteFile


def execute(cli: Cli, statement: str) -> None:
    """Do to the database what another program might."""
    import sqlite3

    with sqlite3.connect(cli.folder / 'plan.db') as connection:
        connection.execute(statement)
    connection.close()


def export(cli: Cli, *words: str) -> dict[str, object]:
    """Return the lossless export without what only grows."""
    return cli.json('export', *words) | {'revision': 0}


# --- log ----------------------------------------------------------------------------------------------------------


def test_the_log_reads_like_a_history(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Describe('Ship it'), Add('Build'), Add('Test', depends_on=('1',)))
    cli.ok('done', '1', '-m', 'green', '--actor', 'executor:x')
    cli.ok('edit', '2', '--content', 'Test all', '--active-form', 'Testing', '--drop-dependency', '1', '--actor', 'ada')
    cli.ok('add', 'First', '--before', '1', '--actor', 'ada')
    cli.ok('edit', '2', '--before', '1', '--under', '3', '--actor', 'ada')
    cli.ok('rm', '1', '--actor', 'ada')
    cli.ok('undo', '--actor', 'ada')
    lines = [re.sub(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d', 'TIME', line) for line in cli.ok('log').lines]
    assert lines == [
        '1  TIME  library  objective: Ship it',
        '1  TIME  library  added 1 Build',
        '1  TIME  library  added 2 Test (blocked)',
        '2  TIME  executor:x  1 pending → completed, note: green · Build',
        '2  TIME  executor:x  2 blocked → pending · Test',
        '3  TIME  ada  2 text: Test all, active form: Testing, depends on nothing',
        '4  TIME  ada  added 3 First',
        '5  TIME  ada  2 under 3, moved behind 3 · Test all',
        '6  TIME  ada  removed 1 Build',
        '7  TIME  ada  undo 6: added 1 Build (completed)',
    ]
    assert cli.ok('log', '-n', '2').lines == cli.ok('log').lines[-2:]
    assert cli.ok('log', '--since', '5').lines == cli.ok('log').lines[-2:]
    assert cli.ok('log', '2', '-n', '1').lines == cli.ok('log').lines[7:8]
    assert cli.ok('log', '--since', '7').out == ''
    assert cli.ok('log', '--since', '9' * 30).out == cli.ok('log', '1', '--since', '9' * 30).out == ''
    assert cli.ok('log', '1', '-n', '9' * 30).out == cli.ok('log', '1').out


def test_the_log_as_json(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Add('Build'), Claim('ada', 60, '1'))
    document = cli.json('log')
    assert list(document) == list(LOG_FIELDS)
    (entry,) = document['entries']
    assert list(entry) == list(ENTRY_FIELDS)
    assert (entry['revision'], entry['id'], entry['actor'], entry['before']) == (1, '1', 'library', None)
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', entry['at'])
    assert entry['after'].keys() == {'id', 'content', 'status', 'owner', 'started_at', 'behind'}
    assert entry['after']['started_at'].endswith('Z')


def test_the_log_of_a_step_that_is_gone(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'x')
    cli.ok('rm', '1')
    assert len(cli.ok('log', '1').lines) == 2
    assert cli('log', '2', '--json').error['code'] == 'step_not_found'


def test_what_another_program_wrote_is_named_so(cli: Cli) -> None:
    import sqlite3

    fill(cli.folder / 'plan.db', 'x', 'y')
    with sqlite3.connect(cli.folder / 'plan.db') as connection:
        connection.execute("UPDATE plan_items SET content = 'a\x1b[31mb' WHERE id = '1'")
    connection.close()
    cli.ok('done', '2')
    line = cli.ok('log').lines[2]
    assert line.isprintable()
    assert '  another program  1 text: a\ufffd[31mb' in line
    cli.ok('undo', '2')
    assert cli.json('show')['items'][0]['content'] == 'x'


# --- undo ---------------------------------------------------------------------------------------------------------

CHANGES = [
    ['add', 'More', '--under', '2', '--depends-on', '3', '--before', '3'],
    ['edit', '5', '--content', 'Other', '--active-form', 'Othering', '--drop-dependency', '1', '--after', '1'],
    ['edit', '6', '--under', '2'],
    ['edit', '--objective', 'Other', '--brief', 'Another'],
    ['start', '3', '-m', 'now'],
    ['done', '1'],
    ['done', '2', '--cascade'],
    ['cancel', '2', '3', '4'],
    ['block', '3', '-m', 'no disk'],
    ['reopen', '6'],
    ['rm', '1', '5'],
    ['rm', '2', '--cascade'],
    ['next', '--claim', '-n', '2'],
    ['import', 'list.md'],
    ['import', 'list.md', '--replace'],
    ['session', 'rm', 'default'],
]


@pytest.mark.parametrize('words', CHANGES, ids=' '.join)
def test_undo_restores_the_same_export(cli: Cli, words: list[str]) -> None:
    path = cli.folder / 'plan.db'
    (cli.folder / 'list.md').write_text('- [x] New\n- [ ] Newer\n')
    store(
        path,
        Describe('Ship it', 'Mind the tests.'),
        Add('Build'),
        Add('Test', depends_on=('1',)),
        Add('Fast ones', parent_id='2'),
        Add('Slow ones', parent_id='2', depends_on=('3',)),
        Add('Release', depends_on=('1', '2'), note='by hand'),
        Add('Idea'),
    )
    cli.ok('cancel', '6', '-m', 'no', '--actor', 'bob')
    if words[:2] == ['done', '2']:
        cli.ok('done', '1', '--actor', 'bob')
    before = export(cli)
    cli.ok(*words)
    words_of_undo = ['undo'] if words[0] != 'session' else ['undo', '--session', 'default']
    dry = cli.json(*words_of_undo, '--dry-run')
    assert list(dry) == [*FIELDS, *MORE_FIELDS['undo']]
    done = cli.json(*words_of_undo)
    assert done == dry | {'dry_run': False}
    assert done['undone'] == done['revision'] - 1
    assert export(cli) == before
    again = cli.ok('undo', str(done['revision']))
    assert again.out.startswith(f'undid {done["revision"]}: ')
    cli.ok('undo', str(done['revision'] + 1))
    assert export(cli) == before


def test_undo_is_never_of_what_another_did(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'one', 'two')
    cli.ok('edit', '1', '--content', 'mine', '--actor', 'ada')
    cli.ok('done', '2', '--actor', 'executor:x')
    assert cli.ok('undo', '--actor', 'ada').out == 'undid 2: edited 1\n'
    assert cli.statuses() == {'1': 'pending', '2': 'completed'}
    outcome = cli('undo', '--actor', 'ada', '--json')
    assert (outcome.status, outcome.error['code']) == (3, 'revision_not_found')


def test_a_conflict_is_refused_and_says_where_to_look(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'one')
    cli.ok('edit', '1', '--content', 'mine')
    cli.ok('edit', '1', '--content', 'theirs', '--actor', 'bob')
    outcome = cli('undo')
    assert outcome.status == 4
    assert outcome.err == (
        'planctl: the content of step 1 was changed again by revision 3'
        ' (what was done: planctl log 1; an older one: planctl undo REV)\n'
    )
    assert cli('undo', '2').err.endswith('(what was done: planctl log 1)\n')
    error = cli('undo', '2', '--json').error
    assert (error['code'], error['ids']) == ('undo_conflict', ['1'])
    assert cli.json('show')['items'][0]['content'] == 'theirs'


def test_a_step_of_another_program_without_a_name_comes_back(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'one', 'two', 'three')
    execute(cli, "UPDATE plan_items SET id = '' WHERE id = '2'")
    cli.ok('edit', '1', '--content', 'first')
    before = export(cli)
    cli.ok('rm', '', '3')
    cli.ok('undo')
    assert export(cli) == before
    assert [line.split('  ')[-1] for line in cli.ok('log').lines[-4:]] == [
        "removed '' two",
        'removed 3 three',
        "undo 4: added '' two",
        'undo 4: added 3 three',
    ]
    assert cli.json('log')['entries'][-2]['after']['content'] == 'two'


@pytest.mark.parametrize('text', ['{oops', '[]', '{"id":"1"}', '{"id":"1","content":"x","status":"no"}'])
def test_a_damaged_row_of_the_log_is_one_line_that_names_it(cli: Cli, text: str) -> None:
    fill(cli.folder / 'plan.db', 'one')
    cli.ok('edit', '1', '--content', 'mine')
    execute(cli, f'UPDATE planctl_log SET "before" = \'{text}\' WHERE revision = 2')
    read = [['log'], ['log', '--json']] if text in ('{oops', '[]') else []
    for words in [['undo'], ['undo', '2', '--dry-run'], *read]:
        outcome = cli(*words)
        assert outcome.status == 5
        assert 'what the log tells of revision 2 is damaged' in outcome.err
        assert outcome.err.count('\n') == 1
    assert cli('undo', '--json').error['code'] == 'damaged'
    assert cli.json('show')['items'][0]['content'] == 'mine'


# --- session ------------------------------------------------------------------------------------------------------


def test_sessions_are_listed(cli: Cli) -> None:
    assert cli('session').status == 3
    store(cli.folder / 'plan.db', Describe('Ship it\nsoon'), Add('one'))
    fill(cli.folder / 'plan.db', 'two', 'three', session='日本 b')
    cli.ok('done', '1', '2', '--session', '日本 b')
    lines = [re.sub(r'\d{4}-\d\d-\d\d \d\d:\d\d', 'TIME', line) for line in cli.ok('session').lines]
    assert lines == [
        'default: 0 of 1 resolved, changed TIME -- Ship it',
        '日本 b: 2 of 2 resolved, finished, changed TIME',
    ]
    document = cli.json('session', 'list')
    assert cli.json('session') == document
    assert list(document) == list(SESSIONS_FIELDS)
    assert [list(each) for each in document['sessions']] == [list(SESSION_FIELDS)] * 2
    assert [(each['session'], each['state']) for each in document['sessions']] == [
        ('default', 'open'),
        ('日本 b', 'finished'),
    ]


def test_a_copy_is_the_same_and_a_plan_of_its_own(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Describe('Ship it', 'b'), Add('one', note='n'), Add('two', depends_on=('1',)))
    cli.ok('start', '1')
    before = export(cli)
    assert cli.ok('session', 'copy', 'default', 'copy').out == 'copied default to copy\n'
    assert export(cli, '--session', 'copy') == before | {'session': 'copy'}
    cli.ok('done', '1', '--session', 'copy')
    assert export(cli) == before
    assert cli('session', 'copy', 'default', 'copy', '--json').error['code'] == 'session_exists'
    assert cli.ok('add', 'three', '--session', 'copy', '--quiet').out == '3\n'


def test_a_renamed_session_keeps_its_log(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'one')
    fill(cli.folder / 'plan.db', 'other', session='other')
    log = cli.json('log')['entries']
    before = export(cli)
    assert cli.ok('session', 'rename', 'default', 'main').out == 'renamed default to main\n'
    assert export(cli, '--session', 'main') == before | {'session': 'main'}
    assert cli.json('log', '--session', 'main')['entries'] == log
    assert cli('show').status == 3
    assert cli('session', 'rename', 'main', 'other', '--json').error['code'] == 'session_exists'
    cli.ok('session', 'rm', 'other')
    gone = cli('session', 'rename', 'main', 'other', '--json').error
    assert (gone['code'], gone['hint']) == ('session_exists', 'planctl undo --session other brings it back')
    cli.ok('session', 'rm', 'other', '--purge')
    cli.ok('session', 'rename', 'main', 'other')


def test_a_removed_session_is_gone_and_comes_back(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'one', 'two', session='a')
    fill(cli.folder / 'plan.db', 'other')
    before = export(cli, '--session', 'a')
    said = cli.ok('session', 'rm', 'a').out
    assert said == 'removed a; planctl undo --session a restores it\n'
    assert [each['session'] for each in cli.json('session')['sessions']] == ['default']
    for words in (['show'], ['next'], ['done', '1'], ['export']):
        assert cli(*words, '--session', 'a', '--json').error['code'] in ('session_not_found', 'step_not_found')
    assert cli('session', 'rm', 'a').status == 3
    assert 'removed the session' in cli.ok('log', '--session', 'a').lines[2]
    cli.ok('undo', '--session', 'a')
    assert export(cli, '--session', 'a') == before
    # Begun anew it counts on.
    cli.ok('session', 'rm', 'a')
    assert cli.ok('add', 'three', '--session', 'a', '--quiet').out == '3\n'
    assert cli.json('show', '--session', 'a')['revision'] == 5
    assert cli('undo', '4', '--session', 'a', '--json').error['code'] == 'undo_conflict'
    assert cli.ok('undo', '--session', 'a').out == 'undid 5: removed 3 · removed the session\n'


@pytest.mark.parametrize('with_steps', [True, False])
def test_an_emptied_session_can_be_removed_and_restored(cli: Cli, with_steps: bool) -> None:
    fill(cli.folder / 'plan.db', 'one')
    if not with_steps:
        cli.ok('rm', '1')
    cli.ok('session', 'rm', 'default')
    assert cli('show').status == 3
    cli.ok('undo')
    assert cli.json('show')['counts']['total'] == with_steps


def test_a_purged_session_is_forgotten(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'one', session='a')
    fill(cli.folder / 'plan.db', 'other')
    before = export(cli)
    assert cli.ok('session', 'rm', 'a', '--purge').out == 'purged a, which cannot be undone\n'
    assert cli('undo', '--session', 'a').status == 3
    assert cli('log', '--session', 'a').status == 3
    assert cli('session', 'rm', 'a', '--purge').status == 3
    assert cli.ok('add', 'anew', '--session', 'a', '--quiet').out == '1\n'
    assert export(cli) == before
    assert 'never' in cli.ok('session', 'rm', '--help').out


def test_a_session_that_is_not_there_is_missed_in_the_same_words_by_every_command(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'one')
    commands = (['rm', 'x'], ['rm', 'x', '--purge'], ['rename', 'x', 'y'], ['copy', 'x', 'y'])
    for words in commands:
        assert cli('--session', 'z', 'session', *words).err == (
            "planctl: there is no session 'x' in plan.db (those there are: planctl session list)\n"
        )


def test_a_session_that_a_run_holds_stays(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Add('one'), Claim('executor:x', 3600, scope='session'))
    for words in (['rm', 'default'], ['rm', 'default', '--purge'], ['rename', 'default', 'x']):
        outcome = cli('session', *words, '--json')
        assert (outcome.status, outcome.error['code']) == (4, 'session_held')
        assert 'that run' in outcome.error['hint']
    cli.ok('session', 'copy', 'default', 'x')


def test_sessions_of_another_program_are_sessions(cli: Cli) -> None:
    import sqlite3

    with sqlite3.connect(cli.folder / '.agent-plan.db') as connection:
        connection.execute(
            'CREATE TABLE plan_items (session TEXT, seq INTEGER, id TEXT, content TEXT, status TEXT, active_form TEXT,'
            ' parent_id TEXT, depends_on TEXT, PRIMARY KEY (session, id))'
        )
        connection.execute("INSERT INTO plan_items VALUES ('theirs', 0, '42d1', 'One', 'pending', '', NULL, '[]')")
    connection.close()
    assert cli.ok('session').out == 'theirs: 0 of 1 resolved\n'
    cli.ok('session', 'rename', 'theirs', 'ours')
    cli.ok('session', 'rm', 'ours')
    cli.ok('undo', '--session', 'ours')
    assert cli.json('show', '--session', 'ours')['items'][0]['id'] == '42d1'


def test_undo_at_once_from_many_processes_is_done_once(folder: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    fill(folder / 'plan.db', 'one')
    assert process('edit', '1', '--content', 'mine', cwd=folder).status == 0
    with ThreadPoolExecutor(6) as pool:
        outcomes = [*pool.map(lambda _: process('undo', '2', '--json', cwd=folder), range(6))]
    assert sorted(outcome.status for outcome in outcomes) == [0, 4, 4, 4, 4, 4]
    from planctl.core import drive

    assert drive(SqliteFile(folder / 'plan.db').read()).step('1').content == 'one'
