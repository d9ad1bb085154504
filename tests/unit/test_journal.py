"""Log rows, kept replies and what other programs wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_helpers import NOW, do, ids, plan, step, to

from planctl.change import Change
from planctl.errors import DamagedStore
from planctl.journal import (
    LogRow,
    dump_reply,
    foreign,
    ids_of,
    load_reply,
    log_rows,
    replay,
    replayed,
    sides,
    step_of,
    step_record,
)
from planctl.operations import Add, Claim, Describe, Edit, Move, Note, Operation, Remove, Renew
from planctl.plan import Plan, Step, TaskStatus


def logged(change: Change) -> list[LogRow]:
    return log_rows(change, actor='me', operation='edit', at=NOW)


def test_each_changed_step_is_one_row_with_all_that_is_needed_to_take_it_back() -> None:
    stored = plan(step('a'), step('b', 'blocked', on='a'), step('c', note='n'), revision=4)
    rows = logged(do(stored, to('done', 'a', note='ok'), Remove('c'), Add('new', id='x', after='a')))
    assert [(row.revision, row.number, row.id, row.at, row.actor, row.operation) for row in rows] == [
        (5, 0, 'a', NOW, 'me', 'edit'),
        (5, 1, 'x', NOW, 'me', 'edit'),
        (5, 2, 'b', NOW, 'me', 'edit'),
        (5, 3, 'c', NOW, 'me', 'edit'),
    ]
    sides = [
        (json.loads(row.before) if row.before else None, json.loads(row.after) if row.after else None) for row in rows
    ]
    assert sides == [
        ({'id': 'a', 'content': 'A'}, {'id': 'a', 'content': 'A', 'status': 'completed', 'note': 'ok'}),
        (None, {'id': 'x', 'content': 'new', 'behind': 'a'}),
        (
            {'id': 'b', 'content': 'B', 'status': 'blocked', 'depends_on': ['a']},
            {'id': 'b', 'content': 'B', 'depends_on': ['a']},
        ),
        ({'id': 'c', 'content': 'C', 'note': 'n', 'behind': 'b'}, None),
    ]


def test_a_moved_step_is_logged_with_both_its_places() -> None:
    [row] = logged(do(plan(step('a'), step('b'), step('c')), Move('c', before='a')))
    assert json.loads(row.before or '')['behind'] == 'b'
    assert json.loads(row.after or '')['behind'] is None


def test_objective_and_brief_are_one_row_of_the_session_with_what_changed_of_them() -> None:
    rows = logged(do(plan(step('a'), objective='old', brief='same'), Describe('new', 'same'), Edit('a', 'other')))
    session, _ = rows
    assert (session.id, session.before, session.after) == ('', '{"objective":"old"}', '{"objective":"new"}')
    assert [row.number for row in rows] == [0, 1]


def test_leases_alone_are_not_logged_nor_part_of_a_row() -> None:
    claimed = do(plan(step('a')), Claim('w', 60, 'a'))
    [row] = logged(claimed)
    assert json.loads(row.after or '') == {
        'id': 'a',
        'content': 'A',
        'status': 'in_progress',
        'owner': 'w',
        'started_at': NOW,
    }
    assert logged(do(claimed.after, Renew('w', 90, 'a'))) == []
    assert logged(do(claimed.after, Claim('r', 60, scope='session'))) == []
    assert logged(do(claimed.after)) == []


TEXT = st.text(max_size=20)


@given(
    st.builds(
        Step,
        id=TEXT,
        content=TEXT,
        status=st.sampled_from(list(TaskStatus)),
        active_form=TEXT,
        parent_id=st.none() | TEXT,
        depends_on=st.lists(TEXT, max_size=3).map(tuple),
        owner=st.none() | TEXT,
        lease=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        started_at=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        note=TEXT,
    )
)
def test_a_record_of_a_step_is_the_step(one: Step) -> None:
    assert step_of(json.loads(json.dumps(step_record(one)))) == one
    assert step_of(step_record(one) | {'behind': 'x', 'from a newer version': 1}) == one


def test_half_a_character_that_another_program_stored_can_be_logged_and_kept() -> None:
    change = do(plan(step('a', content='\ud83d broken')), Note('a', 'é'))
    [row] = logged(change)
    assert row.before is not None
    row.before.encode('utf-8')
    assert step_of(json.loads(row.before)).content == '\ud83d broken'
    assert dump_reply(change).isascii()
    assert load_reply(dump_reply(change), change.after).steps == change.steps
    # Other text is kept legible.
    [row] = logged(do(plan(step('a')), Edit('a', '日本')))
    assert '日本' in (row.after or '')


# --- Replay -----------------------------------------------------------------------------------------------------


def test_a_replayed_log_is_the_plan_in_its_order() -> None:
    acts: list[list[Operation]] = [
        [Add('one'), Add('two'), Add('three', parent_id='1'), Describe('why', 'how')],
        [Move('3', before='1'), Add('zero', before='2'), to('start', '1')],
        [to('done', '1', cascade=True), Note('2', 'n')],
        [Remove('2'), Describe('why not')],
        [Move('4', before='3'), Add('five', after='3'), Edit('3', 'drei')],
    ]
    current = Plan()
    rows: list[LogRow] = []
    for act in acts:
        change = do(current, *act)
        current = change.after
        rows.extend(logged(change))
    assert replay(rows) == current
    assert ids(current) == '4 3 5 1'
    # From any point on, over the plan as it was then.
    later = [row for row in rows if row.revision > 2]
    assert replay(later, replay([row for row in rows if row.revision <= 2])) == current
    assert replay([]) == Plan()


def test_a_log_of_thousands_of_rows_is_replayed() -> None:
    change = do(plan(), *(Add('s') for _ in range(5_000)))
    assert replay(logged(change)) == change.after


def test_a_step_with_an_empty_id_is_told_from_the_session() -> None:
    added = LogRow(1, 0, '', NOW, 'other', 'write', None, '{"id":"","content":"x","behind":null}')
    described = LogRow(2, 0, '', NOW, 'me', 'describe', '{"objective":""}', '{"objective":"win"}')
    removed = LogRow(3, 0, '', NOW, 'me', 'remove', '{"id":"","content":"x","behind":null}', None)
    assert [sides(row).of_session for row in (added, described, removed)] == [False, True, False]
    assert replay([added, described]) == Plan(steps=(Step('', 'x'),), objective='win', revision=2)
    assert replay([added, described, removed]) == Plan(objective='win', revision=3)


@pytest.mark.parametrize(
    'text',
    [
        None,
        '',
        '{oops',
        '[' * 100_000,
        'null',
        '3',
        '{"id":"a","content":3}',
        '{"id":"a","content":"x","depends_on":"b"}',
        '{"id":"a","content":"x","depends_on":[1]}',
        '{"id":"a","content":"x","started_at":"now"}',
        '{"id":"a"}',
        '{"id":"a","content":"x","status":"unheard of"}',
    ],
)
def test_a_damaged_row_names_its_revision(text: str | None) -> None:
    with pytest.raises(DamagedStore, match='revision 7'):
        replay([LogRow(7, 0, 'a', NOW, 'me', 'edit', None, text)])


# --- Replies ----------------------------------------------------------------------------------------------------


def test_a_kept_reply_is_the_difference_and_never_the_plan() -> None:
    stored = plan(*(step(str(n)) for n in range(1_000)))
    change = do(stored, to('start', '5'), to('start', '6'))
    reply = dump_reply(change)
    assert len(reply) < 1_500
    again = load_reply(reply, change.after)
    assert (again.steps, again.remarks, again.progress) == (change.steps, change.remarks, change.progress)
    assert (again.before, again.after, again.replayed, again.changed) == (change.after, change.after, True, False)
    assert again == replayed(change, change.after)


# --- Other programs ---------------------------------------------------------------------------------------------


def test_what_another_program_wrote_is_a_revision_of_its_own() -> None:
    known = plan(step('a'), step('b'), revision=4, next_id=2)
    found = foreign(known, [step('b', 'completed'), step('7')])
    assert found is not None
    assert found.after == plan(step('b', 'completed'), step('7'), revision=5, next_id=8)
    assert ids_of(found.steps) == ('b', '7', 'a')
    assert found.progress.total == 2
    assert foreign(known, [step('a'), step('b')]) is None
