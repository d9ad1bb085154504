"""The log has every step that moved."""

from __future__ import annotations

from planctl.change import Change, difference
from planctl.journal import log_rows
from planctl.plan import Plan, Step


def test_two_steps_that_move_together_are_both_logged() -> None:
    before = tuple(Step(i, i) for i in 'psabc')
    after = tuple(before[at] for at in (2, 3, 4, 0, 1))
    change = Change(Plan(steps=before), Plan(steps=after, revision=1), difference(before, after))
    assert [row.id for row in log_rows(change, actor='a', operation='move', at=0)] == ['p', 's']
