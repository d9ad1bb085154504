"""A plan from its log alone: what tells whether the log has everything, in order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from planctl.journal import LogRow, step_of
from planctl.plan import Plan, Step


def replay(rows: Iterable[LogRow]) -> tuple[Step, ...]:
    """Return the steps that the log comes to. A log that contradicts itself fails an assertion."""
    steps: dict[str, Step] = {}
    order: list[str] = []
    last = 0
    for revision, changes in groupby(rows, key=lambda row: row.revision):
        assert revision == last + 1, 'a revision is missing or out of order'
        last = revision
        placed: list[tuple[str, str | None]] = []
        for row in changes:
            if not row.id:
                continue
            before = None if row.before is None else json.loads(row.before)
            after = None if row.after is None else json.loads(row.after)
            assert (before is not None) == (row.id in steps)
            if before is not None:
                assert step_of(before) == steps[row.id], 'the log does not go on from what it said'
            if before is None or after is None or 'behind' in after:
                if before is not None:
                    order.remove(row.id)
                if after is not None:
                    placed.append((row.id, after['behind']))
            if after is None:
                del steps[row.id]
            else:
                steps[row.id] = step_of(after)
        for step_id, behind in placed:
            order.insert(0 if behind is None else order.index(behind) + 1, step_id)
    assert sorted(order) == sorted(steps)
    return tuple(steps[step_id] for step_id in order)


def without_leases(plan: Plan) -> tuple[Step, ...]:
    """Return the steps as the log knows them."""
    return tuple(replace(step, lease=None) for step in plan.steps)
