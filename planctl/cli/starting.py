"""`planctl init`: writes an agent file and the schema that editors complete it by. Never overwrites anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from planctl.cli.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = {'init': 'planctl init'}


def init(
    settings: Settings,
    file: Annotated[str, typer.Argument(metavar='[FILE]', help='Where the agent file goes.')] = 'agent.yaml',
) -> int:
    """Write an agent file to begin with, and beside it the JSON schema that editors complete it by.

    What is there stays as it is; when both are there, nothing is done (status 4).
    """
    from pathlib import Path

    from planctl.agent.template import agent_template, schema_name, schema_text
    from planctl.cli.output import complain, emit, emit_json
    from planctl.errors import InputError, Refused

    path = Path(file)
    if path.suffix not in ('.yaml', '.yml'):
        raise InputError(f'{file}: an agent file that can be written here ends in .yaml')
    schema = path.with_name(schema_name(path))
    written: list[str] = []
    kept: list[str] = []
    for target, text in ((path, lambda: agent_template(schema.name)), (schema, schema_text)):
        if _is_there(target):
            kept.append(str(target))
            continue
        contents = text()
        try:
            _write(target, contents)
        except FileExistsError:  # Somebody was faster.
            kept.append(str(target))
        else:
            written.append(str(target))
    if not written:
        raise Refused(f'{" and ".join(kept)} are there already', hint='nothing was overwritten')
    if settings.json:
        emit_json({'schema': 1, 'kind': 'init', 'written': written, 'kept': kept})
    elif not settings.quiet:
        emit('\n'.join(written) + '\n')
    for name in kept if not settings.quiet else ():
        complain(f'planctl: {name} is there already and stays as it is')
    return 0


def _write(path: Path, text: str) -> None:
    """Write a new file, whole or not at all. Raises `FileExistsError` and `StorageError`."""
    from planctl.errors import StorageError

    try:
        with path.open('x', encoding='utf-8') as stream:
            try:
                stream.write(text)
                stream.flush()
            except OSError:
                path.unlink()
                raise
    except FileExistsError:
        raise
    except OSError as error:
        raise StorageError(f'{path}: {error.strerror or error}') from error


def _is_there(path: object) -> bool:
    """Whether something has this name, a link to nowhere included."""
    import os

    return os.path.lexists(str(path))
