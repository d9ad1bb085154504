"""A plan in which another program stored what is no step: what commands show of it, and how it is mended."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Cli, fill, process
from servers import Place, aside, new_place, postgres_server, valkey_server

__all__ = ['postgres_server', 'valkey_server']

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
    assert cli.ok('edit', '1', '--under', 'none').lines == ['edited 1 · 1 is at the top level now']
    assert cli.ok('show').err == ''


def test_a_run_on_such_a_plan_ends_with_one_line(plan: Cli) -> None:
    ended = process('run', '--model', 'offline', cwd=plan.folder)
    assert ended.status == 5, ended
    assert SAYS in ended.err
    assert 'Traceback' not in ended.err


# --- What planctl itself keeps, on every store ----------------------------------------------------------------------

Spoil = Callable[[str, str, str, Any], None]
"""Set a column of what is kept of a session, for all of its rows: table, session, column, value."""


def in_sql(write: Callable[[str, list[Any]], None], mark: str) -> Spoil:
    def spoil(table: str, session: str, column: str, value: Any) -> None:
        write(
            f'UPDATE planctl_{table} SET {column} = {mark} WHERE session = {mark.replace("1", "2")}', [value, session]
        )

    return spoil


def in_redis(place: Place) -> Spoil:
    from redis import Redis

    def spoil(table: str, session: str, column: str, value: Any) -> None:
        from planctl.stores.redis_keys import Keys

        keys = Keys(place.room, session)
        with Redis.from_url(place.url) as client:
            if table == 'log':
                for at, entry in enumerate(client.lrange(keys.log, 0, -1)):
                    record = json.loads(entry)
                    for row in record['rows']:
                        row[3] = value
                    client.lset(keys.log, at, json.dumps(record))
                return
            field = 'session' if table == 'sessions' else table
            kept = json.loads(client.hget(keys.own, field))
            for record in kept if isinstance(kept, list) else [kept]:
                record[column] = value
            client.hset(keys.own, field, json.dumps(kept))

    return spoil


@pytest.fixture(params=['sqlite', 'postgres', 'redis'])
def spoiled(request: pytest.FixtureRequest, cli: Cli) -> Any:
    """Yield the database as `--db` takes it, and what spoils it."""
    if request.param == 'sqlite':

        def write(statement: str, bound: list[Any]) -> None:
            db = sqlite3.connect(cli.folder / 'plan.db', isolation_level=None)
            db.execute(statement, bound)
            db.close()

        yield str(cli.folder / 'plan.db'), in_sql(write, '?1')
        return
    name = {'postgres': 'postgres_server', 'redis': 'valkey_server'}[request.param]
    with new_place(request.getfixturevalue(name)) as place:

        async def execute(statement: str, bound: list[Any]) -> None:
            async with place.connect() as pool:
                await pool.execute(statement, *bound)

        spoil = in_redis(place) if place.kind == 'redis' else in_sql(lambda *words: aside(execute(*words)), '$1')
        yield place.db, spoil


SPOILT: list[tuple[str, str, Any]] = [
    ('steps', 'status', 'done'),
    ('steps', 'lease', 1e300),
    ('steps', 'started_at', -1.0),
    ('sessions', 'lease', 1e300),
    ('log', 'at', 1e300),
]
IN_JSON: list[tuple[str, str, Any]] = [
    ('steps', 'id', 5),
    ('steps', 'content', 5),
    ('steps', 'depends_on', [5]),
    ('steps', 'lease', 'soon'),
    ('sessions', 'revision', 'x'),
    ('sessions', 'revision', 1.5),
    ('sessions', 'next_id', None),
    ('sessions', 'objective', 5),
    ('sessions', 'owner', 5),
    ('sessions', 'logged', 'x'),
]


def test_what_is_kept_is_looked_at_before_it_is_believed(spoiled: Any, cli: Cli) -> None:
    db, spoil = spoiled
    for number, (table, column, value) in enumerate(SPOILT + (IN_JSON if 'redis' in db else [])):
        where = ('--db', db, '--session', f's{number}')
        for words in (('add', 'one'), ('add', 'two', '--depends-on', '1'), ('next', '--claim')):
            cli.ok(*words, *where)
        spoil(table, f's{number}', column, value)
        found = {
            words: cli(*where, *words)
            for words in (('show', '--json'), ('add', 'x'), ('log',), ('undo',), ('next', '--claim'), ('export',))
        }
        damaged = [outcome for outcome in found.values() if outcome.status == 5]
        assert damaged, (table, column)
        assert all(outcome.status != 1 and outcome.err.count('\n') <= 1 for outcome in found.values()), found
        assert all('damaged' in outcome.err for outcome in damaged), damaged
        assert cli('session', '--db', db).status in (0, 4)


def test_a_counter_that_was_set_back_goes_on_where_the_log_ends(spoiled: Any, cli: Cli) -> None:
    db, spoil = spoiled
    if 'redis' in db:
        pytest.skip('no statement sets back this counter alone in Redis: it is in one record that is written whole')
    where = ('--db', db, '--session', 's')
    for text in ('one', 'two', 'three'):
        cli.ok('add', text, *where)
    for set_back in (0, 2, -7):
        before = cli.json('log', *where)['entries'][-1]['revision']
        spoil('sessions', 's', 'revision', set_back)
        assert cli.json('show', *where)['revision'] == before
        cli.ok('done', '1', *where)
        cli.ok('undo', *where)
        assert cli.json('log', *where)['entries'][-1]['revision'] == before + 2
