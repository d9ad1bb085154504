"""A plan in which another program stored what is no step: it is named, the rest is read, and it can be mended."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from replay import replay, without_leases
from servers import new_place

from planctl import BaseStore, SqlitePlanStore, TaskStatus, apply, read
from planctl.checking import check
from planctl.core import drive
from planctl.errors import DamagedStep, HasChildren
from planctl.journal import OTHER
from planctl.operations import Add, Claim, Edit, Move, Note, Remove, SetStatus
from planctl.plan import Plan, Step
from planctl.stores.redis_keys import Keys
from planctl.stores.sqlite_file import SqliteFile

NAMES = ('session', 'seq', 'id', 'content', 'status', 'active_form', 'parent_id', 'depends_on')
Row = dict[str, Any]


class Table:
    """The shared list of one session as another program has it: rows that can be read and set."""

    def __init__(self, read: Callable[[], Any], write: Callable[[list[Row]], Any]) -> None:
        self.read, self._write = read, write

    async def rows(self) -> list[Row]:
        return await self.read()

    async def put(self, *changes: Row) -> None:
        """Change the row with the id that a change names, or append a new one."""
        rows = await self.rows()
        for change in changes:
            known = next((row for row in rows if row['id'] == change.get('id')), None)
            if known is None:
                new = {'session': 'default', 'seq': len(rows), 'id': None, 'content': 'new', 'status': 'pending'}
                rows.append({**new, 'active_form': '', 'parent_id': None, 'depends_on': '[]', **change})
            else:
                known.update(change)
        await self._write(rows)


@asynccontextmanager
async def sqlite(request: Any, folder: Path) -> AsyncIterator[tuple[BaseStore, Table]]:
    path = folder / 'plan.db'
    columns = 'session TEXT, seq INTEGER, id TEXT, content TEXT, status TEXT, active_form TEXT, parent_id TEXT'

    def connection() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None)

    async def rows() -> list[Row]:
        found = connection().execute(f'SELECT {", ".join(NAMES)} FROM plan_items ORDER BY seq').fetchall()
        return [dict(zip(NAMES, row, strict=True)) for row in found]

    async def write(rows: list[Row]) -> None:
        db = connection()
        db.execute('DELETE FROM plan_items')
        marks = ', '.join('?' for _ in NAMES)
        db.executemany(f'INSERT INTO plan_items VALUES ({marks})', [[row[name] for name in NAMES] for row in rows])

    # Nothing of the harness's own table could hold what a table made by hand can.
    connection().execute(f'CREATE TABLE plan_items ({columns}, depends_on TEXT)')
    yield SqlitePlanStore(path), Table(rows, write)


@asynccontextmanager
async def postgres(request: Any, folder: Path) -> AsyncIterator[tuple[BaseStore, Table]]:
    with new_place(request.getfixturevalue('postgres_server')) as place:
        async with place.connect() as pool:

            async def rows() -> list[Row]:
                async with pool.acquire() as db:
                    found = await db.fetch(f'SELECT {", ".join(NAMES)} FROM plan_items ORDER BY seq')
                return [dict(row) for row in found]

            async def write(rows: list[Row]) -> None:
                marks = ', '.join(f'${at}' for at in range(1, len(NAMES) + 1))
                async with pool.acquire() as db, db.transaction():
                    await db.execute('DELETE FROM plan_items')
                    for row in rows:
                        await db.execute(f'INSERT INTO plan_items VALUES ({marks})', *(row[name] for name in NAMES))

            async with pool.acquire() as db:
                columns = 'session text, seq bigint, id text PRIMARY KEY, content text, status text, active_form text'
                await db.execute(f'CREATE TABLE plan_items ({columns}, parent_id text, depends_on text)')
            yield place.store(pool), Table(rows, write)


@asynccontextmanager
async def redis(request: Any, folder: Path) -> AsyncIterator[tuple[BaseStore, Table]]:
    with new_place(request.getfixturevalue('valkey_server')) as place:
        key = Keys(place.room, 'default').steps
        async with place.connect() as client:

            async def rows() -> list[Row]:
                items = json.loads(await client.get(key) or '[]')
                return [{**row, 'depends_on': json.dumps(row['depends_on'])} for row in items if isinstance(row, dict)]

            async def write(rows: list[Row]) -> None:
                await client.set(key, json.dumps([entry(row) for row in rows]))

            def entry(row: Row) -> Row:
                try:
                    waits = json.loads(row['depends_on'])
                except (TypeError, ValueError):
                    waits = row['depends_on']
                return {**{name: row[name] for name in NAMES[2:]}, 'depends_on': waits}

            yield place.store(client), Table(rows, write)


KINDS = {'sqlite': sqlite, 'postgres': postgres, 'redis': redis}


@pytest.fixture(params=KINDS)
async def stored(request: Any, tmp_path: Path) -> AsyncIterator[tuple[BaseStore, Table]]:
    """A store, and its list as others see it: a step, one that waits for it, and one under it."""
    async with KINDS[request.param](request, tmp_path) as (store, table):
        await apply(store, Add('one'), Add('two', depends_on=('1',)), Add('three', parent_id='1'), Add('four'))
        yield store, table


async def consistent(store: BaseStore) -> Plan:
    plan = await read(store)
    assert replay(await store.log()) == without_leases(plan)
    return plan


BAD: dict[str, tuple[Row, str, Step]] = {
    'unknown status': (
        {'status': 'done'},
        "it has the status 'done', which no step can have",
        Step('1', 'one'),
    ),
    'no status': ({'status': None}, 'it has no status', Step('1', 'one')),
    'no JSON': (
        {'depends_on': '["4"', 'status': 'completed'},
        'it does not list what it depends on as JSON',
        Step('1', 'one', TaskStatus.completed),
    ),
    'no list': ({'depends_on': '{"4": 1}'}, 'it does not list what it depends on as JSON', Step('1', 'one')),
    'numbers': (
        {'depends_on': '[4]', 'status': 'blocked'},
        'it does not list what it depends on as JSON',
        Step('1', 'one'),
    ),
    'no text': (
        {'content': None, 'depends_on': '["4"]'},
        'it has no text',
        Step('1', 'one', TaskStatus.blocked, '', None, ('4',)),
    ),
    'no form': ({'active_form': None}, 'it has a text for the time in progress that is none', Step('1', 'one')),
    'several': (
        {'status': 'x', 'depends_on': None},
        "it has the status 'x', which no step can have and does not list what it depends on as JSON",
        Step('1', 'one'),
    ),
}


@pytest.mark.parametrize('what', BAD)
async def test_it_is_named_the_rest_is_read_and_an_edit_mends_it(stored: Any, what: str) -> None:
    store, table = stored
    bad, says, mended = BAD[what]
    await table.put({'id': '1', **bad})
    before = await table.rows()
    plan = await read(store)
    (problem,) = plan.problems
    assert (problem.id, problem.message) == ('1', f"step '1' cannot be read: {says}")
    assert check(plan) == plan.problems
    assert [step.id for step in plan.steps] == ['1', '2', '3', '4']
    assert plan.step('1').status is TaskStatus.blocked
    assert plan.step('2').depends_on == ('1',)
    for operations in (
        [Add('new')],
        [Edit('4', 'x')],
        [Remove('2')],
        [SetStatus('1', TaskStatus.completed)],
        [Claim('me', 9)],
    ):
        with pytest.raises(DamagedStep, match="step '1' cannot be read"):
            await apply(store, *operations)
    with pytest.raises(DamagedStep):
        await store.set_items([])
    assert (await table.rows(), await read(store)) == (before, plan)

    change = await apply(store, Edit('1', 'one'), actor='me')
    assert change.remark('mended') == ('1',)
    after = await consistent(store)
    assert after == change.after
    assert (after.step('1'), after.problems) == (mended, ())
    assert [row.actor for row in await store.log(since=1)][:1] == [OTHER]
    rows = {row['id']: row for row in await table.rows()}
    assert (rows['1']['content'], rows['1']['status']) == ('one', mended.status.value)
    assert json.loads(rows['1']['depends_on']) == list(mended.depends_on)
    await apply(store, Add('goes on'))
    assert len((await consistent(store)).steps) == 5


async def test_it_can_be_removed_and_what_waited_for_it_goes_on(stored: Any) -> None:
    store, table = stored
    await table.put({'id': '1', 'status': 'done'})
    with pytest.raises(HasChildren):
        await apply(store, Remove('1'))
    await apply(store, Remove('1', cascade=True))
    plan = await consistent(store)
    assert ([step.id for step in plan.steps], plan.problems) == (['2', '4'], ())
    assert plan.step('2') == Step('2', 'two')
    assert [row['id'] for row in await table.rows()] == ['2', '4']


async def test_several_are_mended_one_by_one_and_the_others_are_left_as_they_are(stored: Any) -> None:
    store, table = stored
    await table.put({'id': '1', 'status': 'done'}, {'id': '2', 'depends_on': 'what'}, {'id': '3', 'active_form': None})
    raw = {row['id']: row for row in await table.rows()}
    assert [problem.id for problem in (await read(store)).problems] == ['1', '2', '3']
    with pytest.raises(DamagedStep, match='and 2 more cannot be read'):
        await apply(store, Edit('4', 'x'))
    await apply(store, Remove('3'))
    plan = await consistent(store)
    assert [problem.id for problem in plan.problems] == ['1', '2']
    now = {row['id']: row for row in await table.rows()}
    assert [now[i]['status'] for i in '12'] == ['done', 'blocked']
    assert now['2']['depends_on'].strip('"') == raw['2']['depends_on'].strip('"')
    revision = plan.revision
    await apply(store, Edit('2', active_form='doing two'))
    await apply(store, Edit('1', 'mended'))
    plan = await consistent(store)
    # What they were is logged once, however often they are read.
    assert plan.revision == revision + 2
    assert plan.steps == (Step('1', 'mended'), Step('2', 'two', active_form='doing two'), Step('4', 'four'))
    assert plan.problems == ()


async def test_the_six_methods_mend_and_remove_it_too(stored: Any) -> None:
    store, table = stored
    await table.put({'id': '1', 'status': 'done'}, {'id': '4', 'status': 'done'})
    assert [item.status.value for item in await store.get_items()] == ['blocked', 'blocked', 'pending', 'blocked']
    with pytest.raises(DamagedStep):
        await store.update_item('2', content='x')
    assert (await store.update_item('1', content='mended')).status is TaskStatus.pending
    assert await store.remove_item('4')
    plan = await consistent(store)
    assert (plan.problems, plan.step('1').content) == ((), 'mended')
    await store.update_item('2', content='x')


async def test_it_is_mended_by_another_program_as_well(stored: Any) -> None:
    store, table = stored
    await table.put({'id': '4', 'status': 'done'})
    assert (await read(store)).problems
    await table.put({'id': '4', 'status': 'completed'})
    assert (await read(store)).problems == ()
    await apply(store, Note('4', 'well'))
    assert (await consistent(store)).step('4').status is TaskStatus.completed


async def test_an_answer_that_was_kept_is_given_all_the_same(stored: Any) -> None:
    store, table = stored
    await apply(store, Edit('4', 'keyed'), key='k')
    await table.put({'id': '1', 'status': 'done'})
    assert (await apply(store, Edit('4', 'keyed'), key='k')).replayed
    assert (await apply(store, Edit('1', 'mended'), key='k2')).after.problems == ()
    assert (await apply(store, Edit('1', 'mended'), key='k2')).replayed


async def test_a_loop_of_parents_stops_nothing_and_can_be_untied(stored: Any) -> None:
    store, table = stored
    await table.put({'id': '1', 'parent_id': '3'})
    plan = await read(store)
    assert [problem.message for problem in check(plan)] == ['these steps wait for each other: 1, 3, 1']
    assert plan.problems == ()
    await apply(store, SetStatus('4', TaskStatus.completed))
    await apply(store, Edit('1', 'still a loop'))
    await apply(store, Move('1', top=True))
    plan = await consistent(store)
    assert (check(plan), plan.step('3').parent_id) == ((), '1')


async def test_ids_that_we_would_not_take_are_named_and_stop_nothing(stored: Any) -> None:
    store, table = stored
    await table.put({'id': 'my step'}, {'id': '-x'}, {'id': ''})
    plan = await read(store)
    assert [problem.id for problem in check(plan)] == ['my step', '-x', '']
    await apply(store, Edit('my step', 'mine'), SetStatus('-x', TaskStatus.completed), Remove(''))
    plan = await consistent(store)
    assert (plan.step('my step').content, plan.step('-x').status, plan.get('')) == ('mine', TaskStatus.completed, None)
    await apply(store, Remove('my step'), Remove('-x'))
    assert check(await consistent(store)) == ()


# --- What a file of SQLite can hold beyond that ----------------------------------------------------------------


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    path = tmp_path / 'plan.db'
    async with sqlite(None, tmp_path) as (store, _):
        await apply(store, Add('one'), Add('two', parent_id='1'))
    return path


def sql(path: Path, statement: str, *bound: object) -> list[Any]:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        return db.execute(statement, bound).fetchall()
    finally:
        db.close()


NAMELESS = {
    'none': (None, 'it has no id'),
    'bytes': (b'\xff\x00', 'it has an id that is no text'),
    'broken text': ("CAST(x'61ff' AS TEXT)", 'it has an id that is no text'),
    'of another': ('1', "it has the id '1' of another step"),
}


@pytest.mark.parametrize('mend', [True, False])
@pytest.mark.parametrize('name', NAMELESS)
def test_a_row_without_an_id_of_its_own_goes_by_its_number(name: str, mend: bool, file: Path) -> None:
    step_id, says = NAMELESS[name]
    place = step_id if name == 'broken text' else '?'
    values = f"'default', 7, {place}, 'lost', 'pending', '', '1', '[\"2\"]'"
    sql(file, f'INSERT INTO plan_items VALUES ({values})', *(() if name == 'broken text' else (step_id,)))
    store = SqliteFile(file)
    (problem,) = drive(read(store)).problems
    assert problem.message == f"step '{problem.id}' cannot be read: {says}"
    assert problem.id.startswith('row-')
    drive(apply(store, Edit(problem.id, 'found') if mend else Remove(problem.id)))
    plan = drive(consistent(store))
    assert plan.problems == ()
    assert [step.id for step in plan.steps] == ['1', '2', *([problem.id] if mend else [])]
    if mend:
        assert plan.step(problem.id) == Step(problem.id, 'found', TaskStatus.blocked, '', '1', ('2',))
    assert sql(file, 'SELECT id FROM plan_items ORDER BY seq') == [(step.id,) for step in plan.steps]
    drive(apply(store, Edit('1', 'goes on')))
    assert [row[0] for row in sql(file, "SELECT content FROM plan_items WHERE id = '1'")] == ['goes on']


def test_bytes_for_text_are_shown_as_far_as_they_can_be(file: Path) -> None:
    sql(file, "UPDATE plan_items SET content = x'61ff62', active_form = x'63' WHERE id = '2'")
    store = SqliteFile(file)
    plan = drive(read(store))
    assert (plan.step('2').content, len(plan.problems)) == ('a\ufffdb', 1)
    drive(apply(store, Edit('2', active_form='doing')))
    assert drive(read(store)).step('2') == Step('2', 'a\ufffdb', active_form='doing', parent_id='1')


@pytest.mark.parametrize('seq', [None, 'last', 1.5, b'x'])
def test_a_position_that_is_none_is_repaired_by_the_next_write(seq: object, file: Path) -> None:
    sql(file, "UPDATE plan_items SET seq = ? WHERE id = '2'", seq)
    store = SqliteFile(file)
    order = [step.id for step in drive(read(store)).steps]
    assert check(drive(read(store))) == ()
    drive(apply(store, Add('three')))
    assert [step.id for step in drive(consistent(store)).steps] == [*order, '3']
    assert sorted(map(type, (row[0] for row in sql(file, 'SELECT seq FROM plan_items'))), key=str) == [int] * 3


async def test_a_held_connection_reads_and_mends_it_too(file: Path) -> None:
    async with SqlitePlanStore(file) as store:
        assert (await read(store)).problems == ()
        await apply(store, Add('three'))
        sql(file, "UPDATE plan_items SET status = 'done' WHERE id IN ('1', '3')")
        with pytest.raises(DamagedStep):
            await apply(store, Add('four'))
        for step_id in ('1', '3'):
            await apply(store, Edit(step_id, 'mended'))
            assert await read(store) == await SqlitePlanStore(file).read()
        assert (await read(store)).problems == ()
        await apply(store, Add('four'))
    await consistent(SqlitePlanStore(file))
