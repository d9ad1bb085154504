"""The records: a plan, its steps and what they are called. Standard library only; nothing here decides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from planctl.errors import BlankText, DamagedStep, InputError, InvalidId, InvalidName, StepNotFound
from planctl.sanitize import clean, has_control, is_visible


class TaskStatus(str, Enum):
    """Where a step stands. Completed and cancelled are *resolved*; the other three are *open*."""

    pending = 'pending'
    in_progress = 'in_progress'
    completed = 'completed'
    cancelled = 'cancelled'
    blocked = 'blocked'

    @property
    def resolved(self) -> bool:
        """Whether nobody has to wait for the step any more."""
        return self is _COMPLETED or self is _CANCELLED


_COMPLETED, _CANCELLED = TaskStatus.completed, TaskStatus.cancelled

STATUSES: Mapping[str, TaskStatus] = {status.value: status for status in TaskStatus}
"""Status by name. A look-up here costs a tenth of `TaskStatus(name)`, which counts when 1,000 rows are read."""


class _Marked:
    """Room for a fingerprint that is no field: it is never compared, pickled or written as JSON."""

    __slots__ = ('_fingerprint',)
    _fingerprint: str


@dataclass(frozen=True, slots=True)
class Step(_Marked):
    """One step of a plan. Times are seconds since the epoch, UTC.

    Only a step in progress has an owner, a lease and a start. A lease without end is `None`: the step is worked on,
    but anybody may take it over.
    """

    id: str
    content: str
    status: TaskStatus = TaskStatus.pending
    active_form: str = ''
    parent_id: str | None = None
    depends_on: tuple[str, ...] = ()
    owner: str | None = None
    lease: float | None = None
    started_at: float | None = None
    note: str = ''

    @property
    def resolved(self) -> bool:
        """Whether the step is completed or cancelled."""
        return self.status is _COMPLETED or self.status is _CANCELLED

    @property
    def fingerprint(self) -> str:
        """A short text that tells later whether, and in which fields, a step differs from what was shown of this one.

        Its parts, one for each of `SHOWN_FIELDS`, are joined by dots: the status itself, of the other fields a digest,
        nothing for an empty one. Two steps with equal fingerprints read the same. Made once.
        """
        try:
            return self._fingerprint
        except AttributeError:
            made = '.'.join(field_marks(self))
            object.__setattr__(self, '_fingerprint', made)
            return made


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a step as another program stored it; `message` says so on one line, the step named.

    With `mended` the step cannot be read: that is what an edit of its text makes of it. Until it is edited or removed
    the plan has `stand_in` in its place, and nothing else is changed. Without, the step is in the plan as it is.
    """

    id: str
    message: str
    mended: Step | None = None

    @property
    def stand_in(self) -> Step:
        """A step that nobody can start and that others go on waiting for; its note says why."""
        content = '' if self.mended is None else self.mended.content
        return Step(self.id, content, TaskStatus.blocked, note=self.message)


@dataclass(frozen=True, slots=True)
class Progress:
    """How many steps of a plan stand where, and what that makes of the plan."""

    total: int = 0
    pending: int = 0
    in_progress: int = 0
    completed: int = 0
    cancelled: int = 0
    blocked: int = 0

    @property
    def resolved(self) -> int:
        """The number of completed and cancelled steps."""
        return self.completed + self.cancelled

    @property
    def open(self) -> int:
        """The number of steps that are not resolved."""
        return self.total - self.resolved

    @property
    def finished(self) -> bool:
        """Every step is resolved and at least one was completed."""
        return self.open == 0 and self.completed > 0

    @property
    def abandoned(self) -> bool:
        """Every step was cancelled."""
        return self.open == 0 and self.total > 0 and self.completed == 0


class _Derived:
    """Room for what is made of the steps and is no field: it is never compared, pickled or written as JSON."""

    __slots__ = ('_index', '_progress')
    _index: Mapping[str, Step]
    _progress: Progress


@dataclass(frozen=True, slots=True)
class Plan(_Derived):
    """One session's plan: everything that is stored of it, in one snapshot.

    `revision` grows by one with each transaction that changed something; 0 was never written. `next_id` is the id
    that the next step made without one gets. `owner` and `lease` say which run works on the session, and until when.
    `problems` names the steps that the store could not read; it has no other entries. Of a session that was `removed`
    nothing is left but the log and the counters.
    """

    session: str = 'default'
    revision: int = 0
    next_id: int = 1
    objective: str = ''
    brief: str = ''
    steps: tuple[Step, ...] = ()
    owner: str | None = None
    lease: float | None = None
    problems: tuple[Problem, ...] = ()
    removed: bool = False

    @property
    def index(self) -> Mapping[str, Step]:
        """The steps by id, built once."""
        try:
            return self._index
        except AttributeError:
            index = {step.id: step for step in self.steps}
            object.__setattr__(self, '_index', index)
            return index

    def get(self, step_id: str) -> Step | None:
        """Return the step with this exact id, or `None`."""
        return self.index.get(step_id)

    def step(self, step_id: str) -> Step:
        """Return the step with this exact id; `StepNotFound` names the id when there is none."""
        step = self.index.get(step_id)
        if step is None:
            raise StepNotFound(f'there is no step {clean(step_id)!r} in this plan', ids=[step_id])
        return step

    @property
    def progress(self) -> Progress:
        """How many steps stand where, counted once."""
        try:
            return self._progress
        except AttributeError:
            # Five counts in C take a quarter of one loop that hashes the status of each step.
            statuses = [step.status for step in self.steps]
            counts = {name: statuses.count(status) for name, status in STATUSES.items()}
            progress = Progress(len(statuses), **counts)
            object.__setattr__(self, '_progress', progress)
            return progress

    def with_steps(self, steps: Mapping[str, Step], **fields: Any) -> Plan:
        """Return the plan with these steps, in the order of the mapping, and other fields; the mapping is kept."""
        plan = replace(self, steps=tuple(steps.values()), **fields)
        object.__setattr__(plan, '_index', steps)
        return plan


