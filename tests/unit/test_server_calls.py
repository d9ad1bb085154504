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


def calls() -> ServerCalls:
    return ServerCalls(
        5,
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
