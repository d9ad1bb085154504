"""The capabilities of an agent file, checked one by one before pydantic-ai builds them, which does not check types."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from planctl.agent.models import one_line
from planctl.errors import ExtraMissing, SpecError

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

WORKSPACE_EXTRA = frozenset(
    {
        'Advisor',
        'ApprovalReviewer',
        'AskUser',
        'BackgroundTools',
        'ClampOversizedMessages',
        'ClearToolResults',
        'CodeMode',
        'Coder',
        'CompactOnRequest',
        'ConversationSearch',
        'DeduplicateFileReads',
        'DockerSandbox',
        'ExaSearch',
        'FallbackCompaction',
        'FileSystem',
        'Memory',
        'PydanticAIDocs',
        'RelevanceCompaction',
        'RepoContext',
        'ReportContextUsage',
        'Researcher',
        'SSHWorkspace',
        'Shell',
        'Skills',
        'SlidingWindowCompaction',
        'SmartSearch',
        'SpendLimits',
        'StepPersistence',
        'SummarizingCompaction',
        'TieredCompaction',
        'ToolCallJudge',
        'ToolOutputLimits',
        'WarnNearLimits',
        'WarnOnCacheBusts',
    }
)
"""Capabilities that come with the extra `workspace`, to be told apart from misspelt ones while it is missing."""

_PATHS = {'LocalWorkspace': 'working_dir', 'Planning': 'database'}
"""Options that are paths; a relative one is meant from the folder of the file."""


class Entries:
    """Checks the list under `capabilities` and collects the types that pydantic-ai has to be told of."""

    def __init__(self, label: str, folder: Path) -> None:
        from pydantic_ai.capabilities import CAPABILITY_TYPES

        from planctl.agent.capability import Planning

        self._label = label
        self._folder = folder
        self._builtin = {name: kind for kind in CAPABILITY_TYPES.values() if (name := kind.get_serialization_name())}
        self._custom: dict[str, type[AbstractCapability[Any]]] = {'Planning': Planning}

    @property
    def custom_types(self) -> list[type[AbstractCapability[Any]]]:
        """The types that the entries named and that are not pydantic-ai's own."""
        return list(self._custom.values())

    def check(self, entries: Any) -> list[Any]:
        """Return the entries with their paths anchored; `SpecError` and `ExtraMissing` name the key that is wrong."""
        if entries is None:
            return []
        if not isinstance(entries, list):
            raise self._error('', f'a list of names is expected, this is {kind_of(entries)}')
        return [self._check(entry) for entry in cast('list[Any]', entries)]

    def _check(self, entry: Any) -> Any:
        if isinstance(entry, str):
            self._check_options(entry, {})
            return entry
        if not isinstance(entry, dict) or len(cast('dict[Any, Any]', entry)) != 1:
            raise self._error('', f'a name, or one name with options, is expected, this is {kind_of(entry)}')
        name, options = next(iter(cast('dict[Any, Any]', entry).items()))
        if isinstance(options, dict):
            given = {str(key): value for key, value in cast('dict[Any, Any]', options).items()}
            self._check_options(str(name), given)
            if 'capability' in given:
                given['capability'] = self._check(given['capability'])
            if name == 'Planning' and given.get('backend') == 'sqlite':
                given.setdefault('database', '.agent-plan.db')
            return {name: {key: self._anchored(str(name), key, value) for key, value in given.items()}}
        first = next(iter(_parameters(self._type(str(name)))), None)
        if first is None or options is None:
            raise self._error(str(name), f'options are a mapping, this is {kind_of(options)}')
        self._check_options(str(name), {first: options})
        return {name: self._anchored(str(name), first, options)}

    def _check_options(self, name: str, options: Mapping[str, Any]) -> None:
        parameters = _parameters(self._type(name))
        for key, value in options.items():
            if key not in parameters:
                raise self._error(name, f'unknown option {key!r}{choice(key, parameters)}')
            if (complaint := _complaint(parameters[key], value)) is not None:
                raise self._error(f'{name}.{key}', complaint)
        for key, parameter in parameters.items():
            if parameter.default is parameter.empty and key not in options:
                raise self._error(name, f'the option {key!r} is missing')

    def _anchored(self, name: str, key: str, value: Any) -> Any:
        if _PATHS.get(name) != key or not isinstance(value, str):
            return value
        return str(self._folder / Path(value).expanduser())

    def _type(self, name: str) -> type[AbstractCapability[Any]]:
        kind = self._custom.get(name) or self._builtin.get(name)
        if kind is None:
            kind = self._custom[name] = self._harness_type(name)
        return kind

    def _harness_type(self, name: str) -> type[AbstractCapability[Any]]:
        from pydantic_ai.capabilities import AbstractCapability

        try:
            harness = import_module('pydantic_ai_harness')
        except ImportError as error:
            if name not in WORKSPACE_EXTRA:
                raise self._unknown(name) from error
            raise ExtraMissing(
                f"{self._label}: capabilities: {name} needs the extra 'workspace'",
                hint="pip install 'planctl[workspace]'",
            ) from error
        if name not in harness.__all__:
            raise self._unknown(name)
        try:
            kind = getattr(harness, name)
        except ImportError as error:
            raise ExtraMissing(f'{self._label}: capabilities: {name}: {one_line(error)}') from error
        if not isinstance(kind, type) or not issubclass(kind, AbstractCapability):
            raise self._unknown(name)
        found = cast('type[AbstractCapability[Any]]', kind)
        if found.get_serialization_name() != name:
            raise self._error(name, 'can be given from Python only')
        return found

    def _unknown(self, name: str) -> SpecError:
        names = sorted({*self._builtin, *self._custom, *WORKSPACE_EXTRA})
        return self._error('', f'unknown {name!r}{choice(name, names)}; there are {", ".join(names)}')

    def _error(self, where: str, message: str) -> SpecError:
        return SpecError(': '.join(part for part in (self._label, 'capabilities', where, message) if part))


