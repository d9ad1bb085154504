"""The options of `Planning`, checked by type, which nothing before has done. Builds nothing but the store they name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

from planctl.plan import check_session

if TYPE_CHECKING:
    from planctl.stores.base import BaseStore

DATABASE = '.agent-plan.db'
BACKENDS = ('memory', 'sqlite')
TTLS = ('5m', '1h')


def check_options(*, enable_subtasks: object, inject: object, cache_ttl: object, tools: object) -> None:
    """Raise `ValueError`, in one line, for the first option of the wrong type."""
    for name, value in (('enable_subtasks', enable_subtasks), ('inject', inject)):
        if not isinstance(value, bool):
            raise _wrong(name, value, 'true or false')
    _one_of('cache_ttl', cache_ttl, TTLS)
    if tools is not None and not _is_names(tools):
        raise _wrong('tools', tools, 'a list of tool names')


def check_spec(
    maker: Callable[..., object], entry: Sequence[object], unknown: Iterable[str], *, guidance: object
) -> None:
    """Raise `ValueError` for what `maker` takes from no agent file: no mapping, or a name that it does not know."""
    if entry:
        raise ValueError(f'Planning: the options are a mapping, not {_shown(entry[0])}')
    if named := ', '.join(unknown):
        known = (name for name, option in signature(maker).parameters.items() if option.kind is option.KEYWORD_ONLY)
        raise ValueError(f'Planning: unknown options: {named}; there are: {", ".join(known)}')
    if guidance is not None and not isinstance(guidance, str):
        raise _wrong('guidance', guidance, 'text, or nothing for the built-in guidance')


def check_store(store: object, option: str) -> None:
    """Raise `TypeError` when an option gives what is no store: a path, a class, or what an `async def` returns."""
    if isinstance(store, type) or not callable(getattr(store, 'get_items', None)):
        got = getattr(store, '__name__', None) or _shown(store)
        raise TypeError(f'Planning: {option} must be a plan store, such as SqlitePlanStore("plan.db"), not {got}')


def store_of(backend: str, database: str, session: str) -> BaseStore | None:
    """Return the store that the options name; `None` is a plan in memory for each run. Raises `ValueError`."""
    _one_of('backend', backend, BACKENDS)
    _text('database', database)
    _text('session', session)
    check_session(session)
    if backend == 'memory':
        if database != DATABASE:
            raise ValueError('Planning: database is only for backend: sqlite')
        return None
    from planctl.stores.sqlite import SqlitePlanStore

    return SqlitePlanStore(database, session=session)


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise _wrong(name, value, ' or '.join(allowed))


def _text(name: str, value: object) -> None:
    if not isinstance(value, str):
        # What YAML made of `007`, `on` or a date is not what was written, and cannot be told from it any more.
        raise ValueError(f'Planning: {name} must be text, not {_shown(value)}: quote it')
    if not value:
        raise _wrong(name, value, 'text that is not empty')


def _is_names(value: Any) -> bool:
    if isinstance(value, str) or not isinstance(value, Collection):
        return False
    return all(isinstance(name, str) for name in cast('Collection[object]', value))


def _wrong(name: str, value: object, expected: str) -> ValueError:
    return ValueError(f'Planning: {name} must be {expected}, not {_shown(value)}')


def _shown(value: object) -> str:
    if value is None:
        return 'nothing'
    text = str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, str) else str(value)
    return ' '.join(text.split())[:80]
