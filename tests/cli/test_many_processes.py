"""Many processes at one plan: one step is given to one of them, and a look leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import environment, fill, process, store

from planctl.core import drive
from planctl.operations import Add
from planctl.stores.sqlite_file import SqliteFile

RACERS, RACES = 16, 50

# One process for each racer and not for each try: what is held is that one of them wins, not how fast Python starts.
RACER = f"""
import sys
from planctl.cli import main
for race in range({RACES}):
    sys.stdin.readline()
    status = main(['next', '--claim', '--quiet', '--session', f's{{race}}', '--actor', sys.argv[1]])
    print('ended', status, flush=True)
"""


def test_sixteen_race_for_one_step(folder: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, '-c', RACER, f'racer-{number}'],
            cwd=folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(RACERS)
    ]
    try:
        for race in range(RACES):
            fill(folder / 'plan.db', 'the only one', session=f's{race}')
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write('go\n')
                racer.stdin.flush()
            won: list[int] = []
            for number, racer in enumerate(racers):
                assert racer.stdout is not None
                line = racer.stdout.readline()
                if line == '1\n':
                    won.append(number)
                    line = racer.stdout.readline()
                    assert line == 'ended 0\n'
                else:
                    assert line == 'ended 3\n'
            step = drive(SqliteFile(folder / 'plan.db', session=f's{race}').read()).step('1')
            assert [f'racer-{number}' for number in won] == [step.owner]
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()


READS = [
    ['show'],
    ['show', '1', '--json'],
    ['show', '-o', 'md', '--check'],
    ['next'],
    ['log'],
    ['export'],
    ['export', '-o', 'svg'],
    ['session'],
    ['undo', '1', '--dry-run'],
    ['import', '-', '--dry-run'],
    ['where'],
]


@pytest.mark.parametrize('journal', ['wal', 'delete'])
@pytest.mark.parametrize('used', [True, False])
def test_a_look_leaves_everything_as_it_was(tmp_path: Path, journal: str, used: bool) -> None:
    path = tmp_path / 'plan.db'
    assert process('add', 'one', '--db', f'{path}?journal={journal}', cwd=tmp_path).status == 0
    holder = SqliteFile(path)
    if used:
        # Somebody has it open, so that there may be more beside it than the file.
        from planctl.core import apply

        drive(holder.__aenter__())
        drive(apply(holder, Add('two')))
    store(path, Add('three'))
    before = state(tmp_path)
    for words in READS[::3] if used else READS:
        outcome = process(*words, cwd=tmp_path, env={'PLANCTL_DB': str(path)}, stdin='- x')
        assert outcome.status in (0, 6), outcome
        assert state(tmp_path) == before, words
    drive(holder.aclose())


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return what is in the files of a folder and when they were changed; the index of a log is shared memory."""
    return {
        name: (b'', 0) if name.endswith('-shm') else ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns)
        for name in sorted(os.listdir(folder))
    }
