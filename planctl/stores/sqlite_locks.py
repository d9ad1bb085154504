"""Who holds a SQLite database, as far as the system tells. Opens no database: closing one lets go of its locks."""

from __future__ import annotations

import os

from planctl.sanitize import clean

_LOCKS = '/proc/locks'


def holder(path: str, locks: str = _LOCKS) -> str:
    """Return in words who has the database locked for writing: the process, where the system names it."""
    try:
        files = {_name(name) for name in (path, f'{path}-shm') if os.path.exists(name)}
        with open(locks, encoding='ascii', errors='replace') as lines:
            found = {int(words[4]) for line in lines if (words := line.split())[3] == 'WRITE' and words[5] in files}
    except (OSError, ValueError, IndexError):
        found = set[int]()
    if os.getpid() in found:
        return 'another part of this process'
    # The locks of other machines and containers have no number here.
    pid = next((pid for pid in sorted(found) if pid > 0), None)
    return 'another process' if pid is None else f'process {pid}{_called(pid)}'


def _name(path: str) -> str:
    found = os.stat(path)
    return f'{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}'


def _called(pid: int) -> str:
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8', errors='replace') as comm:
            return f' ({clean(comm.read())})'
    except OSError:
        return ''
