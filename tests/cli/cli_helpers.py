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


class Terminal:
    """The command line on a terminal of its own, as wide as the test says. What it writes is read as it comes."""

    def __init__(self, folder: Path, columns: int, *words: str, rows: int = 24, **env: str) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        self.command = subprocess.Popen(
            [sys.executable, '-m', 'planctl', *words],
            cwd=folder,
            env={**environment({'TERM': 'xterm-256color', **env}), **env},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            # Of its own, so that Ctrl-C reaches it.
            preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(terminal)
        self.written = ''

    def until(self, *wanted: str, seconds: float = 20.0) -> str:
        """Return what was written since the last call, once all of `wanted` is in it; fails when it never comes."""
        import select
        import time

        end = time.monotonic() + seconds
        found = b''
        while not all(word in found.decode('utf-8', 'replace') for word in wanted):
            ready, _, _ = select.select([self._controller], [], [], max(0.0, end - time.monotonic()))
            block = self._read() if ready else b''
            if not block:
                raise AssertionError(f'{wanted} never came: {found.decode("utf-8", "replace")!r}')
            found += block
        self.written += found.decode('utf-8', 'replace')
        return found.decode('utf-8', 'replace').replace('\r\n', '\n')

    def resize(self, columns: int, rows: int = 24) -> str:
        """Make it another size while the command stands still; return what it had written until then."""
        import fcntl
        import select
        import signal
        import struct
        import termios

        self.command.send_signal(signal.SIGSTOP)
        os.waitpid(self.command.pid, os.WUNTRACED)
        found = b''
        while select.select([self._controller], [], [], 0)[0] and (block := self._read()):
            found += block
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        self.command.send_signal(signal.SIGCONT)
        self.written += found.decode('utf-8', 'replace')
        return found.decode('utf-8', 'replace').replace('\r\n', '\n')

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def end(self) -> int:
        """Wait for the end, keep what is written until then in `written`, and return the exit status."""
        import select

        rest = b''
        while select.select([self._controller], [], [], 20)[0] and (block := self._read()):
            rest += block
        self.written += rest.decode('utf-8', 'replace')
        os.close(self._controller)
        return self.command.wait(timeout=20)

    def _read(self) -> bytes:
        try:
            return os.read(self._controller, 65_536)
        except OSError:  # Linux says so when the last one who could write has gone.
            return b''

    def kill(self) -> None:
        self.command.kill()
        self.end()


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
