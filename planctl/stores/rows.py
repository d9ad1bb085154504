"""A step as a row of the shared list holds it, whoever wrote it: read where it can be, named where not. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from planctl.plan import STATUSES, Problem, Step, TaskStatus
from planctl.sanitize import clean


def read_row(row: Sequence[Any], place: str, taken: Iterable[str] = ()) -> Step | Problem:
    """Return the step of a row, or what keeps it from being one.

    `row` is id, content, status, active form, parent and dependencies, these as JSON text or as a list; each may be
    anything. A row without an id of its own, or with one that is `taken`, goes by its `place`.
    """
    step_id, content, status, active_form, parent_id, depends_on = row
    waits = _ids(depends_on)
    known = STATUSES.get(status) if isinstance(status, str) else None
    own = type(step_id) is str and step_id not in taken
    texts = (content, active_form, '' if parent_id is None else parent_id)
    if own and known is not None and waits is not None and all(isinstance(text, str) for text in texts):
        return Step(step_id, str(content), known, str(active_form), parent_id, waits)
    faults: list[str] = []
    if not own:
        wrong = f'has the id {_short(step_id)} of another step' if type(step_id) is str else 'has an id that is no text'
        faults.append('has no id' if step_id is None else wrong)
    if not isinstance(content, str):
        faults.append('has no text' if content is None else 'has a text that is none')
    if known is None:
        faults.append('has no status' if status is None else f'has the status {_short(status)}, which no step can have')
    if not isinstance(active_form, str):
        faults.append('has a text for the time in progress that is none')
    if not isinstance(parent_id, str | None):
        faults.append('is part of something that is no step')
    if waits is None:
        faults.append('does not list what it depends on as JSON')
    # Whatever is wrong with its id, it must be possible to name it.
    name = str(step_id) if own else place
    parent = parent_id if isinstance(parent_id, str) else None
    # Blocked by what can no longer be told, it would be so for ever.
    status = TaskStatus.pending if known is None or (known is TaskStatus.blocked and waits is None) else known
    mended = Step(name, _text(content), status, _text(active_form), parent, waits or ())
    return Problem(name, f'step {_short(name)} cannot be read: it {" and ".join(faults)}', mended)


def _ids(depends_on: Any) -> tuple[str, ...] | None:
    if depends_on == '[]':
        return ()
    if isinstance(depends_on, str | bytes):
        try:
            depends_on = json.loads(depends_on)
        except (ValueError, RecursionError):
            return None
    if not isinstance(depends_on, list | tuple):
        return None
    ids = tuple(cast('Iterable[Any]', depends_on))
    return ids if all(isinstance(one, str) for one in ids) else None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode('utf-8', 'replace')
    return '' if value is None else str(value)


def _short(value: Any) -> str:
    return repr(clean(_text(value))[:80])
