"""What the tests of the command line share: a folder of their own, and a way to call it there."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_helpers import Cli


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is a repository of its own, so that nothing above it is found; the current one."""
    here = tmp_path / 'here'
    (here / '.git').mkdir(parents=True)
    monkeypatch.chdir(here)
    for name in ('PLANCTL_DB', 'PLANCTL_SESSION', 'PLANCTL_ACTOR'):
        monkeypatch.delenv(name, raising=False)
    return here


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(folder, capsys)
