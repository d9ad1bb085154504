"""The capabilities of an agent file, checked one by one before pydantic-ai builds them, which does not check types."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, cast, get_args, get_origin

from planctl.agent.capability_types import CapabilityTypes
from planctl.agent.specfile import Route, SpecFile, kind_of
from planctl.errors import PlanctlError, SpecError

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

_PATHS = {'LocalWorkspace': 'working_dir', 'Planning': 'database'}
"""Options that are paths; a relative one is meant from the folder of the file."""


class Entries:
    """Checks the list under `capabilities` and collects the types that pydantic-ai has to be told of."""

    def __init__(self, file: SpecFile, folder: Path) -> None:
        self._file = file
        self._folder = folder
        self._types = CapabilityTypes()

    @property
    def custom_types(self) -> list[type[AbstractCapability[Any]]]:
        """The types that the entries named and that are not pydantic-ai's own."""
        return list(self._types.custom.values())

    def check(self, entries: Any) -> list[Any]:
        """Return the entries with their paths anchored; `SpecError` and `ExtraMissing` name the key that is wrong."""
        if entries is None:
            return []
        route: Route = ('capabilities',)
        if not isinstance(entries, list):
            raise self._file.error(f'a list of names is expected, this is {kind_of(entries)}', route)
        return [self._check((*route, at), entry) for at, entry in enumerate(cast('list[Any]', entries))]

    def _check(self, route: Route, entry: Any) -> Any:
        if isinstance(entry, str):
            self._check_options((*route, entry), entry, {})
            return entry
        if not isinstance(entry, dict) or len(cast('dict[str, Any]', entry)) != 1:
            raise self._file.error(f'a name, or one name with options, is expected, this is {kind_of(entry)}', route)
        name, options = next(iter(cast('dict[str, Any]', entry).items()))
        route = (*route, name)
        if isinstance(options, dict):
            given = dict(cast('dict[str, Any]', options))
            self._check_options(route, name, given)
            if 'capability' in given:
                given['capability'] = self._check((*route, 'capability'), given['capability'])
            if name == 'Planning' and given.get('backend') == 'sqlite':
                given.setdefault('database', '.agent-plan.db')
            return {name: {key: self._anchored(name, key, value) for key, value in given.items()}}
        first = next(iter(_parameters(self._type(route, name))), None)
        if first is None or options is None:
            raise self._file.error(f'options are a mapping, this is {kind_of(options)}', route)
        self._check_options(route, name, {first: options})
        return {name: self._anchored(name, first, options)}

    def _check_options(self, route: Route, name: str, options: Mapping[str, Any]) -> None:
        parameters = _parameters(self._type(route, name))
        for key, value in options.items():
            if key not in parameters:
                there = ', '.join(parameters) or 'none'
                raise self._file.error(
                    f'unknown option {key!r}{choice(key, parameters)}; there are: {there}', (*route, key)
                )
            if (complaint := _complaint(parameters[key].annotation, value)) is not None:
                raise self._file.error(complaint, (*route, key))
        for key, parameter in parameters.items():
            if parameter.default is parameter.empty and key not in options:
                raise self._file.error(f'the option {key!r} is missing', route)

    def _anchored(self, name: str, key: str, value: Any) -> Any:
        if _PATHS.get(name) != key or not isinstance(value, str):
            return value
        return str(self._folder / Path(value).expanduser())

    def _type(self, route: Route, name: str) -> type[AbstractCapability[Any]]:
        kind = self._types.find(name, lambda message: self._file.error(message, route))
        if kind is None:
            names = self._types.names
            raise self._file.error(f'unknown {name!r}{choice(name, names)}; there are: {", ".join(names)}', route)
        return kind


