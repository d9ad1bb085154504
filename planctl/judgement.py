"""What one transaction has done to a plan so far and what is still to be judged. Pure; it refuses nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field, replace

from planctl.change import Remark
from planctl.operations import Operation, Remove, SetStatus
from planctl.plan import Plan, Problem, Step, TaskStatus
from planctl.sanitize import clean
from planctl.working import Working


@dataclass(slots=True)
class Judgement:
    """One transaction: the plan at work, who acts, and what its operations did beyond putting steps."""

    work: Working
    actor: str
    now: float
    """Seconds since the epoch."""
    operations: InitVar[Iterable[Operation]] = ()
    removing: frozenset[str] = field(init=False)
    """Steps that any operation of the transaction removes by name."""
    named: frozenset[str] = field(init=False)
    """Steps that any operation gives a status by name."""
    resolving: frozenset[str] = field(init=False)
    """Steps whose whole subtree any operation resolves."""
    requested: dict[str, None] = field(default_factory=dict[str, None])
    """Steps that were given a status, as opposed to those that settling moves."""
    restored: set[str] = field(default_factory=set[str])
    """Steps that got back a status which they had once, or had elsewhere."""
    claimed: list[str] = field(default_factory=list[str])
    mended: list[str] = field(default_factory=list[str])
    """Steps that could not be read and were edited."""
    remarks: list[Remark] = field(default_factory=list[Remark])
    session: dict[str, object] = field(default_factory=dict[str, object])
    """Fields of the plan itself that change."""

    def __post_init__(self, operations: Iterable[Operation]) -> None:
        given = [one for one in operations if isinstance(one, SetStatus | Remove)]
        moving = [one for one in given if isinstance(one, SetStatus)]
        self.removing = frozenset(one.id for one in given if isinstance(one, Remove))
        self.named = frozenset(one.id for one in moving)
        self.resolving = frozenset(one.id for one in moving if one.cascade and one.status.resolved)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The steps that could not be read when the transaction began."""
        return self.work.plan.problems

    def move(self, step: Step, status: TaskStatus, note: str | None = None) -> None:
        """Put a step into a status, to be judged at the end."""
        self.requested[step.id] = None
        self.work.put(with_status(step, status, actor=self.actor, now=self.now, note=note))

    def plan(self, steps: Iterable[Step] | None = None) -> Plan:
        """Return the plan as the operations so far leave it, with other steps if given."""
        current = self.work.steps.values() if steps is None else steps
        return replace(self.work.plan, steps=tuple(current), **self.session)


def with_status(step: Step, status: TaskStatus, *, actor: str, now: float, note: str | None = None) -> Step:
    """Return the step in `status`. Only one in progress has an owner; a note tells of the status it came with."""
    if status is step.status:
        return step if note is None else replace(step, note=clean(note))
    starts = status is TaskStatus.in_progress
    return replace(
        step,
        status=status,
        owner=actor if starts else None,
        lease=None,
        started_at=now if starts else None,
        note=clean(note or ''),
    )


def listed(ids: Sequence[str], most: int = 20) -> str:
    """Return ids for a message, in full up to `most`; an error carries all of them beside its message."""
    if len(ids) <= most:
        return ', '.join(ids)
    return f'{", ".join(ids[: most - 1])} and {len(ids) - most + 1} more'
