"""What a store promises of sessions, of store objects and loops, and of size."""

from __future__ import annotations

import asyncio

from planctl.core import apply, read
from planctl.errors import InvalidName
from planctl.operations import Add, Edit, Remove, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.base import BaseStore
from planctl.testing.contract import OpenStore, check, expect, ids

HOSTILE_NAMES = ('default', 'a}b', '../x', '日本', "'; --", 'a b', '%00', ' ', 'x' * 200)


@check('sessions')
async def keeps_sessions_apart(open_store: OpenStore) -> None:
    """A plan is reached by its own session alone, whatever the names."""
    stores = [await open_store(name) for name in HOSTILE_NAMES]
    for name, store in zip(HOSTILE_NAMES, stores, strict=True):
        await apply(store, Add(f'in {name}'), Add('second'), key='same key')
        expect((await read(store)).session, name, 'the name of the session')
    before = [await read(store) for store in stores]
    await apply(stores[0], Edit('1', 'changed'), Remove('2'))
    await stores[1].set_items([])
    for name, store, plan in [*zip(HOSTILE_NAMES, stores, before, strict=True)][2:]:
        expect(await read(store), plan, f'session {name!r} after others changed')


@check('sessions')
async def refuses_bad_session_names(open_store: OpenStore) -> None:
    """A name that is empty, too long or holds control characters is refused."""
    for name in ('', 'x' * 201, 'x' * 300, 'a\0b', 'a\nb', 'half \ud800'):
        try:
            store = await open_store(name)
            await apply(store, Add('one'))
        except InvalidName:
            continue
        raise AssertionError(f'the session name {name[:20]!r} was not refused')


@check('reopening')
async def survives_reopening(open_store: OpenStore) -> None:
    """A second store object and a closed one see everything, keys included."""
    first, second = await open_store('default'), await open_store('default')
    await apply(first, Add('one'), Add('two', depends_on=('1',)), key='k')
    expect(await read(second), await read(first), 'what a second store object reads')
    await apply(second, SetStatus('1', TaskStatus.completed))
    expect(await read(first), await read(second), 'what the first one reads after a change by the second')
    await apply(first, Add('three'))
    if isinstance(first, BaseStore):
        await first.aclose()
        expect(await ids(first), ['1', '2', '3'], 'what a closed store reads')
    third = await open_store('default')
    expect((await apply(third, Add('one'), key='k')).replayed, True, 'whether a third one knows the key')
    expect(await ids(third), ['1', '2', '3'], 'what a third one reads')


@check('loops')
async def works_in_another_thread(open_store: OpenStore) -> None:
    """A store works in several loops, one after the other and at once."""
    store = await open_store('default')

    async def add(name: str) -> None:
        for number in range(10):
            await apply(store, Add(f'{name} {number}'))

    def elsewhere() -> None:
        asyncio.run(add('there'))

    await asyncio.gather(add('here'), asyncio.to_thread(elsewhere))
    await asyncio.to_thread(elsewhere)
    steps = (await read(store)).steps
    expect([step.id for step in steps], [str(n) for n in range(1, 31)], 'the ids of what two threads added')
    own = [step.content for step in steps if step.content.startswith('here')]
    expect(own, [f'here {number}' for number in range(10)], 'the order of one of them')


@check()
async def holds_ten_thousand_steps(open_store: OpenStore) -> None:
    """Many steps, each waiting for the one before, are an ordinary plan."""
    store = await open_store('default')
    count = 10_000
    added = [Add(f'step {n}', id=f's{n}', depends_on=(f's{n - 1}',) if n else ()) for n in range(count)]
    await apply(store, *added)
    await apply(store, SetStatus('s0', TaskStatus.completed))
    plan = await read(store)
    expect([step.id for step in plan.steps], [f's{n}' for n in range(count)], 'the order of many steps')
    expect(plan.step('s1').status, TaskStatus.pending, 'the status of the step that was freed')
    await store.remove_item('s5000')
    expect(len(await store.get_items()), count - 1, 'the number of steps after a removal')
