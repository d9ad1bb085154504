"""What one of several writers of one plan does next. Shared by the workers that the tests start."""

from __future__ import annotations

import random

from planctl.operations import Add, Claim, Depend, Edit, Move, Note, Operation, Remove, SetStatus, Undepend
from planctl.plan import Plan, TaskStatus


def operation(plan: Plan, dice: random.Random, name: str, count: int) -> list[Operation]:
    """Return something to do, decided on the plan inside the transaction."""
    ids = [step.id for step in plan.steps]
    one, other = dice.choice(ids), dice.choice(ids)
    match dice.randrange(10):
        case 0 | 1 | 2:
            return [Add(f'{name} {count}', parent_id=one if dice.random() < 0.2 else None)]
        case 3:
            return [Edit(one, content=f'{name} {count}')]
        case 4:
            return [SetStatus(one, TaskStatus.in_progress)]
        case 5:
            return [SetStatus(one, TaskStatus.completed, cascade=dice.random() < 0.5)]
        case 6:
            return [Remove(one, cascade=True)] if len(ids) > 20 else [Note(one, f'{name} {count}')]
        case 7:
            return [Depend(one, other)]
        case 8:
            waiting = [step for step in plan.steps if step.depends_on]
            return [Undepend(s.id, s.depends_on[0]) for s in waiting[:1]] or [Claim(name, 60)]
        case _:
            return [Move(one, before=other)]
