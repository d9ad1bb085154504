"""`edit` in an editor: the text goes into a file, the editor runs on it, and what is read back is one operation."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from planctl.change import Change
from planctl.cli.database import change, read
from planctl.cli.ids import resolve
from planctl.cli.output import complain
from planctl.cli.settings import Settings
from planctl.editing import Sheet, edited, sheet
from planctl.errors import InputError, NotFound, PlanctlError
from planctl.operations import Operation
from planctl.plan import Plan, damage


def is_possible() -> bool:
    """Whether a person is there to edit: both ends are a terminal."""
    try:
        return sys.stdin.isatty() and sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def edit_text(settings: Settings, word: str | None) -> tuple[Change, list[str]]:
    """Let a person edit the plan, or the step that `word` means; return the change and the step's id, if any."""
    try:
        plan = read(settings)
    except NotFound:
        if word is not None:
            raise
        plan = Plan(settings.session_name)
    if plan.problems:
        raise damage(plan.problems)
    root = None if word is None else resolve(plan, word)
    shown = sheet(plan, root)
    with on_file(shown) as file:
        text = file.taken(_edit(file.name))
        outcome = change(settings, lambda now: _operations(shown, text, now), label='edit', create=root is None)
    return outcome, [] if root is None else [root]


def _operations(shown: Sheet, text: str, now: Plan) -> Iterable[Operation]:
    return edited(shown, text, now)


@dataclass
class EditedFile:
    """A file for an editor; what was typed into it is kept until it is stored."""

    name: str
    is_taken: bool = False
    """Whether an editor left a text in it."""

    def taken(self, text: str) -> str:
        """Return the text, which is in the file until it is stored."""
        self.is_taken = True
        return text


@contextmanager
def on_file(shown: Sheet) -> Generator[EditedFile]:
    """Write the text into a new file; at the end it is removed.

    After an error it is kept, and named in its hint, when an editor left a text in it.
    """
    number, name = tempfile.mkstemp(prefix='planctl-', suffix='.md')
    with open(number, 'w', encoding='utf-8', errors='backslashreplace', newline='\n') as opened:
        opened.write(shown.text)
    file = EditedFile(name)
    kept = f'the text is kept in {name}'
    try:
        yield file
    except BaseException as error:
        if not file.is_taken:
            _remove(name)
        elif isinstance(error, PlanctlError):
            error.hint = kept if error.hint is None else f'{error.hint}; {kept}'
        else:
            complain(f'planctl: {kept}')
        raise
    _remove(name)


def command(name: str) -> list[str]:
    """Return the command that edits the file. Raises `InputError` when there is no editor."""
    try:
        words = shlex.split(_editor())
    except ValueError as error:
        raise InputError(f'the name of the editor cannot be read: {error}') from error
    return [*words, name]


def not_run(words: list[str], error: OSError) -> InputError:
    """Return the error of an editor that cannot be run."""
    return InputError(f'the editor {words[0]} cannot be run: {error.strerror or error}')


def read_back(words: list[str], status: int) -> str:
    """Return what an editor that ended with the status left in its file; `InputError` when it came to nothing."""
    if status:
        how = f'ended with status {status}' if status > 0 else f'was ended by signal {-status}'
        raise InputError(f'the editor {words[0]} {how}: nothing was changed')
    try:
        with open(words[-1], 'rb') as file:
            return file.read().decode('utf-8-sig', 'replace')
    except OSError as error:
        raise InputError(f'the editor {words[0]} left no text: nothing was changed') from error


def _edit(name: str) -> str:
    words = command(name)
    # Ctrl-C belongs to the editor meanwhile. A handler, and not SIG_IGN, which the editor would inherit.
    earlier = signal.signal(signal.SIGINT, _ignore)
    try:
        status = subprocess.call(words)
    except OSError as error:
        raise not_run(words, error) from error
    finally:
        signal.signal(signal.SIGINT, earlier)
    return read_back(words, status)


def _ignore(number: int, frame: object) -> None:
    pass


def _editor() -> str:
    from shutil import which

    named = next(filter(str.strip, (os.environ.get(name, '') for name in ('VISUAL', 'EDITOR'))), None)
    found = named or next(filter(which, ('editor', 'nano', 'vi')), None)
    if found is None:
        raise InputError('there is no editor: name one in $EDITOR')
    return found


def _remove(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)
