"""Hostile text, by every way in and every way out."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
from cli_helpers import Cli, Terminal, process

from planctl.core import drive
from planctl.sanitize import clean, is_visible
from planctl.stores.sqlite_file import SqliteFile

PIECES = (
    [chr(code) for code in (*range(0x00, 0x20), *range(0x7F, 0xA1), 0xAD)]
    + [chr(code) for code in (0x300, 0x61C, 0x200B, 0x200D, 0x200E, 0x2028, 0x2029, 0x202A, 0x202E, 0x2066, 0xFE0F)]
    + [chr(code) for code in (0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0xE000, 0x1F469, 0x1F4BB, 0x10FFFF, 0x65E5, 0xE9)]
    + ['\x1b[2J', '\x1b]0;owned\x07', '\x9b31m', '\r\n', '\n\n', '\t', '  ', 'e\u0301', '\U0001f469\u200d\U0001f4bb']
    + ['[red]', '[/]', '[link=http://x]', ':bug:', '${HOME}', '$(rm)', '`rm`', '%s', '{0}', '\\']
    + ['\\n', '"', "'", '&quot;', '-->', '- [ ] ', '# ', '(depends on: 1)', '(active form: x)', ' — ', '~~~', '|', '*']
    + ['</plan-reminder>', '<!-- planctl: steps -->', '&mdash;', '&#x202e;', '&#8212;', '```', '_', '1. ']
    + ['{"id": 1}', '[]', 'null', 'a', 'word ', '日本語', ' &#8212; ']
)  # fmt: skip


def hostile(count: int, seed: int = 1) -> list[str]:
    """Return that many texts of which something is left when they are stored."""
    rng = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        text = ''.join(rng.choice(PIECES) for _ in range(rng.randrange(1, 9)))
        if is_visible(clean(text)):
            found.append(text)
    return found


def contents(path: Path, session: str) -> list[str]:
    return [step.content for step in drive(SqliteFile(path, session=session).read()).steps]


async def by_tool(path: Path, texts: list[str], session: str) -> None:
    """Store the texts as an agent does, by one call of its tool."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from planctl import Planning, SqlitePlanStore

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart('done')])
        return ModelResponse(parts=[ToolCallPart('write_plan', {'items': [{'content': text} for text in texts]})])

    store = SqlitePlanStore(path, session=session)
    await Agent(FunctionModel(respond), capabilities=[Planning(store=store)]).run('go')


