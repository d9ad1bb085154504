"""What is said when an answer cannot be written, when the folder is gone, and when a name holds a slip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import environment, process

needs_full = pytest.mark.skipif(not Path('/dev/full').exists(), reason='this system has no /dev/full')


def to_full_disk(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    with open('/dev/full', 'w') as full:
        return subprocess.run(
            [sys.executable, '-m', 'planctl', *words],
            cwd=cwd,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )


CHANGES = [
    ('add', 'x'),
    ('import', 'list.md'),
    ('next', '--claim'),
    ('undo',),
    ('session', 'copy', 'default', 'other'),
    ('session', 'rename', 'other', 'another'),
    ('session', 'rm', 'another'),
    ('session', 'rm', 'another', '--purge', '--json'),
]
OTHERS = [('show',), ('undo', '--dry-run'), ('import', 'list.md', '--dry-run'), ('session', '--json'), ('--help',)]


@needs_full
def test_a_change_whose_answer_is_lost_is_said_to_be_stored(tmp_path: Path) -> None:
    (tmp_path / 'list.md').write_text('- [ ] y\n')
    for words in CHANGES:
        ended = to_full_disk(*words, cwd=tmp_path)
        assert ended.returncode == 5, words
        assert 'cannot write the answer' in ended.stderr, words
        assert 'the change is stored' in ended.stderr, words
    assert process('show', '-o', 'ids', cwd=tmp_path).out == '1\n2\n'


@needs_full
def test_an_answer_that_is_lost_without_a_change_says_nothing_of_one(tmp_path: Path) -> None:
    (tmp_path / 'list.md').write_text('- [ ] y\n')
    process('add', 'x', cwd=tmp_path)
    for words in OTHERS:
        ended = to_full_disk(*words, cwd=tmp_path)
        assert (ended.returncode, 'cannot write the answer' in ended.stderr) == (5, True), (words, ended.stderr)
        assert 'stored' not in ended.stderr, words


@pytest.mark.skipif(sys.platform != 'linux', reason='a full disk is played by RLIMIT_FSIZE, as Linux keeps it')
def test_an_export_that_does_not_fit_leaves_the_one_before(tmp_path: Path) -> None:
    process('--db', 'plan.db?journal=delete', 'add', 'x', cwd=tmp_path)
    process('export', 'plan.json', cwd=tmp_path)
    before = (tmp_path / 'plan.json').read_bytes()
    code = (
        'import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); '
        "from planctl.cli import main; sys.exit(main(['export', 'plan.json']))"
    )
    ended = subprocess.run(
        [sys.executable, '-c', code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (5, 'planctl: plan.json cannot be written: File too large\n')
    assert (tmp_path / 'plan.json').read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ['plan.db', 'plan.json']


@pytest.mark.parametrize('command', ['run', 'show', 'where', 'add'])
def test_a_folder_that_is_gone_is_named_as_the_reason(command: str, tmp_path: Path) -> None:
    gone = tmp_path / 'gone'
    gone.mkdir()
    words = [command, *(['x'] if command in ('add', 'run') else [])]
    code = (
        f'import os, sys; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); '
        f'from planctl.cli import main; sys.exit(main({words!r}))'
    )
    ended = subprocess.run([sys.executable, '-c', code], env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode in (3, 5)
    assert 'this folder is gone' in ended.stderr
    assert ended.stderr.count('\n') == 1


@pytest.mark.parametrize('slip', ['plan.db?jornal=delete', 'plan.db?tabel=x', 'file:x.db?mode=ro'])
def test_a_slip_in_an_option_of_the_database_makes_no_file(slip: str, tmp_path: Path) -> None:
    ended = process('--db', slip, 'add', 'x', cwd=tmp_path)
    assert ended.status == 2
    assert 'there are table and journal' in ended.err
    assert os.listdir(tmp_path) == []


def test_no_hint_that_would_fail_itself(tmp_path: Path) -> None:
    ended = process('--db', 'no/such/folder/p.db', 'show', cwd=tmp_path)
    assert ended.status == 3
    assert 'add' not in ended.err


def test_an_id_is_quoted_with_what_is_wrong_about_it(tmp_path: Path) -> None:
    process('add', 'x', cwd=tmp_path)
    ended = process('show', 'zzz ', cwd=tmp_path)
    assert ended.status in (2, 3)
    assert "'zzz '" in ended.err
    assert '..' not in ended.err
