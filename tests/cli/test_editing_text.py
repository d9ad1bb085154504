"""`edit` in an editor, on a real terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from cli_helpers import Cli, Terminal, process, store

from planctl.core import drive
from planctl.operations import Add, Describe
from planctl.plan import Plan
from planctl.stores.sqlite_file import SqliteFile

# An editor that keeps what it was given, replaces some words, and does what it is told in between.
EDITOR = """
import os, subprocess, sys
text = open(sys.argv[-1], encoding='utf-8').read()
open('seen', 'w', encoding='utf-8').write(text)
assert os.isatty(0) and os.isatty(1)
if sys.argv[3:-1]:
    subprocess.run([sys.executable, '-m', 'planctl', *sys.argv[3:-1]], check=True, stdout=subprocess.DEVNULL)
open(sys.argv[-1], 'w', encoding='utf-8').write(text.replace(sys.argv[1], sys.argv[2]))
"""


@pytest.fixture
def plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / 'editor.py').write_text(EDITOR)
    (folder / 'tmp').mkdir()
    store(
        folder / 'plan.db',
        Describe('Ship it'),
        Add('Build'),
        Add('Test', depends_on=('1',)),
        Add('Fast ones', parent_id='2'),
    )
    return folder


def edit(
    plan: Path, old: str, new: str, *words: str, meanwhile: str = '', status: int = 0, variable: str = 'EDITOR'
) -> str:
    """Edit as a person does who replaces some words, and return what planctl said."""
    editor = f"{sys.executable} editor.py '{old}' '{new}' {meanwhile}"
    terminal = Terminal(plan, 200, *words, **{variable: editor, 'TMPDIR': str(plan / 'tmp')})
    assert terminal.end() == status, terminal.written
    return terminal.written.replace('\r\n', '\n')


def stored(plan: Path) -> Plan:
    return drive(SqliteFile(plan / 'plan.db').read())


def test_the_plan_in_an_editor(plan: Path) -> None:
    said = edit(plan, '- [ ] `1` Build', '- [x] `1` Build it — green', 'edit')
    assert (plan / 'seen').read_text('utf-8').endswith(
        '# Ship it\n\n<!-- planctl: steps -->\n\n'
        '- [ ] `1` Build\n- [!] `2` Test (depends on: 1)\n  - [ ] `3` Fast ones\n'
    )  # fmt: skip
    assert said == '1 is completed · 2 is pending\n'
    step = stored(plan).step('1')
    assert (step.content, step.status.value, step.note) == ('Build it', 'completed', 'green')
    assert list((plan / 'tmp').iterdir()) == []
    assert stored(plan).revision == 2


def test_a_step_in_an_editor(plan: Path) -> None:
    said = edit(plan, '`3` Fast ones', '`3` Faster ones\n  - [ ] Slow ones', 'edit', '2', variable='VISUAL')
    assert 'Build' not in (plan / 'seen').read_text('utf-8').partition('-->')[2]
    assert said == 'added 4 · edited 3\n'
    assert [(s.id, s.parent_id) for s in stored(plan).steps] == [('1', None), ('2', None), ('3', '2'), ('4', '2')]


def test_what_others_do_while_the_editor_is_open_survives(plan: Path) -> None:
    said = edit(plan, '`3` Fast', '`3` Faster', 'edit', meanwhile='done 1 --actor executor:x')
    assert said == 'edited 3 · changes of another kept in 1, 2\n'
    assert [(s.content, s.status.value) for s in stored(plan).steps] == [
        ('Build', 'completed'),
        ('Test', 'pending'),
        ('Faster ones', 'pending'),
    ]


@pytest.mark.parametrize(
    ('old', 'new', 'said', 'parent'),
    [
        ('- [!] `2` Test (depends on: 1)\n', '', '3 is under 1 now · removed 2\n', '1'),
        ('- [!] `2` Test (depends on: 1)\n  - [ ] `3`', '- [ ] `3`', '3 is at the top level now · removed 2\n', None),
        (
            '- [!] `2` Test (depends on: 1)\n  - [ ] `3` Fast',
            '  - [ ] `3` Faster',
            'edited 3 · 3 is under 1 now · removed 2\n',
            '1',
        ),
    ],
)
def test_what_is_below_a_line_that_is_removed_goes_where_it_stands(
    plan: Path, old: str, new: str, said: str, parent: str | None
) -> None:
    assert edit(plan, old, new, 'edit') == said
    assert [(s.id, s.parent_id) for s in stored(plan).steps] == [('1', None), ('3', parent)]


def test_what_is_below_the_first_line_goes_to_the_top_level_when_that_is_removed(plan: Path) -> None:
    said = edit(plan, '- [ ] `1` Build\n- [!] `2` Test (depends on: 1)\n', '', 'edit')
    assert said == '3 is at the top level now · removed 1, 2\n'
    assert [(s.id, s.parent_id) for s in stored(plan).steps] == [('3', None)]


def test_a_text_that_is_left_as_it_is_changes_nothing(plan: Path) -> None:
    assert edit(plan, 'nothing', 'nothing', 'edit') == 'nothing to change\n'
    assert stored(plan).revision == 1


@pytest.mark.parametrize(
    ('old', 'new', 'status', 'said'),
    [
        ('`2` Test', '`2`', 2, 'the text of step 2 is blank'),
        ('`2` Test', '`1` Test', 4, 'two lines have the id 1'),
        ('(depends on: 1)', '(depends on: 3)', 4, 'would wait for each other'),
        ('(depends on: 1)', '(depends on: 9)', 3, 'which is not in the plan'),
        ('[ ] `1` Build', '[x] `1` Build\n  - [ ] below', 4, 'open subtasks'),
        ('`1` Build', '`77` Build', 2, 'no step has the id of the line `77` Build'),
        ('- [ ] `1` Build', '- [ ] Another', 2, 'the line `2` Test depends on 1, whose line is gone'),
        ('<!-- planctl: steps -->', '', 2, 'the line <!-- planctl: steps --> is gone from the text'),
    ],
)
def test_a_text_that_cannot_be_taken_is_kept(plan: Path, old: str, new: str, status: int, said: str) -> None:
    before = stored(plan)
    message = edit(plan, old, new, 'edit', status=status)
    assert said in message
    (kept,) = (plan / 'tmp').iterdir()
    assert f'the text is kept in {kept}' in message
    assert new in kept.read_text('utf-8')
    assert stored(plan) == before


def test_an_editor_that_fails_changes_nothing(plan: Path) -> None:
    for editor, said in (
        ('false', 'ended with status 1'),
        ('no-such-editor', 'cannot be run'),
        ("'", 'cannot be read'),
    ):
        terminal = Terminal(plan, 200, 'edit', EDITOR=editor, TMPDIR=str(plan / 'tmp'))
        assert terminal.end() == 2
        assert said in terminal.written
    assert list((plan / 'tmp').iterdir()) == []
    assert stored(plan).revision == 1


def test_a_new_plan_is_written_in_an_editor(folder: Path) -> None:
    (folder / 'editor.py').write_text(EDITOR)
    (folder / 'tmp').mkdir()
    said = edit(folder, '- [ ] \n', '- [ ] one\n  - [ ] two\n', 'edit')
    assert said == 'planctl: new database plan.db\nadded 1, 2\n'
    assert [(s.content, s.parent_id) for s in stored(folder).steps] == [('one', None), ('two', '1')]


def test_without_a_terminal_it_is_a_usage_error(cli: Cli, plan: Path) -> None:
    for words in (['edit'], ['edit', '1']):
        outcome = cli(*words)
        assert outcome.status == 2
        assert 'terminal' in outcome.err
    assert process('edit', cwd=plan, env={'EDITOR': 'true'}).status == 2


def test_a_bad_row_is_mended_before(plan: Path) -> None:
    import sqlite3

    with sqlite3.connect(plan / 'plan.db') as connection:
        connection.execute("UPDATE plan_items SET status = 'odd' WHERE id = '3'")
    connection.close()
    message = edit(plan, 'Build', 'Other', 'edit', status=5)
    assert re.search('step .*3.* has the status', message)
    assert not (plan / 'seen').exists()
