"""What the commands that change a plan do to it, and what they say."""

from __future__ import annotations

import pytest
from cli_helpers import Cli, Outcome, fill, process, store

from planctl.cli.advice import advise
from planctl.cli.settings import Settings
from planctl.core import drive
from planctl.errors import SessionNotFound
from planctl.operations import Add, SetStatus
from planctl.plan import Step, TaskStatus
from planctl.stores.sqlite_file import SqliteFile


def steps(cli: Cli) -> dict[str, Step]:
    return dict(drive(SqliteFile(cli.folder / 'plan.db').read()).index)


def order(cli: Cli) -> list[str]:
    return [item['content'] for item in cli.json('show')['items']]


# --- add ----------------------------------------------------------------------------------------------------------


def test_words_are_one_text(cli: Cli) -> None:
    assert cli.ok('add', 'Write', 'the', 'tests').out == 'added 1  Write the tests\n'
    assert cli.ok('add', '--', '-x', '--json').out == 'added 2  -x --json\n'


def test_add_takes_everything_that_a_step_has(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'Build', 'Test')
    outcome = cli.ok('add', 'Ship', '--under', '1', '--depends-on', '2', '--active-form', 'Shipping', '--actor', 'me')
    assert outcome.out == 'added 3  Ship (waits for 2)\n'
    assert steps(cli)['3'] == Step('3', 'Ship', TaskStatus.blocked, 'Shipping', '1', ('2',))


