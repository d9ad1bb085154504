"""Taking turns and losing patience: what every store on a server does around its transactions."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from planctl.errors import PlanctlError, StorageError


class Turns:
    """One first-come, first-served lock for each event loop that a store is used from."""

    def __init__(self) -> None:
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self._guard = threading.Lock()

    def take(self) -> asyncio.Lock:
        """Return the running loop's lock. Nothing is awaited before it, so that tasks queue up as they were made."""
        loop = asyncio.get_running_loop()
        with self._guard:
            lock = self._locks.get(loop)
            if lock is None:
                # A lock that was waited for holds its loop, so a weak dictionary would keep both for ever.
                self._locks = {other: held for other, held in self._locks.items() if not other.is_closed()}
                lock = self._locks[loop] = asyncio.Lock()
            return lock


@dataclass(slots=True)
class Waiting:
    """What a call waits for at the moment, for the message when its time is over."""

    what: str


@asynccontextmanager
async def patience(
    seconds: float, what: str, typed: Callable[[Exception, str], StorageError | None]
) -> AsyncGenerator[Waiting]:
    """Bound a call, and turn what a driver raises into planctl's errors.

    `typed` gets the exception and the message for one that says that the time is over; it answers `None` for what is
    not the driver's.
    """
    waiting = Waiting(what)
    try:
        async with asyncio.timeout(seconds):
            yield waiting
    except PlanctlError:
        raise
    except Exception as error:
        ours = typed(error, f'{waiting.what} for {seconds:g} seconds')
        if ours is None:
            raise
        raise ours from error


async def pause(attempt: int) -> None:
    """Wait before the next attempt, each time a little longer, never the same for two writers."""
    await asyncio.sleep(random.uniform(0, min(0.0005 * 2 ** min(attempt, 10), 0.05)))  # noqa: S311 - it guards nothing


def driver_names(error: BaseException | None, *packages: str) -> set[str]:
    """Return what an exception of a driver is called, its bases too; nothing for one of another package.

    Asking for names imports no driver, and takes the exceptions of a fork that kept them.
    """
    if error is None or type(error).__module__.partition('.')[0] not in packages:
        return set()
    return {kind.__name__ for kind in type(error).__mro__}
