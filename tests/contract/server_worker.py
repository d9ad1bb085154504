"""One of several processes that write to one plan on a server. Started by tests; speaks JSON lines."""

from __future__ import annotations

import asyncio
import json
import random
import sys

from mixed_operations import operation
from servers import Place

from planctl import PlanctlError, apply, read
from planctl.errors import StorageError
from planctl.operations import Add


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
