"""What text may be stored and how stored text may be shown, held against the definition character by character."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planctl.sanitize import clean, clean_block, has_control, is_visible, shown, shown_block

HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from('\t\n\r \x00\x07\x1b\x7f\x85\x9f\u2028\u2029\ud800\udfff\u200f\u202e\u2066\ufeff\u3000é日😀'),
    ),
    max_size=40,
)
BIDI = '\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069'


def forbidden(character: str) -> bool:
    """Whether a character is a control, one of the two separators or half of a surrogate pair."""
    return unicodedata.category(character) in ('Cc', 'Cs', 'Zl', 'Zp')


def test_every_character_there_is_is_kept_or_replaced_as_defined() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        expected = ' ' if character in '\t\n\r' else '\ufffd' if forbidden(character) else character
        assert clean(f'a{character}b') == f'a{expected}b', hex(code)


@pytest.mark.parametrize(
    ('text', 'stored'),
    [
        ('plain', 'plain'),
        ('  both ends  ', 'both ends'),
        ('two  spaces', 'two  spaces'),
        ('a\n\n\r\n\tb', 'a b'),
        ('a \n b', 'a   b'),
        ('\n\ta\r\n', 'a'),
        ('\u3000a\u00a0', 'a'),
        ('\x1b[2J\x1b]0;owned\x07', '\ufffd[2J\ufffd]0;owned\ufffd'),
        ('a\x0bb\x0cc\x85d', 'a\ufffdb\ufffdc\ufffdd'),
        ('\x00', '\ufffd'),
        ('\ud83d\ude00', '\ufffd\ufffd'),
        ('[foo] bar :bug: &quot; \'x\' "y"', '[foo] bar :bug: &quot; \'x\' "y"'),
        ('\u202eabc', '\u202eabc'),
        ('', ''),
        (' \t\n ', ''),
    ],
)
def test_what_is_stored(text: str, stored: str) -> None:
    assert clean(text) == stored


@given(HOSTILE)
def test_cleaning_never_raises_and_twice_is_once(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    assert once == once.strip()
    assert not has_control(once)
    once.encode('utf-8')


@given(HOSTILE)
def test_cleaning_a_block_never_raises_and_twice_is_once(text: str) -> None:
    once = clean_block(text)
    assert clean_block(once) == once
    assert not has_control(once.replace('\n', ''))
    once.encode('utf-8')


def test_a_block_keeps_its_lines() -> None:
    assert clean_block('\n one\r\ntwo\rthree\n\n\tfour\x1b \n') == 'one\ntwo\nthree\n\n    four\ufffd'


@given(HOSTILE)
def test_shown_text_moves_no_cursor_and_reorders_no_line(text: str) -> None:
    for line in (shown(text), *shown_block(text).split('\n')):
        assert not any(forbidden(character) or character in BIDI for character in line)
    assert not re.search('[\r\t]', shown_block(text))


def test_shown_text_is_the_stored_text_but_for_what_reorders_it() -> None:
    assert shown('日本 \u202eabc\u2069') == '日本 \\u202eabc\\u2069'
    assert shown('👩\u200d💻 e\u0301') == '👩\u200d💻 e\u0301'
    assert shown_block('a\u200f\nb') == 'a\\u200f\nb'


@pytest.mark.parametrize('seen', ['a', '✓', '日', '\ufffd', '\u0301', '👩\u200d💻', '\u200ba', '\u2800.'])
def test_text_with_one_sign_that_is_seen_is_visible(seen: str) -> None:
    assert is_visible(seen)


@pytest.mark.parametrize(
    'blank', ['', ' ', '\u200b', '\u200b\u2060 \ufeff', '\u202e', '\u00ad', '\u3164', '\u2800', '\ufe0f']
)
def test_text_of_which_a_reader_sees_nothing_is_not(blank: str) -> None:
    assert not is_visible(blank)


def test_a_megabyte_is_no_matter() -> None:
    assert len(clean('x\n' * 500_000)) == 999_999
