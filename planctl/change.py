"""What a transaction changed: the exact difference between two plans. Pure; it knows nothing of why."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, count
from operator import is_not

from planctl.plan import Plan, Problem, Progress, Step, TaskStatus, damage


@dataclass(frozen=True, slots=True)
class StepChange:
    """One step before and after. `None` before: created; `None` after: deleted; equal on both sides: only moved.

    `was_after` and `now_after` are the ids of the steps that it stood and stands behind, `None` at the top.
    """

    before: Step | None
    after: Step | None
    was_after: str | None = None
    now_after: str | None = None
    moved: bool = False

    @property
    def step(self) -> Step:
        """The step as it is now, or as it was when it is gone."""
        step = self.after or self.before
        assert step is not None
        return step

    @property
    def status_changed(self) -> bool:
        """Whether an existing step changed its status."""
        return self.before is not None and self.after is not None and self.before.status is not self.after.status


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a transaction did beyond the letter of what was asked, for the adapters to put into words.

    Codes: `claimed` (steps); `mended` (steps that could not be read and now can); `several_in_progress` (the
    actor's own steps); `undone` (the revision); `completable` (open parents whose children are now all resolved).
    Of a whole-plan write: `dropped` (open steps that it left out and that are removed); `kept` (left out, but kept,
    because the writer never saw them as they are); `stays_deleted` (restated as shown, but removed by another
    since); `identified_by_text` (id and text of an item named two steps; pairs: id given, id taken); `id_taken`
    (an item had the id of a step that it does not mean; pairs: id given, id of the item's own step); `overruled`
    (another changed the field too, and the writer's value stands; triples: id, field, the other's value); `merged`
    (the item only repeats what was shown, or a new step's default, and the other's value stands; triples alike). A
    value in a triple is text: dependencies are joined by a space, none is empty.
    """

    code: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome of one transaction: steps in plan order, deleted ones last.

    `replayed` is set when the same keyed operation had been stored before; then `steps`, `remarks` and `progress` are
    those of the first time and `after` is the plan as it is now.
    """

    before: Plan
    after: Plan
    steps: tuple[StepChange, ...] = ()
    remarks: tuple[Remark, ...] = ()
    progress: Progress = field(default_factory=Progress)
    replayed: bool = False

    @property
    def changed(self) -> bool:
        """Whether the transaction changed the plan: anything but leases, which do not count as a revision."""
        return not self.replayed and self.before.revision != self.after.revision

    @property
    def created(self) -> tuple[Step, ...]:
        """Steps that are new."""
        return tuple(c.after for c in self.steps if c.before is None and c.after is not None)

    @property
    def updated(self) -> tuple[StepChange, ...]:
        """Steps of which any field changed."""
        return tuple(c for c in self.steps if c.before is not None and c.after is not None and c.before != c.after)

    @property
    def status_changed(self) -> tuple[StepChange, ...]:
        """Steps that existed before and changed their status."""
        return tuple(c for c in self.steps if c.status_changed)

    @property
    def completed(self) -> tuple[Step, ...]:
        """Steps that existed before and were completed."""
        return tuple(c.step for c in self.status_changed if c.step.status is TaskStatus.completed)

    @property
    def deleted(self) -> tuple[Step, ...]:
        """Steps that are gone."""
        return tuple(c.before for c in self.steps if c.after is None and c.before is not None)

    @property
    def unblocked(self) -> tuple[Step, ...]:
        """Steps that were blocked and can be started now."""
        return tuple(
            c.after
            for c in self.steps
            if c.before is not None
            and c.before.status is TaskStatus.blocked
            and c.after is not None
            and c.after.status is TaskStatus.pending
        )

    def remark(self, code: str) -> tuple[str, ...]:
        """Return the ids of the remark with this code, or none."""
        return next((remark.ids for remark in self.remarks if remark.code == code), ())


def problems_left(plan: Plan, changes: Iterable[StepChange]) -> tuple[Problem, ...]:
    """Return the problems of the plan that changes without rules leave; `DamagedStep` when they touch other steps."""
    if not plan.problems:
        return ()
    touched = {change.step.id for change in changes}
    if touched - {problem.id for problem in plan.problems}:
        raise damage(plan.problems)
    return tuple(problem for problem in plan.problems if problem.id not in touched)


def difference(before: Sequence[Step], after: Sequence[Step]) -> tuple[StepChange, ...]:
    """Return what turned the steps `before` into the steps `after`, with the fewest moved; linear when order holds."""
    changes: list[StepChange] = []
    same = min(len(before), len(after))
    # Most steps are the very same object, and are passed over in C.
    for at in compress(range(same), map(is_not, before, after)):
        old, new = before[at], after[at]
        if old.id != new.id:
            same = at
            break
        if old != new:
            changes.append(StepChange(old, new))
    rest, new_rest = before[same:], after[same:]
    if rest or new_rest:
        # Behind what was put in or taken out the steps are the same again.
        behind = compress(count(), map(is_not, reversed(rest), reversed(new_rest)))
        tail = next(behind, min(len(rest), len(new_rest)))
        middle = rest[: len(rest) - tail], new_rest[: len(new_rest) - tail]
        changes.extend(_rearranged(*middle, after[same - 1].id if same else None))
    return tuple(changes)


def _rearranged(before: Sequence[Step], after: Sequence[Step], behind: str | None) -> Iterator[StepChange]:
    """Yield the changes between two lists of steps that both stand behind the same step."""
    old = {step.id: step for step in before}
    new_ids = {step.id for step in after}
    moved = _moved([s.id for s in before if s.id in new_ids], [s.id for s in after if s.id in old])
    was_after = _predecessors(before, behind) if moved or old.keys() != new_ids else {}
    for step in after:
        earlier = old.get(step.id)
        if earlier is None:
            yield StepChange(None, step, now_after=behind)
        elif step.id in moved:
            yield StepChange(earlier, step, was_after.get(step.id), behind, moved=True)
        elif earlier is not step and earlier != step:
            yield StepChange(earlier, step)
        behind = step.id
    for step in before:
        if step.id not in new_ids:
            yield StepChange(step, None, was_after=was_after.get(step.id))


def _predecessors(steps: Iterable[Step], behind: str | None) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for step in steps:
        found[step.id] = behind
        behind = step.id
    return found


def _moved(before: list[str], after: list[str]) -> set[str]:
    """Return the fewest ids whose moving turns one order of the same ids into the other."""
    if before == after:
        return set()
    rank = {step_id: position for position, step_id in enumerate(before)}
    return set(after) - set(longest_increasing(after, [rank[step_id] for step_id in after]))


def longest_increasing(ids: Sequence[str], ranks: Sequence[int]) -> list[str]:
    """Return the longest run of `ids`, not necessarily adjacent, whose `ranks` strictly rise. O(n log n)."""
    tails: list[int] = []
    at: list[int] = []
    previous: list[int] = [-1] * len(ranks)
    for position, rank in enumerate(ranks):
        length = bisect_left(tails, rank)
        if length == len(tails):
            tails.append(rank)
            at.append(position)
        else:
            tails[length] = rank
            at[length] = position
        previous[position] = at[length - 1] if length else -1
    chain: list[str] = []
    position = at[-1] if at else -1
    while position >= 0:
        chain.append(ids[position])
        position = previous[position]
    chain.reverse()
    return chain