def damage(problems: Sequence[Problem]) -> DamagedStep:
    """Return the error of a change that has to wait until these steps can be read."""
    first, *others = problems
    more = f' (and {len(others)} more cannot be read)' if others else ''
    return DamagedStep(
        first.message + more,
        ids=[problem.id for problem in problems],
        hint='give it a new text or remove it: nothing else is changed before',
    )


_ID = re.compile(r'[^\s<>-][^\s<>]{0,63}')
_TABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]{0,62}')


def check_id(step_id: str) -> str:
    """Return an id that somebody chose, or raise `InvalidId`."""
    if _ID.fullmatch(step_id) is None or not step_id.isprintable():
        raise InvalidId(not_an_id(step_id))
    return step_id


def not_an_id(step_id: str) -> str:
    """Return why an id cannot be one, as a message says it."""
    seen = clean(f'|{step_id}|')[1:-1]  # A blank at its end may be the very reason.
    return f'{seen[:80]!r} cannot be an id: {(InvalidId.__doc__ or "").rstrip(".")}'


def check_text(content: str, of: str = 'a step') -> str:
    """Return the text of a step as it is stored; `BlankText` when a reader would see nothing of it."""
    text = clean(content)
    if not is_visible(text):
        raise BlankText(f'the text of {of} is blank')
    return text


def check_session(session: str) -> str:
    """Return a session name of 1 to 200 characters without control characters, or raise `InvalidName`."""
    if not isinstance(session, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidName(f'a session name is text, not {_shown(session)}')
    if not 1 <= len(session) <= 200 or has_control(session):
        raise InvalidName('a session name has 1 to 200 characters and no control characters')
    return session


def check_table(table: str) -> str:
    """Return a table name that is a plain SQL identifier, or raise `InvalidName`."""
    if not isinstance(table, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidName(f'a table name is text, not {_shown(table)}')
    if _TABLE.fullmatch(table) is None or table.lower().startswith('sqlite_'):
        raise InvalidName(
            f'invalid table name {clean(table)[:80]!r}: '
            'letters, digits and _, no digit first, at most 63, not beginning with sqlite_'
        )
    return table


def _shown(value: object) -> str:
    return clean(repr(value))[:80]


_LAST = 253_402_300_799
"""The last second of the year 9999, in seconds since the epoch: no calendar goes further."""


def are_moments(*values: Any) -> bool:
    """Whether each is nothing, or seconds since the epoch that a calendar can show."""
    return all(value is None or (isinstance(value, int | float) and 0 <= value <= _LAST) for value in values)


def check_moments(*values: object) -> None:
    """Raise `InputError` for a time that could be stored, but not be read again."""
    for value in values:
        if not are_moments(value):
            raise InputError(f'{_shown(value)} is no time: those are seconds since the epoch, from 1970 to 9999')


def next_id_after(next_id: int, ids: Iterable[str]) -> int:
    """Return the counter moved past every canonical integer below 1,000,000 among `ids`."""
    # One test for most of them: every step of the plan is looked at for each that is added.
    decimal = [step_id for step_id in ids if step_id.isdecimal() and len(step_id) <= 6]
    if min(decimal, default='1') < '1' or not ''.join(decimal).isascii():
        decimal = [step_id for step_id in decimal if step_id.isascii() and (step_id[0] != '0' or step_id == '0')]
    return max(next_id, 1 + max(map(int, decimal), default=-1))


SHOWN_FIELDS = ('content', 'status', 'active_form', 'parent_id', 'depends_on', 'note')
"""What a reader is shown of a step, in the order of the parts of a fingerprint."""


def field_marks(step: Step) -> list[str]:
    """Return the parts of the step's fingerprint. The order of its dependencies makes no difference."""
    return [
        # As it is shown, which is how a writer restates what another program stored.
        text_mark(clean(step.content)),
        step.status.value,
        text_mark(clean(step.active_form)),
        text_mark(step.parent_id or ''),
        text_mark(' '.join(sorted(step.depends_on))),
        text_mark(clean(step.note)),
    ]


def text_mark(text: str) -> str:
    """Return a digest of 8 hexadecimal digits, the same in every process; nothing for no text."""
    if not text:
        return ''
    from hashlib import blake2b

    return blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()
