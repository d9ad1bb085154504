"""Which database a path, a URL or a folder comes to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planctl.errors import DatabaseNotFound, InputError, InvalidName
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
        ('valkey://host', InputError),
        ('postgresql://user:secret@host/db?table=a-b', InvalidName),
        ('postgresql://user:secret@host/db?prefix=x', InputError),
        ('redis://:secret@host?journal=wal', InputError),
        ('redis://:secret@host/plans', InputError),
        ('postgresql://u:secret/@:secret@h/db', InputError),
        ('postgresql://u:secret/x@h/db', InputError),
        ('postgresql://u:secret#x@h/db', InputError),
        ('postgresql://u:secret?x@h/db', InputError),
        ('postgresql://u:secret@127.0.0.1:99999/db', InputError),
        (' postgresql://u:secret@h/db', InputError),
        ('postgresql:/u:secret@h/db', InputError),
        ('redis:secret@h', InputError),
        ('"redis://:secret@h"', InputError),
    ],
)
def test_what_cannot_be_used(db: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        parse(db)
    assert 'secret' not in str(raised.value)


@pytest.mark.parametrize(
    ('url', 'shown', 'table', 'kept'),
    [
        ('postgresql://u:secret@h:5/db', 'postgresql://u@h:5/db', 'plan_items', 'postgresql://u:secret@h:5/db'),
        ('postgres://h', 'postgres://h', 'plan_items', 'postgres://h'),
        ('postgresql://h/db?table=t', 'postgresql://h/db?table=t', 't', 'postgresql://h/db'),
        (
            'postgresql://h/db?sslmode=disable&table=t&password=secret',
            'postgresql://h/db?sslmode=disable&table=t',
            't',
            'postgresql://h/db?sslmode=disable&password=secret',
        ),
        (
            'postgresql://u:secret@h:1,[::1]:2/db',
            'postgresql://u@h:1,[::1]:2/db',
            'plan_items',
            'postgresql://u:secret@h:1,[::1]:2/db',
        ),
        ('redis://:secret@h:6379/0', 'redis://@h:6379/0', 'plan', 'redis://:secret@h:6379/0'),
        ('redis://h/2/?prefix=x', 'redis://h/2/?prefix=x', 'x', 'redis://h/2/'),
        ('rediss://h?prefix=x}y', 'rediss://h?prefix=x}y', 'x}y', 'rediss://h'),
    ],
)  # fmt: skip
def test_a_server_and_its_password(url: str, shown: str, table: str, kept: str) -> None:
    place = parse(url)
    assert (place.path, place.shown, place.absolute, place.table, place.url) == (shown, shown, shown, table, kept)
    assert place.exists
    assert 'secret' not in repr(place)


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