def choice(name: str, names: Iterable[str]) -> str:
    """Return ` (did you mean …?)` when one of the names is close, else nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f' (did you mean {close[0]!r}?)' if close else ''


def kind_of(value: Any) -> str:
    """Return what a value from YAML or JSON is, in the words of the file."""
    match value:
        case None:
            return 'nothing'
        case bool():
            return 'true or false'
        case int() | float():
            return 'a number'
        case str():
            return 'text'
        case list():
            return 'a list'
        case dict():
            return 'a mapping'
        case _:
            return f'a {type(value).__name__}'


def _parameters(kind: type[AbstractCapability[Any]]) -> dict[str, inspect.Parameter]:
    """Return the options that a file can give, with their annotations evaluated where that is possible."""
    maker: Callable[..., Any] = kind.from_spec if 'from_spec' in vars(kind) else kind
    try:
        signature = inspect.signature(maker, eval_str=True)
    except (NameError, TypeError, AttributeError):
        signature = inspect.signature(maker)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: parameter for name, parameter in signature.parameters.items() if parameter.kind in named}


def _complaint(parameter: inspect.Parameter, value: Any) -> str | None:
    """Return what is wrong with a value, or `None`. Judged as strict JSON: text is no number, a number no text."""
    from pydantic import PydanticUserError, TypeAdapter, ValidationError

    if parameter.annotation is parameter.empty or isinstance(parameter.annotation, str):
        return None
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return f'text is expected, this is {kind_of(value)}: quote it'
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(parameter.annotation)
    except (PydanticUserError, NameError, TypeError):
        return None
    try:
        adapter.validate_json(text, strict=True)
    except ValidationError as error:
        errors: Sequence[Any] = error.errors(include_url=False)
        # A type that no file can hold is the capability's own to judge.
        if any(each['type'] in ('is_instance_of', 'callable_type', 'is_subclass_of') for each in errors):
            return None
        if parameter.annotation is str and not isinstance(value, str):
            return f'text is expected, this is {kind_of(value)}: quote it'
        message = str(errors[0]['msg'])
        where = '.'.join(str(part) for part in errors[0]['loc'] if isinstance(part, int))
        return f'{where}: {message[0].lower()}{message[1:]}' if where else f'{message[0].lower()}{message[1:]}'
    return None
