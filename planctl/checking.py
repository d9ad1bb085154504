"""What is wrong with a stored plan: names it, judges and mends nothing. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from planctl.errors import InvalidId
from planctl.plan import Plan, Problem, Step, check_id, not_an_id


def check(plan: Plan) -> tuple[Problem, ...]:
    """Return the steps that could not be read, then what only another program can have stored and can be read.

    That are ids that nobody could have chosen here, and a loop of steps that wait for each other or are parts of each
    other; one loop at a time is named. Linear.
    """
    bad = {problem.id for problem in plan.problems}
    odd = [Problem(step_id, not_an_id(step_id)) for step_id in _odd_ids(plan.steps) if step_id not in bad]
    return (*plan.problems, *odd, *_loop(plan))


def _odd_ids(steps: Sequence[Step]) -> list[str]:
    ids = [step.id for step in steps]
    # One look at all of them together costs a tenth of a look at each.
    text = f'{"|".join(ids)}|'
    if text.isprintable() and not any(sign in text for sign in (' ', '<', '>', '||', '|-')) and text[:1] not in '|-':
        ids = [step_id for step_id in ids if len(step_id) > 64]
    return [step_id for step_id in ids if not _is_id(step_id)]


def _is_id(step_id: str) -> bool:
    try:
        check_id(step_id)
    except InvalidId:
        return False
    return True


def _loop(plan: Plan) -> tuple[Problem, ...]:
    if not _may_loop(plan.steps):
        return ()
    # Here and not above, because hardly any plan needs it and every look at a plan comes by.
    from planctl.judgement import listed
    from planctl.working import Working

    work = Working(plan)
    for step in plan.steps:
        if step.parent_id is not None:
            work.linked.append((step.id, step.parent_id, True))
        work.linked.extend((step.id, on, False) for on in step.depends_on)
    loop = work.loop()
    if loop is None:
        return ()
    way = f'step {loop[0]} waits for itself' if len(loop) == 2 else f'these steps wait for each other: {listed(loop)}'
    return (Problem(loop[0], way),)


def _may_loop(steps: Sequence[Step]) -> bool:
    """Return `False` when every step refers to earlier ones only, in one way: as its parent or by waiting for it."""
    seen: set[str] = set()
    parents = waits = False
    for step in steps:
        if step.parent_id is not None:
            if step.parent_id not in seen:
                return True
            parents = True
        if step.depends_on:
            if not seen.issuperset(step.depends_on):
                return True
            waits = True
        seen.add(step.id)
    return parents and waits
