"""Plans that come in from files and stdin, and go out in every format."""

from __future__ import annotations

import json
import sqlite3
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cli_helpers import Cli, process, store

from planctl.cli.document import FIELDS, FILE_FIELDS, MORE_FIELDS
from planctl.core import apply, drive
from planctl.operations import Add, Claim, Describe, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.sqlite_file import SqliteFile

GOLDEN = Path(__file__).parent / 'golden'
HOSTILE = '[b]x[/b] <script>alert("1")</script> `rm` $(rm) & #1; --> ]]> \u202e日本 — (depends on: 1)'


@pytest.fixture
def plan(cli: Cli) -> Cli:
    path = cli.folder / 'plan.db'
    store(
        path,
        Describe('Ship it\nbefore Friday', 'Read the *manual*.'),
        Add('Build'),
        Add('Test'),
        Add('Quick ones', parent_id='2', active_form='Running the quick ones'),
        Add('Slow ones', parent_id='2', depends_on=('3',)),
        Add('Release', depends_on=('1', '2'), note='by hand'),
        Add(HOSTILE),
    )
    store(path, SetStatus('1', TaskStatus.completed, note='green'), SetStatus('6', TaskStatus.cancelled))
    drive(apply(SqliteFile(path), Claim('ada', 60, '3'), actor='ada', now=86_400.123456))
    return cli


@pytest.mark.parametrize('how', ['json', 'md', 'mermaid'])
def test_an_export_is_what_it_was(plan: Cli, how: str) -> None:
    golden = GOLDEN / f'plan.{how}'
    assert plan.ok('export', '-o', how).out == golden.read_text(encoding='utf-8')


def test_an_export_is_not_written_over_a_database(plan: Cli) -> None:
    refused = plan('export', 'plan.db')
    assert (refused.status, refused.err) == (
        2,
        'planctl: plan.db is a database, and would be lost (name another file)\n',
    )
    assert plan.json('show')['items']


@pytest.mark.parametrize('name', ['plan.xyz', 'plan.txt', 'new.db', 'in.d/plan.yaml'])
def test_the_name_of_a_file_that_says_nothing_of_its_format_is_not_guessed_at(plan: Cli, name: str) -> None:
    (plan.folder / 'in.d').mkdir()
    refused = plan('export', name, '--json')
    assert (refused.status, refused.error['code']) == (2, 'usage')
    assert '-o: json, md, mermaid, svg, html' in refused.error['hint']
    assert not (plan.folder / name).exists()
    assert plan.json('export', name, '-o', 'md')['format'] == 'md'


@pytest.mark.parametrize('name', ['plan', 'in.d/plan', 'plan.JSON'])
def test_a_file_without_an_ending_is_json(plan: Cli, name: str) -> None:
    (plan.folder / 'in.d').mkdir()
    assert plan.json('export', name)['format'] == 'json'


@pytest.mark.parametrize('name', ['plan.json', 'plan.md'])
def test_what_goes_out_comes_in_equal(plan: Cli, name: str) -> None:
    plan.ok('export', name)
    before = plan.json('export')['items']
    assert plan.ok('import', name, '--replace').out.endswith('\n')
    assert plan.json('export')['items'] == before
    plan.ok('import', name, '--session', 'second', '--actor', 'ada')
    second = plan.json('export', '--session', 'second')
    since = second['items'][2]['started_at']
    # No lease comes along, nor from a checklist since when a step is worked on.
    before[2] |= {'lease': None} if name == 'plan.json' else {'lease': None, 'started_at': since}
    assert second['items'] == before
    assert (second['objective'], second['brief']) == ('Ship it\nbefore Friday', 'Read the *manual*.')


