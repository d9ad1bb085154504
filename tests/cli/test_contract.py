"""The contract for scripts: the published schema, the help of every command, and that nothing is left undocumented."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from cli_helpers import Cli, store

from planctl.cli.commands import COMMANDS, SUBCOMMANDS, application
from planctl.cli.document import ENTRY_FIELDS, ERROR_FIELDS, FIELDS, ITEM_FIELDS
from planctl.operations import Add, Claim

ANSWERS = [
    ['show'],
    ['show', '1'],
    ['next'],
    ['next', '--claim'],
    ['add', 'x'],
    ['edit', '1', '--content', 'y'],
    ['start', '3'],
    ['done', '2'],
    ['cancel', '2'],
    ['block', '2', '-m', 'why'],
    ['reopen', '2'],
    ['rm', '2'],
    ['undo', '1'],
    ['log'],
    ['import', 'list.md'],
    ['export'],
    ['export', 'x.md'],
    ['export', '--db', 'copy.db'],
    ['session'],
    ['session', 'list'],
    ['session', 'copy', 'default', 'x'],
    ['session', 'rename', 'default', 'x'],
    ['session', 'rm', 'default'],
    ['where'],
    ['--version'],
]


def fits(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Whether a value is as a schema says, as far as ours go: no package for that is among those of the project."""
    if '$ref' in schema:
        return fits(root['$defs'][schema['$ref'].rpartition('/')[2]], value, root)
    if 'anyOf' in schema:
        return any(fits(one, value, root) for one in schema['anyOf'])
    if 'const' in schema:
        return value == schema['const']
    if 'enum' in schema:
        return value in schema['enum']
    kinds = {'object': dict, 'array': list, 'string': str, 'integer': int, 'boolean': bool, 'null': type(None)}
    wanted = schema['type'] if isinstance(schema['type'], list) else [schema['type']]
    if not any(type(value) is kinds[kind] for kind in wanted):
        return False
    if isinstance(value, list):
        return all(fits(schema['items'], one, root) for one in value)
    if isinstance(value, dict):
        known = schema.get('properties', {})
        more = schema.get('additionalProperties')
        return all(name in value for name in schema.get('required', ())) and all(
            fits(known[name], one, root) if name in known else more is None or fits(more, one, root)
            for name, one in value.items()
        )
    return not isinstance(value, int) or value >= schema.get('minimum', value)


@pytest.mark.parametrize('words', ANSWERS, ids=' '.join)
def test_every_answer_is_as_the_schema_says(cli: Cli, words: list[str]) -> None:
    schema = json.loads(cli.ok('show', '--json-schema').out)
    store(cli.folder / 'plan.db', Add('one'), Add('two', parent_id='1', note='n'), Claim('ada', 60, '2'), Add('three'))
    (cli.folder / 'list.md').write_text('- a\n')
    document = cli.json(*words)
    assert fits(schema, document, schema)
    for name in list(document):
        broken = {key: value for key, value in document.items() if key != name}
        assert not fits(schema, broken, schema) or name not in ('schema', 'kind', 'session', 'items', 'sessions'), name
    assert not fits(schema, document | {'schema': 2}, schema)


def test_every_error_is_as_the_schema_says(cli: Cli) -> None:
    schema = json.loads(cli.ok('show', '--json-schema').out)
    for words in (['show'], ['--bogus'], ['done', 'x', '--db', '.']):
        document = json.loads(cli('--json', *words).err)
        assert fits(schema, document, schema)
        assert list(document['error']) == list(ERROR_FIELDS)


def test_the_schema_says_what_each_field_means(cli: Cli) -> None:
    pytest.importorskip('jsonschema').Draft202012Validator.check_schema(
        schema := json.loads(cli.ok('show', '--json-schema').out)
    )
    plan = schema['$defs']['plan']
    assert {name: plan['properties'][name]['description'] for name in FIELDS} == FIELDS
    item = plan['properties']['items']['items']['properties']
    assert {name: each['description'] for name, each in item.items()} == ITEM_FIELDS
    entry = schema['$defs']['log']['properties']['entries']['items']['properties']
    assert {name: each['description'] for name, each in entry.items()} == ENTRY_FIELDS


