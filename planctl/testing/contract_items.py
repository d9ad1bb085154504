"""What the six methods of a store promise."""

from __future__ import annotations

import asyncio

from planctl.core import read
from planctl.errors import DuplicateId
from planctl.items import PlanItem
from planctl.plan import TaskStatus
from planctl.testing.contract import OpenStore, check, expect, fails, ids, item


@check()
async def starts_empty(open_store: OpenStore) -> None:
    """A session that was never written is an empty plan of revision 0."""
    store = await open_store('default')
    expect(await store.get_items(), [], 'the steps of a new store')
    expect((await read(store)).revision, 0, 'its revision')


@check()
async def keeps_the_order(open_store: OpenStore) -> None:
    """Steps come out in the order of the list, added ones behind, whatever their ids."""
    store = await open_store('default')
    await store.set_items([item('b'), item('a'), item('c')])
    await store.add_item(item('Z'))
    expect(await ids(store), ['b', 'a', 'c', 'Z'], 'the order after set_items and add_item')
    await store.set_items([item('Z'), item('new'), item('c'), item('b'), item('a')])
    expect(await ids(store), ['Z', 'new', 'c', 'b', 'a'], 'the order after another set_items')
    await store.update_item('c', content='changed')
    await store.remove_item('new')
    expect(await ids(store), ['Z', 'c', 'b', 'a'], 'the order after a change and a removal')


@check()
async def hands_out_copies(open_store: OpenStore) -> None:
    """Changing an item that was given or taken changes nothing stored."""
    store = await open_store('default')
    given = item('a', depends_on=['b'])
    listed = item('b')
    await store.set_items([listed])
    added = await store.add_item(given)
    taken = [given, listed, added, *await store.get_items(), await store.get_item('a')]
    taken.append(await store.update_item('a', active_form='doing'))
    for one in taken:
        assert one is not None
        one.content = 'changed from outside'
        one.depends_on.append('x')
    found = {one.id: (one.content, one.depends_on) for one in await store.get_items()}
    expect(
        found, {'b': ('do b', list[str]()), 'a': ('do a', ['b'])}, 'what is stored after the items outside were changed'
    )


@check()
async def refuses_an_id_twice(open_store: OpenStore) -> None:
    """Adding an id that is there is a `ValueError`."""
    store = await open_store('default')
    await store.add_item(item('a'))
    await fails(store.add_item(PlanItem(id='a', content='another')), ValueError, 'adding an id that is there')
    expect([one.content for one in await store.get_items()], ['do a'], 'the steps after the refusal')


@check('revisions')
async def refuses_an_id_twice_in_one_list(open_store: OpenStore) -> None:
    """A list with an id twice is a `ValueError`, and nothing of it is stored."""
    store = await open_store('default')
    await store.add_item(item('a'))
    await fails(store.set_items([item('x'), item('y'), item('x')]), DuplicateId, 'two items with one id')
    expect(await ids(store), ['a'], 'the steps after the refusal')


@check()
async def changes_only_what_is_given(open_store: OpenStore) -> None:
    """A field that is `None` is left alone."""
    store = await open_store('default')
    full = item('a', status=TaskStatus.blocked, active_form='doing a', parent_id='p', depends_on=['b'])
    await store.set_items([item('p'), item('b'), full])
    changed = await store.update_item('a')
    expect(changed, full, 'what an update without fields returns')
    changed = await store.update_item('a', content='new', status=None, active_form=None, depends_on=None)
    wanted = full.model_copy(update={'content': 'new'})
    expect(changed, wanted, 'what an update returns')
    expect(await store.get_item('a'), wanted, 'what is stored after it')


@check()
async def clears_what_is_given_empty(open_store: OpenStore) -> None:
    """An empty text or list is a value like any other."""
    store = await open_store('default')
    await store.set_items([item('b'), item('a', active_form='doing', depends_on=['b'])])
    await store.update_item('a', active_form='', depends_on=[])
    expect(await store.get_item('a'), item('a'), 'the step with its text and dependencies cleared')


@check()
async def answers_for_a_step_that_is_not_there(open_store: OpenStore) -> None:
    """A missing step is `None` or `False`, never an error."""
    store = await open_store('default')
    await store.add_item(item('a'))
    expect(await store.get_item('b'), None, 'get_item of a missing step')
    expect(await store.update_item('b', content='x'), None, 'update_item of a missing step')
    expect(await store.remove_item('b'), False, 'remove_item of a missing step')
    expect(await store.remove_item('a'), True, 'remove_item of a step')
    expect(await store.remove_item('a'), False, 'remove_item of the same step again')
    expect(await store.get_items(), [], 'the steps at the end')


@check()
async def does_not_lose_concurrent_items(open_store: OpenStore) -> None:
    """Steps that are added at the same time are all there."""
    store = await open_store('default')
    await asyncio.gather(*(store.add_item(item(f's{number}')) for number in range(50)))
    expect(sorted(await ids(store)), sorted(f's{number}' for number in range(50)), 'the steps that 50 tasks added')
