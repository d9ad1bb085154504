"""Checklists: what is written reads back equal, and what others wrote is read as they meant it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planctl.markdown import (
    MarkedStep,
    escape_markdown,
    is_marked,
    number_dependencies,
    read_bullets,
    read_marked,
    render_markdown,
    unescape_markdown,
)
from planctl.plan import Plan, Step, TaskStatus
from planctl.sanitize import clean, clean_block
from planctl.text import tree_order

# What could be taken for something else: syntax of Markdown, of HTML, and of our own annotations.
TEXT = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            [
                '(depends on: 1)',
                '(active form: x)',
                ' — ',
                '&mdash;',
                '&#x202e;',
                '&amp;',
                '<!-- planctl: steps -->',
                '<!-- planctl: brief -->',
                '`x`',
                '[x] ',
                '- ',
                '\\',
                '# ',
                '1. ',
                '\u202e',
                'snake_case',
                '\n',
                '\n\n    ',
                '```\n',
            ]
        ),
    ),
    max_size=6,
).map(''.join)
LINE = TEXT.map(clean)
IDS = st.text(st.sampled_from('ab`(),;1#é[]—\\_.:&'), min_size=1, max_size=5)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    ids = draw(st.lists(IDS, unique=True, max_size=5))
    steps = [
        Step(
            step_id,
            draw(LINE) or 'x',
            draw(st.sampled_from(list(TaskStatus))),
            draw(LINE),
            parent_id=draw(st.sampled_from([None, *ids[:at]])),
            depends_on=tuple(draw(st.lists(st.sampled_from(ids), unique=True, max_size=3))),
            note=draw(LINE),
        )
        for at, step_id in enumerate(ids)
    ]
    return Plan(steps=tuple(steps), objective=clean_block(draw(TEXT)), brief=clean_block(draw(TEXT)))


@given(plans())
def test_what_is_written_reads_back_equal(plan: Plan) -> None:
    text = render_markdown(plan, tree_order(plan.steps))
    marked = read_marked(text)
    if not is_marked(text):
        assert text == 'no steps'
        return
    assert (marked.objective, marked.brief) == (plan.objective, plan.brief)
    steps = [step for _, step in tree_order(plan.steps)]
    assert [
        Step(
            step.id,
            step.content,
            step.status,
            step.active_form,
            parent_id=None if step.parent is None else marked.steps[step.parent].id,
            depends_on=step.depends_on,
            note=step.note,
        )
        for step in marked.steps
    ] == steps
    assert is_marked(text) == bool(steps or plan.objective or plan.brief)


@given(plans())
def test_nothing_in_it_steers_a_terminal_or_begins_markup(plan: Plan) -> None:
    text = render_markdown(plan, tree_order(plan.steps))
    assert not re.search('[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]', text)
    for line in text.split('\n'):
        if not line.startswith('<!-- planctl: '):
            assert '<' not in re.sub('`+.+?`+', '', re.sub(r'\\.', '', line))


@given(TEXT.map(clean))
def test_escaped_text_reads_as_the_text(text: str) -> None:
    escaped = escape_markdown(text)
    assert unescape_markdown(escaped) == text
    assert not re.search(r'(?<!\\)(?:\\\\)*[`*<\[\]|~]', escaped)
    assert not re.match(r'\s*([#>+=-]|\d+[.)])', escaped)


@pytest.mark.parametrize(
    ('text', 'escaped'),
    [
        ('snake_case and pydantic-ai (see #12)', 'snake_case and pydantic-ai (see #12)'),
        ('a *b* _c_ `d` <e> [f](g)', r'a \*b\* \_c\_ \`d\` \<e> \[f\](g)'),
        ('- x', r'\- x'),
        ('1. x', r'1\. x'),
        ('12) x', r'12\) x'),
        ('# x', r'\# x'),
        ('AT&T &amp; &#60;', r'AT&T \&amp; \&#60;'),
        (r'C:\new', r'C:\\new'),
        ('x (Depends on: 1)', r'x \(Depends on: 1)'),
        ('\u202egnp', '&#x202e;gnp'),
        ('~/x | y', r'\~/x \| y'),
    ],
)
def test_only_what_has_to_be_is_escaped(text: str, escaped: str) -> None:
    assert escape_markdown(text) == escaped


def test_a_whole_checklist() -> None:
    plan = Plan(
        objective='Ship #1\n\n  before *Friday*',
        brief='Read it.\n- all of it',
        steps=(
            Step('1', 'Build', TaskStatus.completed, note='green — all of it'),
            Step('2', 'Test — well', TaskStatus.in_progress, 'Testing', depends_on=('1', 'a,b')),
            Step('a,b', 'Under `2`', parent_id='2'),
        ),
    )
    assert render_markdown(plan, tree_order(plan.steps)) == (
        '# Ship \\#1\n\n  \n  before \\*Friday\\*\n\n'
        '<!-- planctl: brief -->\n\nRead it.  \n\\- all of it\n\n'
        '<!-- planctl: steps -->\n\n'
        '- [x] `1` Build — green — all of it\n'
        '- [~] `2` Test &mdash; well (depends on: 1, `a,b`) (active form: Testing)\n'
        '  - [ ] `a,b` Under \\`2\\`\n\n'
        '1 of 3 resolved, 1 in progress'
    )


def step(step_id: str, content: str, **fields: object) -> MarkedStep:
    values = {'status': TaskStatus.pending, 'parent': None, 'depends_on': (), 'active_form': '', 'note': ''}
    return MarkedStep(step_id, content, **{**values, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ('line', 'expected'),
    [
        ('- [ ] `1` a', step('1', 'a')),
        ('* a new one', step('', 'a new one')),
        ('- [X] `1`   a', step('1', 'a', status=TaskStatus.completed)),
        ('- `make test` passes', step('', '`make test` passes')),
        ('- [ ] `1` a (depends on: 2, 3)', step('1', 'a', depends_on=('2', '3'))),
        ('- [ ] `1` a (depends on: 2) or not', step('1', 'a (depends on: 2) or not')),
        ('- [ ] `1` a (active form: b) — c — d', step('1', 'a', active_form='b', note='c — d')),
        ('- [ ] `1` a\n  goes on', step('1', 'a goes on')),
        ('1. [!] `1` a\r', step('1', 'a', status=TaskStatus.blocked)),
        ('- [ ] `1`', step('1', '')),
        ('- [-] `` ` `` x', step('`', 'x', status=TaskStatus.cancelled)),
    ],
)
def test_a_line_that_somebody_edited(line: str, expected: MarkedStep) -> None:
    assert read_marked(f'<!-- planctl: steps -->\n\n{line}\n').steps == (expected,)


def test_an_id_with_a_blank_is_one_only_where_it_is_known() -> None:
    text = '<!-- planctl: steps -->\n- `a b` c\n- `make test` passes\n- \\`ruff\\` is clean\n- `x` y\n- [ ]\n-\n'
    assert read_marked(text, {'a b'}).steps == (
        step('a b', 'c'),
        step('', '`make test` passes'),
        step('', '`ruff` is clean'),
        step('x', 'y'),
    )


def test_text_above_the_steps_is_the_objective() -> None:
    text = '<!-- help\nof two lines -->\nShip it\n<!-- planctl: steps -->\n'
    assert read_marked(text).objective == 'Ship it'
    assert read_marked('# Ship it\nsoon\n\n<!-- planctl: steps -->\n').objective == 'Ship it\nsoon'


def test_bullets_of_any_kind() -> None:
    bullets, around = read_bullets('# T\n\n- a\n  1. [x] b\n\t\t* c\n+ d\n```\n- no\n```\nend')
    assert [(b.text, b.parent, b.mark, b.number) for b in bullets] == [
        ('a', None, None, None),
        ('b', 0, 'x', 1),
        ('c', 1, None, None),
        ('d', None, None, None),
    ]
    assert around == '# T\n\n```\n- no\n```\nend'


def test_numbers_are_those_that_are_printed() -> None:
    bullets, _ = read_bullets('3. a\n   - a1\n4. b (depends on: 3)\n5. c (after 3 and 4)\n6. d (depends on: 9)')
    number_dependencies(bullets)
    assert [(b.text, b.depends_on) for b in bullets] == [
        ('a', ()),
        ('a1', ()),
        ('b', (0,)),
        ('c', (0, 2)),
        ('d (depends on: 9)', ()),
    ]


def test_a_long_and_a_deep_list_are_read_in_no_time() -> None:
    text = '\n'.join(f'{"  " * (at % 200)}- [ ] `{at}` step {at} (depends on: 1)' for at in range(10_000))
    assert len(read_marked(f'<!-- planctl: steps -->\n{text}').steps) == 10_000
    assert len(read_marked(f'<!-- planctl: steps -->\n- {"`" * 20_000}\n- {"(" * 20_000}').steps) == 2
