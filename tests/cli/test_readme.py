"""The README says what the code does: its generated parts are current, its commands are understood."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cli_helpers import process
from reference import README, written

TEXT = README.read_text('utf-8')


def test_the_generated_parts_are_current() -> None:
    assert written(TEXT) == TEXT, 'python tests/cli/reference.py writes them'


def console_commands() -> list[str]:
    blocks = re.findall(r'```console\n(.*?)```', TEXT, re.DOTALL)
    lines = [line[2:].partition(' #')[0].strip() for block in blocks for line in block.splitlines() if line[:2] == '$ ']
    return [line for line in lines if not line.startswith(('planctl run', 'planctl edit', 'planctl show --watch'))]


def test_the_commands_shown_are_carried_out_in_order(tmp_path: Path) -> None:
    commands = console_commands()
    assert len(commands) >= 8
    for line in commands:
        ended = process(*shlex.split(line)[1:], cwd=tmp_path)
        assert ended.status == 0, (line, ended.err)


def test_what_is_shown_of_an_answer_is_what_is_answered(tmp_path: Path) -> None:
    process('add', 'Write the parser', cwd=tmp_path)
    process('add', 'Test it', '--depends-on', '1', cwd=tmp_path)
    assert process('done', '1', cwd=tmp_path).out == 'done 1 · 2 can start now\n'
    assert 'done 1 · 2 can start now' in TEXT


@pytest.mark.parametrize('block', re.findall(r'```python\n(.*?)```', TEXT, re.DOTALL))
def test_the_python_shown_can_be_compiled(block: str) -> None:
    # Snippets await at the top level, as notebooks and the asyncio prompt allow.
    compile(block, 'README.md', 'exec', flags=0x2000)
