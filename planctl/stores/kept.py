"""What planctl itself keeps in a database, looked at before it is believed: anybody else can write there too. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from planctl.errors import DamagedStore
from planctl.journal import LogRow
from planctl.plan import STATUSES, Plan, Step, are_moments


def step_of(values: Sequence[Any]) -> Step:
    """Return the step of a row: `id`, the columns that are shared with others, and those that are only ours.

    Raises `DamagedStore` for a row that planctl cannot have written.
    """
    step_id, content, status, active_form, parent_id, depends_on, owner, lease, started_at, note = values
    try:
        depends = () if depends_on == '[]' else tuple(json.loads(depends_on))
        known = STATUSES[status]
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(step_id) from error
    return checked_step(
        Step(step_id, content, known, active_form, parent_id, depends, owner, lease, started_at, note or '')
    )


def checked_step(step: Step) -> Step:
    """Return a step each field of which is what it says. Raises `DamagedStore`."""
    it: Any = step
    # Written out: a plan has thousands of them.
    is_so = (
        isinstance(it.id, str)
        and isinstance(it.content, str)
        and isinstance(it.active_form, str)
        and isinstance(it.note, str)
        and (it.parent_id is None or isinstance(it.parent_id, str))
        and (it.owner is None or isinstance(it.owner, str))
        and (not it.depends_on or all(isinstance(each, str) for each in it.depends_on))
        and ((it.lease is None and it.started_at is None) or are_moments(it.lease, it.started_at))
    )
    if not is_so:
        raise _damaged(step.id)
    return step


def checked_session(plan: Plan) -> Plan:
    """Return a plan whose own fields, without its steps, are what they say. Raises `DamagedStore`."""
    texts: tuple[Any, ...] = (plan.objective, plan.brief, '' if plan.owner is None else plan.owner)
    numbers = (plan.revision, plan.next_id)
    is_so = all(isinstance(text, str) for text in texts) and all(type(number) is int for number in numbers)
    if not (is_so and are_moments(plan.lease)):
        raise DamagedStore(f'what planctl keeps of session {plan.session!r} is damaged')
    return plan


def row_of(values: Sequence[Any]) -> LogRow:
    """Return a row of the log. Raises `DamagedStore` for one that planctl cannot have written."""
    try:
        row = LogRow(*values)
    except TypeError as error:
        raise DamagedStore('an entry of the log is damaged') from error
    texts: tuple[Any, ...] = (row.id, row.actor, row.operation, row.before or '', row.after or '')
    at: Any = row.at
    is_so = type(row.revision) is int and type(row.number) is int and all(isinstance(text, str) for text in texts)
    if not (is_so and at is not None and are_moments(at)):
        raise DamagedStore('an entry of the log is damaged')
    return row


def _damaged(step_id: object) -> DamagedStore:
    return DamagedStore(f'what planctl keeps of step {step_id!r} is damaged')
