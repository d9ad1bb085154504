"""What comes back from the store to a plan tool: what was done, why not, or what was read. Data, made once, pure.

A durable engine records these, so they hold the difference and the words, never a plan, and a refusal is returned.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from planctl.agent import prompts
from planctl.change import Change, Remark, StepChange
from planctl.errors import PlanctlError
from planctl.operations import Operation, Replace
from planctl.plan import Plan, Progress, Step
from planctl.readiness import available
from planctl.text import render_tree, step_line

MAX_AVAILABLE = 40
MAX_IDS = 60
STATED_CYCLE = 'stated_cycle'
"""For a model, the code of a loop of which nothing is stored yet."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a transaction did, and the revision that it led to.

    `ids` are those of a whole-plan write, in its order; `named` is what remarks tell of.
    """

    steps: tuple[StepChange, ...]
    remarks: tuple[Remark, ...]
    progress: Progress
    ids: tuple[str, ...] = ()
    named: tuple[Step, ...] = ()
    revision: int = 0

    def remark(self, code: str) -> tuple[str, ...]:
        """Return the ids of the remark with this code, or none."""
        return next((remark.ids for remark in self.remarks if remark.code == code), ())

    def step(self, step_id: str) -> Step | None:
        """Return the step as it is now, or was before it went, when the transaction tells of it."""
        changed = (change.step for change in self.steps if change.step.id == step_id)
        return next(changed, None) or next((step for step in self.named if step.id == step_id), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing was done. `ids` as the error has them; `there` are ids of the plan, for one that was not found."""

    code: str
    message: str
    ids: tuple[str, ...] = ()
    hint: str | None = None
    there: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A text about the plan and the steps that it shows, as pairs of id and `fingerprint`; see `Reminder`."""

    text: str
    shown: tuple[tuple[str, str], ...] = ()
    rest: tuple[tuple[str, str], ...] = ()
    gone: tuple[str, ...] = ()


def applied(change: Change, operations: Iterable[Operation]) -> Applied:
    """Return what there is to say of a change."""
    kept = change.remark('kept')
    writes = any(isinstance(operation, Replace) for operation in operations)
    ids = tuple(step.id for step in change.after.steps if step.id not in kept) if writes else ()
    mentioned = dict.fromkeys(step_id for remark in change.remarks for step_id in steps_of(remark))
    named = tuple(step for step_id in mentioned if (step := change.after.get(step_id)) is not None)
    return Applied(change.steps, change.remarks, change.progress, ids, named, change.after.revision)


def steps_of(remark: Remark) -> tuple[str, ...]:
    """Return the ids of the steps that a remark is about."""
    match remark.code:
        case 'overruled' | 'merged':
            return remark.ids[::3]
        case 'identified_by_text' | 'id_taken':
            return remark.ids[1::2]
        case _:
            return remark.ids


def refusal(error: PlanctlError, plan: Plan | None) -> Refusal:
    """Return an error of the rules as an answer."""
    there: tuple[str, ...] = ()
    code = error.code
    if code == 'step_not_found' and plan is not None:
        # Open steps first: those are what a model can have meant.
        ordered = sorted(plan.steps, key=lambda step: step.resolved)
        there = tuple(step.id for step in ordered[: MAX_IDS + 1])
    elif code == 'cycle' and not _is_stored_in_part(error.ids, plan):
        code = STATED_CYCLE
    return Refusal(code, error.message, error.ids, error.hint, there)


def _is_stored_in_part(loop: tuple[str, ...], plan: Plan | None) -> bool:
    """Whether one of the dependencies of a loop was there before, so that it can be taken away."""
    steps = (plan.get(step_id) for step_id in loop) if plan is not None else ()
    return any(step is not None and not set(loop).isdisjoint(step.depends_on) for step in steps)


# --- Reading ----------------------------------------------------------------------------------------------------


def whole(plan: Plan, *, tree: bool = True) -> View:
    """Return every step with its whole text, as an indented list or as a flat one that says what belongs to what."""
    if not plan.steps:
        return View(prompts.EMPTY)
    if tree:
        text = render_tree(plan)
    else:
        lines = [_flat(plan, step) for step in plan.steps]
        text = '\n'.join([*lines, render_tree(plan).rpartition('\n')[2]])
    return View(text, tuple((step.id, step.fingerprint) for step in plan.steps))


def _flat(plan: Plan, step: Step) -> str:
    line = step_line(plan, step)
    return line if step.parent_id is None else f'{line}{prompts.PART_OF.format(parent=step.parent_id)}'


def startable(plan: Plan, actor: str) -> View:
    """Return the steps that can be worked on now."""
    ready = available(plan, actor, time.time())
    if not ready:
        progress = plan.progress
        text = prompts.EMPTY if not progress.total else prompts.NONE_FINISHED if not progress.open else None
        return View(text or prompts.NONE_AVAILABLE)
    listed = ready[:MAX_AVAILABLE]
    lines = [step_line(plan, entry.step) + (prompts.AFTER_SUBTASKS if entry.open_children else '') for entry in listed]
    if len(ready) > len(listed):
        lines.append(prompts.AND_MORE.format(count=len(ready) - len(listed)))
    return View(
        '\n'.join([prompts.AVAILABLE, *lines]), tuple((entry.step.id, entry.step.fingerprint) for entry in listed)
    )
