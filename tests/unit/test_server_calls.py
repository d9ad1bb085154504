"""What surrounds each transaction on a server, with drivers that do what real ones do once in a thousand times."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from planctl.errors import LostClaim, StorageError, StoreUnavailable
from planctl.stores.server_calls import Interfered, Raised, ServerCalls, Waiting


class DriverError(Exception):
    """What a driver raises."""


def calls(wait: float = 5) -> ServerCalls:
    return ServerCalls(
        wait,
        server='it',
        lost=lambda error: 'lost' in str(error),
        typed=lambda error: StorageError(str(error)) if isinstance(error, DriverError) else None,
    )


async def lose_the_cancellation() -> None:
    """Wait until cancelled, and go on as if nothing had been."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)


@pytest.mark.parametrize(
    'outcome',
    [
        'an answer',
        LostClaim('refused'),
        Raised(LostClaim('raised by the edit')),
        Raised(ValueError('raised by the edit')),
        Interfered(),
        StoreUnavailable('gone'),
        DriverError('refused'),
        DriverError('lost'),
        TimeoutError(),
        ValueError('a defect'),
    ],
    ids=repr,
)
async def test_a_cancellation_that_the_driver_loses_is_one_whatever_the_call_comes_to(outcome: Any) -> None:
    tried = 0

    async def once(_: Waiting) -> Any:
        nonlocal tried
        tried += 1
        await lose_the_cancellation()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    server = calls()
    task = asyncio.create_task(server.do(once))
    await asyncio.sleep(0.01)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    assert task in done
    assert task.cancelled()
    assert tried == 1

    async def answer(_: Waiting) -> str:
        return 'the turn is free'

    assert await asyncio.wait_for(server.do(answer), 5) == 'the turn is free'


@pytest.mark.parametrize('outcome', [LostClaim('refused'), DriverError('refused')], ids=repr)
async def test_one_that_was_cancelled_before_and_went_on_gets_what_the_call_comes_to(outcome: Exception) -> None:
    async def once(_: Waiting) -> Any:
        raise outcome

    async def tidy_up() -> None:
        await lose_the_cancellation()
        await calls().do(once)

    task = asyncio.create_task(tidy_up())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises((LostClaim, StorageError), match='refused'):
        await task


class Server:
    """Answers, or loses the connection as often as it is told to."""

    def __init__(self) -> None:
        self.losses = 0.0
        self.asked = 0

    async def __call__(self, _: Waiting) -> str:
        self.asked += 1
        if self.losses > 0:
            self.losses -= 1
            raise DriverError('lost')
        return 'an answer'


async def test_a_server_that_was_there_is_waited_for_and_one_that_never_was_is_not() -> None:
    server, patient = Server(), calls(60)
    for losses in (1, 0, 4):
        server.losses = losses
        assert await patient.do(server) == 'an answer'
    server.asked, server.losses, hasty = 0, 2, calls(60)
    with pytest.raises(StorageError, match='lost'):
        await hasty.do(server)
    assert server.asked == 2


async def test_one_that_does_not_come_back_in_time_is_said_to_be_lost() -> None:
    server, impatient = Server(), calls(1)
    await impatient.do(server)
    server.losses = float('inf')
    with pytest.raises(StorageError, match='lost'):
        await impatient.do(server)
    assert server.asked > 3
    # Whoever is told so does not wait again.
    server.asked = 0
    with pytest.raises(StorageError, match='lost'):
        await impatient.do(server)
    assert server.asked == 2


async def test_a_change_that_may_be_stored_is_not_tried_again_although_the_server_was_there() -> None:
    server = calls(60)
    await server.do(Server())
    tried = 0

    async def once(waiting: Waiting) -> None:
        nonlocal tried
        tried += 1
        waiting.unconfirmed = True
        raise DriverError('lost')

    with pytest.raises(StorageError, match='lost'):
        await server.do(once)
    assert tried == 1


async def test_a_driver_that_gives_up_before_our_time_is_over_is_said_to() -> None:
    async def once(waiting: Waiting) -> None:
        waiting.what = 'it was busy'
        raise TimeoutError

    with pytest.raises(StoreUnavailable, match='it was busy before its driver gave up'):
        await calls().do(once)
