"""Ids, session names and table names that somebody chose."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planctl.errors import InvalidId, InvalidName
from planctl.plan import check_id, check_session, check_table, next_id_after


@pytest.mark.parametrize(
    'step_id', ['1', 'a', 'step-1', 'a/b', '日本', 'é', "o'x", 'x' * 64, '#1', '*', '_', '.', '{}']
)
def test_ids_that_can_be_used(step_id: str) -> None:
    assert check_id(step_id) == step_id


@pytest.mark.parametrize(
    'step_id',
    [
        '', ' ', 'a b', ' a', 'a ', 'a\n', 'a\tb', '-a', '--', '<a', 'a>', 'x' * 65, '\x00', 'a\x1b', '\u2028',
        '\u00a0', '\u202ea', 'a\u200bb', '\ud800', '\u3000',
    ],
)  # fmt: skip
def test_ids_that_cannot(step_id: str) -> None:
    with pytest.raises(InvalidId) as caught:
        check_id(step_id)
    assert caught.value.message.isprintable()
    assert isinstance(caught.value, ValueError)


@given(st.text(max_size=70))
def test_an_id_that_passes_is_as_defined(text: str) -> None:
    allowed = (
        1 <= len(text) <= 64
        and all(character.isprintable() and not character.isspace() and character not in '<>' for character in text)
        and not text.startswith('-')
    )
    if allowed:
        assert check_id(text) == text
    else:
        with pytest.raises(InvalidId):
            check_id(text)


@pytest.mark.parametrize(
    'name',
    ['default', 'a}b', '../x', '日本', ' ', '\u3000wide\u00a0', '{a}', '%', "o'x", '\u202e', 'x' * 200, '-', '0'],
)
def test_session_names_that_can_be_used(name: str) -> None:
    assert check_session(name) == name


@pytest.mark.parametrize('name', ['', 'x' * 201, 'a\n', '\x00', 'a\tb', '\x7f', '\x9b', '\u2028', '\ud800'])
def test_session_names_that_cannot(name: str) -> None:
    with pytest.raises(InvalidName):
        check_session(name)


@pytest.mark.parametrize('table', ['plan_items', '_', 'T1', 'x' * 63])
def test_table_names_that_can_be_used(table: str) -> None:
    assert check_table(table) == table


@pytest.mark.parametrize(
    'table',
    ['', '1a', 'a b', 'a;b', 'a"b', 'a-b', 'a.b', 'é', 'x' * 64, 'a\n', 'sqlite_master', 'SQLite_x', '\x1b', "x'--"],
)
def test_table_names_that_cannot(table: str) -> None:
    with pytest.raises(InvalidName) as caught:
        check_table(table)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize('name', [None, 7, b'a', ['a']])
@pytest.mark.parametrize('check', [check_session, check_table])
def test_what_is_no_text_names_nothing_and_is_said(check: Callable[[Any], str], name: object) -> None:
    with pytest.raises(InvalidName, match=f'name is text, not {re.escape(repr(name))}'):
        check(name)


@pytest.mark.parametrize(
    ('ids', 'expected'),
    [
        ([], 3),
        (['1', '2'], 3),
        (['3'], 4),
        (['9', '4'], 10),
        (['999999'], 1_000_000),
        (['1000000', '007', '٤', '²', '1.0', '-5', '+5', '1_0', ' 7', '', 'x'], 3),
        (['0'], 3),
    ],
)
def test_the_counter_passes_canonical_integers_below_a_million(ids: list[str], expected: int) -> None:
    assert next_id_after(3, ids) == expected
