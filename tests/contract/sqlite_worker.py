"""One of several processes that write to one plan file. Started by tests; answers with one line of JSON."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

from mixed_operations import operation

from planctl import BaseStore, PlanctlError, SqlitePlanStore, apply
from planctl.errors import StorageError
from planctl.operations import Edit
from planctl.stores.sqlite_file import SqliteFile


def answer(line: str) -> None:
    sys.stdout.write(f'{line}\n')
    sys.stdout.flush()


async def mixed(store: BaseStore, name: str, count: int) -> dict[str, Any]:
    """Do so many different things, each decided on the plan as it is then."""
    dice = random.Random(name)
    added: list[str] = []
    removed: list[str] = []
    revisions: list[int] = []
    failures: list[str] = []
    refused = 0
    for number in range(count):
        try:
            change = await apply(store, lambda plan, n=number: operation(plan, dice, name, n), actor=name)
            added += [step.id for step in change.created]
            removed += [step.id for step in change.deleted]
            revisions += [change.after.revision] if change.changed else []
        except StorageError as error:
            failures.append(repr(error))
        except PlanctlError:
            refused += 1
    return {'added': added, 'removed': removed, 'revisions': revisions, 'refused': refused, 'failures': failures}


async def one_field(store: BaseStore, name: str, count: int) -> dict[str, Any]:
    """Change one field of one step, each time at the moment when the other process changes the other field."""
    for number in range(count):
        await asyncio.to_thread(sys.stdin.readline)
        await apply(store, Edit('1', **{name: f'{name} {number}'}), actor=name)
        answer('done')
    return {}


async def main() -> None:
    path, task, kind, name, count = sys.argv[1:]
    store: BaseStore = SqliteFile(path) if kind == 'file' else SqlitePlanStore(path)
    if kind == 'held':
        await store.__aenter__()
    answer('ready')
    sys.stdin.readline()
    outcome = await (mixed if task == 'mixed' else one_field)(store, name, int(count))
    await store.aclose()
    answer(json.dumps(outcome))


asyncio.run(main())