def test_the_answer_of_an_import(plan: Cli) -> None:
    (plan.folder / 'more.json').write_text('[{"id": "1", "content": "again"}, {"content": "new", "depends_on": ["1"]}]')
    dry = plan.json('import', 'more.json', '--dry-run')
    assert list(dry) == [*FIELDS, *MORE_FIELDS['import']]
    assert (dry['dry_run'], dry['renamed'], dry['changed']) == (True, {'1': '7'}, ['7', '8'])
    assert plan.json('show')['counts']['total'] == 6
    done = plan.json('import', 'more.json')
    assert done == dry | {'dry_run': False}
    assert [item['depends_on'] for item in done['items']] == [[], ['7']]
    assert plan.ok('import', 'more.json', '--quiet').lines == ['9', '10']
    text = plan.ok('import', 'more.json', '--dry-run').out
    assert text == 'would be: 2 steps added: 11, 12 · taken ids: 1 is now 11 · 12 blocked\n'.replace(
        ' · 12 blocked', ''
    )


def test_replacing_says_what_went(plan: Cli) -> None:
    (plan.folder / 'list.md').write_text('- [ ] New\n')
    assert plan.ok('import', 'list.md', '--replace').out == '1 step added: 7 · 6 removed: 1, 2, 3, 4, 5, 6\n'
    assert plan.ok('import', 'list.md', '--replace', '--dry-run').out.startswith('would be: 1 step added: 8')
    assert plan.ok('undo').out.startswith('undid')
    assert plan.json('show')['counts']['total'] == 6


def test_an_import_is_all_or_nothing(plan: Cli) -> None:
    (plan.folder / 'bad.json').write_text('["one", {"content": "two", "depends_on": ["nope"]}]')
    before = plan.json('export')
    outcome = plan('import', 'bad.json', '--json')
    assert (outcome.status, outcome.error['code']) == (3, 'step_not_found')
    assert plan.json('export') == before
    (plan.folder / 'bad.md').write_text('- [x] done\n  - [ ] open below\n')
    assert plan('import', 'bad.md', '--json').error['code'] == 'open_children'
    assert plan.json('export') == before


def test_stdin_is_read_whatever_it_is(folder: Path) -> None:
    cases = [
        (b'- one\n- [x] two\n', ['one', 'two']),
        (b'\xef\xbb\xbf["a\\nb", "\\u0000"]', ['a b', '\ufffd']),
        (b'{"content":"x"}\r\n{"content":"y"}\r\n', ['x', 'y']),
        (b'* caf\xe9\n', ['caf\ufffd']),
    ]
    for at, (stdin, contents) in enumerate(cases):
        outcome = process('import', '-', '--json', '--session', f's{at}', cwd=folder, stdin=stdin)
        assert outcome.status == 0, outcome
        assert [item['content'] for item in outcome.document['items']] == contents
    assert process('import', '-', cwd=folder, stdin=b'no bullet').status == 2


def test_a_database_is_no_plan_to_import(plan: Cli) -> None:
    before = plan.json('export')
    outcome = plan('import', 'plan.db')
    assert (outcome.status, outcome.out) == (2, '')
    assert 'plan.db is a database' in outcome.err
    assert 'planctl --db FILE export' in outcome.err
    assert plan.json('export') == before


@pytest.mark.parametrize('encoding', ['utf-8-sig', 'utf-16', 'utf-16-be'])
def test_a_file_of_windows_is_read(encoding: str, cli: Cli) -> None:
    mark = '\ufeff' if encoding == 'utf-16-be' else ''
    (cli.folder / 'list.md').write_bytes(f'{mark}- [ ] café\r\n- [x] 日本語\r\n'.encode(encoding))
    cli.ok('import', 'list.md')
    assert [item['content'] for item in cli.json('show')['items']] == ['café', '日本語']


def test_a_file_that_cannot_be_read_or_written(plan: Cli) -> None:
    assert plan('import', 'nowhere.md').err == 'planctl: nowhere.md cannot be read: No such file or directory\n'
    outcome = plan('export', 'no/folder/plan.json', '--json')
    assert (outcome.status, outcome.error['code']) == (5, 'storage')
    assert plan('export', '/dev/full').status == 5


