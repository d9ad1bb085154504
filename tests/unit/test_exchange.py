"""Plans that come in from other texts, and the graph that goes out."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planctl.errors import BlankText, DuplicateId, InputError, InvalidId, StepNotFound
from planctl.exchange import Document, Item, bring_in, parse, render_mermaid
from planctl.markdown import render_markdown
from planctl.plan import Plan, Step, TaskStatus
from planctl.rules import apply
from planctl.text import tree_order

DONE = TaskStatus.completed


def imported(plan: Plan, document: Document, *, replacing: bool = False) -> Plan:
    made = bring_in(plan, document, replacing=replacing, actor='ada', now=100.0)
    return apply(plan, made.operations, actor='ada', now=100.0).after


PLAN = Plan(
    next_id=4,
    steps=(
        Step('1', 'Build', DONE, note='green'),
        Step('2', 'Test', depends_on=('1',)),
        Step('3', 'Fast ones', TaskStatus.blocked, 'Running', '2', ('1',), note='no disk'),
    ),
    objective='Ship it\nsoon',
    brief='Mind the *tests*.',
)


@pytest.mark.parametrize(
    ('text', 'named', 'contents'),
    [
        ('- a\n- b', None, 'a b'),
        ('[ ] is no list', None, None),
        ('a\nb', None, None),
        ('', None, None),
        ('[]', None, None),
        ('["a", "b"]', None, 'a b'),
        ('[{"content": "a"}]', None, 'a'),
        ('{"content": "a"}', None, 'a'),
        ('{"items": [{"content": "a"}]}', None, 'a'),
        ('{"content": "a"}\n\n{"content": "b"}\n', None, 'a b'),
        ('{"content": "a"}\n"b"', 'jsonl', 'a b'),
        ('- a', 'json', None),
        ('{"content": "a"', None, None),
        ('["a"', None, None),
        ('{"items": "a"}', None, None),
        ('[[1]]', None, None),
        ('[' * 100_000, 'json', None),
        ('7', 'json', None),
    ],
)
def test_the_kind_of_a_text(text: str, named: str | None, contents: str | None) -> None:
    if contents is None:
        with pytest.raises(InputError):
            parse(text, named)  # type: ignore[arg-type]
    else:
        assert [item.content for item in parse(text, named).items] == contents.split()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ('item', 'said'),
    [
        ({}, 'no content'),
        ({'content': 1}, 'content is text'),
        ({'content': 'a', 'status': 'done'}, "no status 'done'"),
        ({'content': 'a', 'title': 'b'}, "a field 'title'"),
        ({'content': 'a', 'depends_on': '1'}, 'a list of ids'),
        ({'content': 'a', 'depends_on': [None, {}]}, 'an id is text'),
        ({'content': 'a', 'parent_id': 1.5}, 'an id is text'),
        ({'content': 'a', 'started_at': 'noon'}, 'a time such as'),
        ({'content': 'a', 'started_at': 5}, 'a time such as'),
        ({'content': 'a', 'started_at': '1969-12-31T23:59:59Z'}, 'from 1970 to 9999'),
        ({'content': 'a', 'started_at': '9999-12-31T23:59:59-01:00'}, 'from 1970 to 9999'),
        (5, 'neither an object nor a string'),
    ],
)
def test_an_item_that_makes_no_sense_is_named(item: object, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        parse(json.dumps(['fine', item]), 'json')
    assert 'step 2 of the text' in raised.value.message


def test_fields_that_are_derived_and_ids_that_are_numbers_are_taken() -> None:
    text = '[{"id": 7, "content": "a", "ready": true, "waits_for": [], "lease": null, "depends_on": [3, "3"]}]'
    assert parse(text).items == (Item('7', 'a', '7', depends_on=('3',)),)


def test_a_checklist_of_somebody_else() -> None:
    document = parse('# Title\n\n1. [x] a\n2. b\n   - c `make` (depends on: 1)\n3. [~] d (depends on: 1)')
    after = imported(Plan(), document)
    assert [
        (s.id, s.content, s.status.value, s.parent_id, s.depends_on, s.owner, s.started_at) for s in after.steps
    ] == [
        ('1', 'a', 'completed', None, (), None, None),
        ('2', 'b', 'pending', None, (), None, None),
        ('3', 'c `make`', 'pending', '2', ('1',), None, None),
        ('4', 'd', 'in_progress', None, ('1',), 'ada', 100.0),
    ]
    assert (after.objective, after.next_id) == ('', 5)


def test_what_is_exported_comes_in_equal() -> None:
    document = parse(render_markdown(PLAN, tree_order(PLAN.steps)))
    after = imported(Plan(), document)
    assert (after.steps, after.objective, after.brief, after.next_id) == (PLAN.steps, PLAN.objective, PLAN.brief, 4)
    assert imported(PLAN, document, replacing=True) == PLAN


def test_taken_ids_are_given_up() -> None:
    document = parse(render_markdown(PLAN, tree_order(PLAN.steps)))
    made = bring_in(PLAN, document, replacing=False, actor='ada', now=100.0)
    assert made.renamed == {'1': '4', '2': '5', '3': '6'}
    assert made.ids == ('4', '5', '6')
    after = imported(PLAN, document)
    assert after.steps[:3] == PLAN.steps
    assert [(s.id, s.parent_id, s.depends_on) for s in after.steps[3:]] == [
        ('4', None, ()),
        ('5', None, ('4',)),
        ('6', '5', ('4',)),
    ]


def test_new_ids_pass_those_of_the_same_text() -> None:
    document = Document((Item('a', 'a'), Item('5', 'five', '5'), Item('b', 'b', depends_on=('a',))))
    assert [(s.id, s.depends_on) for s in imported(Plan(), document).steps] == [('6', ()), ('5', ()), ('7', ('6',))]


def test_a_reference_may_name_a_step_of_the_plan() -> None:
    after = imported(PLAN, parse('[{"content": "later", "depends_on": ["1"], "parent_id": "2"}]'))
    assert (after.steps[-1].parent_id, after.steps[-1].depends_on) == ('2', ('1',))
    with pytest.raises(StepNotFound, match='which is not in the plan'):
        imported(PLAN, parse('[{"content": "later", "depends_on": ["nope"]}]'))


def test_replacing_keeps_ids_and_objective_of_the_text() -> None:
    after = imported(PLAN, parse('{"items": [{"id": "3", "content": "only"}], "objective": "new"}'), replacing=True)
    assert [(s.id, s.content, s.status) for s in after.steps] == [('3', 'only', TaskStatus.pending)]
    assert (after.objective, after.brief, after.next_id) == ('new', '', 4)


def test_appending_leaves_objective_and_brief_where_there_are_some() -> None:
    document = parse('{"items": ["x"], "objective": "new", "brief": "new"}')
    after = imported(Plan(brief='old'), document)
    assert (after.objective, after.brief) == ('new', 'old')


@pytest.mark.parametrize(
    ('items', 'error'),
    [
        (['', 'a'], BlankText),
        ([{'content': '\n'}], BlankText),
        ([{'id': 'a b', 'content': 'a'}], InvalidId),
        ([{'id': 'a', 'content': 'a'}, {'id': 'a', 'content': 'b'}], DuplicateId),
    ],
)
def test_what_cannot_come_in(items: list[object], error: type[Exception]) -> None:
    with pytest.raises(error):
        imported(Plan(), parse(json.dumps(items)))


def test_times_and_owners_are_kept() -> None:
    item = {'content': 'a', 'status': 'in_progress', 'owner': 'bob', 'started_at': '1970-01-01T00:00:07.250000Z'}
    step = imported(Plan(), parse(json.dumps([item]))).steps[0]
    assert (step.owner, step.started_at, step.lease) == ('bob', 7.25, None)
    local = imported(Plan(), parse(json.dumps([{**item, 'started_at': '1970-01-01T00:00:07'}]))).steps[0]
    assert local.started_at == 7.0


def test_a_large_plan_is_replaced_in_no_time() -> None:
    chain = tuple(Step(str(n), f'step {n}', parent_id=str(n - 1) if n > 1 else None) for n in range(1, 3_001))
    document = Document(tuple(Item(s.id, s.content, s.id, parent=s.parent_id) for s in chain))
    assert imported(Plan(steps=chain, next_id=3_001), document, replacing=True).steps == chain


def test_a_graph() -> None:
    assert render_mermaid(PLAN, PLAN.steps).split('\n') == [
        'flowchart TD',
        '  s0["#91;x#93; 1 Build"]:::completed',
        '  s1["#91; #93; 2 Test"]',
        '  s2["#91;!#93; 3 Fast ones"]:::blocked',
        '  s0 --> s1',
        '  s0 --> s2',
        '  s1 -.- s2',
        '  classDef completed stroke-dasharray:2 3',
        '  classDef blocked stroke-dasharray:8 4',
    ]


@given(st.text(max_size=20), st.text(max_size=5))
def test_a_label_is_text_and_nothing_else(content: str, step_id: str) -> None:
    line = render_mermaid(Plan(), [Step(step_id, content)]).split('\n')[1]
    match = re.fullmatch(r'  s0\["(.*)"\]', line)
    assert match is not None
    assert not re.search(r'["<>`\[\]{}|\\&]|#(?!\d+;)', match[1])


def test_json_of_another_schema_is_refused_and_what_names_none_is_taken() -> None:
    with pytest.raises(InputError, match='schema 99'):
        parse('{"schema": 99, "items": [{"content": "a"}]}')
    for text in ('{"schema": 1, "items": [{"content": "a"}]}', '{"items": [{"content": "a"}]}'):
        assert [item.content for item in parse(text).items] == ['a']