def test_several_added_steps_keep_their_order_wherever_they_go(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    fill(cli.folder / 'plan.db', 'first', 'last')
    for words, first in ((('--after', '1'), 'a'), (('--before', '2'), 'c'), (('--after', '2'), 'e')):
        lines = f'{first}1\n{first}2\n'.encode()
        monkeypatch.setattr(sys, 'stdin', io.TextIOWrapper(io.BytesIO(lines)))
        cli.ok('add', '-', *words)
    assert order(cli) == ['first', 'a1', 'a2', 'c1', 'c2', 'last', 'e1', 'e2']
    assert list(steps(cli)) == ['1', '3', '4', '5', '6', '2', '7', '8']


def test_adding_under_a_resolved_step_says_how_to_open_it(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'One')
    cli.ok('done', '1')
    outcome = cli('add', 'x', '--under', '1')
    assert outcome.status == 4
    assert 'planctl reopen 1' in outcome.err


# --- edit ---------------------------------------------------------------------------------------------------------


def test_everything_of_a_step_is_edited_at_once(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'One', 'Two', 'Three')
    words = ('--content', 'Uno', '--active-form', 'Doing', '--under', '3', '--depends-on', '2', '--after', '2')
    assert cli.ok('edit', '1', *words).out == 'edited 1 · 1 is under 3 now · 1 waits for 2\n'
    assert steps(cli)['1'] == Step('1', 'Uno', TaskStatus.blocked, 'Doing', '3', ('2',))
    assert list(steps(cli)) == ['2', '1', '3']
    assert (
        cli.ok('edit', '1', '--drop-dependency', '2', '--under', 'none').out
        == 'edited 1 · 1 is at the top level now · 1 is pending\n'
    )
    assert steps(cli)['1'].parent_id is None


def test_an_edit_is_all_or_nothing(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'One', 'Two')
    cli.ok('edit', '2', '--depends-on', '1')
    before = cli.json('show')
    outcome = cli('edit', '1', '--content', 'Uno', '--depends-on', '2')
    assert (outcome.status, outcome.out) == (4, '')
    assert cli('edit', '1', '--content', 'Uno', '--depends-on', '2', '--json').error['code'] == 'cycle'
    assert cli('edit', '1', '--content', 'Uno', '--under', 'gone').status == 3
    assert cli.json('show') == before


def test_the_objective_and_the_brief_belong_to_the_session(cli: Cli) -> None:
    outcome = cli.ok('edit', '--objective', 'Ship it', '--brief', 'Two\nlines')
    assert (outcome.out, outcome.err) == ('edited the objective and the brief\n', 'planctl: new database plan.db\n')
    document = cli.json('show')
    assert (document['objective'], document['brief'], document['state']) == ('Ship it', 'Two\nlines', 'empty')
    assert cli.ok('edit', '--objective', 'Ship it').out == 'nothing to change\n'


def test_long_texts_come_from_stdin(cli: Cli) -> None:
    fill(cli.folder / 'plan.db', 'One')
    process('edit', '--brief', '-', cwd=cli.folder, stdin='# Notes\n\n\tone\r\ntwo\n')
    process('edit', '1', '--content', '-', cwd=cli.folder, stdin='Uno\ndos\n')
    document = cli.json('show')
    assert document['brief'] == '# Notes\n\n    one\ntwo'
    assert document['items'][0]['content'] == 'Uno dos'
    assert process('edit', '1', '--content', '-', cwd=cli.folder, stdin='\n').status == 2


def test_a_dependency_on_a_step_that_is_gone_can_be_dropped(cli: Cli) -> None:
    import sqlite3

    fill(cli.folder / 'plan.db', 'One', 'Two')
    connection = sqlite3.connect(cli.folder / 'plan.db')
    connection.execute("UPDATE plan_items SET depends_on = '[\"gone\"]' WHERE id = '1'")
    connection.commit()
    connection.close()
    cli.ok('edit', '1', '--drop-dependency', 'gone')
    assert steps(cli)['1'].depends_on == ()


# --- Status -------------------------------------------------------------------------------------------------------


@pytest.fixture
def chain(cli: Cli) -> Cli:
    """Step 1, 2 and 3 that wait for it, and 4 with the subtasks 5 and 6."""
    store(
        cli.folder / 'plan.db',
        Add('One'),
        Add('Two', depends_on=('1',)),
        Add('Three', depends_on=('1',)),
        Add('Four'),
        Add('Five', parent_id='4'),
        Add('Six', parent_id='4'),
    )
    return cli


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['start', '1'], 'started 1'),
        (['start', '1', '5'], 'started 1, 5 · in progress: 1, 5'),
        (['done', '1'], 'done 1 · 2, 3 can start now'),
        (['done', '1', '1', '1'], 'done 1 · 2, 3 can start now'),
        (['done', '1', '2', '3'], 'done 1, 2, 3'),
        (['done', '5', '6'], 'done 5, 6 · all of 4 is resolved'),
        (['done', '4', '--cascade'], 'done 4, 5, 6'),
        (['done', '6', '4', '5'], 'done 4, 5, 6'),
        (['cancel', '4', '--cascade'], 'cancelled 4, 5, 6'),
        (['cancel', '1'], 'cancelled 1 · 2, 3 can start now'),
        (['block', '1', '-m', 'no key'], 'blocked 1'),
        (['reopen', '1'], '1 is pending already'),
        (['done', '1', '2', '3', '4', '--cascade'], 'done 1, 2, 3, 4, 5, 6 · the plan is finished'),
        (['cancel', '1', '2', '3', '4', '--cascade'], 'cancelled 1, 2, 3, 4, 5, 6 · every step is cancelled'),
        (['rm', '1'], 'removed 1 · 2, 3 can start now'),
        (['rm', '5', '4', '6'], 'removed 4, 5, 6'),
        (['rm', '4', '--cascade'], 'removed 4, 5, 6'),
        (['rm', '4', '5', '--cascade'], 'removed 4, 5, 6'),
    ],
    ids=lambda value: value if isinstance(value, str) else ' '.join(value),
)
def test_what_is_said_is_what_happened(chain: Cli, words: list[str], said: str) -> None:
    assert chain.ok(*words).out == f'{said}\n'


def test_a_state_that_holds_is_named(chain: Cli) -> None:
    chain.ok('done', '1')
    assert chain.ok('done', '1').out == '1 is completed already\n'
    assert chain.ok('done', '1', '2').out == 'done 2 · 1 is completed already\n'
    assert chain.ok('done', '1', '-m', 'all green').out == 'noted on 1\n'
    assert chain.ok('reopen', '1').out == 'reopened 1 · 3 blocked\n'
    assert chain.ok('reopen', '2').out == 'reopened 2 · 2 waits for 1\n'
    chain.ok('done', '4', '--cascade')
    assert chain.ok('reopen', '5', '--cascade').out == 'reopened 4, 5\n'


def test_notes_are_kept(chain: Cli) -> None:
    chain.ok('block', '1', '--note', 'waits for a key')
    assert steps(chain)['1'].note == 'waits for a key'
    chain.ok('done', '1', '-m', 'got it')
    assert steps(chain)['1'].note == 'got it'


def test_who_starts_a_step_has_it(chain: Cli) -> None:
    chain.ok('start', '1', '--actor', 'ada')
    assert steps(chain)['1'].owner == 'ada'


