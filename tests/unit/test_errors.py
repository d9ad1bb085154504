"""The tree of errors: codes, messages, what each is besides, and the way through pickle."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter

import pytest

from planctl import errors
from planctl.errors import (
    AgentError,
    BlankText,
    DuplicateId,
    InputError,
    InvalidId,
    InvalidName,
    NotFound,
    PlanctlError,
    Refused,
    StorageError,
    StoreUnavailable,
)

BRANCHES = (InputError, NotFound, Refused, StorageError, AgentError)


def all_errors() -> list[type[PlanctlError]]:
    found = [PlanctlError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return [kind for kind in dict.fromkeys(found) if kind.__module__ == errors.__name__]


ALL = all_errors()


def test_every_error_has_a_code_of_its_own() -> None:
    assert [code for code, count in Counter(kind.code for kind in ALL).items() if count > 1] == []
    assert all(re.fullmatch('[a-z_]+', kind.code) for kind in ALL)
    assert all('code' in vars(kind) for kind in ALL)


def test_the_tree_drawn_in_the_docstring_is_the_tree() -> None:
    drawn = [
        (len(match[1] or '') // 4, match[2])
        for line in (errors.__doc__ or '').splitlines()
        if (match := re.fullmatch(r'([│ ]*[├└]── )?([A-Z]\w+)(?: {2,}.*)?', line))
    ]
    path: list[str] = []
    parents: dict[str, str | None] = {}
    for depth, name in drawn:
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else None
    assert parents == {kind.__name__: None if kind is PlanctlError else kind.__bases__[0].__name__ for kind in ALL}


@pytest.mark.parametrize('kind', ALL)
def test_an_error_without_words_says_what_its_class_says(kind: type[PlanctlError]) -> None:
    error = kind()
    assert error.message == str(error) == (kind.__doc__ or '').splitlines()[0].rstrip('.')
    assert (error.ids, error.hint) == ((), None)


@pytest.mark.parametrize('kind', ALL)
@pytest.mark.parametrize('protocol', range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_comes_back_from_pickle_whole(kind: type[PlanctlError], protocol: int) -> None:
    error = kind('step 2 waits for 1', ids=(one for one in ('2', '1')), hint='complete 1 first')
    back = pickle.loads(pickle.dumps(error, protocol))
    for again in (back, copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (again.message, str(again), again.args) == (error.message, error.message, (error.message,))
        assert (again.ids, again.hint, again.code) == (('2', '1'), 'complete 1 first', kind.code)


def test_what_other_code_catches() -> None:
    for kind in (BlankText, InvalidId, InvalidName, DuplicateId):
        assert issubclass(kind, ValueError)
    assert issubclass(StoreUnavailable, ConnectionError)
    assert {branch for branch in PlanctlError.__subclasses__() if branch.__module__ == errors.__name__} == set(BRANCHES)


def test_an_empty_message_is_kept() -> None:
    assert PlanctlError('').message == ''
