"""Writes what in the README follows from the code: `python tests/cli/reference.py`. A test holds it to that."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planctl.cli.commands import COMMANDS, SUBCOMMANDS, application
from planctl.cli.document import ERROR_FIELDS, FIELDS, ITEM_FIELDS
from planctl.cli.failure import MEANINGS

README = Path(__file__).parents[2] / 'README.md'


def written(readme: str) -> str:
    """Return the README with its generated parts as the code is now."""
    for name, text in {'commands': commands(), 'document': document(), 'statuses': statuses()}.items():
        marks = f'<!-- {name}: generated -->', f'<!-- {name}: end -->'
        head, _, rest = readme.partition(marks[0])
        _, mark, tail = rest.partition(marks[1])
        assert mark, f'the README has no part {name!r}'
        readme = f'{head}{marks[0]}\n{text}\n{marks[1]}{tail}'
    return readme


def commands() -> str:
    lines = ['| command | | options |', '|---|---|---|']
    for words, command in built():
        given = [p for p in command.params if '--help' not in p.opts and p.rich_help_panel != 'Global options']
        usage = ' '.join(('planctl', *words, *(argument(p) for p in given if p.param_type_name == 'argument')))
        options = '; '.join(option(p) for p in given if p.param_type_name == 'option')
        about = (command.help or '').partition('\n')[0].strip()
        lines.append(f'| `{cell(usage)}` | {cell(about)} | {options} |')
    return '\n'.join(lines)


def built() -> Iterator[tuple[tuple[str, ...], Any]]:
    group = application()
    for name in COMMANDS:
        command = group.commands[name]
        yield (name,), command
        for below in SUBCOMMANDS.get(name, ()):
            yield (name, below), command.commands[below]


def argument(parameter: Any) -> str:
    text = parameter.make_metavar(None) if parameter.metavar is None else parameter.metavar
    return text


def option(parameter: Any) -> str:
    names = ' '.join(f'`{name}`' for name in sorted(parameter.opts, key=len, reverse=True))
    return f'{names} {cell(parameter.help).rstrip(".")}' if parameter.help else names


def document() -> str:
    parts = (('Every answer about a plan', FIELDS), ('An item', ITEM_FIELDS), ('The `error` of an error', ERROR_FIELDS))
    rows = [
        f'| | `{name}` | {cell(meaning)} |' for title, fields in parts for name, meaning in with_title(title, fields)
    ]
    return '\n'.join(['| in | field | means |', '|---|---|---|', *(fill(row) for row in rows)])


def with_title(title: str, fields: Any) -> Iterator[tuple[str, str]]:
    for at, (name, meaning) in enumerate(fields.items()):
        yield (f'{title}\0{name}' if at == 0 else name), meaning


def fill(row: str) -> str:
    match = re.fullmatch(r'\| \| `(.*)\0(.*)', row)
    return f'| {match[1]} | `{match[2]}' if match else row


def statuses() -> str:
    return '\n'.join(['| status | means |', '|---|---|', *(f'| {n} | {cell(text)} |' for n, text in MEANINGS.items())])


def cell(text: str) -> str:
    return ' '.join(text.split()).replace('|', '\\|')


if __name__ == '__main__':
    README.write_text(written(README.read_text('utf-8')), 'utf-8')
    sys.stdout.write(f'{README.name} is written\n')
