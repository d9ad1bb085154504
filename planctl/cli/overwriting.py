"""Which files may be written over: one that somebody did not mean is looked at before what is in it is gone."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

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


def write_over(name: str, text: str) -> None:
    """Write a text into a file. What was in it stays there when it cannot be written, as on a full disk."""
    target = os.path.realpath(name)
    folder = os.path.dirname(target)
    is_there = os.path.lexists(target)
    # A device is written to as it is, and so is a file in a folder that takes no other.
    direct = not os.access(folder, os.W_OK) or (
        is_there and not (os.path.isfile(target) and os.access(target, os.W_OK))
    )
    written = target if direct else os.path.join(folder, f'.planctl-{os.getpid()}-partial')
    try:
        with open(written, 'w', encoding='utf-8', errors='backslashreplace', newline='\n') as opened:
            opened.write(text)
        if not direct:
            if is_there:
                os.chmod(written, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(written, target)
    except BaseException:
        if not direct:
            with suppress(OSError):
                os.unlink(written)
        raise


def _beginning(name: str, length: int) -> bytes:
    """Return what a file begins with; nothing where none is, or where it cannot be read: whoever opens it says why."""
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            return b''
        with open(name, 'rb') as file:
            return file.read(length)
    except (OSError, ValueError):
        return b''