@pytest.mark.parametrize(
    ('words', 'code', 'hint'),
    [
        (['done', '2'], 'open_prerequisite', 'planctl next'),
        (['start', '2'], 'open_prerequisite', 'planctl next'),
        (['done', '4'], 'open_children', 'planctl done 4 --cascade'),
        (['cancel', '4'], 'open_children', 'planctl show 4 --tree'),
        (['rm', '4'], 'has_children', 'planctl show 4 --tree'),
        (['edit', '1', '--depends-on', '2'], 'cycle', 'planctl show'),
        (['edit', '5', '--depends-on', '4'], 'cycle', 'planctl show'),
        (['edit', '4', '--under', '5'], 'cycle', 'planctl show'),
    ],
    ids=lambda value: ' '.join(value) if isinstance(value, list) else str(value),
)
def test_a_refusal_says_why_and_what_to_do(chain: Cli, words: list[str], code: str, hint: str) -> None:
    before = chain.json('show')
    outcome = chain(*words, '--json')
    assert outcome.status == 4
    assert outcome.error['code'] == code
    assert hint in outcome.error['hint']
    assert 'rm' not in outcome.error['hint']
    assert chain.json('show') == before


def test_one_refused_step_refuses_all(chain: Cli) -> None:
    before = chain.json('show')
    for words in (['done', '1', '4'], ['done', '1', 'nope'], ['rm', '1', '4'], ['start', '1', '2']):
        outcome = chain(*words)
        assert outcome.status in (3, 4)
        assert outcome.out == ''
    assert chain.json('show') == before


@pytest.mark.parametrize(
    'words', [['done', '1,2'], ['add', 'x', '--depends-on', '1,2'], ['edit', '1', '--under', '1,2']]
)
def test_ids_with_a_comma_between_them_are_told_apart(chain: Cli, words: list[str]) -> None:
    refused = chain(*words, '--json')
    assert (refused.status, refused.error['code'], refused.error['ids']) == (3, 'step_not_found', ['1,2'])
    assert refused.error['hint'] == 'ids are given apart: 1 2, or --depends-on 1 --depends-on 2'


@pytest.mark.parametrize('command', ['start', 'done', 'cancel', 'block', 'reopen'])
def test_a_reason_in_the_place_of_an_id_is_told_where_it_goes(chain: Cli, command: str) -> None:
    refused = chain(command, '1', 'waits for a key')
    assert refused.status == 2
    assert refused.err.endswith(f'(why goes behind -m: planctl {command} ID -m TEXT)\n')


def test_what_is_placed_beside_a_step_is_on_its_level(chain: Cli) -> None:
    def tree() -> list[str]:
        return chain.ok('show').lines[3:-1]

    assert tree() == ['[ ] 4 Four', '  [ ] 5 Five', '  [ ] 6 Six']
    chain.ok('add', 'Seven', '--before', '6')
    chain.ok('add', 'Eight', '--after', '4')
    assert tree() == ['[ ] 4 Four', '  [ ] 5 Five', '  [ ] 7 Seven', '  [ ] 6 Six', '[ ] 8 Eight']
    assert chain.ok('edit', '8', '--before', '5').out == 'edited 8 · 8 is under 4 now\n'
    assert chain.ok('edit', '7', '--after', '4').out == 'edited 7 · 7 is at the top level now\n'
    assert tree() == ['[ ] 4 Four', '  [ ] 8 Eight', '  [ ] 5 Five', '  [ ] 6 Six', '[ ] 7 Seven']
    assert chain.json('edit', '8', '--before', '8')['changed'] == []
    assert chain('edit', '4', '--before', '5', '--json').error['code'] == 'cycle'


def test_a_step_cannot_be_waited_for_and_not(chain: Cli) -> None:
    refused = chain('edit', '2', '--depends-on', '1', '--drop-dependency', '1', '--json')
    assert (refused.status, refused.error['code']) == (2, 'usage')
    assert chain.json('show', '2')['items'][0]['depends_on'] == ['1']


