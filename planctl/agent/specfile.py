"""YAML and JSON files that people write, read strictly: what a file says has one meaning, and each key has a line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from planctl.agent.models import one_line
from planctl.errors import SpecError

if TYPE_CHECKING:
    import yaml

Route: TypeAlias = tuple[str | int, ...]
"""How to get to a value: keys of mappings and positions in lists, from the top."""

_TAG = 'tag:yaml.org,2002:'
_NUMBERS = {'int': re.compile(r'0|-?[1-9][0-9]*'), 'float': re.compile(r'-?(?:0|[1-9][0-9]*)\.[0-9]+(?:e[+-]?[0-9]+)?')}
_SCIENTIFIC = re.compile(r'[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+')
_DEEP = 100
_MANY = 10_000


@dataclass(frozen=True, slots=True)
class SpecFile:
    """What a file holds, and where."""

    label: str
    """The file as messages name it."""
    data: dict[str, Any]
    lines: dict[Route, int]
    """The line of each key and of each item of a list, counted from 1."""

    def error(self, message: str, route: Sequence[str | int] = ()) -> SpecError:
        """Return the error that names the file, the line, the key and what is wrong with it."""
        return _error(self.at(route), route, message)

    def at(self, route: Sequence[str | int] = ()) -> str:
        """Return the file and the line of the innermost part of a route that has one."""
        path = tuple(route)
        while path and path not in self.lines:
            path = path[:-1]
        return f'{self.label}:{self.lines[path]}' if path else self.label


def _error(where: str, route: Sequence[str | int], message: str) -> SpecError:
    named = '.'.join(part for part in route if isinstance(part, str))
    return SpecError(f'{where}: {named}: {message}' if named else f'{where}: {message}')


def read_spec_file(
    path: Path, label: str, *, what: str = 'agent file', taken: Callable[[Route], str] | None = None
) -> SpecFile:
    """Return what a file says. Raises `SpecError`, in one line, where it cannot be read or can be misread.

    Of YAML only what is also JSON is taken: `007`, `on`, dates and keys that come twice are refused, since what YAML
    makes of them is not what was written. `taken` says which values a place takes, for the message.
    """
    try:
        text = path.read_text(encoding='utf-8-sig')
    except FileNotFoundError as error:
        raise SpecError(f'{label}: there is no such {what}') from error
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f'{label}: cannot be read: {one_line(error)}') from error
    is_json = path.suffix.lower() == '.json'
    reader = _Reader(label, strict=not is_json, taken=taken or (lambda _: ''))
    # JSON is YAML but for tabs, which are space between its values and not to be found in them. It has no lines.
    read = reader.read(text.replace('\t', ' ') if is_json else text)
    data = _json(text, label) if is_json else read
    if not isinstance(data, dict):
        article = 'an' if what[0] in 'aeiouM' else 'a'
        raise SpecError(f'{label}: {article} {what} is a mapping of keys, this is {kind_of(data)}')
    return SpecFile(label, cast('dict[str, Any]', data), reader.lines)


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


def _json(text: str, label: str) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f'{name} is no number there')

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise SpecError(f'{label}:{error.lineno}: not JSON: {error.msg}') from error
    except (ValueError, RecursionError) as error:
        raise SpecError(f'{label}: not JSON: {one_line(error)}') from error


class _Reader:
    """Turns the nodes of one document into data, and takes down their lines."""

    def __init__(self, label: str, *, strict: bool, taken: Callable[[Route], str]) -> None:
        self.lines: dict[Route, int] = {}
        self._label = label
        self._strict = strict
        self._taken = taken
        self._count = 0

    def read(self, text: str) -> Any:
        import yaml

        try:
            composed = cast('Any', yaml).compose(text, Loader=yaml.SafeLoader)  # It comes without types.
        except yaml.YAMLError as error:
            if not self._strict:
                return None  # Whoever reads JSON says what is wrong with it; if nothing is, there are no lines to say.
            mark = getattr(error, 'problem_mark', None)
            at = f':{mark.line + 1}' if mark is not None else ''
            raise SpecError(
                f'{self._label}{at}: not YAML: {getattr(error, "problem", None) or one_line(error)}'
            ) from error
        except RecursionError as error:
            raise SpecError(f'{self._label}: not {"YAML" if self._strict else "JSON"}: too deep') from error
        return None if composed is None else self._value(composed, ())

    def _value(self, node: yaml.Node, route: Route) -> Any:
        import yaml

        # An alias may stand for what it stands in, and a few of them for more than fits anywhere.
        self._count += 1
        if len(route) > _DEEP or self._count > _MANY:
            raise self._wrong(node, route[:1], f'more than {_DEEP} levels or {_MANY:,} values, or an alias of itself')
        kind = str(node.tag).removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == 'map':
            return self._mapping(node, route)
        if isinstance(node, yaml.SequenceNode) and kind == 'seq':
            items: list[Any] = []
            for at, item in enumerate(node.value):
                self.lines[(*route, at)] = item.start_mark.line + 1
                items.append(self._value(item, (*route, at)))
            return items
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, kind, route)
        raise self._wrong(node, route, f'the tag {node.tag} is not taken here')

    def _mapping(self, node: yaml.MappingNode, route: Route) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            kind = str(key_node.tag).removeprefix(_TAG)
            written = str(key_node.value)
            if kind == 'merge':
                raise self._wrong(key_node, route, 'merge keys (<<) are not taken here: write the keys out')
            if kind != 'str':
                raise self._wrong(key_node, (*route, written), 'a key is text: quote it')
            if written in found:
                first = self.lines[(*route, written)]
                raise self._wrong(key_node, (*route, written), f'this key is there already, in line {first}')
            self.lines[(*route, written)] = key_node.start_mark.line + 1
            found[written] = self._value(value_node, (*route, written))
        return found

    def _scalar(self, node: yaml.ScalarNode, kind: str, route: Route) -> Any:
        written = str(node.value)
        match kind:
            case 'str':
                if self._strict and node.style is None and _SCIENTIFIC.fullmatch(written):
                    raise self._trap(node, route, 'text in YAML: write the number out, or')
                return written
            case 'null':
                return None
            case 'bool':
                if written.lower() not in ('true', 'false'):
                    meant = 'true' if written.lower() in ('on', 'yes') else 'false'
                    raise self._trap(node, route, f'{meant} in YAML: write that, or')
                return written.lower() == 'true'
            case 'int' | 'float':
                if self._strict and not _NUMBERS[kind].fullmatch(written):
                    raise self._trap(node, route, 'another number in YAML: write it plainly, or')
                return self._number(kind, written)
            case 'timestamp':
                raise self._trap(node, route, 'a date in YAML:')
            case _:
                raise self._wrong(node, route, f'the tag {node.tag} is not taken here')

    def _number(self, kind: str, written: str) -> Any:
        to: Callable[[str], Any] = int if kind == 'int' else float
        try:
            return to(written)
        except ValueError:
            return None  # Only of JSON, where it was read by somebody else.

    def _wrong(self, node: yaml.Node, route: Route, message: str) -> SpecError:
        return _error(f'{self._label}:{node.start_mark.line + 1}', route, message)

    def _trap(self, node: yaml.Node, route: Route, meant: str) -> SpecError:
        taken = self._taken(route)
        return self._wrong(
            node, route, f'{node.value} is {meant} quote it' + (f'; taken here: {taken}' if taken else '')
        )
