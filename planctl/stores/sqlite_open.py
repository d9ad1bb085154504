"""Opening a SQLite file, so that reading never changes it; and what SQLite's errors mean. Standard library only."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from planctl.errors import DamagedStore, DatabaseNotFound, InputError, StorageError, StoreUnavailable
from planctl.stores.disks import is_full, on_network
from planctl.stores.sqlite_locks import holder

T = TypeVar('T')

Journal: TypeAlias = Literal['wal', 'delete']

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


class Patience:
    """How long to try again while somebody else holds the database, with growing, jittered pauses.

    SQLite's own way of waiting has fixed steps up to 0.1 s and starves the unlucky of several writers.
    """

    def __init__(self, seconds: float, given_up: Callable[[], bool] | None = None) -> None:
        self._end = time.monotonic() + seconds
        self._given_up = given_up
        self._pause = 0.0005

    def attempt(self, call: Callable[[], T], *, begun: bool = False) -> T:
        """Return what `call` returns, called again while the database is busy; past the end SQLite's error comes out.

        `StoreUnavailable` when the caller gave up, unless the work has `begun`.
        """
        while True:
            if not begun:
                self.check()
            try:
                return call()
            except sqlite3.OperationalError as error:
                if getattr(error, 'sqlite_errorcode', 0) & 0xFF not in _BUSY or self.over:
                    raise
            self.pause()

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    def pause(self) -> None:
        """Wait a little, each time a little longer, never the same for two writers."""
        from random import uniform  # Seldom needed, and it costs a plan command three milliseconds.

        time.sleep(uniform(self._pause / 4, self._pause))  # noqa: S311 - it guards nothing
        self._pause = min(self._pause * 2, 0.01)

    def check(self) -> None:
        """Raise `StoreUnavailable` when the caller gave up."""
        if self._given_up is not None and self._given_up():
            raise StoreUnavailable('nobody waits for it any more')


@contextmanager
def explained(path: str, wait: float) -> Generator[None]:
    """Turn what `sqlite3` raises into a `StorageError` in plain words."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(error, path, wait) from error
    except UnicodeEncodeError as error:
        raise InputError('a name or text holds half a character (a lone surrogate), which cannot be stored') from error


def _meaning(error: sqlite3.Error, path: str, wait: float) -> StorageError:
    code = _code(error)
    if code in _BUSY:
        return StoreUnavailable(
            f'{path} is locked: after {wait:g} s it is still held by {holder(path)}',
            hint='try again when that has finished',
        )
    if code == sqlite3.SQLITE_NOTADB:
        return DamagedStore(f'{path} is not a SQLite database')
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT):
        return DamagedStore(f'{path} is damaged: {error}')
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StorageError(f'{path} is read-only: the file or its folder cannot be written')
    if code == sqlite3.SQLITE_CANTOPEN:
        return StorageError(f'{path} cannot be opened: {_why_not_opened(path)}')
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and is_full(os.path.dirname(path))):
        return StorageError(f'{path} cannot be written: the disk is full')
    if code == sqlite3.SQLITE_ERROR:
        return DamagedStore(f'{path} has tables that are not those of a plan ({error})')
    return StorageError(f'{path}: {error}')


def _code(error: BaseException) -> int:
    """Return the kind of SQLite's error."""
    return getattr(error, 'sqlite_errorcode', sqlite3.SQLITE_ERROR) & 0xFF


def _why_not_opened(path: str) -> str:
    folder = os.path.dirname(path)
    if os.path.exists(path) and not os.access(path, os.R_OK):
        return 'no permission to read it'
    if not os.access(folder, os.W_OK):
        return f'no permission to write to the folder {folder}'
    return 'the operating system refused'


def identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from one that took its place, or `None` when it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def leave(connection: sqlite3.Connection, path: str, log: tuple[int, int] | None) -> None:
    """Make sure that what is left at `path` of a database that is there no longer does no harm to the next one.

    Its log ahead (`log` tells which) stays where it was, and SQLite would take it for that of whatever file is put
    there. So all of it goes into the file that was moved, or into nothing.
    """
    ahead = f'{path}-wal'
    if log is None or identity(ahead) != log:
        return
    with suppress(sqlite3.Error):
        connection.execute('PRAGMA wal_checkpoint(TRUNCATE)')
    if identity(path) is not None and not is_blank(ahead) and identity(ahead) == log:
        # Another process is still at work on what was there.
        for name in (ahead, f'{path}-shm'):
            with suppress(OSError):
                os.unlink(name)


def is_blank(path: str) -> bool:
    """Return whether there is no file, or one that nothing was written to."""
    try:
        found = os.stat(path)
    except OSError:
        return True
    return found.st_size == 0 and stat.S_ISREG(found.st_mode)


def read_from(path: str, patience: Patience, work: Callable[[sqlite3.Connection], T]) -> T:
    """Return what `work` returns on a connection that creates, changes and leaves behind nothing.

    `DatabaseNotFound` when the file is not there, `DamagedStore` when it is no database.
    """
    refused = False
    while True:
        before = _beside(path) if _inspect(path) else None
        if before is None:
            raise DatabaseNotFound(f'there is no database at {path}')
        immutable = False
        if (refused and is_blank(f'{path}-wal')) or not (before.wal or before.journal or _can_put_beside(path)):
            # Nobody writes, and we cannot put anything beside it. SQLite then looks at no lock, so we look twice.
            immutable = True
            connection = _connect(path, 'mode=ro&immutable=1', patience)
        elif before.wal:
            # Somebody writes, or was killed: with `rw` our close could do their clearing up.
            connection = _connect(path, 'mode=ro', patience)
        else:
            # The last to close takes away what it put beside the file; a connection for reading alone would leave it.
            connection = _connect(path, 'mode=rw', patience, 'PRAGMA query_only = 1')
        try:
            found = patience.attempt(lambda connection=connection: work(connection))
        except (sqlite3.Error, StorageError) as error:
            if not immutable and not refused and _code(error) == sqlite3.SQLITE_IOERR:
                refused = True  # A disk that is full, by a quota for one.
            elif not immutable or before == _beside(path):
                raise
        else:
            if not immutable or before == _beside(path):
                return found
        finally:
            connection.close()
        if patience.over:
            raise StoreUnavailable(f'{path} is being written to all the time')
        patience.pause()


