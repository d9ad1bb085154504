"""The one JSON document that every command answers with `--json`: its fields and what each means."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from planctl.cli.problems import listed
from planctl.plan import Plan, Step
from planctl.text import state_of, waits_for

SCHEMA = 1
"""Grows when a field changes its meaning or goes; new fields do not count."""

FIELDS: Mapping[str, str] = {
    'schema': 'version of this contract',
    'kind': 'the command that answers',
    'session': 'the session that it is about',
    'revision': 'grows by one with each transaction that changed something',
    'state': 'open, finished (every step resolved, one at least completed), abandoned (all cancelled) or empty',
    'objective': 'what the plan is for; may be empty, may have several lines',
    'brief': 'what a planner hands to an executor; may be empty, may have several lines',
    'items': 'the steps that the command shows, made or was given, in order; for rm as they were',
    'counts': 'how many steps of the whole plan there are in each status, and open, resolved and total',
    'changed': 'ids of all steps that the command changed, made or removed; empty when all was so already',
    'unblocked': 'ids of the steps that were blocked and can be started now',
    'problems': 'what is wrong with what is stored, as id and message; a step that cannot be read is no item',
}
"""The fields of every answer about a plan, in order."""

ITEM_FIELDS: Mapping[str, str] = {
    'id': 'unique in the session',
    'content': 'what is to be done, on one line',
    'status': 'pending, in_progress, completed, cancelled or blocked',
    'active_form': 'the text shown while the step is in progress; may be empty',
    'parent_id': 'the step that this one is a part of, or null',
    'depends_on': 'ids of the steps that have to be resolved before',
    'waits_for': 'those of them that are not resolved; none where the step itself is',
    'ready': 'whether it can be worked on now by whoever asks',
    'owner': 'who has it in progress, or null',
    'lease': 'until when nobody else can claim it (UTC), or null',
    'started_at': 'since when it is in progress (UTC), or null',
    'note': 'why it is as it is; may be empty',
}
"""The fields of an item, in order."""

MORE_FIELDS: Mapping[str, Mapping[str, str]] = {
    'import': {
        'renamed': 'the ids of the text that were taken, each with the one that the step got',
        'dry_run': 'whether it is only what would come of it',
    },
    'undo': {
        'undone': 'the revision that was taken back',
        'dry_run': 'whether it is only what would come of it',
    },
}
"""What single commands answer beyond that, by their name."""

LOG_FIELDS: Mapping[str, str] = {
    'schema': FIELDS['schema'],
    'kind': 'log',
    'session': FIELDS['session'],
    'revision': FIELDS['revision'],
    'entries': 'what was done, the newest last; with --follow a new document has what is new',
}
"""The fields of the answer of `log`, in order."""

ENTRY_FIELDS: Mapping[str, str] = {
    'revision': 'entries with the same revision were one transaction',
    'at': 'when (UTC)',
    'actor': 'who; `other` is a program without planctl',
    'operation': 'what was done; `undo 7` took revision 7 back',
    'id': 'the step, empty for the objective and the brief of the session',
    'before': 'its fields before, those left out that are as in a new step; null when it was not there',
    'after': 'its fields after, alike; null when it is gone',
}
"""The fields of an entry of the log, in order."""

SESSIONS_FIELDS: Mapping[str, str] = {
    'schema': FIELDS['schema'],
    'kind': FIELDS['kind'],
    'sessions': 'the sessions that the command lists, made or removed; a removed one as it was',
}
"""The fields of the answers of `session`, in order."""

SESSION_FIELDS: Mapping[str, str] = {
    'session': 'its name',
    'revision': FIELDS['revision'],
    'state': FIELDS['state'],
    'objective': FIELDS['objective'],
    'counts': FIELDS['counts'],
    'changed_at': 'when it was last changed (UTC), or null where that is not known',
}
"""The fields of a session, in order."""

FILE_FIELDS: Mapping[str, str] = {
    'schema': FIELDS['schema'],
    'kind': 'export',
    'session': FIELDS['session'],
    'file': 'the absolute path of the file that was written',
    'format': 'json, md, mermaid, svg, html, or db for a whole database',
}
"""The fields of the answer of an `export` into a file, in order."""

WHERE_FIELDS: Mapping[str, str] = {
    'schema': FIELDS['schema'],
    'kind': 'where',
    'session': 'the session that is meant',
    'database': 'the absolute path of the database',
    'table': 'the table in it',
    'actor': 'who acts',
}
"""The fields of the answer of `where`, in order."""

ERROR_FIELDS: Mapping[str, str] = {
    'code': 'what went wrong; stable, while the words of the message are not',
    'message': 'what happened and why, on one line',
    'ids': 'the steps that it is about, those that stand in the way last',
    'hint': 'what to do next, or null',
}
"""The fields of `error` in the line that stderr gets instead of an answer, in order."""

COUNTS = ('total', 'open', 'resolved', 'pending', 'in_progress', 'blocked', 'completed', 'cancelled')


def document(
    kind: str,
    plan: Plan,
    steps: Iterable[Step],
    *,
    actor: str,
    now: float,
    changed: Iterable[str] = (),
    unblocked: Iterable[str] = (),
    exact: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Return the answer of a command about a plan. `actor` and `now` decide what is ready.

    `exact` times have fractions of a second. `more` are fields that only this command answers with.
    """
    from planctl.readiness import available

    counts = plan.progress
    ready = {entry.step.id for entry in available(plan, actor, now)}
    return {
        'schema': SCHEMA,
        'kind': kind,
        'session': plan.session,
        'revision': plan.revision,
        'state': state_of(counts),
        'objective': plan.objective,
        'brief': plan.brief,
        'items': [item(plan, step, ready=step.id in ready, exact=exact) for step in steps],
        'counts': {name: getattr(counts, name) for name in COUNTS},
        'changed': list(changed),
        'unblocked': list(unblocked),
        'problems': listed(plan),
        **more,
    }


def item(plan: Plan, step: Step, *, ready: bool, exact: bool = False) -> dict[str, Any]:
    """Return one step as JSON."""
    return {
        'id': step.id,
        'content': step.content,
        'status': step.status.value,
        'active_form': step.active_form,
        'parent_id': step.parent_id,
        'depends_on': list(step.depends_on),
        'waits_for': waits_for(plan, step),
        'ready': ready,
        'owner': step.owner,
        'lease': utc(step.lease, exact=exact),
        'started_at': utc(step.started_at, exact=exact),
        'note': step.note,
    }


def utc(moment: float | None, *, exact: bool = False) -> str | None:
    """Return seconds since the epoch as ISO 8601 in UTC, to the second or to the microsecond."""
    if moment is None:
        return None
    seconds, micros = divmod(round(moment * 1e6), 1_000_000)
    fraction = f'.{micros:06}' if exact and micros else ''
    return time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds)) + fraction + 'Z'
