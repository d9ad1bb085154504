"""The two sides: planctl and pydantic-ai-harness 0.62, each in a process of its own that measures when it is told.

The harness gets an environment of its own, made once and kept in the user's cache folder; where that cannot be made
(no network) the one that is installed counts, when it is that version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

VERSION = '0.62.0'
ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Reference:
    """The interpreter that has the harness, and how to say where that is; `None` when there is none."""

    python: str | None
    said: str


def reference(cache: Path | None = None) -> Reference:
    """Return the interpreter of the harness, making its environment when there is none yet."""
    folder = (cache or _cache()) / f'harness-{VERSION}-{sys.implementation.cache_tag}'
    python = folder / ('Scripts' if os.name == 'nt' else 'bin') / 'python'
    if _version(str(python)) == VERSION:
        return Reference(str(python), f'pydantic-ai-harness {VERSION} in {folder}')
    try:
        venv.create(folder, with_pip=True, clear=True)
        wanted = [f'pydantic-ai-harness=={VERSION}', 'asyncpg>=0.30', 'redis>=5.2']
        quiet = ['--quiet', '--disable-pip-version-check']
        subprocess.run([python, '-m', 'pip', 'install', *quiet, *wanted], check=True, capture_output=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        why = type(error).__name__
        if _version(sys.executable) == VERSION:
            return Reference(sys.executable, f'the installed pydantic-ai-harness {VERSION} (an own one: {why})')
        return Reference(None, f'no pydantic-ai-harness {VERSION}: {why}')
    return Reference(str(python), f'pydantic-ai-harness {VERSION} in {folder}')


def _cache() -> Path:
    base = os.environ.get('XDG_CACHE_HOME')
    folder = Path(base) if base else Path.home() / '.cache'
    return (folder if os.access(folder.parent, os.W_OK) else Path(tempfile.gettempdir())) / 'planctl-benchmarks'


def _version(python: str) -> str | None:
    code = 'from importlib.metadata import version; print(version("pydantic-ai-harness"))'
    try:
        asked = subprocess.run([python, '-I', '-c', code], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip()


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which nothing of whoever measures counts, but where Python and planctl are."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('PLANCTL_', 'PYTHON', 'LC_', 'LANG'))}
    return {**kept, 'PYTHONPATH': str(ROOT), 'LC_ALL': 'C.UTF-8', **more}


class Side:
    """A process of `worker.py`, which does and measures what it is asked, one request after the other."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, str(HERE / 'worker.py'), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    def tell(self, what: str, **given: Any) -> None:
        """Ask for something, without waiting for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({'what': what, **given}) + '\n')
        self._process.stdin.flush()

    def hear(self) -> Any:
        """Wait for the answer to what was asked first and not heard yet."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f'the worker of {self.name} ended with status {self._process.wait()}')
        return json.loads(line)

    def ask(self, what: str, **given: Any) -> Any:
        """Ask for something and return the answer."""
        self.tell(what, **given)
        return self.hear()

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@dataclass(frozen=True, slots=True)
class Bench:
    """What a part of the benchmarks works with."""

    folder: Path
    """A place for databases, taken away at the end."""
    reference: Reference
    sides: Mapping[str, Side]
    """`ours` and, when there is one, `reference`."""
    rounds: int

    def sides_of(self, *names: str) -> list[Side]:
        """Return those of the sides that there are."""
        return [self.sides[name] for name in names if name in self.sides]
