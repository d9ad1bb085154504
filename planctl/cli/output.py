"""The only place that writes to stdout and stderr. Survives closed pipes, closed files and any encoding."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

TYPE_CHECKING = False  # As `typing` has it, without importing it.
if TYPE_CHECKING:
    from planctl.plan import TaskStatus

_ASCII = str.maketrans({'·': '-', '–': '-', '—': '-', '…': '...', '→': '->'})
# What JSON leaves as it is, but a terminal would act on: DEL, C1, line separators, bidi controls, lone surrogates.
_UNSHOWABLE = '[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]'


class AnswerLost(OSError):
    """The answer could not be written; `stored` says whether a change was stored before that."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)
        self.stored = bool(_stored)


_argv: list[str] = []
_answers: list[TextIO] = []
_gone: list[bool] = []
_stored: list[bool] = []


def begin(argv: Sequence[str]) -> None:
    """Remember the words of this command, for errors that come before they are understood."""
    _argv[:] = argv
    _gone.clear()
    _stored.clear()


def flags() -> list[str]:
    """Return the words of this command up to `--`, behind which everything is text."""
    return _argv[: _argv.index('--')] if '--' in _argv else list(_argv)


def remember_stored() -> None:
    """Note that this command has stored a change, for the case that nobody gets to know."""
    _stored.append(True)


def answer_stream() -> TextIO:
    """Return where the answer goes."""
    return _answers[-1] if _answers else sys.stdout


@contextmanager
def for_answers_alone() -> Generator[None]:
    """Keep stdout for the answer: what other code, or a process that it starts, prints meanwhile goes to stderr."""
    stream = sys.stdout
    with _apart(stream) as answers:
        _answers.append(answers)
        sys.stdout = sys.stderr
        try:
            yield
        finally:
            _answers.pop()
            sys.stdout = stream


@contextmanager
def _apart(stream: TextIO) -> Generator[TextIO]:
    """Yield what writes where stdout does, under a number that no other process is given; theirs is that of stderr."""
    try:
        is_own = stream.fileno() == 1
    except (AttributeError, OSError, ValueError):  # There is none, or it stands for it in a test.
        is_own = False
    if not is_own:
        yield stream
        return
    with open(os.dup(1), 'w', encoding=stream.encoding, errors=stream.errors) as answers:
        if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - it is, after `2>&-`
            _to_nowhere(stream)
        else:
            os.dup2(2, 1)
        try:
            yield answers
        finally:
            os.dup2(answers.fileno(), 1)


def emit(text: str, *, markup: bool = False) -> None:
    """Write the answer and flush it. A reader that has gone is no error; a full disk raises `AnswerLost`.

    What the stream cannot carry is written in escapes, in `markup` those that whoever reads it takes for the character.
    """
    stream = answer_stream()
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - it is, after `>&-`
        return
    try:
        _write(stream, text, markup=markup)
    except BrokenPipeError:
        _gone.append(True)
        _to_nowhere(stream)
    except OSError as error:
        # What is left in the buffer would fail again, with a traceback, when the interpreter ends.
        _to_nowhere(stream)
        raise AnswerLost(*error.args) from error


def emit_lines(lines: Iterable[tuple[str, str]]) -> None:
    """Write lines, each a head and a text, which a terminal that is too narrow gets wrapped beside its head."""
    placed = list(lines)
    if is_terminal() and any(map(_is_long, placed)):
        from planctl.cli.view import print_lines

        print_lines(placed)
    else:
        emit(''.join(f'{head}{text}\n' for head, text in placed))


def emit_text(text: str) -> None:
    """Write what was done as lines of plain text; a terminal gets no word of it broken."""
    emit_lines(('', line) for line in text.split('\n'))


def _is_long(line: tuple[str, str]) -> bool:
    import shutil

    # From the first of the wide scripts on, a character may take two cells.
    return sum(1 if char < '\u1100' else 2 for part in line for char in part) > shutil.get_terminal_size().columns


def lost_answer(error: OSError) -> AnswerLost | None:
    """Return the error as that of an answer that could not be written, when it is one.

    Help and completions are written by Typer, which only passes on that the disk is full.
    """
    if isinstance(error, AnswerLost):
        return error
    if error.errno != errno.ENOSPC or error.filename is not None:
        return None
    _to_nowhere(answer_stream())
    return AnswerLost(*error.args)


def carried(text: str, encoding: str) -> str:
    """Return the text as the encoding carries it: else in ASCII that says the same, or in escapes."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, 'backslashreplace').decode(encoding)
    return text


def reader_has_gone() -> bool:
    """Whether nobody will ever read what is written to stdout, as far as the system tells before it is tried."""
    stream = answer_stream()
    if _gone or stream is None:  # pyright: ignore[reportUnnecessaryComparison]
        return True
    try:
        import select

        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))
    except (AttributeError, OSError, ValueError):
        return False


def emit_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document on one line."""
    emit(dump(document, answer_stream()) + '\n')


def complain(text: str) -> None:
    """Write one line for people to stderr. That nobody can read it is no error."""
    stream = sys.stderr
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison]
        return
    try:
        _write(stream, text + '\n')
    except (OSError, ValueError):
        _to_nowhere(stream)


def dump(document: Mapping[str, Any], stream: TextIO | None = None) -> str:
    """Return a JSON document on one line, in ASCII where the stream does not speak UTF-8; without one, in UTF-8."""
    import json

    plain = stream is not None and not is_utf8(stream)
    text = json.dumps(document, ensure_ascii=plain, separators=(',', ':'))
    # Inside a string, the only place where they can be, the escape means the very character.
    return re.sub(_UNSHOWABLE, lambda match: f'\\u{ord(match[0]):04x}', text)


def is_utf8(stream: TextIO | None) -> bool:
    """Whether the stream carries every character."""
    return stream is not None and (stream.encoding or '').lower().replace('-', '').replace('_', '') == 'utf8'


def is_terminal(stream: TextIO | None = None, *, redrawn: bool = False) -> bool:
    """Whether a person looks at the stream, by default stdout; with `redrawn`, and what is there can be replaced."""
    stream = stream or sys.stdout
    if redrawn and os.environ.get('TERM') in ('dumb', 'unknown'):
        return False
    try:
        return stream is not None and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison]
    except ValueError:  # It was closed in this process.
        return False


def marks() -> Mapping[TaskStatus, str]:
    """Return the marks of steps for a line of the answer: glyphs on a terminal that carries them."""
    from planctl.text import GLYPHS, MARKS

    return GLYPHS if is_terminal() and is_utf8(sys.stdout) else MARKS


def _write(stream: TextIO, text: str, *, markup: bool = False) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or 'ascii'
        if markup:
            stream.write(text.encode(encoding, 'xmlcharrefreplace').decode(encoding))
        else:
            stream.write(carried(text, encoding))
    stream.flush()


def _to_nowhere(stream: TextIO) -> None:
    """Point the stream at nothing, so that flushing it at exit succeeds."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