# --- Help ---------------------------------------------------------------------------------------------------------


def every_command() -> Iterator[list[str]]:
    for name in COMMANDS:
        yield [name]
        for below in SUBCOMMANDS.get(name, {}):
            yield [name, below]


def command_of(words: list[str]) -> Any:
    found: Any = application()
    for word in words:
        found = found.commands[word]
    return found


@pytest.mark.parametrize('words', [*every_command()], ids=' '.join)
def test_every_command_and_option_says_what_it_does_and_gives_an_example(words: list[str]) -> None:
    command = command_of(words)
    assert command.help
    assert len(command.get_short_help_str(limit=200)) > 10
    assert command.epilog.startswith(f'Example: planctl {" ".join(words)}')
    for parameter in command.params:
        assert parameter.help, parameter.name


@pytest.mark.parametrize('words', [*every_command()], ids=' '.join)
def test_the_example_is_a_command_that_is_understood(words: list[str]) -> None:
    import shlex

    line = command_of(words).epilog.removeprefix('Example: planctl ').partition(' <')[0]
    root = application()
    with root.make_context('planctl', shlex.split(line), resilient_parsing=False) as context:
        name, command, rest = root.resolve_command(context, [*context._protected_args, *context.args])
        assert name == words[0]
        with command.make_context(name, rest, parent=context) as inner:
            if words[1:]:
                below, command, rest = command.resolve_command(inner, [*inner._protected_args, *inner.args])
                assert below == words[1]
                command.make_context(below, rest, parent=inner).close()


@pytest.mark.parametrize(
    ('typed', 'meant'),
    [
        ('shwo', 'show'),
        ('exprot', 'export'),
        ('list', 'show'),
        ('remove', 'rm'),
        ('finish', 'done'),
        ('status', 'show'),
        ('session lst', 'list'),
        ('session ls', 'list'),
        ('session remove', 'rm'),
    ],
)
def test_a_command_that_is_called_otherwise_gets_a_suggestion(cli: Cli, typed: str, meant: str) -> None:
    *group, word = typed.split()
    outcome = cli(*group, word)
    help_of = ' '.join(['planctl', *group, '--help'])
    assert outcome.status == 2
    assert outcome.err.startswith(f"planctl: No such command '{word}'. Did you mean '{meant}'")
    assert outcome.err.endswith(f'? ({help_of})\n')


@pytest.mark.parametrize(
    ('line', 'said'),
    [
        ('done 1 -m', "Option '-m' requires an argument. (planctl done --help)"),
        ('done', "Missing argument 'ID...'. (planctl done --help)"),
        ('next -n many', "Invalid value for '-n': 'many' is not a whole number. (planctl next --help)"),
        ('session copy --actor', "Option '--actor' requires an argument. (planctl session copy --help)"),
        ('session --db', "Option '--db' requires an argument. (planctl session --help)"),
        ('--db', "Option '--db' requires an argument. (planctl --help)"),
        ('where here', 'Got unexpected extra argument(s) (here) (planctl where --help)'),
    ],
)
def test_a_usage_error_names_the_help_of_its_command(cli: Cli, line: str, said: str) -> None:
    outcome = cli(*line.split())
    assert (outcome.status, outcome.err) == (2, f'planctl: {said}\n')


def test_help_lists_every_command(cli: Cli) -> None:
    text = cli.ok('--help').out
    assert [name for name in COMMANDS if not re.search(rf'^\W*{name} ', text, re.MULTILINE)] == []
    assert '...' not in text.partition('Commands:')[2]
    text = cli.ok('session', '--help').out
    assert [name for name in SUBCOMMANDS['session'] if not re.search(rf'^\W*{name} ', text, re.MULTILINE)] == []
