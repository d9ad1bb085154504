"""What files say: YAML that means something else than it looks like, and capabilities of other packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from runner_helpers import write

from planctl.agent.spec import load_agent
from planctl.agent.specfile import read_spec_file
from planctl.errors import ExtraMissing, SpecError


def message_of(folder: Path, text: str, name: str = 'a.yaml') -> str:
    write(folder, name, text)
    with pytest.raises(SpecError) as caught:
        load_agent(name, model='offline', folder=folder)
    assert '\n' not in caught.value.message
    return caught.value.message


# --- Traps ----------------------------------------------------------------------------------------------------------

TRAPS = (
    '007',
    '0x1F',
    '1_000',
    '1:30',
    '1e3',
    '+1',
    '.5',
    '.inf',
    'on',
    'off',
    'Yes',
    'NO',
    '2026-09-01',
    '!!binary YQ==',
)
PLACES = (
    ('name', 'name: {}', 'name'),
    ('instructions', 'instructions: {}', 'instructions'),
    ('a list', 'instructions:\n- be kind\n- {}', 'instructions'),
    ('metadata', 'metadata: {{a: {{b: {}}}}}', 'metadata.a.b'),
    ('an option', 'capabilities: [{{Planning: {{session: {}}}}}]', 'capabilities.Planning.session'),
    ('a single option', 'capabilities: [{{LocalWorkspace: {}}}]', 'capabilities.LocalWorkspace'),
    (
        'an inner option',
        'capabilities: [{{PrefixTools: {{prefix: p, capability: {{Planning: {{guidance: {}}}}}}}}}]',
        'capabilities.PrefixTools.capability.Planning.guidance',
    ),
)


@pytest.mark.parametrize('trap', TRAPS)
@pytest.mark.parametrize(('text', 'key'), [place[1:] for place in PLACES], ids=[place[0] for place in PLACES])
def test_what_yaml_takes_for_something_else_is_refused_everywhere(
    text: str, key: str, trap: str, tmp_path: Path
) -> None:
    message = message_of(tmp_path, '# A comment.\n' + text.format(trap))
    line = 4 if key == 'instructions' and '\n' in text else 2
    assert message.startswith(f'a.yaml:{line}: {key}: ')
    assert trap.split()[0].removeprefix('!!') in message
    assert load_agent(_quoted(tmp_path, text, trap), model='offline', folder=tmp_path).path == tmp_path / 'a.yaml'


def _quoted(folder: Path, text: str, trap: str) -> str:
    return write(folder, 'a.yaml', text.format(f'"{trap}"'))


def test_the_allowed_values_are_named(tmp_path: Path) -> None:
    for option, taken in (('cache_ttl', '5m or 1h'), ('backend', 'memory or sqlite'), ('session', 'text')):
        message = message_of(tmp_path, f'capabilities:\n- Planning:\n    {option}: on\n')
        assert message.startswith(f'a.yaml:3: capabilities.Planning.{option}: on is true in YAML')
        assert message.endswith(f'taken here: {taken}')
    assert message_of(tmp_path, 'tool_timeout: 1_0').endswith('taken here: a number or nothing')
    assert "input should be 'early', 'graceful' or 'exhaustive'" in message_of(tmp_path, 'end_strategy: soon')
    assert 'there are: backend, database, session' in message_of(tmp_path, 'capabilities: [{Planning: {a: b}}]')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('name: a\nmodel: offline\nname: b', 'a.yaml:3: name: this key is there already, in line 1'),
        (
            'capabilities:\n- Planning: {session: a, inject: true, session: b}',
            'a.yaml:2: capabilities.Planning.session: this key is there already, in line 2',
        ),
        ('on: 1', 'a.yaml:1: on: a key is text: quote it'),
        ('metadata: {1: a}', 'a.yaml:1: metadata.1: a key is text: quote it'),
        ('metadata: &m {a: 1}\nmodel_settings: {<<: *m}', 'a.yaml:2: model_settings: merge keys'),
        ('metadata: &m {a: *m}', 'a.yaml:1: metadata: more than 100 levels'),
        ('metadata: !!python/name:os.system ""', 'a.yaml:1: metadata: the tag '),
        ('model_settings: {temprature: 1}', "a.yaml:1: model_settings.temprature: unknown setting (did you mean 'temp"),
        ('model_settings: {temperature: "1"}', 'a.yaml:1: model_settings.temperature: input should be a valid number'),
        ('name: a\n---\nname: b', 'a.yaml:2: not YAML: '),
    ],
)
def test_other_things_that_do_not_mean_what_they_look_like(text: str, message: str, tmp_path: Path) -> None:
    assert message_of(tmp_path, text).startswith(message)


def test_aliases_cannot_make_a_file_grow_beyond_all_bounds(tmp_path: Path) -> None:
    levels = [f'  a{at}: &a{at} [{", ".join([f"*a{at - 1}"] * 9)}]' for at in range(1, 12)]
    text = 'metadata:\n  a0: &a0 [1]\n' + '\n'.join(levels)
    assert 'more than 100 levels or 10,000 values' in message_of(tmp_path, text)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('{"name": "a",\n\t"name": "b"}', 'a.json:2: name: this key is there already, in line 1'),
        ('{"name": "a",\n', 'a.json:2: not JSON: '),
        ('{"model_settings": {"temperature": NaN}}', 'a.json: not JSON: NaN is no number'),
        ('{\n"capabilities": [\n{"Planing": {}}]}', "a.json:3: capabilities.Planing: unknown 'Planing'"),
    ],
)
def test_json_has_lines_too(text: str, message: str, tmp_path: Path) -> None:
    assert message_of(tmp_path, text, 'a.json').startswith(message)


def test_json_means_what_json_means(tmp_path: Path) -> None:
    write(tmp_path, 'a.json', '{"a":\t1e3, "b": "on \\ud83d\\ude00 \\/", "c": [true, null, "2026-01-01"]}')
    file = read_spec_file(tmp_path / 'a.json', 'a.json')
    assert file.data == {'a': 1000.0, 'b': 'on 😀 /', 'c': [True, None, '2026-01-01']}


def test_plain_numbers_and_words_are_what_they_are(tmp_path: Path) -> None:
    write(tmp_path, 'a.yaml', 'a: 12\nb: -3\nc: 0.5\nd: True\ne: no way\nf: 1.2.3\ng:\nh: "007"\ni: 1.5e+3\n')
    assert read_spec_file(tmp_path / 'a.yaml', 'a.yaml').data == {
        'a': 12, 'b': -3, 'c': 0.5, 'd': True, 'e': 'no way', 'f': '1.2.3', 'g': None, 'h': '007', 'i': 1500.0,
    }  # fmt: skip


# --- Capabilities of other packages ---------------------------------------------------------------------------------

MODULE = '''
from dataclasses import dataclass
from pydantic_ai.capabilities import AbstractCapability

@dataclass
class Greeter(AbstractCapability):
    """Says hello."""
    word: str = 'hello'

    def get_instructions(self):
        return f'Say {self.word}.'

@dataclass
class Other(AbstractCapability):
    pass

@dataclass
class Failing(AbstractCapability):
    def __post_init__(self):
        raise RuntimeError('it does not work here')

number = 5
'''


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages."""
    site = tmp_path / 'site'
    site.mkdir()
    write(site, 'greeters.py', MODULE)
    write(site, 'leaving.py', 'raise SystemExit(9)')
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop('greeters', None)