def choice(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean …?)` when one of the names is close, else nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f' (did you mean {close[0]!r}?)' if close else ''


def _parameters(kind: type[AbstractCapability[Any]]) -> dict[str, inspect.Parameter]:
    """Return the options that a file can give, with their annotations evaluated where that is possible."""
    maker: Callable[..., Any] = kind.from_spec if 'from_spec' in vars(kind) else kind
    try:
        signature = inspect.signature(maker, eval_str=True)
    except (NameError, TypeError, AttributeError):
        signature = inspect.signature(maker)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: parameter for name, parameter in signature.parameters.items() if parameter.kind in named}


def taken_at(route: Route) -> str:
    """Return which values a key, or an option of a capability, takes, in words; nothing when that is not known."""
    if len(route) == 1:
        from pydantic_ai.agent.spec import AgentSpec

        field = AgentSpec.model_fields.get(str(route[0]))
        return '' if field is None else _in_words(field.annotation)
    if len(route) < 3 or route[0] != 'capabilities':
        return ''
    types = CapabilityTypes()
    for name, key in ((route[-2], route[-1]), (route[-1], None)):
        try:
            kind = types.find(str(name), SpecError) if isinstance(name, str) else None
        except PlanctlError:
            kind = None
        if kind is not None:
            parameters = _parameters(kind)
            found = next(iter(parameters.values()), None) if key is None else parameters.get(str(key))
            return '' if found is None else _in_words(found.annotation)
    return ''


def _in_words(annotation: Any) -> str:
    """Return which values a type takes; nothing when a file can hold none of them."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ' or '.join(map(str, arguments))
    if origin in (Union, UnionType):
        return ' or '.join(dict.fromkeys(words for each in arguments if (words := _in_words(each))))
    kind = origin or annotation
    if not isinstance(kind, type):
        return ''
    for types, words in _WORDS:
        if issubclass(kind, types):
            return words
    return ''


_WORDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool,), 'true or false'),
    ((int, float), 'a number'),
    ((str, Path), 'text'),
    ((type(None),), 'nothing'),
    ((Mapping,), 'a mapping'),
    ((Sequence, frozenset, set), 'a list'),
)


def check_settings(file: SpecFile, settings: Any) -> None:
    """Raise `SpecError` for a model setting that has the wrong type, or that no model could have.

    pydantic-ai passes on what it does not know; what is a provider's own begins with the name of the provider.
    """
    from pkgutil import iter_modules
    from typing import get_type_hints

    from pydantic_ai import models
    from pydantic_ai.settings import ModelSettings

    if not isinstance(settings, dict):
        return  # Nothing, or for pydantic-ai to refuse.
    known = get_type_hints(ModelSettings)
    providers = {module.name.lstrip('_') for module in iter_modules(models.__path__)}
    for key, value in cast('dict[str, Any]', settings).items():
        route = ('model_settings', key)
        if key in known:
            if (complaint := _complaint(known[key], value)) is not None:
                raise file.error(complaint, route)
        elif '_' not in key or not any(key.startswith(f'{provider}_') for provider in providers):
            raise file.error(f'unknown setting{choice(key, known)}; there are: {", ".join(known)}', route)


def _complaint(annotation: Any, value: Any) -> str | None:
    """Return what is wrong with a value, or `None`. Judged as strict JSON: text is no number, a number no text."""
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        return None
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return f'text is expected, this is {kind_of(value)}: quote it'
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    except (PydanticUserError, NameError, TypeError):
        return None
    try:
        adapter.validate_json(text, strict=True)
    except ValidationError as error:
        errors: Sequence[Any] = error.errors(include_url=False)
        # A type that no file can hold is the capability's own to judge.
        if any(each['type'] in ('is_instance_of', 'callable_type', 'is_subclass_of') for each in errors):
            return None
        if annotation is str and not isinstance(value, str):
            return f'text is expected, this is {kind_of(value)}: quote it'
        message = str(errors[0]['msg'])
        where = '.'.join(str(part) for part in errors[0]['loc'] if isinstance(part, int))
        return f'{where}: {message[0].lower()}{message[1:]}' if where else f'{message[0].lower()}{message[1:]}'
    return None
