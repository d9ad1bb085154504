"""One of several processes that write to one plan on a server. Started by tests; speaks JSON lines."""

from __future__ import annotations

import asyncio
import json
import random
import sys

from servers import Place

from planctl import PlanctlError, apply, read
from planctl.errors import StorageError
from planctl.operations import Add, Claim, Depend, Edit, Move, Note, Remove, SetStatus, Undepend
from planctl.plan import Plan, TaskStatus


def answer(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + '\n')
    sys.stdout.flush()


async def heard() -> dict[str, str]:
    """Wait for the test to say something."""
    return json.loads(await asyncio.to_thread(sys.stdin.readline) or '{"stop": true}')


async def first_writes(place: Place, name: str) -> None:
    """Be, at the same moment as another process, the first that writes to a room and to a session."""
    while 'stop' not in (order := await heard()):
        there = Place(place.kind, place.url, order['room'])
        async with there.connect(max_size=1) if place.kind == 'postgres' else there.connect() as connected:
            store = there.store(connected, order['session'])
            await read(store)
            answer(ready=True)
            await heard()
            try:
                change = await apply(store, Add(name), actor=name)
                answer(id=change.created[0].id)
            except Exception as error:
                answer(error=repr(error))


def operation(plan: Plan, dice: random.Random, name: str, count: int) -> list[object]:
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


async def mixed(place: Place, name: str, count: int) -> None:
    dice = random.Random(name)
    added, removed, refused, failures = [], [], 0, []
    async with place.connect() as connected:
        store = place.store(connected, wait=60)
        answer(ready=True)
        await heard()
        for number in range(count):
            try:
                change = await apply(store, lambda plan, n=number: operation(plan, dice, name, n), actor=name)
                added += [step.id for step in change.created]
                removed += [step.id for step in change.deleted]
            except StorageError as error:
                failures.append(repr(error))
            except PlanctlError:
                refused += 1
    answer(added=added, removed=removed, refused=refused, failures=failures)


async def main() -> None:
    task, kind, url, room, name, *rest = sys.argv[1:]
    place = Place(kind, url, room)
    if task == 'first':
        await first_writes(place, name)
    else:
        await mixed(place, name, int(rest[0]))


asyncio.run(main())
