"""A plan database that other programs write to as well: the harness, and whoever has a SQLite shell."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from replay import replay, without_leases

from planctl import Plan, PlanItem, SqlitePlanStore, TaskStatus, apply, read
from planctl.core import drive
from planctl.core import log as log_of
from planctl.journal import OTHER, step_of
from planctl.operations import Add, Claim, Edit, Move, Note, Remove, SetStatus
from planctl.stores.sqlite_file import SqliteFile


def sql(path: Path, *statements: str) -> list[Any]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return [connection.execute(statement).fetchall() for statement in statements][-1]
    finally:
        connection.close()


def write(path: Path, *operations: Any, **options: Any) -> Any:
    return drive(apply(SqliteFile(path), *operations, **options))


def plan_of(path: Path) -> Plan:
    return drive(SqliteFile(path).read())


def log(path: Path) -> list[tuple[int, str, str, str | None, str | None]]:
    return sql(path, 'SELECT revision, id, actor, "before", "after" FROM planctl_log ORDER BY revision, number')


def logged_steps(path: Path) -> dict[str, tuple[str, str]]:
    """Return what the log says that the steps are: every change, from the first one on."""
    steps: dict[str, tuple[str, str]] = {}
    for _, step_id, _, before, after in log(path):
        known = steps.pop(step_id, None)
        if before is not None:
            was = step_of(json.loads(before))
            assert known == (was.content, was.status.value)
        else:
            assert known is None
        if after is not None:
            now = step_of(json.loads(after))
            steps[step_id] = (now.content, now.status.value)
    return steps


def mirrored(path: Path) -> bool:
    """Return whether our copy of the steps is what is in the harness's table, and every position is there once."""
    columns = 'session, id, seq, content, status, active_form, parent_id, depends_on'
    items = sql(path, f'SELECT {columns} FROM plan_items ORDER BY session, id')
    return items == sql(path, f'SELECT {columns} FROM planctl_steps ORDER BY session, id') and len(
        {(row[0], row[2]) for row in items}
    ) == len(items)


def test_what_another_program_changed_is_read_at_once_and_logged_with_our_next_write(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), Add('two'), Add('three'), actor='me', now=1)
    sql(
        path,
        "UPDATE plan_items SET content = 'changed' WHERE id = '1'",
        "DELETE FROM plan_items WHERE id = '2'",
        "INSERT INTO plan_items VALUES ('default', 9, 'x', 'new', 'completed', '', NULL, '[]')",
    )
    plan = plan_of(path)
    assert [(step.id, step.content) for step in plan.steps] == [('1', 'changed'), ('3', 'three'), ('x', 'new')]
    assert plan.revision == 1
    change = write(path, SetStatus('3', TaskStatus.completed), actor='me', now=2)
    assert (change.before.revision, change.after.revision) == (2, 3)
    assert [(c.step.id) for c in change.steps] == ['3']
    assert [(row[0], row[1], row[2]) for row in log(path)[3:]] == [
        (2, '1', OTHER),
        (2, 'x', OTHER),
        (2, '2', OTHER),
        (3, '3', 'me'),
    ]
    assert json.loads(log(path)[5][3] or '') == {'id': '2', 'content': 'two', 'behind': '1'}
    assert mirrored(path)
    assert plan_of(path).revision == 3


def test_a_plan_of_the_harness_becomes_the_first_revision(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    make_harness_table(path)
    sql(path, "INSERT INTO plan_items VALUES ('default', 0, '7', 'one', 'in_progress', '', NULL, '[]')")
    assert (plan_of(path).revision, plan_of(path).steps[0].owner) == (0, None)
    change = write(path, Add('two'))
    assert (change.before.revision, change.after.revision, change.created[0].id) == (1, 2, '8')
    assert [row[2] for row in log(path)] == [OTHER, 'python']


def test_a_change_of_nothing_leaves_what_others_wrote_for_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'))
    sql(path, "UPDATE plan_items SET content = 'changed'")
    before = path.read_bytes()
    change = write(path, SetStatus('1', TaskStatus.pending))
    assert (change.changed, change.after.revision, change.after.steps[0].content) == (False, 1, 'changed')
    assert path.read_bytes() == before
    write(path, Note('1', 'seen'))
    assert [row[2] for row in log(path)] == ['python', OTHER, 'python']


def test_what_only_looks_different_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), Add('two', depends_on=('1',)), Add('three'))
    sql(
        path,
        "UPDATE plan_items SET depends_on = '[ \"1\" ]' WHERE id = '2'",
        'UPDATE plan_items SET seq = seq * 10 + 5',
    )
    assert write(path, Edit('3', 'changed')).after.revision == 2
    assert mirrored(path)