def install(site: Path, package: str, **points: str) -> None:
    info = site / f'{package}-1.0.dist-info'
    info.mkdir()
    write(info, 'METADATA', f'Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n')
    write(info, 'entry_points.txt', '[planctl.capabilities]\n' + ''.join(f'{k} = {v}\n' for k, v in points.items()))


def test_an_installed_package_brings_a_capability(packages: Path, tmp_path: Path) -> None:
    install(packages, 'greeters', Greeter='greeters:Greeter')
    write(tmp_path, 'a.yaml', 'capabilities: [{Greeter: {word: hi}}]')
    loaded = load_agent('a.yaml', model='offline', folder=tmp_path)
    found: list[object] = []
    loaded.agent.root_capability.apply(found.append)
    assert [c.word for c in found if type(c).__name__ == 'Greeter'] == ['hi']  # type: ignore[attr-defined]
    assert message_of(tmp_path, 'capabilities: [{Greeter: {wrod: x}}]').startswith(
        "a.yaml:1: capabilities.Greeter.wrod: unknown option 'wrod' (did you mean 'word'?); there are: word"
    )
    assert "(did you mean 'Greeter'?)" in message_of(tmp_path, 'capabilities: [Greeterr]')


@pytest.mark.parametrize(
    ('points', 'message'),
    [
        ({'Greeter': 'greeters:Nothing'}, 'one offers it, and it cannot be loaded: '),
        ({'Greeter': 'nowhere:Greeter'}, 'one offers it, and it cannot be loaded: '),
        ({'Greeter': 'sys:exit.nothing'}, 'one offers it, and it cannot be loaded: '),
        ({'Greeter': 'leaving:Greeter'}, 'one offers it, and it cannot be loaded: it ended the process: sys.exit(9)'),
        ({'Greeter': 'greeters:number'}, 'one offers it as greeters:number, which is no capability'),
        ({'Greeter': 'greeters:Other'}, "one offers it, and it calls itself 'Other'"),
    ],
)
def test_a_package_that_offers_what_it_has_not(
    points: dict[str, str], message: str, packages: Path, tmp_path: Path
) -> None:
    install(packages, 'one', **points)
    assert message_of(tmp_path, 'capabilities: [Greeter]').startswith(f'a.yaml:1: capabilities.Greeter: {message}')


def test_one_that_fails_when_it_is_made_is_named_with_its_line(packages: Path, tmp_path: Path) -> None:
    install(packages, 'one', Failing='greeters:Failing')
    said = message_of(tmp_path, 'model: offline\ncapabilities:\n  - Planning\n  - Failing')
    assert said == 'a.yaml:4: capabilities.Failing: it does not work here'


def test_two_packages_that_offer_one_name(packages: Path, tmp_path: Path) -> None:
    install(packages, 'one', Greeter='greeters:Greeter')
    install(packages, 'two', Greeter='greeters:Other')
    assert 'one and two both offer a capability of this name' in message_of(tmp_path, 'capabilities: [Greeter]')


def test_a_package_does_not_take_the_place_of_what_is_there(packages: Path, tmp_path: Path) -> None:
    install(packages, 'one', Planning='greeters:Greeter')
    write(tmp_path, 'a.yaml', 'capabilities: [{Planning: {enable_subtasks: true}}]')
    assert load_agent('a.yaml', model='offline', folder=tmp_path).label == 'a.yaml'


def test_a_capability_whose_package_is_missing_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'pydantic_ai_harness', None)
    write(tmp_path, 'a.yaml', 'capabilities: [Coder]')
    with pytest.raises(ExtraMissing, match=r"a\.yaml:1: capabilities\.Coder: needs the extra 'workspace'") as caught:
        load_agent('a.yaml', model='offline', folder=tmp_path)
    assert caught.value.hint == "pip install 'planctl[workspace]'"
