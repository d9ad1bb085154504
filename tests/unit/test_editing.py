"""A plan as text in an editor: what a text read back comes to, also when others changed the plan meanwhile."""

from __future__ import annotations

import pytest

from planctl.change import Change
from planctl.editing import Sheet, edited, sheet
from planctl.errors import BlankText, DuplicateId, InputError, StepNotFound
from planctl.operations import Add, Edit, Move, Note, Operation, Remove, SetStatus
from planctl.plan import Plan, Step, TaskStatus
from planctl.rules import apply

PLAN = Plan(
    revision=5,
    next_id=7,
    objective='Ship it',
    brief='Mind the tests.',
    steps=(
        Step('1', 'Build', TaskStatus.completed, note='green'),
        Step('2', 'Test', depends_on=('1',)),
        Step('5', 'Release', TaskStatus.blocked, depends_on=('2',)),
        # Not where a tree shows them.
        Step('3', 'Fast ones', active_form='Running them', parent_id='2'),
        Step('6', 'Idea', TaskStatus.cancelled),
        Step('4', 'Slow ones', TaskStatus.blocked, parent_id='2', note='no disk'),
    ),
)


def do(plan: Plan, *operations: Operation) -> Plan:
    return apply(plan, operations, actor='bob', now=50.0).after


def back(shown: Sheet, text: str, plan: Plan = PLAN) -> Change:
    return apply(plan, edited(shown, text, plan), actor='ada', now=60.0)


def changed(old: str, new: str, *, root: str | None = None, plan: Plan = PLAN) -> Change:
    shown = sheet(PLAN, root)
    assert old in shown.text
    return back(shown, shown.text.replace(old, new), plan)


def test_what_is_shown() -> None:
    text = sheet(PLAN).text
    assert text.startswith('<!--\n')
    assert max(map(len, text.partition('-->')[0].splitlines())) < 80
    assert text.partition('-->\n\n')[2] == (
        '# Ship it\n\n<!-- planctl: brief -->\n\nMind the tests.\n\n<!-- planctl: steps -->\n\n'
        '- [x] `1` Build — green\n'
        '- [ ] `2` Test (depends on: 1)\n'
        '  - [ ] `3` Fast ones (active form: Running them)\n'
        '  - [!] `4` Slow ones — no disk\n'
        '- [!] `5` Release (depends on: 2)\n'
        '- [-] `6` Idea\n'
    )
    assert sheet(PLAN, '2').text.partition('-->\n\n')[2] == (
        '<!-- planctl: steps -->\n\n'
        '- [ ] `2` Test (depends on: 1)\n'
        '  - [ ] `3` Fast ones (active form: Running them)\n'
        '  - [!] `4` Slow ones — no disk\n'
    )


@pytest.mark.parametrize('root', [None, '2', '4'])
def test_a_text_that_is_left_as_it_is_changes_nothing(root: str | None) -> None:
    shown = sheet(PLAN, root)
    assert edited(shown, shown.text, do(PLAN, Edit('2', 'Other'))) == []
    assert edited(shown, shown.text.replace('\n', '\r\n') + '\n- [ ] \n', PLAN) == []


def test_an_edited_line_is_one_change() -> None:
    change = changed('`3` Fast ones', '`3` Faster ones')
    assert [(c.step.id, c.step.content, c.moved) for c in change.steps] == [('3', 'Faster ones', False)]


@pytest.mark.parametrize('root', [None, '2'])
def test_status_dependencies_parent_and_note(root: str | None) -> None:
    change = changed(
        '  - [ ] `3` Fast ones (active form: Running them)\n  - [!] `4` Slow ones — no disk',
        '  - [~] `3` Fast ones — 5 s\n    - [ ] `4` Slow ones (depends on: 1)',
        root=root,
    )
    three, four = change.after.step('3'), change.after.step('4')
    assert (three.status, three.active_form, three.note) == (TaskStatus.in_progress, '', '5 s')
    assert (four.status, four.parent_id, four.depends_on, four.note) == (TaskStatus.pending, '3', ('1',), '')


def test_a_note_that_is_left_stays_with_a_new_status() -> None:
    assert changed('- [!] `4`', '- [~] `4`').after.step('4').note == 'no disk'


@pytest.mark.parametrize('root', [None, '2'])
def test_new_lines_are_new_steps_where_they_stand(root: str | None) -> None:
    change = changed('  - [!] `4`', '    - [ ] Under three\n      - deeper `x` — why\n  - [!] `4`', root=root)
    assert [(s.id, s.content, s.parent_id, s.note) for s in change.created] == [
        ('7', 'Under three', '3', ''),
        ('8', 'deeper `x`', '7', 'why'),
    ]
    assert [s.id for s in change.after.steps] == ['1', '2', '5', '3', '7', '8', '6', '4']


