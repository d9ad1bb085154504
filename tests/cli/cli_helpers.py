"""Calling the command line, in this process and in one of its own, and filling the database it is to find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import planctl
from planctl.cli import main
from planctl.core import apply, drive
from planctl.operations import Add, Operation
from planctl.stores.sqlite_file import SqliteFile

PROJECT = Path(planctl.__file__).parent.parent


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        assert self.out.count('\n') == 1, self.out
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        assert self.out == ''
        assert self.err.count('\n') == 1, self.err
        document = json.loads(self.err)
        assert document['schema'] == 1
        return document['error']

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which nothing of the one that runs the tests counts, but where Python is."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('PLANCTL_', 'PYTHON', 'LC_', 'LANG'))}
    return {**kept, 'PYTHONPATH': str(PROJECT), 'LC_ALL': 'C.UTF-8', **(extra or {})}


def process(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: str | bytes | None = None, **more: Any
) -> Outcome:
    """Run the command line in a process of its own."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    ended = subprocess.run(
        [sys.executable, '-m', 'planctl', *words],
        cwd=cwd,
        env=environment(env),
        input=b'' if given is None else given,
        capture_output=True,
        timeout=60,
        check=False,
        **more,
    )
    return Outcome(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


class Cli:
    """Calls the command line in this process, in the folder of the test."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *words: str) -> Outcome:
        self._capsys.readouterr()
        status = main(words)
        out, err = self._capsys.readouterr()
        return Outcome(status, out, err)

    def ok(self, *words: str) -> Outcome:
        outcome = self(*words)
        assert outcome.status == 0, outcome
        return outcome

    def json(self, *words: str) -> dict[str, Any]:
        return self.ok(*words, '--json').document

    def statuses(self) -> dict[str, str]:
        return {item['id']: item['status'] for item in self.json('show')['items']}


def store(path: Path, *operations: Operation, session: str = 'default') -> None:
    """Apply operations to a database as another program that uses the library does."""
    drive(apply(SqliteFile(path, session=session), *operations, actor='library'))


def fill(path: Path, *texts: str, session: str = 'default') -> None:
    store(path, *(Add(text) for text in texts), session=session)
