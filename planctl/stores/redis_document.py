"""What Redis holds of a session, as text: the list of pydantic-ai-harness, our hash and the entries of the log. Pure.

Everything is JSON in ASCII, so that any text goes through any client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import Any, cast

from planctl.errors import DamagedStore, NewerSchema
from planctl.journal import LogRow, step_of, step_record
from planctl.plan import Plan, Problem, Step
from planctl.stores.kept import checked_session, checked_step, row_of
from planctl.stores.mirror import Found, adopt, found
from planctl.stores.rows import read_row

SCHEMA_VERSION = 1

FIELDS = ('session', 'steps', 'digest')
"""The fields of our hash that are read each time. A reply is kept in one of its own, named by `reply_field`."""


@dataclass(frozen=True, slots=True)
class Document:
    """What was read. `logged` is how many entries the log has, `written` our hash, to tell which fields differ.

    `ours` says whether planctl wrote the list as it is, `unread` holds the entries that are no steps, by id.
    """

    found: Found
    logged: int
    written: Mapping[str, str]
    ours: bool
    unread: Mapping[str, Any] = field(default_factory=dict[str, Any])


def reply_field(key: str) -> str:
    """Return the field of our hash that keeps the reply of a keyed operation."""
    return f'reply:{key}'


def load(session: str, raw: str | None, own: Sequence[str | None]) -> Document:
    """Return what the list (`raw`) and our hash (`own`, as `FIELDS`) hold. Raises `DamagedStore`, `NewerSchema`."""
    state, mirrored, digest = own
    try:
        known, logged = _session(session, state)
        records = () if mirrored is None else json.loads(mirrored)
        own_steps = tuple(checked_step(step_of(record)) for record in records)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedStore(f'what planctl keeps beside the list of session {session!r} is damaged') from error
    known = Plan(
        session, known.revision, known.next_id, known.objective, known.brief, own_steps, known.owner, known.lease
    )
    written = {name: value for name, value in zip(FIELDS, own, strict=True) if value is not None}
    if raw is not None and digest_of(raw) == digest:
        return Document(Found(known, known, None), logged, written, ours=True)
    entries, unread = load_steps(raw)
    steps = [one.stand_in if isinstance(one, Problem) else adopt(one, known.get(one.id)) for one in entries]
    problems = [one for one in entries if isinstance(one, Problem)]
    return Document(found(known, steps, problems), logged, written, ours=False, unread=unread)


def _session(session: str, state: str | None) -> tuple[Plan, int]:
    if state is None:
        return Plan(session), 0
    record = json.loads(state)
    if record['version'] > SCHEMA_VERSION:
        raise NewerSchema(
            f'this plan was written by a newer planctl (version {record["version"]} of what is kept beside it, this '
            f'one knows {SCHEMA_VERSION})',
            hint=f'install planctl {record["by"]} or newer',
        )
    names = ('revision', 'next_id', 'objective', 'brief', 'owner', 'lease')
    if type(record['logged']) is not int:
        raise TypeError('the number of entries is none')
    return checked_session(Plan(session, **{name: record[name] for name in names})), record['logged']


def dump(plan: Plan, raw: str, *, logged: int, written_by: str) -> dict[str, str]:
    """Return the fields of our hash for a plan whose list is written as `raw`."""
    state = {
        'version': SCHEMA_VERSION,
        'by': written_by,
        'revision': plan.revision,
        'next_id': plan.next_id,
        'objective': plan.objective,
        'brief': plan.brief,
        'owner': plan.owner,
        'lease': plan.lease,
        'logged': logged,
    }
    steps = [step_record(step) for step in plan.steps]
    # A list with entries that are no steps is looked at again each time.
    digest = '' if plan.problems else digest_of(raw)
    return {'session': json.dumps(state), 'steps': json.dumps(steps), 'digest': digest}


def load_steps(raw: str | None) -> tuple[list[Step | Problem], dict[str, Any]]:
    """Return what the harness's list holds, and by id the entries that are no steps. Raises `DamagedStore`."""
    if raw is None:
        return [], {}
    try:
        items: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedStore('the list of steps is not JSON') from error
    if not isinstance(items, list):
        raise DamagedStore('the list of steps is not a JSON list')
    found: dict[str, Step | Problem] = {}
    unread: dict[str, Any] = {}
    for at, item in enumerate(cast('list[Any]', items), 1):
        one = _read(item, at)
        # A list can hold an id twice, which no table can: the later step is kept under an id of its own.
        name = one.id
        for number in count(2):
            if name not in found:
                break
            name = f'{one.id}-{number}'
        found[name] = one if name == one.id else _renamed(one, name)
        if isinstance(one, Problem):
            unread[name] = item
    return [*found.values()], unread


def _read(item: Any, at: int) -> Step | Problem:
    given = cast('dict[str, Any]', item) if isinstance(item, dict) else {}
    defaults: dict[str, Any] = {'status': 'pending', 'active_form': '', 'depends_on': [], **given}
    names = ('id', 'content', 'status', 'active_form', 'parent_id', 'depends_on')
    row = [defaults.get(name) for name in names]
    row[4] = row[4] or None
    return read_row(row, f'row-{at}')


def _renamed(one: Step | Problem, name: str) -> Step | Problem:
    if isinstance(one, Step) or one.mended is None:
        return replace(one, id=name)
    return replace(one, id=name, mended=replace(one.mended, id=name))


def dump_steps(steps: Sequence[Step], unread: Mapping[str, Any]) -> str:
    """Return steps as the harness's list; entries that are no steps are left as they are."""
    return json.dumps([unread[step.id] if step.id in unread else _entry(step) for step in steps])


def _entry(step: Step) -> dict[str, Any]:
    return {
        'id': step.id,
        'content': step.content,
        'status': step.status.value,
        'active_form': step.active_form,
        'parent_id': step.parent_id,
        'depends_on': step.depends_on,
    }


def digest_of(raw: str) -> str:
    """Return what tells the list that planctl wrote from one that another program wrote."""
    return blake2b(raw.encode(), digest_size=16).hexdigest()


def dump_entry(rows: Sequence[LogRow], key: str | None) -> str:
    """Return one transaction's entry of the log; `key` when a reply was kept, which goes when the entry does."""
    return json.dumps({'key': key, 'rows': [astuple(row) for row in rows]})


def load_entry(entry: str) -> tuple[list[LogRow], str | None]:
    """Return the rows and the key of an entry. Raises `DamagedStore`."""
    try:
        record = json.loads(entry)
        return [row_of(row) for row in record['rows']], record['key']
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedStore('an entry of the log is damaged') from error
