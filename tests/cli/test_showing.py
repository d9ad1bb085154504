"""What the commands that look show, in every format, in a pipe."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from cli_helpers import Cli, store

from planctl.cli.document import COUNTS, ERROR_FIELDS, FIELDS, ITEM_FIELDS, WHERE_FIELDS
from planctl.core import drive
from planctl.operations import Add, Claim, Describe, SetStatus
from planctl.plan import TaskStatus
from planctl.reminder import OPENING, remind
from planctl.stores.sqlite_file import SqliteFile


@pytest.fixture
def plan(cli: Cli) -> Cli:
    path = cli.folder / 'plan.db'
    store(
        path,
        Describe('Ship it\nbefore Friday', 'Read the *manual*.'),
        Add('Build'),
        Add('Test'),
        Add('Quick ones', parent_id='2'),
        Add('Slow ones', parent_id='2', depends_on=('3',)),
        Add('Release', depends_on=('1', '2'), note='by hand'),
        Add('Old idea'),
    )
    store(path, SetStatus('1', TaskStatus.completed), SetStatus('6', TaskStatus.cancelled, note='not needed'))
    return cli


def test_text_is_a_tree_with_marks(plan: Cli) -> None:
    expected = [
        'objective: Ship it',
        '  before Friday',
        '[x] 1 Build',
        '[ ] 2 Test',
        '  [ ] 3 Quick ones',
        '  [!] 4 Slow ones (waits for 3)',
        '[!] 5 Release (waits for 2) -- by hand',
        '[-] 6 Old idea -- not needed',
        '2 of 6 resolved, 2 blocked, 1 cancelled',
    ]
    assert plan.ok('show').lines == expected
    assert plan.ok().lines == expected


@pytest.mark.parametrize(
    ('words', 'ids'),
    [
        ([], '1 2 3 4 5 6'),
        (['--tree'], '1 2 3 4 5 6'),
        (['--open'], '2 3 4 5'),
        (['--ready'], '3 2'),
        (['--ready', '--status', 'pending'], '3 2'),
        (['--status', 'completed'], '1'),
        (['--status', 'completed,cancelled'], '1 6'),
        (['--status', 'Blocked, in-progress'], '4 5'),
        (['--open', '--status', 'completed'], ''),
        (['5', '2'], '5 2'),
        (['2', '--tree'], '2 3 4'),
        (['2', '3', '--tree'], '2 3 4'),
        (['2', '5', '--tree', '--open'], '2 3 4 5'),
        (['2', '--tree', '--ready'], '3 2'),
        (['1', '2', '1', '--open'], '2'),
    ],
    ids=lambda value: ' '.join(value) if isinstance(value, list) else value,
)
def test_what_is_chosen(plan: Cli, words: list[str], ids: str) -> None:
    assert plan.ok('show', *words, '-o', 'ids').lines == ids.split()
    assert [item['id'] for item in plan.json('show', *words)['items']] == ids.split()


def test_a_subtree_starts_at_the_left(plan: Cli) -> None:
    assert plan.ok('show', '2', '--tree').lines[2:-1] == [
        '[ ] 2 Test',
        '  [ ] 3 Quick ones',
        '  [!] 4 Slow ones (waits for 3)',
    ]


def test_a_step_in_detail(plan: Cli) -> None:
    plan.ok('start', '3', '--actor', 'ada')
    assert plan.ok('show', '3').lines == [
        '[~] 3 Quick ones',
        '  status: in progress for 0 s, ada',
        '  part of: [ ] 2 Test',
        '  needed by: [!] 4 Slow ones',
    ]
    assert plan.ok('show', '2', '5').lines == [
        '[ ] 2 Test',
        '  status: pending',
        '  needed by: [!] 5 Release',
        '  subtask: [~] 3 Quick ones',
        '  subtask: [!] 4 Slow ones',
        '[!] 5 Release (waits for 2) -- by hand',
        '  status: blocked',
        '  depends on: [x] 1 Build',
        '  depends on: [ ] 2 Test',
        '  note: by hand',
    ]


def test_markdown(plan: Cli) -> None:
    assert plan.ok('show', '-o', 'md').out == (
        '# Ship it\n\nbefore Friday\n\n<!-- planctl: brief -->\n\nRead the \\*manual\\*.\n\n'
        '<!-- planctl: steps -->\n\n'
        '- [x] `1` Build\n- [ ] `2` Test\n  - [ ] `3` Quick ones\n  - [!] `4` Slow ones (depends on: 3)\n'
        '- [!] `5` Release (depends on: 1, 2) — by hand\n- [-] `6` Old idea — not needed\n\n'
        '2 of 6 resolved, 2 blocked, 1 cancelled\n'
    )


def test_the_prompt_is_what_an_agent_is_reminded_of(plan: Cli) -> None:
    stored = drive(SqliteFile(plan.folder / 'plan.db').read())
    expected = OPENING + remind(stored, actor='ada', now=time.time()).text + '\n'
    assert plan.ok('show', '-o', 'prompt', '--actor', 'ada').out == expected
    assert '[ ] 3 Quick ones' in expected


def test_json_has_the_fields_that_are_documented(plan: Cli) -> None:
    document = plan.json('show')
    assert list(document) == list(FIELDS)
    assert all(list(item) == list(ITEM_FIELDS) for item in document['items'])
    assert list(document['counts']) == list(COUNTS)
    assert document['items'][4] == {
        'id': '5',
        'content': 'Release',
        'status': 'blocked',
        'active_form': '',
        'parent_id': None,
        'depends_on': ['1', '2'],
        'waits_for': ['2'],
        'ready': False,
        'owner': None,
        'lease': None,
        'started_at': None,
        'note': 'by hand',
    }
    assert (document['state'], document['objective']) == ('open', 'Ship it\nbefore Friday')
    assert [item['id'] for item in document['items'] if item['ready']] == ['2', '3']
    assert document == plan.ok('show', '-o', 'json').document
    assert list(plan.json('done', '3')) == list(FIELDS)
    assert list(plan.json('where')) == list(WHERE_FIELDS)
    assert list(plan('done', 'nope', '--json').error) == list(ERROR_FIELDS)


def test_times_are_utc(cli: Cli) -> None:
    from planctl.core import apply

    path = cli.folder / 'plan.db'
    store(path, Add('One'))
    drive(apply(SqliteFile(path), Claim('ada', 60, '1'), actor='ada', now=86_400.0))
    item = cli.json('show')['items'][0]
    assert (item['started_at'], item['lease'], item['owner']) == ('1970-01-02T00:00:00Z', '1970-01-02T00:01:00Z', 'ada')


@pytest.mark.parametrize(
    ('statuses', 'state', 'status'),
    [
        ('', 'empty', 6),
        ('completed pending', 'open', 6),
        ('completed cancelled', 'finished', 0),
        ('cancelled cancelled', 'abandoned', 6),
        ('completed in_progress pending', 'open', 6),
        ('completed ' * 8 + 'cancelled cancelled', 'finished', 0),
    ],
)
def test_check_tells_whether_the_plan_is_finished(cli: Cli, statuses: str, state: str, status: int) -> None:
    store(cli.folder / 'plan.db', Describe('Something'))
    for text in statuses.split():
        store(cli.folder / 'plan.db', Add(text, status=TaskStatus(text)))
    outcome = cli('show', '--check', '--json')
    assert (outcome.status, outcome.document['state']) == (status, state)
    assert cli('show', '--check', '--quiet').status == status
    assert cli('show', '--check', '--quiet').out == ''
    assert cli.ok('show').lines[-1].endswith(state) or state in ('open', 'empty')


def test_nothing_is_cut_wrapped_or_coloured_in_a_pipe(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('FORCE_COLOR', '1')
    monkeypatch.setenv('COLUMNS', '20')
    long = ' '.join(f'word{number}' for number in range(500))
    store(cli.folder / 'plan.db', *(Add(f'{number} {long}') for number in range(120)))
    lines = cli.ok('show').lines
    assert len(lines) == 121
    assert lines[0] == f'[ ] 1 0 {long}'
    assert cli.ok('next', '-n', '200').lines == lines[:-1]


def test_where(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Add('x'))
    path = str(cli.folder / 'plan.db')
    assert cli.ok('where', '--actor', 'ada').lines == [f'database {path}', 'session  default', 'actor    ada']
    assert cli.json('where', '--session', 's', '--actor', 'ada', '--db', 'plan.db?table=other') == {
        'schema': 1,
        'kind': 'where',
        'session': 's',
        'database': path,
        'table': 'other',
        'actor': 'ada',
    }


def test_sessions_and_tables_are_apart(cli: Cli) -> None:
    for where in (['--session', 'a'], ['--session', 'b}c/../日本'], ['--db', 'plan.db?table=second']):
        cli.ok('add', *where, f'in {where[1]}')
    for where in (['--session', 'a'], ['--session', 'b}c/../日本'], ['--db', 'sqlite:///plan.db?table=second']):
        assert len(cli.json('show', *where)['items']) == 1
    assert cli.ok('show', '--session', 'a').lines[0] == '[ ] 1 in a'


def test_what_another_program_stored_is_shown_safely(cli: Cli) -> None:
    import sqlite3

    store(cli.folder / 'plan.db', Add('x'))
    connection = sqlite3.connect(cli.folder / 'plan.db')
    connection.execute('UPDATE plan_items SET content = ?', ('a\x1b[31m\nb\x07\u202e\u2028\x9b',))
    connection.commit()
    connection.close()
    for words in ([], ['1'], ['-o', 'md'], ['-o', 'prompt'], ['--json'], ['-o', 'ids']):
        out = cli.ok('show', *words).out
        assert all(line.isprintable() for line in out.splitlines()), words
    assert json.loads(cli.ok('show', '--json').out)['items'][0]['content'].startswith('a')


def test_a_plan_of_another_program_is_a_session(folder: Path, cli: Cli) -> None:
    import sqlite3

    connection = sqlite3.connect(folder / '.agent-plan.db')
    connection.execute(
        'CREATE TABLE plan_items (session TEXT, seq INTEGER, id TEXT, content TEXT, status TEXT, active_form TEXT,'
        ' parent_id TEXT, depends_on TEXT, PRIMARY KEY (session, id))'
    )
    connection.execute("INSERT INTO plan_items VALUES ('default', 0, '42d1ca5e', 'One', 'pending', '', NULL, '[]')")
    connection.commit()
    connection.close()
    assert cli.ok('show').lines == ['[ ] 42d1ca5e One', '0 of 1 resolved']
    assert cli.ok('done', '42d').out == 'done 42d1ca5e · the plan is finished\n'