def test_who_works_on_a_step_holds_until_another_program_moves_it(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), Add('two'), Claim('me', 60, id='1'), Claim('me', 60, id='2'), now=1)
    write(path, Note('1', 'halfway'), Note('2', 'halfway'))
    sql(
        path,
        "UPDATE plan_items SET content = 'changed' WHERE id = '1'",
        "UPDATE plan_items SET status = 'pending' WHERE id = '2'",
    )
    for _ in range(2):
        one, two = plan_of(path).steps[:2]
        assert (one.content, one.owner, one.lease, one.started_at, one.note) == ('changed', 'me', 61, 1, 'halfway')
        assert (two.owner, two.lease, two.started_at, two.note) == (None, None, None, '')
        write(path, Add('three'))
    assert mirrored(path)
    sql(path, "UPDATE plan_items SET status = 'in_progress' WHERE id = '2'")
    assert plan_of(path).step('2').owner is None


def test_shared_positions_keep_their_order_and_are_repaired(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    make_harness_table(path)
    for at, step_id in ((0, 'a'), (3, 'c'), (3, 'b'), (3, 'd'), (4, 'e')):
        sql(path, f"INSERT INTO plan_items VALUES ('default', {at}, '{step_id}', 'x', 'pending', '', NULL, '[]')")
    assert [step.id for step in plan_of(path).steps] == ['a', 'c', 'b', 'd', 'e']
    write(path, SetStatus('a', TaskStatus.completed))
    assert sql(path, 'SELECT id FROM plan_items ORDER BY seq') == [('a',), ('c',), ('b',), ('d',), ('e',)]
    assert mirrored(path)


@pytest.mark.parametrize('seq', [2**63 - 1, -(2**63), 2**62])
def test_a_position_at_the_end_of_the_scale_does_no_harm(seq: int, tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), Add('two'))
    sql(path, f"UPDATE plan_items SET seq = {seq} WHERE id = '2'")
    order = [step.id for step in plan_of(path).steps]
    write(path, Add('three'))
    assert [step.id for step in plan_of(path).steps] == [*order, '3']
    assert mirrored(path)


def test_text_that_is_no_text_is_shown_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    write(path, Add('one'), Add('two'))
    sql(path, "UPDATE plan_items SET content = CAST(x'61ff62' AS TEXT) WHERE id = '1'")
    assert plan_of(path).step('1').content == 'a\ufffdb'
    for number in range(2):
        write(path, SetStatus('2', [TaskStatus.completed, TaskStatus.pending][number]))
    assert sql(path, "SELECT hex(content) FROM plan_items WHERE id = '1'") == [('61FF62',)]
    assert sum(row[2] == OTHER for row in log(path)) == 1


