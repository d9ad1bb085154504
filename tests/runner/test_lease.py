"""One run a session: who holds it, who is refused, and what a dead run leaves behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runner_helpers import Scripted, moving, running, stored, three_steps

from planctl.agent import lease
from planctl.agent.lease import Holder, session_lease
from planctl.agent.outcome import StopReason
from planctl.core import apply
from planctl.errors import SessionHeld, StoreUnavailable
from planctl.operations import Add, Claim, Release, SetStatus
from planctl.plan import TaskStatus
from planctl.stores.adapter import StoreWrapper
from planctl.stores.base import BaseStore


def ended() -> int:
    """The number of a process that has ended and was asked for its status."""
    process = subprocess.Popen([sys.executable, '-c', 'pass'])
    process.wait()
    return process.pid


async def held_by(holder: Holder, store: BaseStore, *, seconds: float = 60.0) -> None:
    """Leave a session as a run that was killed leaves it: held, with a step in progress."""
    await apply(store, Claim(str(holder), seconds, scope='session'))
    await apply(store, SetStatus('1', TaskStatus.in_progress), actor=holder.actors[1])


def test_a_holder_is_written_and_read_back() -> None:
    holder = Holder.here()
    assert Holder.parse(str(holder)) == holder
    assert Holder.parse('somebody') is None
    assert not holder.dead


def test_a_process_is_dead_when_its_number_is_free_or_belongs_to_another() -> None:
    holder = Holder.here()
    assert replace(holder, pid=ended()).dead
    assert replace(holder, started=holder.started + 1).dead == Path('/proc/self/stat').exists()
    assert not replace(holder, pid=ended(), machine='00000000').dead
    assert not replace(holder, pid=1, started=0).dead


@pytest.mark.skipif(not Path('/proc/self/stat').exists(), reason='needs /proc')
def test_a_process_that_ended_but_was_not_asked_for_its_status_is_dead() -> None:
    with subprocess.Popen([sys.executable, '-c', 'pass'], stdout=subprocess.PIPE) as process:
        holder = replace(Holder.here(), pid=process.pid, started=lease._started(process.pid))
        assert process.stdout is not None
        process.stdout.read()
        end = time.monotonic() + 10
        while not holder.dead:
            assert time.monotonic() < end


async def test_a_run_beside_another_is_refused_and_told_which() -> None:
    store = await three_steps()
    other = Holder.here()
    await held_by(other, store)
    before = await store.read()
    script = Scripted('?')
    with pytest.raises(SessionHeld, match=f'run {other.run}, process {os.getpid()} on'):
        await running(store, script)
    assert (await store.read(), script.asked) == (before, [])


async def test_one_that_another_program_holds_is_refused_too() -> None:
    store = await stored(Add('a'), Claim('some worker', 60, scope='session'))
    with pytest.raises(SessionHeld, match='some worker'):
        await running(store, Scripted('?'))


async def test_a_dead_run_is_taken_over_at_once_and_its_step_is_free_again() -> None:
    store = await three_steps()
    await held_by(replace(Holder.here(), pid=ended()), store)
    await apply(store, SetStatus('2', TaskStatus.in_progress), actor='ann@desk')
    events: list[Any] = []

    def look(*_: Any) -> Any:
        return moving('completed', '1', '2', '3')

    script = Scripted(look, 'done')
    result = await running(store, script, events=events)
    assert result.stop_reason is StopReason.finished
    assert '[ ] 1 one -- interrupted' in script.said()
    assert '[~] 2 two' in script.said()
    assert any('taking over from run' in getattr(event, 'text', '') for event in events)


async def test_a_lease_that_ended_is_taken_over() -> None:
    store = await three_steps()
    other = replace(Holder.here(), machine='00000000')
    await apply(store, Claim(str(other), 60, scope='session'), now=time.time() - 61)
    await apply(store, SetStatus('1', TaskStatus.in_progress), actor=other.actors[1])
    result = await running(store, Scripted(moving('completed', '1', '2', '3'), 'done'))
    assert result.stop_reason is StopReason.finished


async def test_the_session_is_free_after_every_end() -> None:
    for turns in (['nothing'], [moving('completed', '1', '2', '3'), 'done'], [lambda *_: 1 / 0]):
        store = await three_steps()
        await running(store, Scripted(*turns), max_nudges=0)
        plan = await store.read()
        assert (plan.owner, plan.lease) == (None, None)


async def test_the_lease_is_renewed_while_the_run_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, 'EVERY', 0.01)
    store = await three_steps()
    first = 0.0

    async def wait(*_: Any) -> Any:
        nonlocal first
        first = (await store.read()).lease or 0.0
        while ((await store.read()).lease or 0.0) <= first:
            await asyncio.sleep(0.005)
        return moving('completed', '1', '2', '3')

    revision = (await store.read()).revision
    result = await running(store, Scripted(wait, 'done'))
    assert result.stop_reason is StopReason.finished
    # Renewals are no changes of the plan.
    assert result.plan.revision == revision + 3


async def test_a_run_whose_session_was_taken_away_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, 'EVERY', 0.01)
    store = await three_steps()

    async def taken(*_: Any) -> Any:
        owner = (await store.read()).owner or ''
        await apply(store, Release(owner, scope='session'), Claim('another', 60, scope='session'))
        await asyncio.sleep(600)

    result = await running(store, Scripted(taken))
    assert (result.stop_reason, result.error and result.error.code) == (StopReason.error, 'lost_claim')
    assert (await store.read()).owner == 'another'


@pytest.mark.parametrize('by', ['another', None])
async def test_a_run_that_has_lost_its_session_asks_for_nothing_more(by: str | None) -> None:
    store = await three_steps()

    async def taken(*_: Any) -> Any:
        await apply(store, Release((await store.read()).owner or '', scope='session'))
        if by is not None:
            await apply(store, Claim(by, 60, scope='session'))
        return [('read_plan', {})]

    script = Scripted(taken, moving('completed', '1', '2', '3'), 'done')
    result = await running(store, script)
    assert (result.stop_reason, result.error and result.error.code) == (StopReason.error, 'lost_claim')
    assert result.message == f"this run has lost session 'default'; it is held by {by or 'nobody'}"
    assert (len(script.asked), result.plan.progress.completed) == (1, 0)


async def test_a_store_that_fails_for_a_moment_loses_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, 'EVERY', 0.01)

    class Flaky(StoreWrapper):
        failures = 3

        async def update(self, *args: Any, **options: Any) -> Any:
            if options['label'] == 'renew' and self.failures:
                self.failures -= 1
                raise StoreUnavailable('locked')
            return await super().update(*args, **options)

    store = Flaky(await three_steps())
    holder = Holder.here()
    lost: list[Exception] = []
    async with session_lease(store, holder, lost=lost.append, taken=lambda _: None):
        before = (await store.read()).lease or 0.0
        while ((await store.read()).lease or 0.0) <= before:
            await asyncio.sleep(0.005)
    assert (lost, store.failures) == ([], 0)


async def test_a_store_that_breaks_loses_the_lease_and_is_asked_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, 'EVERY', 0.01)

    class Broken(StoreWrapper):
        async def update(self, *args: Any, **options: Any) -> Any:
            if options['label'] == 'renew':
                raise RuntimeError('a defect')
            return await super().update(*args, **options)

    store = Broken(await three_steps())
    lost = asyncio.get_running_loop().create_future()
    async with session_lease(store, Holder.here(), lost=lost.set_result, taken=lambda _: None):
        assert str(await asyncio.wait_for(lost, 10)) == 'a defect'
    assert (await store.read()).owner is None


async def test_a_run_that_is_cancelled_while_it_ends_gives_back_and_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, 'EVERY', 0)
    renewing, ending = asyncio.Event(), asyncio.Event()

    class Slow(StoreWrapper):
        async def update(self, *args: Any, **options: Any) -> Any:
            if options['label'] == 'renew':
                renewing.set()
                try:
                    await asyncio.sleep(60)
                finally:
                    ending.set()
                    await asyncio.sleep(0.01)
            return await super().update(*args, **options)

    store = Slow(await three_steps())

    async def run() -> None:
        async with session_lease(store, Holder.here(), lost=lambda _: None, taken=lambda _: None):
            await renewing.wait()

    task = asyncio.create_task(run())
    await asyncio.wait_for(ending.wait(), 10)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert (await store.read()).owner is None


async def test_what_was_lost_is_not_given_back_in_the_name_of_another() -> None:
    store = await three_steps()
    holder, other = Holder.here(), Holder.here()
    async with session_lease(store, holder, lost=lambda _: None, taken=lambda _: None):
        await apply(store, Release(str(holder), scope='session'), Claim(str(other), 60, scope='session'))
        await apply(store, SetStatus('1', TaskStatus.in_progress), actor=other.actors[1])
    plan = await store.read()
    assert (plan.owner, plan.step('1').owner) == (str(other), other.actors[1])