def test_a_line_beside_the_step_that_is_edited_belongs_beside_it() -> None:
    shown = sheet(PLAN, '4')
    change = back(shown, shown.text + '- [ ] Slower ones\n')
    assert [(s.id, s.parent_id) for s in change.created] == [('7', '2')]
    assert [s.id for s in change.after.steps] == ['1', '2', '5', '3', '6', '4', '7']


def test_a_line_at_the_top_comes_first() -> None:
    change = changed('- [x] `1`', '- First\n- [x] `1`')
    assert [s.id for s in change.after.steps][:2] == ['7', '1']


def test_moved_lines_move() -> None:
    change = changed('  - [ ] `3` Fast ones (active form: Running them)\n  - [!] `4` Slow ones — no disk\n', '')
    assert [s.id for s in change.deleted] == ['3', '4']
    shown = sheet(PLAN)
    lines = shown.text.split('\n')
    last = next(at for at, line in enumerate(lines) if '`6`' in line)
    first = next(at for at, line in enumerate(lines) if '`1`' in line)
    lines.insert(first, lines.pop(last))
    change = back(shown, '\n'.join(lines))
    assert [s.id for s in change.after.steps] == ['6', '1', '2', '3', '4', '5']
    assert {c.step.id for c in change.steps if c.before != c.after} == set()


def test_a_line_without_its_id_is_known_by_its_text() -> None:
    change = changed('- [-] `6` Idea', '- [ ] Idea')
    assert [(c.step.id, c.step.status) for c in change.steps] == [('6', TaskStatus.pending)]


def test_objective_and_brief() -> None:
    change = changed('# Ship it', '# Ship it all\nsoon')
    assert (change.after.objective, change.after.brief) == ('Ship it all\nsoon', 'Mind the tests.')
    assert changed('Mind the tests.', '').after.brief == ''


def test_an_empty_plan_can_be_written() -> None:
    shown = sheet(Plan())
    assert edited(shown, shown.text, Plan()) == []
    change = back(shown, shown.text.replace('- [ ] \n', '- one\n  - two\n'), Plan())
    assert [(s.id, s.content, s.parent_id) for s in change.after.steps] == [('1', 'one', None), ('2', 'two', '1')]


@pytest.mark.parametrize(
    ('old', 'new', 'error'),
    [
        ('`3` Fast ones (active form: Running them)', '`3`', BlankText),
        ('`3` Fast', '`4` Fast', DuplicateId),
        ('(depends on: 1)', '(depends on: 9)', StepNotFound),
    ],
)
def test_a_text_that_makes_no_sense(old: str, new: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        changed(old, new)


@pytest.mark.parametrize('text', ['', '\n', '# Ship it\n', '<!-- planctl: steps -->\n'])
def test_an_emptied_text_removes_nothing(text: str) -> None:
    with pytest.raises(InputError, match='no step is left'):
        edited(sheet(PLAN), text, PLAN)


# --- Others change the plan meanwhile -----------------------------------------------------------------------------


@pytest.mark.parametrize('root', [None, '2'])
def test_what_others_did_meanwhile_survives(root: str | None) -> None:
    now = do(
        PLAN,
        Edit('2', 'Test all'),
        Note('5', 'theirs'),
        Add('Theirs'),
        SetStatus('6', TaskStatus.pending),
        Move('6', before='1'),
    )
    change = changed('`3` Fast ones', '`3` Faster ones', root=root, plan=now)
    assert [(c.step.id, c.step.content) for c in change.steps] == [('3', 'Faster ones')]
    assert change.after.step('2').content == 'Test all'
    assert (change.after.step('5').note, change.after.step('7').content) == ('theirs', 'Theirs')


def test_both_changed_one_text_and_the_editor_wins() -> None:
    change = changed('`3` Fast ones', '`3` Mine', plan=do(PLAN, Edit('3', 'Theirs')))
    assert change.after.step('3').content == 'Mine'
    assert change.remark('overruled') == ('3', 'content', 'Theirs')


def test_a_line_that_another_removed_stays_removed_and_one_that_another_changed_is_kept() -> None:
    assert changed('`3` Fast', '`3` Faster', plan=do(PLAN, Remove('4'))).remark('stays_deleted') == ('4',)
    kept = changed('  - [!] `4` Slow ones — no disk\n', '', plan=do(PLAN, Edit('4', 'Theirs')))
    assert kept.remark('kept') == ('4',)


def test_new_ids_pass_those_that_others_took() -> None:
    change = changed('- [-] `6` Idea', '- [-] `6` Idea\n- Mine', plan=do(PLAN, Add('Theirs')))
    assert [(s.id, s.content) for s in change.created] == [('8', 'Mine')]
    assert change.after.step('7').content == 'Theirs'
