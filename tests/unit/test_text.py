"""Plans as plain text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planctl.items import PlanItem
from planctl.markdown import render_markdown
from planctl.plan import STATUSES, Plan, Progress, Step, TaskStatus
from planctl.text import (
    elapsed,
    progress_line,
    render_plan,
    render_plan_text,
    render_tree,
    state_of,
    step_details,
    step_line,
    tree_order,
    waits_for,
)

DONE = TaskStatus.completed


def steps(*parents: str | None) -> list[Step]:
    return [Step(str(at), f'step {at}', parent_id=parent) for at, parent in enumerate(parents, 1)]


def test_children_stand_behind_their_parent() -> None:
    placed = [(depth, step.id) for depth, step in tree_order(steps(None, None, '1', '3', '2', '1'))]
    assert placed == [(0, '1'), (1, '3'), (2, '4'), (1, '6'), (0, '2'), (1, '5')]


def test_no_step_is_lost_to_a_missing_parent_or_a_loop() -> None:
    placed = [(depth, step.id) for depth, step in tree_order(steps('gone', '3', '2', '4', None))]
    assert placed == [(0, '1'), (0, '5'), (0, '2'), (1, '3'), (0, '4')]


def test_a_deep_plan_needs_no_deep_stack() -> None:
    chain = steps(None, *(str(at) for at in range(1, 10_000)))
    assert tree_order(chain)[-1] == (9_999, chain[-1])
    waiting = [Step(str(at), 'x', depends_on=(str(at - 1),) if at else ()) for at in range(10_000)]
    assert render_tree(Plan(steps=tuple(waiting))).count('waits for') == 9_999


@given(st.lists(st.one_of(st.none(), st.integers(0, 12).map(str)), max_size=12))
def test_each_step_stands_once(parents: list[str | None]) -> None:
    given_steps = steps(*parents)
    placed = tree_order(given_steps)
    assert sorted(step.id for _, step in placed) == sorted(step.id for step in given_steps)
    by_id = {step.id: depth for depth, step in placed}
    for depth, step in placed:
        assert depth == 0 or depth == by_id[step.parent_id or ''] + 1


@pytest.mark.parametrize(
    ('counts', 'state', 'line'),
    [
        (Progress(), 'empty', 'no steps'),
        (Progress(total=2, pending=2), 'open', '0 of 2 resolved'),
        (Progress(total=10, completed=8, cancelled=2), 'finished', '10 of 10 resolved, 2 cancelled, finished'),
        (Progress(total=2, cancelled=2), 'abandoned', '2 of 2 resolved, 2 cancelled, abandoned'),
        (
            Progress(total=3, completed=1, in_progress=1, blocked=1),
            'open',
            '1 of 3 resolved, 1 in progress, 1 blocked',
        ),
    ],
)
def test_progress(counts: Progress, state: str, line: str) -> None:
    assert (state_of(counts), progress_line(counts)) == (state, line)


@pytest.mark.parametrize(
    ('seconds', 'text'),
    [
        (-5, '0 s'),
        (0.9, '0 s'),
        (59.9, '59 s'),
        (60, '1 min'),
        (3_599, '59 min'),
        (3_600, '1 h'),
        (3_660, '1 h 1 min'),
        (86_399, '23 h 59 min'),
        (86_400, '1 d'),
        (100_000, '1 d 3 h'),
    ],
)
def test_elapsed(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text


def test_a_line_says_what_the_step_waits_for_and_why() -> None:
    first, done = Step('1', 'First'), Step('2', 'Second', DONE)
    step = Step('3', 'Third', TaskStatus.blocked, depends_on=('1', '2', 'gone'), note='by hand')
    plan = Plan(steps=(first, done, step))
    assert waits_for(plan, step) == ['1']
    assert step_line(plan, step, 2) == '    [!] 3 Third (waits for 1) -- by hand'
    # Cancelled it waits for nothing, though what it depended on is still open.
    given_up = replace(step, status=TaskStatus.cancelled)
    assert waits_for(plan, given_up) == []
    assert step_line(plan, given_up) == '[-] 3 Third -- by hand'


def test_details_name_every_tie() -> None:
    plan = Plan(
        steps=(
            Step('1', 'One', DONE),
            Step('2', 'Two', TaskStatus.in_progress, 'Doing', '4', ('1', 'gone'), 'ada', 100.0, 0.0, 'why'),
            Step('3', 'Three', parent_id='2', depends_on=('2',)),
            Step('4', 'Four'),
        )
    )
    assert list(step_details(plan, plan.step('2'), 40.0)) == [
        ('status', 'in progress for 40 s, ada holds it for 1 min more'),
        ('while in progress', 'Doing'),
        ('part of', '[ ] 4 Four'),
        ('depends on', '[x] 1 One'),
        ('depends on', 'gone, which is not in the plan'),
        ('needed by', '[ ] 3 Three'),
        ('subtask', '[ ] 3 Three'),
        ('note', 'why'),
    ]
    assert dict(step_details(plan, plan.step('2'), 100.0))['status'] == 'in progress for 1 min, ada'


def test_the_reference_rendering() -> None:
    assert render_plan([]) == 'No plan yet.'
    items = [PlanItem(id='a', content='One', status=DONE), PlanItem(id='b', content='Two\nlines')]
    assert render_plan(items) == '1. [x] [a] One\n2. [ ] [b] Two lines\n(1/2 completed)'


HOSTILE = st.text(st.sampled_from('a \n\r\t\x00\x1b\x9b\u2028\u202e\ud800[]*_`<>|#日\U0001f469\u200d'), max_size=30)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_text_breaks_a_line_or_steers_a_terminal(content: str, note: str, step_id: str) -> None:
    step = Step(step_id or 'x', content, note=note, active_form=note, owner=content, started_at=0.0, depends_on=(note,))
    plan = Plan(steps=(step,), objective=content, brief=note)
    texts = [
        render_tree(plan),
        render_plan_text(plan, [(0, step)]),
        render_markdown(plan, [(0, step)]),
        *(text for _, text in step_details(plan, step, 1.0)),
    ]
    for text in texts:
        assert not any(char in text for char in '\r\t\x00\x1b\x9b\u2028\u202e\ud800')
    assert render_tree(plan).count('\n') == 1


def test_an_empty_plan_is_its_progress() -> None:
    assert render_tree(Plan()) == render_plan_text(Plan(), []) == render_markdown(Plan(), []) == 'no steps'
    assert set(STATUSES) == {status.value for status in TaskStatus}