def test_a_hint_means_the_same_plan(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cli.folder / 'my plan.db'
    store(path, Add('One'), Add('Two', parent_id='1'), session='a b')
    outcome = cli('done', '1', '--db', 'my plan.db', '--session', 'a b')
    assert "planctl --db 'my plan.db' --session 'a b' done 1 --cascade" in outcome.err
    monkeypatch.setenv('PLANCTL_SESSION', 'a b')
    monkeypatch.setenv('PLANCTL_DB', 'my plan.db')
    assert 'planctl done 1 --cascade' in cli('done', '1').err


@pytest.mark.parametrize(
    ('command', 'db', 'hint'),
    [
        ('show', None, "those there are: planctl session list; to begin it: planctl --session x add 'The first step'"),
        ('log', 'a b', "those there are: planctl --db 'a b' session list"),
        # A server does not list its sessions.
        ('show', 'redis://:secret@h/0', "to begin it: planctl --db URL --session x add 'The first step'"),
        ('log', 'redis://:secret@h/0', None),
    ],
)
def test_who_asks_for_a_session_that_is_not_there_is_told_where_to_look(
    command: str, db: str | None, hint: str | None
) -> None:
    error = SessionNotFound('there is none')
    advise(error, command, Settings(db=db, session='x'))
    assert error.hint == hint


# --- next ---------------------------------------------------------------------------------------------------------


def test_next_gives_what_can_be_worked_on(chain: Cli) -> None:
    assert chain.ok('next').out == '[ ] 1 One\n'
    assert chain.ok('next', '-n', '9').lines == [
        '[ ] 1 One',
        '[ ] 5 Five (part of 4 Four)',
        '[ ] 6 Six (part of 4 Four)',
        '[ ] 4 Four (after its subtasks)',
    ]
    assert [item['id'] for item in chain.json('next', '-n', '2')['items']] == ['1', '5']
    assert chain.ok('next', '-q').out == ''


def test_a_claimed_step_is_given_to_nobody_else(chain: Cli) -> None:
    assert chain.ok('next', '--claim', '--actor', 'ada').out == '[~] 1 One\n'
    document = chain.json('next', '--claim', '-n', '5', '--actor', 'bob')
    assert [item['id'] for item in document['items']] == ['5', '6']
    assert {item['owner'] for item in document['items']} == {'bob'}
    assert document['changed'] == ['5', '6']
    assert all(item['lease'] > item['started_at'] for item in document['items'])
    assert chain('next', '--claim', '--actor', 'eve').status == 3
    refused = chain('start', '1', '--actor', 'eve')
    assert (refused.status, refused.out) == (4, '')
    assert refused.err == 'planctl: step 1 is held by ada (what can be started: planctl next)\n'
    assert chain.ok('start', '1', '--actor', 'ada').out == '1 is in progress already, taken by ada\n'
    assert chain.ok('start', '4', '--actor', 'ada').out
    assert chain.ok('next', '--actor', 'eve').out == '[~] 4 Four (after its subtasks) (taken by ada)\n'
    assert chain.ok('next', '--actor', 'ada').out == '[~] 1 One\n'
    assert chain.ok('reopen', '4').out
    assert [item['id'] for item in chain.json('next', '-n', '9', '--actor', 'ada')['items']] == ['1', '4']
    for outcome in (chain.ok('done', '1', '--actor', 'ada'), chain.ok('next', '--claim', '--actor', 'eve', '-q')):
        assert isinstance(outcome, Outcome)
    assert steps(chain)['2'].owner == 'eve'


def test_the_document_of_a_write_names_all_that_changed(chain: Cli) -> None:
    document = chain.json('done', '1')
    assert document['changed'] == ['1', '2', '3']
    assert document['unblocked'] == ['2', '3']
    assert [item['id'] for item in document['items']] == ['1']
    counts = {'total': 6, 'open': 5, 'resolved': 1, 'pending': 5, 'completed': 1}
    assert document['counts'] == counts | dict.fromkeys(('in_progress', 'blocked', 'cancelled'), 0)
    document = chain.json('rm', '4', '--cascade')
    assert [item['id'] for item in document['items']] == document['changed'] == ['4', '5', '6']
    assert document['counts']['total'] == 3
    document = chain.json('add', 'New', '--depends-on', '2')
    assert document['changed'] == [document['items'][0]['id']] == ['7']
    assert document['items'][0]['waits_for'] == ['2']


def test_an_id_of_digits_is_never_shortened(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Add('a', id='3312'), Add('b', id='33'), Add('c', id='331200'), Add('d', id='331x'))
    cli.ok('done', '33')
    assert cli('done', '33120').status == 3
    cli.ok('done', '331')  # Only one of those that begin like that is not all digits.
    assert cli.statuses() == {'3312': 'pending', '33': 'completed', '331200': 'pending', '331x': 'completed'}


def test_a_prefix_of_two_characters_is_too_short(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Add('a', id='abcdef'))
    assert cli('done', 'ab').status == 3
    cli.ok('done', 'abc')


def test_status_of_a_step_set_by_a_library_is_shown(cli: Cli) -> None:
    store(cli.folder / 'plan.db', Add('a'))
    store(cli.folder / 'plan.db', SetStatus('1', TaskStatus.in_progress))
    assert cli.ok('show').lines == ['[~] 1 a', '0 of 1 resolved, 1 in progress']
