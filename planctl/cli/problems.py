"""What is wrong with a stored plan, as commands show it: beside the answer, never in the way of it."""

from __future__ import annotations

from collections.abc import Sequence

from planctl.checking import check
from planctl.cli.output import complain
from planctl.plan import Plan, Step
from planctl.sanitize import shown


def readable(plan: Plan) -> Sequence[Step]:
    """Return the steps of the plan without the stand-ins for those that could not be read."""
    if not plan.problems:
        return plan.steps
    bad = {problem.id for problem in plan.problems}
    return [step for step in plan.steps if step.id not in bad]


def complain_of(plan: Plan) -> None:
    """Name on stderr, one a line, what is wrong with the plan, and how a step that could not be read is mended."""
    for problem in check(plan):
        way = '' if problem.mended is None else ' (planctl edit --content mends it, planctl rm removes it)'
        complain(f'planctl: {shown(problem.message)}{way}')


def listed(plan: Plan) -> list[dict[str, str]]:
    """Return what is wrong with the plan as JSON."""
    return [{'id': problem.id, 'message': problem.message} for problem in check(plan)]
