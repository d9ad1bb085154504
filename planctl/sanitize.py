"""The one place that makes text safe: what may be stored, and how stored text may be shown. Never raises."""

from __future__ import annotations

import re

_BREAKS = re.compile('[\t\n\r]+')
# C0, DEL, C1, the two Unicode separators that terminals and parsers take for line breaks, and lone surrogates.
_FORBIDDEN = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_FORBIDDEN_IN_BLOCK = re.compile('[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_REPLACEMENT = '\ufffd'
# They reorder what a reader sees without a trace, so they are kept in the store and escaped on screen.
_BIDI = re.compile('[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]')

# Categories of which no character is seen, and the letters, marks and signs of others that only fill a place.
_UNSEEN_KINDS = frozenset({'Cc', 'Cf', 'Zl', 'Zp', 'Zs'})
_UNSEEN = re.compile(
    '[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]'
)


def clean(text: str) -> str:
    """Return `text` as one storable line: breaks and tabs to one space, ends trimmed, controls to U+FFFD."""
    if text.isprintable():  # The common case, in C: no control, separator, surrogate or format character in it.
        return text.strip()
    return _FORBIDDEN.sub(_REPLACEMENT, _BREAKS.sub(' ', text)).strip()


def clean_block(text: str) -> str:
    """Return `text` of several lines (an objective, a brief) storable: line ends become LF, tabs four spaces."""
    lines = text.replace('\r\n', '\n').replace('\r', '\n').replace('\t', '    ')
    return _FORBIDDEN_IN_BLOCK.sub(_REPLACEMENT, lines).strip()


def is_visible(text: str) -> bool:
    """Whether there is a character in `text` that a reader sees."""
    if text[:1].isascii() and text[:1].isalnum():  # As nearly every text begins.
        return True
    import unicodedata  # Hardly ever needed, and every plan command would load it.

    return any(not _UNSEEN.match(sign) and unicodedata.category(sign) not in _UNSEEN_KINDS for sign in text)


def has_control(text: str) -> bool:
    """Whether there is a character in `text` that is never stored as it is: a control, a separator, a surrogate."""
    return _FORBIDDEN.search(text) is not None


def shown(text: str) -> str:
    """Return stored text as it may be shown on one line: nothing that moves a cursor or reorders the line is left."""
    if text.isprintable():
        return text
    return _BIDI.sub(lambda match: f'\\u{ord(match[0]):04x}', clean(text))


def shown_block(text: str) -> str:
    """Return stored text of several lines as it may be shown."""
    return _BIDI.sub(lambda match: f'\\u{ord(match[0]):04x}', clean_block(text))
