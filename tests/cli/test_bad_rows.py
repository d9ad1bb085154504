"""A plan in which another program stored what is no step: what commands show of it, and how it is mended."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from cli_helpers import Cli, fill, process

SAYS = "step '2' cannot be read: it has the status 'done', which no step can have"
LINE = f'planctl: {SAYS} (planctl edit --content mends it, planctl rm removes it)\n'


def sql(path: Path, statement: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(statement)
    db.close()


@pytest.fixture
def plan(cli: Cli) -> Cli:
    fill(cli.folder / 'plan.db', 'Build', 'Test', 'Ship')
    sql(cli.folder / 'plan.db', "UPDATE plan_items SET status = 'done' WHERE id = '2'")
    return cli


def test_the_good_steps_are_listed_and_the_bad_one_is_named_on_stderr(plan: Cli) -> None:
    shown = plan.ok('show')
    assert shown.lines == ['[ ] 1 Build', '[ ] 3 Ship', '0 of 3 resolved, 1 blocked']
    assert shown.err == LINE
    assert plan.ok('show', '-o', 'ids').lines == ['1', '3']
    assert plan.ok('next', '-n', '9').lines == ['[ ] 1 Build', '[ ] 3 Ship']
    assert plan('show', '--check').status == 6


def test_json_names_it_too(plan: Cli) -> None:
    shown = plan.ok('show', '--json')
    assert [item['id'] for item in shown.document['items']] == ['1', '3']
    assert shown.document['problems'] == [{'id': '2', 'message': SAYS}]
    assert shown.err == LINE
    assert plan.ok('rm', '2', '--json').document['problems'] == []


@pytest.mark.parametrize(
    'words',
    [('add', 'x'), ('done', '1'), ('done', '2'), ('edit', '1', '--content', 'x'), ('rm', '1'), ('next', '--claim')],
)
def test_nothing_else_is_written_before_it_is_mended(words: tuple[str, ...], plan: Cli) -> None:
    before = (plan.folder / 'plan.db').read_bytes()
    refused = plan(*words)
    assert (refused.status, refused.out) == (5, '')
    assert refused.err == f'planctl: {SAYS} (give it a new text or remove it: nothing else is changed before)\n'
    error = plan(*words, '--json').error
    assert (error['code'], error['ids']) == ('damaged_step', ['2'])
    assert (plan.folder / 'plan.db').read_bytes() == before


def test_an_edit_mends_it_and_says_what_it_is_now(plan: Cli) -> None:
    assert plan.ok('edit', '2', '--content', 'Test').lines == ['mended 2 · 2 is pending and depends on nothing']
    shown = plan.ok('show')
    assert (shown.lines[1], shown.err) == ('[ ] 2 Test', '')


def test_its_removal_is_a_removal(plan: Cli) -> None:
    assert plan.ok('rm', '2').lines == ['removed 2']
    assert plan.ok('show').lines == ['[ ] 1 Build', '[ ] 3 Ship', '0 of 2 resolved']


def test_a_row_without_an_id_is_shown_by_its_place(cli: Cli) -> None:
    values = "'default', 0, x'00', 'odd\x1b[2J', 'pending', '', NULL, '[]'"
    fill(cli.folder / 'plan.db', 'Build')
    sql(cli.folder / 'plan.db', f'INSERT INTO plan_items VALUES ({values})')
    assert cli.ok('show').err.startswith("planctl: step 'row-2' cannot be read: it has an id that is no text")
    assert cli.ok('show', 'row-2').lines[0].startswith('[!] row-2 odd\ufffd[2J')
    cli.ok('rm', 'row-2')
    assert cli.ok('show').err == ''


def test_a_loop_made_by_hand_is_named_shown_and_untied(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'Build', 'Test', 'Ship')
    sql(
        cli.folder / 'plan.db',
        "UPDATE plan_items SET parent_id = CASE id WHEN '1' THEN '2' ELSE '1' END WHERE id < '3'",
    )
    shown = cli.ok('show')
    assert shown.err == 'planctl: these steps wait for each other: 1, 2, 1\n'
    assert len(shown.lines) == 4
    cli.ok('done', '3')
    assert cli.ok('edit', '1', '--under', 'none').lines == ['edited 1']
    assert cli.ok('show').err == ''


def test_a_run_on_such_a_plan_ends_with_one_line(plan: Cli) -> None:
    ended = process('run', '--model', 'offline', cwd=plan.folder)
    assert ended.status == 5, ended
    assert SAYS in ended.err
    assert 'Traceback' not in ended.err
