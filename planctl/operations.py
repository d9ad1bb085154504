"""The operations: every change to a plan as a small frozen value. Data only; `planctl.rules` says what each does.

They hold nothing but strings, numbers, tuples and each other, so that they can be logged, journaled by a durable
engine and read back; `kind` tells them apart in JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from planctl.plan import Step, TaskStatus


@dataclass(frozen=True, slots=True)
class Add:
    """Add one step at the end, among its siblings' order or next to another.

    Without an `id` the step gets the session's next integer. `before` and `after` name a step to stand next to.
    """

    content: str
    id: str | None = None
    active_form: str = ''
    status: TaskStatus = TaskStatus.pending
    parent_id: str | None = None
    depends_on: tuple[str, ...] = ()
    before: str | None = None
    after: str | None = None
    note: str = ''
    kind: Literal['add'] = 'add'


@dataclass(frozen=True, slots=True)
class Draft:
    """One step as a whole-plan write states it. `None` is a field left out: a step that stays keeps its value.

    An empty `parent_id` or `depends_on` takes the parent or the dependencies away. References may name any item of
    the same write by the id that the write gives it.
    """

    content: str
    id: str | None = None
    status: TaskStatus | None = None
    active_form: str | None = None
    parent_id: str | None = None
    depends_on: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """Restate the whole plan, in this order.

    `base` holds the steps that the writer was shown, as pairs of id and `fingerprint`, its own changes counted in, and
    with '' for it those that it may know of. An id that is not in it cannot mean a step that another added since.
    With it the write is a three-way merge: an open step that is not in it, or that another changed since, is kept when
    it is left out; a field that an item only repeats as shown keeps what another made of it; a step that is only
    repeated and that another removed stays removed. With `None` the items are the plan. With `plain` the writer knows
    nothing of parents, dependencies and `blocked`: a step that stays keeps them.
    """

    items: tuple[Draft, ...]
    base: tuple[tuple[str, str], ...] | None = None
    plain: bool = False
    kind: Literal['replace'] = 'replace'


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Move a step to a status. A `note` says why; without one an earlier note goes when the status changes.

    `cascade` takes what stands in the way along: open descendants when the step is completed or cancelled, resolved
    ancestors when it is opened again.
    """

    id: str
    status: TaskStatus
    cascade: bool = False
    note: str | None = None
    kind: Literal['set_status'] = 'set_status'


@dataclass(frozen=True, slots=True)
class Edit:
    """Change the text of a step; `None` leaves a field alone."""

    id: str
    content: str | None = None
    active_form: str | None = None
    kind: Literal['edit'] = 'edit'


@dataclass(frozen=True, slots=True)
class Depend:
    """Make a step wait for another."""

    id: str
    on: str
    kind: Literal['depend'] = 'depend'


@dataclass(frozen=True, slots=True)
class Undepend:
    """Let a step no longer wait for another; one that it does not wait for is `StepNotFound`."""

    id: str
    on: str
    kind: Literal['undepend'] = 'undepend'


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a step, every reference to it and, with `cascade`, its descendants."""

    id: str
    cascade: bool = False
    kind: Literal['remove'] = 'remove'


@dataclass(frozen=True, slots=True)
class Move:
    """Put a step under another (`under`), to the top level (`top`), or next to another (`before`, `after`)."""

    id: str
    under: str | None = None
    top: bool = False
    before: str | None = None
    after: str | None = None
    kind: Literal['move'] = 'move'


@dataclass(frozen=True, slots=True)
class Claim:
    """Take a step (the next available one without an `id`), or the session, for `seconds`.

    A claimed step is in progress and held by `owner`; nobody else may claim it until the lease ends. Without an `id`
    the steps in `but` are passed over: those that `owner` has tried.
    """

    owner: str
    seconds: float
    id: str | None = None
    scope: Literal['step', 'session'] = 'step'
    but: tuple[str, ...] = ()
    kind: Literal['claim'] = 'claim'


@dataclass(frozen=True, slots=True)
class Renew:
    """Make a claim last `seconds` from now; `LostClaim` when somebody else holds it by now."""

    owner: str
    seconds: float
    id: str | None = None
    scope: Literal['step', 'session'] = 'step'
    kind: Literal['renew'] = 'renew'


@dataclass(frozen=True, slots=True)
class Release:
    """Give back a step, every step that `owner` has in progress (without an `id`), or the session.

    A step given back is pending, with `note`. Nothing happens to what `owner` does not hold.
    """

    owner: str
    id: str | None = None
    scope: Literal['step', 'session'] = 'step'
    note: str = ''
    kind: Literal['release'] = 'release'


@dataclass(frozen=True, slots=True)
class Note:
    """Replace the note of a step; an empty one takes it away."""

    id: str
    note: str
    kind: Literal['note'] = 'note'


@dataclass(frozen=True, slots=True)
class Describe:
    """Set the objective or the brief of the session; `None` leaves one alone.

    `removed` says whether the session is to be taken for one that is not there. Any later change brings it back.
    """

    objective: str | None = None
    brief: str | None = None
    removed: bool | None = None
    kind: Literal['describe'] = 'describe'


@dataclass(frozen=True, slots=True)
class Restore:
    """Make steps what they were at another time or are in another place, to the letter but for leases.

    A step that is not there goes to the end. `placed` says of some, as pairs of an id and the id of the step right
    before it (`None`: none), where else they go.
    """

    steps: tuple[Step, ...]
    placed: tuple[tuple[str, str | None], ...] = ()
    kind: Literal['restore'] = 'restore'


Operation: TypeAlias = (
    Add
    | Replace
    | SetStatus
    | Edit
    | Depend
    | Undepend
    | Remove
    | Move
    | Claim
    | Renew
    | Release
    | Note
    | Describe
    | Restore
)