@pytest.fixture(scope='module')
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of a plan of 2,000 hostile texts, brought in as JSON."""
    path = tmp_path_factory.mktemp('hostile') / 'plan.db'
    given = json.dumps([{'content': text, 'note': text, 'active_form': text} for text in hostile(2_000)])
    assert process('import', '-', '--quiet', '--db', str(path), cwd=path.parent, stdin=given).status == 0
    return path


async def test_what_goes_in_is_stored_alike_by_every_way(plan: Path, tmp_path: Path) -> None:
    texts = hostile(2_000)
    stored = [clean(text) for text in texts]
    assert contents(plan, 'default') == stored
    given = tmp_path / 'given'
    # A line is a step: what breaks lines is an end of it there.
    single = [' '.join(text.replace('\t', ' ').replace('\r', '\n').split('\n')) for text in texts]
    given.write_bytes('\n'.join(single).encode('utf-8', 'replace'))
    outcome = process(
        'add', '-', '--quiet', '--session', 'stdin', '--db', str(plan), cwd=tmp_path, stdin=given.read_bytes()
    )
    assert outcome.status == 0, outcome
    assert contents(plan, 'stdin') == [clean(text.encode('utf-8', 'replace').decode()) for text in single]
    await by_tool(plan, texts, 'tool')
    assert contents(plan, 'tool') == stored


def test_add_stores_what_the_others_store(cli: Cli) -> None:
    texts = hostile(100, seed=2)
    for text in texts:
        assert cli('add', '--quiet', '--', text).status == 0, text
    assert contents(cli.folder / 'plan.db', 'default') == [clean(text) for text in texts]


def test_what_comes_out_is_what_is_stored(plan: Path) -> None:
    stored = [(text, text, text) for text in map(clean, hostile(2_000))]
    for env in ({'LC_ALL': 'C', 'LANG': 'C', 'PYTHONUTF8': '0', 'PYTHONCOERCECLOCALE': '0'}, {'LC_ALL': 'C.UTF-8'}):
        for words in (['show', '--json'], ['export']):
            outcome = process('--db', str(plan), *words, cwd=plan.parent, env=env)
            assert (outcome.status, outcome.err) == (0, '')
            items = outcome.document['items']
            assert [(item['content'], item['note'], item['active_form']) for item in items] == stored
        exported = process('--db', str(plan), 'export', '-o', 'md', cwd=plan.parent, env=env)
        back = process(
            'import', '-', '--replace', '--session', 'md', '--db', str(plan), cwd=plan.parent, stdin=exported.out
        )
        assert back.status == 0, back
        steps = drive(SqliteFile(plan, session='md').read()).steps
        assert [(step.content, step.note, step.active_form) for step in steps] == stored


READS = [
    ['show'],
    ['show', '-o', 'md'],
    ['show', '-o', 'ids'],
    ['show', '-o', 'prompt'],
    ['show', '7', '8', '9'],
    ['show', '--json'],
    ['next', '-n', '2000'],
    ['log'],
    ['log', '--json'],
    ['export', '-o', 'mermaid'],
    ['export', '-o', 'html'],
    ['session'],
]


@pytest.mark.parametrize('words', READS, ids=' '.join)
@pytest.mark.parametrize('encoding', ['utf-8', 'ascii', 'cp1252'])
def test_no_control_reaches_a_pipe(plan: Path, words: list[str], encoding: str) -> None:
    outcome = process_bytes('--db', str(plan), *words, cwd=plan.parent, env={'PYTHONIOENCODING': encoding})
    text = outcome.decode(encoding)
    for char in set(text):
        assert char == '\n' or not (ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or 0x2028 <= ord(char) <= 0x202E), (
            words
        )


def process_bytes(*words: str, cwd: Path, env: dict[str, str]) -> bytes:
    import subprocess
    import sys

    from cli_helpers import environment

    command = [sys.executable, '-m', 'planctl', *words]
    done = subprocess.run(command, cwd=cwd, env=environment(env), capture_output=True, check=True, timeout=60)
    assert done.stderr == b''
    return done.stdout


@pytest.mark.parametrize('words', [['show'], ['show', '3'], ['log', '-n', '5'], ['show', '--watch', '--check']])
@pytest.mark.parametrize('columns', [20, 200])
def test_no_control_reaches_a_terminal_but_our_own(tmp_path: Path, words: list[str], columns: int) -> None:
    import re

    path = tmp_path / 'plan.db'
    given = json.dumps([{'content': text, 'status': 'completed', 'note': text} for text in hostile(150, seed=3)])
    assert process('import', '-', '--quiet', '--db', str(path), cwd=tmp_path, stdin=given).status == 0
    terminal = Terminal(tmp_path, columns, *words, '--db', str(path))
    assert terminal.end() == 0
    # Colours, the cursor, and what redrawing needs.
    text = re.sub(r'\x1b\[(?:[\d;]*m|\?25[lh]|2K|\d+A)|\r', '', terminal.written)
    assert all(char == '\n' or not (ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0) for char in text)
    assert not re.search('[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]', text)


def test_words_of_the_line_that_are_no_text_are_shown_safely(cli: Cli, tmp_path: Path) -> None:
    cli.ok('add', 'x')
    for words in (
        ['done', 'a\x1b[31mb'],
        ['show', '--status', '\x1b[31m'],
        ['show', '--session', 'a\u202eb'],
        ['show', '--db', 'a\x1b[31m.db'],
        ['import', 'a\x1b[31m.md'],
        ['session', 'rm', '\u202eb'],
        ['--\x1b[31m'],
        ['\x1b[31m'],
        ['log', '\u2028'],
    ):
        outcome = cli(*words)
        assert outcome.status in (2, 3), words
        assert outcome.out == ''
        assert outcome.err.removesuffix('\n').isprintable(), words
    raw = os.fsdecode(b'caf\xe9')
    assert cli('add', raw).status == 0
    assert contents(cli.folder / 'plan.db', 'default')[-1] == 'caf\ufffd'
