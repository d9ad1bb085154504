"""What a store promises of operations: all or nothing, in order, nothing lost, every field kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from planctl import rules
from planctl.change import Change
from planctl.core import apply, read
from planctl.errors import DuplicateId, LostClaim, StepNotFound
from planctl.items import PlanItem
from planctl.operations import Add, Claim, Describe, Edit, Move, Note, Operation, Release, Remove, Renew, SetStatus
from planctl.plan import Plan, TaskStatus
from planctl.sanitize import clean
from planctl.stores.base import inner
from planctl.testing.contract import OpenStore, check, expect, fails, ids

HOSTILE_TEXTS = (
    'nul \0 here',
    'half \ud800 a pair',
    '\x1b[2Jclear',
    'two\nlines\tand a tab',
    '👩‍💻 e\u0301 日本語',
    'quo\'te "double" \\ back',
    '[bold]not markup[/bold] :bug:',
    'x' * 1_000_000,
)


@check()
async def stores_what_operations_do(open_store: OpenStore) -> None:
    """What operations did is what is read: steps, order, status, parents, dependencies."""
    store = await open_store('default')
    await apply(store, Add('one'), Add('two', depends_on=('1',)), Add('three', parent_id='2'))
    await apply(store, Move('3', before='1'))
    await apply(store, SetStatus('1', TaskStatus.in_progress), actor='someone')
    await apply(store, SetStatus('1', TaskStatus.completed))
    found = [(s.id, s.content, s.status.value, s.parent_id, s.depends_on) for s in (await read(store)).steps]
    wanted = [
        ('3', 'three', 'pending', '2', ()),
        ('1', 'one', 'completed', None, ()),
        ('2', 'two', 'pending', None, ('1',)),
    ]
    expect(found, wanted, 'the plan after several operations')


@check()
async def stores_nothing_of_what_is_refused(open_store: OpenStore) -> None:
    """A refusal leaves the plan as it was, all of it."""
    store = await open_store('default')
    await fails(apply(store, Add('x'), SetStatus('nope', TaskStatus.completed)), StepNotFound, 'a missing step')
    expect((await read(store)).steps, (), 'a new store after a refusal')
    await apply(store, Add('one'), Add('two', depends_on=('1',)))
    before = await read(store)
    await fails(apply(store, Edit('1', 'changed'), Remove('2'), Remove('nope')), StepNotFound, 'a missing step')
    await fails(apply(store, Add('again', id='1')), DuplicateId, 'an id that is there')
    expect(await read(store), before, 'the plan after two refusals')


@check()
async def stores_nothing_when_an_edit_breaks(open_store: OpenStore) -> None:
    """What an edit raises comes out, nothing is stored and the store goes on."""
    store = await open_store('default')
    await apply(store, Add('one'))
    before = await read(store)

    def broken(plan: Plan) -> Change:
        rules.apply(plan, [Add('two')], actor='test', now=0)
        raise ZeroDivisionError

    await fails(
        inner(store).update(broken, actor='test', label='test', now=0), ZeroDivisionError, 'what the edit raises'
    )
    expect(await read(store), before, 'the plan after an edit broke')
    await apply(store, Add('two'))
    expect(await ids(store), ['1', '2'], 'the store goes on working')


@check()
async def applies_in_the_order_of_calls(open_store: OpenStore) -> None:
    """Calls of one loop take effect in the order in which they were made, the first ones too."""
    store = await open_store('default')
    numbers = range(50)
    await asyncio.gather(*(apply(store, Add(f'step {number}')) for number in numbers))
    found = [(step.id, step.content) for step in (await read(store)).steps]
    expect(found, [(str(n + 1), f'step {n}') for n in numbers], 'what 50 calls made at once stored')
    turns = [TaskStatus.in_progress, TaskStatus.completed, TaskStatus.pending, TaskStatus.cancelled]
    await asyncio.gather(*(apply(store, SetStatus('1', status)) for status in turns))
    expect((await read(store)).step('1').status, turns[-1], 'the last of several calls made at once')


@check()
async def loses_no_concurrent_change(open_store: OpenStore) -> None:
    """Changes to one plan at the same time are all stored."""
    store = await open_store('default')
    await apply(store, *(Add(f'step {number}') for number in range(10)))
    edits: list[Operation] = [Edit(str(n), f'text {n}') for n in range(1, 11)]
    edits += [Edit(str(n), active_form=f'form {n}') for n in range(1, 11)]
    edits += [SetStatus(str(n), TaskStatus.completed) for n in range(1, 11)]
    await asyncio.gather(*(apply(store, edit) for edit in edits))
    found = {(s.id, s.content, s.active_form, s.status.value) for s in (await read(store)).steps}
    expect(found, {(str(n), f'text {n}', f'form {n}', 'completed') for n in range(1, 11)}, 'the steps after 30 edits')


@check()
async def stays_usable_when_calls_are_cancelled(open_store: OpenStore) -> None:
    """A cancelled call is applied whole or not, and holds nobody up."""
    store = await open_store('default')
    await apply(store, Add('first'))
    tasks = [asyncio.ensure_future(apply(store, Add(f'step {number}'))) for number in range(20)]
    for number, task in enumerate(tasks):
        if number % 3:
            await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await apply(store, Add('last'))
    steps = (await read(store)).steps
    expect(steps[-1].content, 'last', 'the step that was added after cancelled calls')
    expect(len({step.id for step in steps}), len(steps), 'the number of different ids')


@check()
async def keeps_text_as_it_is(open_store: OpenStore) -> None:
    """Text comes out as it is stored by every other store."""
    store = await open_store('default')
    for number, text in enumerate(HOSTILE_TEXTS):
        await apply(store, Add(text, id=f's{number}', active_form=text))
    for one, text in zip(await store.get_items(), HOSTILE_TEXTS, strict=True):
        expect((one.content, one.active_form), (clean(text), clean(text)), f'{text[:20]!r} as it was stored')


@check('own_fields')
async def cleans_items_as_operations(open_store: OpenStore) -> None:
    """Items are cleaned as operations are, ids that they refer to as well."""
    store = await open_store('default')
    for number, text in enumerate(HOSTILE_TEXTS):
        await store.add_item(PlanItem(id=f's{number}', content=text, active_form=text, depends_on=['\ud800']))
    for one, text in zip(await store.get_items(), HOSTILE_TEXTS, strict=True):
        wanted = (clean(text), clean(text), ['\ufffd'])
        expect((one.content, one.active_form, one.depends_on), wanted, f'{text[:20]!r} as it was stored')
    await fails(store.add_item(PlanItem(id='blank', content=' \n ')), ValueError, 'a blank text')


@check('own_fields')
async def keeps_every_field(open_store: OpenStore) -> None:
    """Everything of a plan is stored, and a status change lets go of what belonged to the status."""
    store = await open_store('default')
    await apply(store, Add('one'), Add('two'), Describe(objective='win', brief='line one\nline two'), now=1)
    await apply(store, SetStatus('1', TaskStatus.blocked, note='no key'), actor='a', now=2)
    await apply(store, Claim('worker', 60, id='2'), Claim('run', 30, scope='session'), actor='a', now=3)
    plan = await read(store)
    expect((plan.objective, plan.brief), ('win', 'line one\nline two'), 'objective and brief')
    expect((plan.owner, plan.lease), ('run', 33), 'who works on the session')
    expect(plan.step('1').note, 'no key', 'the note')
    two = plan.step('2')
    expect((two.owner, two.lease, two.started_at), ('worker', 63, 3), 'who works on the step')
    await store.update_item('2', content='still claimed')
    expect(replace((await read(store)).step('2'), content='two'), two, 'the claim after update_item')
    await fails(apply(store, Claim('other', 60, id='2'), now=4), LostClaim, 'a claim that is held')
    await apply(store, Release('worker', id='2'), Release('run', scope='session'), Note('1', ''), now=5)
    plan = await read(store)
    expect((plan.owner, plan.lease, plan.step('1').note), (None, None, ''), 'what was given back')
    expect(plan.step('2').owner, None, 'the owner of the step that was given back')


@check('revisions')
async def counts_revisions(open_store: OpenStore) -> None:
    """A revision is one more for each transaction that changed something, and only for those."""
    store = await open_store('default')
    expect((await apply(store, Add('one'), Add('two'))).after.revision, 1, 'the revision of the first transaction')
    await apply(store, SetStatus('1', TaskStatus.completed))
    await apply(store, SetStatus('1', TaskStatus.completed))
    expect((await read(store)).revision, 2, 'the revision after a change and its repetition')
    await apply(store, Move('2', before='1'))
    await store.update_item('1', content='changed')
    await store.update_item('1', content='changed')
    expect((await read(store)).revision, 4, 'the revision after moving and updating')


@check('revisions', 'own_fields')
async def counts_no_lease_as_a_revision(open_store: OpenStore) -> None:
    """A longer lease is stored and is no change of the plan."""
    store = await open_store('default')
    await apply(store, Add('one'), Claim('me', 60, id='1'), Claim('me', 60, scope='session'), now=0)
    await apply(store, Renew('me', 60, id='1'), Renew('me', 60, scope='session'), now=30)
    plan = await read(store)
    expect((plan.revision, plan.lease, plan.step('1').lease), (1, 90, 90), 'the revision and the renewed leases')


@check('revisions')
async def gives_no_id_out_again(open_store: OpenStore) -> None:
    """An id that was given out is never given out again."""
    store = await open_store('default')
    await apply(store, Add('one'), Add('two'))
    await apply(store, Remove('2'))
    await store.set_items([])
    expect((await apply(store, Add('three'))).created[0].id, '3', 'the id of a step after all were removed')


@check('keys')
async def replays_a_key(open_store: OpenStore) -> None:
    """A key that was seen gives the first answer, on the plan as it is now, and changes nothing."""
    store = await open_store('default')
    first = await apply(store, Add('one'), key='k1')
    await apply(store, Add('two'), key='k2')
    again = await apply(store, Add('something else'), key='k1')
    expect(again.replayed, True, 'whether the second call with the key was replayed')
    expect((again.steps, again.remarks, again.progress), (first.steps, first.remarks, first.progress), 'its answer')
    expect(again.after, await read(store), 'the plan in its answer')
    expect(await ids(store), ['1', '2'], 'the steps after it')
    revision = (await read(store)).revision
    await apply(store, SetStatus('1', TaskStatus.pending), key='k3')
    again = await apply(store, SetStatus('1', TaskStatus.completed), key='k3')
    expect((again.replayed, await read(store)), (True, again.after), 'the replay of an operation that changed nothing')
    expect((await read(store)).revision, revision, 'the revision after it')
    await fails(apply(store, Remove('nope'), key='k4'), StepNotFound, 'a keyed operation that is refused')
    expect((await apply(store, Add('three'), key='k4')).replayed, False, 'whether a refused key counts as seen')


@check('keys')
async def replays_a_key_among_concurrent_calls(open_store: OpenStore) -> None:
    """Of several calls with one key at once, one is applied."""
    store = await open_store('default')
    changes = await asyncio.gather(*(apply(store, Add('one'), key='k') for _ in range(10)))
    expect(sorted(change.replayed for change in changes), [False] + [True] * 9, 'which of ten calls were replayed')
    expect(await ids(store), ['1'], 'the steps after them')
