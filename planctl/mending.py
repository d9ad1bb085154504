"""Steps that could not be read: what may be done while there are any, and how one is mended. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planctl.judgement import Judgement
from planctl.operations import Claim, Edit, Operation, Release, Remove, Renew
from planctl.plan import Plan, Problem, damage


def refuse_others(plan: Plan, operations: Iterable[Operation]) -> None:
    """Raise `DamagedStep` unless every operation is about a step that the same transaction mends or removes.

    Who works on the session is no matter of its steps, so a run can still let go of it.
    """
    given = [one for one in operations if not (isinstance(one, Claim | Renew | Release) and one.scope == 'session')]
    bad = {problem.id for problem in plan.problems}
    touched = {one.id for one in given if isinstance(one, Edit | Remove) and one.id in bad}
    if any(getattr(one, 'id', None) not in touched for one in given):
        raise damage(plan.problems)


def mend(judgement: Judgement, step_id: str) -> None:
    """Put the step that an edit makes of one that could not be read in the place of its stand-in, if it has one."""
    for problem in judgement.problems:
        if problem.id == step_id and problem.mended is not None and step_id not in judgement.mended:
            # What it refers to was stored by another program, which is not ours to judge; settling drops what is gone.
            judgement.work.put(replace(problem.mended, id=step_id), linked=False)
            judgement.mended.append(step_id)


def left(judgement: Judgement) -> tuple[Problem, ...]:
    """Return the problems that the transaction leaves."""
    work, mended = judgement.work, judgement.mended
    return tuple(one for one in judgement.problems if one.id in work.steps and one.id not in mended)
