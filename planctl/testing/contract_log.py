"""What a store promises of its log: everything that was done, in order, as much of it as is asked for."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from planctl.core import apply, log, read
from planctl.errors import StepNotFound
from planctl.journal import replay
from planctl.operations import Add, Claim, Describe, Edit, Move, Note, Remove, Renew, SetStatus
from planctl.plan import TaskStatus
from planctl.testing.contract import OpenStore, Store, check, expect, fails, item


@check('log', 'own_fields', 'revisions')
async def logs_what_was_done(open_store: OpenStore) -> None:
    """There is one row for each changed step of each revision: who did what, when, and the step before and after."""
    store = await open_store('default')
    await apply(store, Add('one'), Add('two'), actor='me', label='begin', now=1.5)
    await apply(store, Edit('1', 'changed'), Describe(objective='win'), actor='you', now=2.5)
    await apply(store, Remove('2'), actor='me', now=3.5)
    found = [(r.revision, r.number, r.id, r.at, r.actor, r.operation) for r in await log(store)]
    wanted = [
        (1, 0, '1', 1.5, 'me', 'begin'),
        (1, 1, '2', 1.5, 'me', 'begin'),
        (2, 0, '', 2.5, 'you', 'edit, describe'),
        (2, 1, '1', 2.5, 'you', 'edit, describe'),
        (3, 0, '2', 3.5, 'me', 'remove'),
    ]
    expect(found, wanted, 'the rows of the log')
    sides = [[None if side is None else json.loads(side) for side in (r.before, r.after)] for r in await log(store)]
    expect(sides[2], [{'objective': ''}, {'objective': 'win'}], 'the session before and after')
    expect([side and side['content'] for side in sides[3]], ['one', 'changed'], 'a step before and after')
    expect((sides[0][0], sides[4][1]), (None, None), 'what a new step was and what a removed one is')


@check('log', 'revisions')
async def answers_for_a_part_of_the_log(open_store: OpenStore) -> None:
    """`since`, `limit` and `step_id` choose rows, alone and together; what is left is in the same order."""
    store = await open_store('default')
    expect(await log(store), [], 'the log of a session that was never written')
    await apply(store, Add('one'), Add('two'))
    for number in range(3):
        await apply(store, Edit('1', f'text {number}'), Edit('2', f'text {number}'))
    rows = await log(store)
    expect([row.revision for row in rows], [1, 1, 2, 2, 3, 3, 4, 4], 'the revisions of the whole log')
    expect(await log(store, since=2), rows[4:], 'the log since a revision')
    expect(await log(store, since=9), [], 'the log since a revision that is to come')
    expect(await log(store, limit=3), rows[-3:], 'the newest rows')
    expect(await log(store, limit=99), rows, 'more rows than there are')
    expect(await log(store, limit=0), [], 'no row')
    expect(await log(store, step_id='2'), rows[1::2], 'the log of one step')
    expect(await log(store, step_id='nope'), [], 'the log of a step that never was')
    expect(await log(store, since=1, limit=2, step_id='1'), [rows[4], rows[6]], 'all three together')


@check('log', 'own_fields', 'revisions')
async def logs_nothing_else(open_store: OpenStore) -> None:
    """What was refused, what changed nothing and a longer lease are not in the log."""
    store = await open_store('default')
    await apply(store, Add('one'), Claim('me', 60, id='1'), now=0)
    rows = await log(store)
    await fails(apply(store, Add('two'), Remove('nope')), StepNotFound, 'a missing step')
    await apply(store, Edit('1', 'one'))
    await apply(store, Renew('me', 60, id='1'), now=30)
    expect(await log(store), rows, 'the log after three operations that are none of its business')


@check('log', 'keys', 'revisions')
async def logs_a_key_once(open_store: OpenStore) -> None:
    """An operation that comes again with its key is in the log once."""
    store = await open_store('default')
    await asyncio.gather(*(apply(store, Add('one'), key='k') for _ in range(5)))
    expect([row.id for row in await log(store)], ['1'], 'the log after five calls with one key')


@check('log', 'own_fields', 'revisions')
async def can_be_told_from_its_log(open_store: OpenStore) -> None:
    """The log alone says what the plan is: every step, its fields and its place."""
    store = await open_store('default')
    await apply(store, *(Add(f'step {number}') for number in range(8)))
    await apply(store, Move('8', before='1'), Move('2', after='6'), Move('3', under='4'))
    await apply(store, Add('between', after='5', depends_on=('6',)), Note('7', 'why'), Describe(brief='a\nb'))
    await apply(store, SetStatus('6', TaskStatus.completed), SetStatus('1', TaskStatus.in_progress), actor='me')
    await apply(store, Remove('4', cascade=True))
    await _holds(store, 'after operations')
    await store.add_item(item('x', parent_id='7', depends_on=['1']))
    await store.update_item('x', status=TaskStatus.blocked, active_form='doing')
    await store.remove_item('5')
    await store.set_items([*reversed(await store.get_items())])
    await _holds(store, 'after the six methods')
    await asyncio.gather(*(apply(store, Add(f'more {number}', before='x')) for number in range(10)))
    await _holds(store, 'after calls at the same time')


async def _holds(store: Store, when: str) -> None:
    plan, told = await read(store), replay(await log(store))
    expect(told.steps, tuple(replace(step, lease=None) for step in plan.steps), f'the steps of the log {when}')
    told_of, wanted = (told.revision, told.objective, told.brief), (plan.revision, plan.objective, plan.brief)
    expect(told_of, wanted, f'revision, objective and brief of the log {when}')
