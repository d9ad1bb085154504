"""Which database a path, a URL or a folder comes to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planctl.errors import DatabaseNotFound, DriverMissing, InputError, InvalidName
from planctl.locate import Place, locate, parse, user_at_host


@pytest.mark.parametrize(
    ('db', 'place'),
    [
        ('plan.db', Place('plan.db')),
        ('/a/b c.db', Place('/a/b c.db')),
        (r'C:\plans\plan.db', Place(r'C:\plans\plan.db')),
        ('plan.db?table=other', Place('plan.db', 'other')),
        ('plan.db?table=other&journal=delete', Place('plan.db', 'other', 'delete')),
        ('what?.db', Place('what?.db')),
        ('what?table', Place('what?table')),
        ('what?.db?journal=wal', Place('what?.db', journal='wal')),
        ('100%.db', Place('100%.db')),
        ('sqlite:///plan.db', Place('plan.db')),
        ('sqlite:////a/b%20c.db', Place('/a/b c.db')),
        ('SQLite:///C:/plan.db?table=t&', Place('C:/plan.db', 't')),
        ('sqlite:///what%3F.db?journal=wal', Place('what?.db', journal='wal')),
    ],
)
def test_what_a_name_means(db: str, place: Place) -> None:
    assert parse(db) == place


@pytest.mark.parametrize(
    ('db', 'error'),
    [
        ('', InputError),
        ('  ', InputError),
        ('a\0b', InputError),
        (':memory:', InputError),
        ('sqlite://plan.db', InputError),
        ('sqlite:///', InputError),
        ('sqlite:///:memory:', InputError),
        ('sqlite:///plan.db?mode=ro', InputError),
        ('plan.db?journal=off', InputError),
        ('plan.db?table=', InvalidName),
        ('plan.db?table=a-b', InvalidName),
        ('https://example.org/plan.db', InputError),
        ('postgresql://user:secret@host/db', DriverMissing),
        ('postgres://host', DriverMissing),
        ('redis://:secret@host', DriverMissing),
        ('rediss://host', DriverMissing),
    ],
)
def test_what_cannot_be_used(db: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        parse(db)
    assert 'secret' not in str(raised.value)


def test_a_named_one_has_to_be_there_to_be_read(tmp_path: Path) -> None:
    path = str(tmp_path / 'typo.db')
    with pytest.raises(DatabaseNotFound, match='typo'):
        locate(path)
    assert locate(path, create=True) == Place(path)
    assert os.listdir(tmp_path) == []
    (tmp_path / 'typo.db').touch()
    assert locate(path) == Place(path)


def test_three_slashes_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'plan.db').touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatabaseNotFound, match=f'sqlite:///{tmp_path}/plan.db'):
        locate(f'sqlite://{tmp_path}/plan.db')
    assert locate(f'sqlite:///{tmp_path}/plan.db').exists


def test_the_nearest_is_found_up_to_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / 'repository'
    below = repository / 'a' / 'b'
    below.mkdir(parents=True)
    (repository / '.git').write_text('gitdir: elsewhere')  # As in a worktree.
    (tmp_path / 'plan.db').touch()
    monkeypatch.chdir(below)
    with pytest.raises(DatabaseNotFound, match=rf'{below} or the folders above it up to {repository}'):
        locate()
    new = locate(create=True)
    assert (new, new.shown) == (Place(str(below / 'plan.db'), named=False), 'plan.db')
    (repository / '.agent-plan.db').touch()
    (below / 'plan.db').mkdir()
    assert locate().path == str(repository / '.agent-plan.db')
    (repository / 'plan.db').touch()
    found = locate()
    assert found == Place(str(repository / 'plan.db'), named=False)
    assert found.shown == found.path
    (repository / 'a' / '.agent-plan.db').touch()
    assert locate().path == str(repository / 'a' / '.agent-plan.db')


def test_a_file_in_the_way_of_the_path_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / 'file').touch()
    assert not Place(str(tmp_path / 'file' / 'plan.db')).exists


def test_who_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('LOGNAME', 'ada')
    name, _, host = user_at_host().partition('@')
    assert (name, bool(host)) == ('ada', True)
    for variable in ('LOGNAME', 'USER', 'USERNAME'):
        monkeypatch.delenv(variable, raising=False)
    assert user_at_host().partition('@')[0]
