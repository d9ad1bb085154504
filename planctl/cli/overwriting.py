"""Which files may be written over: one that somebody did not mean is looked at before what is in it is gone."""

from __future__ import annotations

import os
import stat

from planctl.errors import InputError

DATABASE = b'SQLite format 3\0'
"""What a database begins with."""


def require_own(name: str, beginning: str, *, option: str) -> None:
    """Raise `InputError` when a file holds anything that the option did not write itself, told by its beginning."""
    mark = beginning.encode()
    found = _beginning(name, len(mark))
    if found and found != mark:
        raise InputError(f'{option}: in {name} is something else, which would be lost', hint='name a new file')


def require_no_database(name: str) -> None:
    """Raise `InputError` when the file is a database."""
    if _beginning(name, len(DATABASE)) == DATABASE:
        raise InputError(f'{name} is a database, and would be lost', hint='name another file')


def _beginning(name: str, length: int) -> bytes:
    """Return what a file begins with; nothing where none is, or where it cannot be read: whoever opens it says why."""
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            return b''
        with open(name, 'rb') as file:
            return file.read(length)
    except (OSError, ValueError):
        return b''
