"""Which database is meant, and who acts. Looks at names and folders only; never opens, creates or changes a file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import Literal

from planctl.errors import DatabaseNotFound, InputError
from planctl.plan import check_table
from planctl.sanitize import has_control

NAMES = ('plan.db', '.agent-plan.db')
"""What a database is called where none is named, the first one for a new database too."""

_SCHEME = r'([A-Za-z][A-Za-z0-9+.-]+)://'
# A URL with a slip in it, which is not to become the name of a file: it may hold a password.
_ALMOST = r'[\s\'"]*(?:postgres|postgresql|redis|rediss|sqlite)\s*:'
# A file name may hold a question mark; what reads like options is taken for them, so that a slip makes no file.
_OPTIONS = r'\?([A-Za-z_]+=[^?]*)$'


@dataclass(frozen=True, slots=True)
class Place:
    """A database: the file, its table and its journal mode (`None`: the store decides).

    `named` says whether somebody named it; one that was found, or would be made, is an absolute path. For one on a
    server `url` is how to get there, which may hold a password, and `path` the same without it.
    """

    path: str
    table: str = 'plan_items'
    journal: Literal['wal', 'delete'] | None = None
    named: bool = True
    url: str | None = field(default=None, repr=False)

    @property
    def absolute(self) -> str:
        """The path or URL as it is meant from anywhere."""
        return self.path if self.url is not None else os.path.abspath(self.path)

    @property
    def exists(self) -> bool:
        """Whether something is there. What we may not look at counts: opening it says why it cannot be read."""
        if self.url is not None:
            return True
        try:
            os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    @property
    def shown(self) -> str:
        """The path as people read it: relative where it is in this folder."""
        folder, name = os.path.split(self.path)
        return name if not self.named and folder == _here() else self.path


def locate(db: str | None = None, *, create: bool = False) -> Place:
    """Return the database that is named by a path or URL, else the nearest one.

    The nearest is `plan.db`, then `.agent-plan.db`, in this folder and those above it up to the one that holds
    `.git`; outside a repository only in this one. With `create` one that is not there is returned all the same,
    `plan.db` in this folder when none is named; else it is `DatabaseNotFound`, which says where it was looked for.
    Raises `InputError` for what is no path or URL. Whether a server can be reached is found out by using it.
    """
    if db is not None:
        place = parse(db)
        if not create and not place.exists:
            raise DatabaseNotFound(f'there is no plan database at {place.path}{_absolute_meant(db, place)}')
        return place
    here = _here()
    folders = _upwards(here)
    for folder in folders:
        for name in NAMES:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return Place(path, named=False)
    if create:
        return Place(os.path.join(here, NAMES[0]), named=False)
    above = f' or the folders above it up to {folders[-1]}' if len(folders) > 1 else ''
    raise DatabaseNotFound(f'there is no {NAMES[0]} or {NAMES[1]} in {here}{above}')


def parse(db: str) -> Place:
    """Return the place that a path or URL names, without looking whether it is there.

    `sqlite:///FILE` is relative to this folder and `sqlite:////FILE` absolute; `?table=NAME` and `?journal=wal|delete`
    may follow a URL or a path. On Postgres it is `?table=NAME` beside what its driver takes; on Redis `?prefix=NAME`.
    """
    if not db.strip() or '\0' in db:
        raise InputError('the name of the database is empty')
    scheme = re.match(_SCHEME, db)
    if scheme is None and re.match(_ALMOST, db, re.IGNORECASE):
        raise InputError('the URL of the database cannot be read: it has the form postgresql://user@host/base')
    if scheme is None:
        options = re.search(_OPTIONS, db)
        return _place(db[: options.start()], options[1]) if options else _place(db, '')
    match scheme[1].lower():
        case 'sqlite':
            path, _, query = db[scheme.end() :].partition('?')
            if not path.startswith('/') or path == '/':
                raise InputError('a SQLite URL is sqlite:///FILE, or sqlite:////FILE from the root of the file system')
            from urllib.parse import unquote

            return _place(unquote(path[1:]), query)
        case 'postgres' | 'postgresql':
            return _server(db, 'table')
        case 'redis' | 'rediss':
            return _server(db, 'prefix')
        case other:
            raise InputError(
                f'a database cannot be named by {other}://: there are sqlite, postgresql, redis and rediss'
            )


def user_at_host() -> str:
    """Return who acts where nobody says so: the user and the machine."""
    user = next((name for key in ('LOGNAME', 'USER', 'USERNAME') if (name := os.environ.get(key))), None)
    if user is None:
        try:
            import pwd

            user = pwd.getpwuid(os.getuid()).pw_name
        except (ImportError, KeyError):
            user = 'user'
    uname = getattr(os, 'uname', None)
    host = uname().nodename if uname is not None else os.environ.get('COMPUTERNAME')
    return f'{user}@{host or "localhost"}'


def _place(path: str, query: str) -> Place:
    if not path or path == ':memory:':
        raise InputError('a database in memory would be gone when the command ends: name a file')
    place = Place(path)
    for part in filter(None, query.split('&')):
        key, _, value = part.partition('=')
        match key:
            case 'table':
                place = replace(place, table=check_table(value))
            case 'journal' if value == 'wal' or value == 'delete':
                place = replace(place, journal=value)
            case 'journal':
                raise InputError(f'the journal is wal or delete, not {value!r}')
            case _:
                raise InputError(f'a database has no option {key!r}: there are table and journal')
    return place


def _server(url: str, option: str) -> Place:
    """Return the place that a URL of a server names; the one option that is ours is taken out of it."""
    _check_readable(url)
    rest, mark, query = url.partition('?')
    table = 'plan_items' if option == 'table' else 'plan'
    kept: list[str] = []
    for part in filter(None, query.split('&')):
        key, _, value = part.partition('=')
        if key == option == 'prefix':
            from urllib.parse import unquote

            table = unquote(value)
            if not table or has_control(table):
                raise InputError('the prefix of the keys is empty or holds control characters')
        elif key == option:
            table = check_table(value)
        elif key in ('table', 'prefix', 'journal'):
            raise InputError(f'a database at {rest.partition(":")[0]}:// has no option {key!r}')
        else:
            kept.append(part)
    number = rest.partition('://')[2].partition('/')[2].strip('/')
    if option == 'prefix' and number and not number.isdecimal():
        raise InputError('a database of Redis has a number and no name: ?prefix=NAME keeps plans apart')
    shown = [part for part in kept if 'password' not in part.partition('=')[0]]
    if table not in ('plan_items', 'plan'):
        shown.append(f'{option}={table}')
    return Place(
        _without_password(rest) + ('?' + '&'.join(shown) if shown else ''),
        table,
        url=rest + (mark + '&'.join(kept) if kept else ''),
    )


def _check_readable(url: str) -> None:
    """Refuse a URL whose password would be taken for something else, and shown: one with an unescaped / ? or #."""
    netloc, _, behind = url.partition('://')[2].partition('/')
    hosts = netloc.partition('?')[0].rpartition('@')[2].split(',')
    found = [re.fullmatch(r'(?:\[[^\]]*\]|[^:\[\]#]*)(?::(\d{1,5}))?', host) for host in hosts]
    readable = '#' not in url and '@' not in behind.partition('?')[0]
    readable = readable and all(match is not None and int(match[1] or 0) <= 65535 for match in found)
    if not readable:
        raise InputError(
            'the URL of the database cannot be read: its port is a number, and signs in a password are %XX'
        )


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition('://')
    # A password may hold any of these, written plainly against the rules; it goes all the same.
    who, at, where = rest.rpartition('@')
    return f'{scheme}://{who.partition(":")[0]}{at}{where}' if at else url


def _absolute_meant(db: str, place: Place) -> str:
    if '://' in db and not os.path.isabs(place.path) and os.path.exists(f'/{place.path}'):
        return f': with three slashes it is relative; the absolute path is sqlite:////{place.path}'
    return ''


def _here() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise DatabaseNotFound('this folder is gone: name a database with --db') from error


def _upwards(folder: str) -> list[str]:
    """Return the folder and those above it up to the one that holds `.git`; the folder alone when none does."""
    found = [folder]
    while not os.path.lexists(os.path.join(found[-1], '.git')):
        above = os.path.dirname(found[-1])
        if above == found[-1]:
            return [folder]
        found.append(above)
    return found