def _can_put_beside(path: str) -> bool:
    """Whether a connection can make the files that SQLite wants beside a database, and take them away again."""
    folder = os.path.dirname(path)
    return os.access(path, os.W_OK) and os.access(folder, os.W_OK) and not is_full(folder)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What tells that somebody writes to a database, or wrote in between: times, sizes and the files beside it."""

    changed: int
    size: int
    wal: bool
    journal: bool


def _beside(path: str) -> _Beside | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return _Beside(found.st_mtime_ns, found.st_size, os.path.exists(f'{path}-wal'), os.path.exists(f'{path}-journal'))


_TICK = 3 * 10**9
"""Nanoseconds within which two writes may leave the same times, on file systems that count in two seconds."""


def stamp(path: str) -> object | None:
    """Return what is another one after every write to a database; `None` where that cannot be told.

    That is right after one, which another may follow at the same time and size, and for a file of another machine.
    """
    found: list[tuple[int, ...]] = []
    for name in (path, f'{path}-wal', f'{path}-journal'):
        try:
            each = os.stat(name)
        except OSError:
            found.append(())
        else:
            found.append((each.st_dev, each.st_ino, each.st_mtime_ns, each.st_size))
            if time.time_ns() - each.st_mtime_ns < _TICK:
                return None
    return tuple(found) if found[0] and not on_network(os.path.dirname(path)) else None


def open_for_writing(path: str, journal: Journal | None, patience: Patience) -> sqlite3.Connection:
    """Open a database to change it, and make it when it is not there; never its folder.

    A new one keeps a write-ahead log (a rollback journal on a network file system) unless `journal` says otherwise;
    one that is there is left as it is unless `journal` is given.
    """
    there = _inspect(path)
    folder = os.path.dirname(path)
    if not there and not os.path.isdir(folder):
        raise StorageError(f'there is no folder {folder} to put the database in')
    if not there and is_full(folder):
        # SQLite would make it, and leave it empty.
        raise StorageError(f'{path} cannot be written: the disk is full')
    if there and not os.access(path, os.W_OK):
        # SQLite would open it for reading, and leave a log beside it that is of no use to anybody.
        raise StorageError(f'{path} is read-only: no permission to write to it')
    fresh = is_blank(path)
    connection = _connect(path, 'mode=rw' if there else 'mode=rwc', patience)
    try:
        if journal is not None:
            _set_journal(connection, journal, path, patience)
        elif fresh and not on_network(folder):
            # Where it cannot be, SQLite says so or stays with the rollback journal, which is as good for one machine.
            with suppress(sqlite3.OperationalError):
                patience.attempt(lambda: connection.execute('PRAGMA journal_mode = wal').fetchone())
        patience.attempt(lambda: connection.execute('PRAGMA synchronous = FULL'))  # It reads the file, so it can wait.
    except BaseException:
        connection.close()
        raise
    return connection


def copy_to(connection: sqlite3.Connection, target: str) -> None:
    """Copy the whole database into a new file; nothing is there before it is whole."""
    if os.path.lexists(target):
        raise StorageError(f'{target} is there already')
    if not connection.in_transaction:
        connection.execute('BEGIN')
    # With a lock for reading, so that the copy neither waits for a writer nor begins again after one.
    connection.execute('SELECT 1 FROM sqlite_master').fetchone()
    partial = f'{target}.{os.getpid()}-partial'
    try:
        copy = sqlite3.connect(partial, isolation_level=None)
        try:
            connection.backup(copy)
        finally:
            copy.close()
        os.replace(partial, target)
    except (OSError, sqlite3.Error) as error:
        raise StorageError(f'the copy {target} cannot be written: {error}') from error
    finally:
        for end in ('', '-journal', '-wal', '-shm'):
            with suppress(FileNotFoundError):
                os.unlink(partial + end)


def _set_journal(connection: sqlite3.Connection, journal: Journal, path: str, patience: Patience) -> None:
    answer = patience.attempt(lambda: connection.execute('PRAGMA journal_mode').fetchone())[0]
    if answer != journal:
        answer = patience.attempt(lambda: connection.execute(f'PRAGMA journal_mode = {journal}').fetchone())[0]
    if answer != journal:
        raise StorageError(f'the journal of {path} cannot be {journal}: it stays {answer}')


def _connect(path: str, how: str, patience: Patience, *pragmas: str) -> sqlite3.Connection:
    plain = path if os.name != 'nt' else f'/{path}'.replace('\\', '/')
    uri = f'file:{plain.replace("%", "%25").replace("?", "%3f").replace("#", "%23")}?{how}'
    # Waiting is ours (`Patience`), transactions are ours, and threads take turns by our own locks.
    connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        for pragma in pragmas:
            patience.attempt(lambda pragma=pragma: connection.execute(pragma))
    except BaseException:
        connection.close()
        raise
    return connection


def _inspect(path: str) -> bool:
    """Return whether there is a file that can be a database; `DamagedStore` when something else is there.

    Never opens it: closing a file gives up every lock that this process has on it, those of SQLite too.
    """
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(f'{path} cannot be read: {error.strerror or error}') from error
    if stat.S_ISDIR(found.st_mode):
        raise DamagedStore(f'{path} is a folder, not a database')
    if not stat.S_ISREG(found.st_mode):
        raise DamagedStore(f'{path} is not a regular file')
    if 0 < found.st_size < 512:  # The smallest page; SQLite takes a file of a few bytes for an empty one.
        raise DamagedStore(f'{path} is not a SQLite database')
    return True