@pytest.mark.parametrize(
    ('name', 'how'),
    [('a.json', 'json'), ('a.md', 'md'), ('a.mmd', 'mermaid'), ('a.svg', 'svg'), ('a.html', 'html'), ('a', 'json')],
)
def test_the_name_of_a_file_says_how(plan: Cli, name: str, how: str) -> None:
    document = plan.json('export', name)
    assert list(document) == list(FILE_FIELDS)
    assert (document['format'], document['file']) == (how, str(plan.folder / name))
    if how in ('json', 'md', 'mermaid'):
        assert (plan.folder / name).read_text('utf-8') == plan.ok('export', '-o', how).out
    assert plan.ok('export', name, '-o', 'md').out == f'exported 6 steps to {name}\n'
    assert (plan.folder / name).read_text('utf-8') == plan.ok('export', '-o', 'md').out


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text = ''
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_picture_holds_text_as_text(plan: Cli) -> None:
    store(plan.folder / 'plan.db', Add('\uffff\ufffe\U0001f469\u200d\U0001f4bb'))
    html = Text()
    html.feed(plan.ok('export', '-o', 'html').out)
    assert not html.tags & {'script', 'link', 'img', 'b'}
    assert '[b]x[/b] <script>alert("1")</script>' in html.text.replace('\n', ' ').replace('       ', ' ')
    svg = plan.ok('export', '-o', 'svg').out
    root = ElementTree.fromstring(svg)
    assert 'http' not in svg.replace('http://www.w3.org/2000/svg', '').replace('https://www.textualize.io', '')
    texts = ''.join(root.itertext()).replace('\xa0', ' ')
    assert '<script>alert("1")</script>' in texts
    assert {element.tag.rpartition('}')[2] for element in root.iter()} <= {
        'svg', 'style', 'defs', 'clipPath', 'rect', 'g', 'text', 'circle',
    }  # fmt: skip
    assert '\u202e' not in svg


def test_a_whole_copy(plan: Cli) -> None:
    plan.ok('add', 'elsewhere', '--session', 'other')
    assert plan.ok('export', '--db', 'copy.db').out == 'copied plan.db to copy.db\n'
    for words in (['export'], ['log'], ['export', '--session', 'other']):
        assert plan.json('--db', 'copy.db', *words) == plan.json(*words)
    again = plan('export', '--db', 'copy.db')
    assert again.status == 5
    assert 'copy.db' in again.err
    # In front of the command it is where to read from.
    plan.ok('--db', 'copy.db', 'rm', '5')
    assert plan.ok('--db', 'copy.db', 'export', '--db', 'copy 2.db').out == 'copied copy.db to copy 2.db\n'
    assert plan('--db', 'copy 2.db', 'show', '5').status == 3
    with sqlite3.connect(plan.folder / 'copy 2.db') as connection:
        assert connection.execute('PRAGMA integrity_check').fetchone() == ('ok',)
    connection.close()
    assert plan('export', '--db', 'postgresql://u:secret@host/db').status == 4


def test_an_exported_checklist_can_be_run(plan: Cli) -> None:
    from planctl.agent.checklist import Entry, parse

    found = parse(plan.ok('export', '-o', 'md').out)
    assert found.entries[:3] == (Entry('Test'), Entry('Quick ones', 0), Entry('Slow ones', 0, (1,)))
    assert found.around == 'Ship it\nbefore Friday\n\nRead the *manual*.'


def test_json_is_lossless(plan: Cli) -> None:
    item = plan.json('export')['items'][2]
    assert (item['started_at'], item['lease']) == ('1970-01-02T00:00:00.123456Z', '1970-01-02T00:01:00.123456Z')
    assert plan.json('show')['items'][2]['started_at'] == '1970-01-02T00:00:00Z'
    assert json.loads(plan.ok('export').out) == plan.json('export')


def test_an_import_that_is_refused_names_the_steps_by_what_the_text_says(cli: Cli) -> None:
    cli.ok('add', 'Before')
    (cli.folder / 'list.md').write_text('- [x] Upper\n  - [ ] Lower\n')
    for more in ([], ['--dry-run']):
        refused = cli('import', 'list.md', *more, '--json')
        assert (refused.status, refused.error['ids']) == (4, ['2', '3'])
        assert refused.error['hint'] == "in the text, 2 is 'Upper', 3 is 'Lower'"
    assert len(cli.json('show')['items']) == 1