def test_ids_and_texts_that_we_would_not_take_can_be_restated(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    make_harness_table(path)
    sql(path, "INSERT INTO plan_items VALUES ('default', 0, 'my step', '', 'pending', '', NULL, '[]')")
    store = SqliteFile(path)
    items = drive(store.get_items())
    drive(store.set_items([*items, PlanItem(id='b', content='b')]))
    assert drive(store.update_item('my step', status=TaskStatus.completed)).status is TaskStatus.completed
    with pytest.raises(ValueError, match="'another step' cannot be an id"):
        drive(store.add_item(PlanItem(id='another step', content='x')))


def make_harness_table(path: Path) -> None:
    columns = 'id TEXT NOT NULL, content TEXT NOT NULL, status TEXT NOT NULL, active_form TEXT NOT NULL'
    sql(
        path,
        f'CREATE TABLE plan_items (session TEXT NOT NULL, seq INTEGER NOT NULL, {columns}, parent_id TEXT, '
        'depends_on TEXT NOT NULL, PRIMARY KEY (session, id))',
    )


# --- The harness itself ---------------------------------------------------------------------------------------


def as_dicts(items: Any) -> list[dict[str, Any]]:
    return [item.model_dump(mode='json') for item in items]


async def test_the_harness_and_planctl_write_one_file_in_turn_and_agree(tmp_path: Path) -> None:
    planning = pytest.importorskip('pydantic_ai_harness.planning')
    path = tmp_path / 'plan.db'
    for seed in range(4):
        dice = random.Random(seed)
        ours = SqlitePlanStore(path, session=f's{seed}')
        theirs = planning.SqlitePlanStore(str(path), session=f's{seed}')
        async with ours:
            for number in range(50):
                ids = [item.id for item in await theirs.get_items()]
                await (their_turn if dice.random() < 0.5 else our_turn)(dice, number, ids, ours, theirs, planning)
                assert as_dicts(await ours.get_items()) == as_dicts(await theirs.get_items())
            await apply(ours, Add('the last word'))
        assert as_dicts(await ours.get_items()) == as_dicts(await theirs.get_items())
    assert mirrored(path)
    for seed in range(4):
        plan = await read(SqlitePlanStore(path, session=f's{seed}'))
        rows = sql(
            path, f"SELECT revision FROM planctl_log WHERE session = 's{seed}' GROUP BY revision ORDER BY revision"
        )
        assert [revision for (revision,) in rows] == list(range(1, plan.revision + 1))


async def test_the_harness_and_planctl_write_one_file_at_the_same_time_and_nothing_is_lost(tmp_path: Path) -> None:
    planning = pytest.importorskip('pydantic_ai_harness.planning')
    path = tmp_path / 'plan.db'
    ours, theirs = SqlitePlanStore(path), planning.SqlitePlanStore(str(path))
    await theirs.add_item(planning.PlanItem(id='first', content='theirs'))

    async def write_theirs() -> None:
        for number in range(60):
            await theirs.add_item(planning.PlanItem(id=f't{number}', content=f'theirs {number}'))
            await theirs.update_item(f't{number}', content=f'theirs {number} changed')

    async def write_ours() -> None:
        async with ours:
            for number in range(60):
                await apply(ours, Add(f'ours {number}', id=f'o{number}'))
                await apply(ours, Edit(f'o{number}', f'ours {number} changed'))

    await asyncio.gather(write_theirs(), write_ours())
    await apply(ours, Add('the last word'))
    found = {step.content for step in (await read(ours)).steps}
    assert found == {
        'theirs',
        'the last word',
        *(f'{who} {n} changed' for n in range(60) for who in ('ours', 'theirs')),
    }
    assert mirrored(path)
    assert replay(await log_of(ours)) == without_leases(await read(ours))


async def their_turn(dice: random.Random, number: int, ids: list[str], ours: Any, theirs: Any, planning: Any) -> None:
    item = planning.PlanItem(id=f'h{number}', content=f'theirs {number}', depends_on=dice.sample(ids, min(1, len(ids))))
    match dice.randrange(4) if ids else 0:
        case 0:
            await theirs.add_item(item)
        case 1:
            await theirs.update_item(dice.choice(ids), status=planning.TaskStatus(dice.choice([*TaskStatus]).value))
        case 2:
            await theirs.remove_item(dice.choice(ids))
        case _:
            items = await theirs.get_items()
            dice.shuffle(items)
            await theirs.set_items(items)


async def our_turn(dice: random.Random, number: int, ids: list[str], ours: Any, theirs: Any, planning: Any) -> None:
    match dice.randrange(4) if ids else 0:
        case 0:
            await apply(ours, Add(f'ours {number}', before=dice.choice(ids) if ids else None))
        case 1:
            await ours.update_item(dice.choice(ids), status=dice.choice([*TaskStatus]), active_form=f'form {number}')
        case 2:
            await apply(ours, Remove(dice.choice(ids), cascade=True))
        case _ if len(ids) > 1:
            await apply(ours, Move(*dice.sample(ids, 1), before=dice.choice(ids)))
        case _:
            await apply(ours, Edit(ids[0], f'changed {number}'))


def test_the_log_holds_everything_that_anybody_did(tmp_path: Path) -> None:
    path = tmp_path / 'plan.db'
    dice = random.Random(3)
    write(path, *(Add(f'step {number}') for number in range(10)))
    for number in range(60):
        ids = [step.id for step in plan_of(path).steps]
        some = dice.choice(ids)
        match dice.randrange(5):
            case 0:
                sql(path, f"UPDATE plan_items SET content = 'other {number}' WHERE id = '{some}'")
            case 1:
                status = dice.choice(['pending', 'completed', 'cancelled'])
                sql(path, f"UPDATE plan_items SET status = '{status}' WHERE id = '{some}'")
            case 2:
                sql(
                    path,
                    f"DELETE FROM plan_items WHERE id = '{some}'",
                    f"INSERT INTO plan_items VALUES ('default', {number}, 'n{number}', 'x', 'pending', '', NULL, '[]')",
                )
            case 3:
                write(path, Add(f'added {number}', before=some))
            case _:
                write(path, Edit(some, f'ours {number}'))
    write(path, Add('last'))
    assert logged_steps(path) == {step.id: (step.content, step.status.value) for step in plan_of(path).steps}
    assert mirrored(path)
