"""What a store on a server does around each transaction: take turns, bound the time, try again, type the errors."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from planctl.change import Change
from planctl.errors import PlanctlError, StorageError, StoreUnavailable
from planctl.plan import Plan
from planctl.stores.base import EditFunction

T = TypeVar('T')


GRACE = 1.0
"""Seconds for a call that gave up to tidy up with a server that may never answer again."""


class Interfered(Exception):
    """Somebody else wrote between our read and our write; nothing of ours is stored. The cause is the driver's."""


class Raised(Exception):
    """What a caller's own function raised, which is never taken for an error of the driver."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def decide(edit: EditFunction, plan: Plan) -> Change:
    """Call `edit`, inside of what `ServerCalls.do` is given."""
    try:
        return edit(plan)
    except Exception as error:
        raise Raised(error) from error


@dataclass(slots=True)
class Waiting:
    """What a call waits for at the moment, for the message when its time is over.

    While it is `unconfirmed`, the change may be stored or not: nothing but an answer of the server can tell.
    """

    what: str
    deadline: float
    """When the time is over, by the clock of the event loop."""
    unconfirmed: bool = False
    interfered: bool = False
    """Whether somebody else wrote in between, the last time."""


class ServerCalls:
    """The calls of one store object, one after the other in each event loop, in the order in which they were made.

    `wait` is how long one may take, in seconds. `lost` says of an exception whether it means that the connection is
    gone; `typed` returns planctl's error for one of the driver's, `None` for any other.
    """

    def __init__(
        self,
        wait: float,
        *,
        server: str,
        lost: Callable[[Exception], bool],
        typed: Callable[[Exception], StorageError | None],
    ) -> None:
        self._wait = wait
        self._silent = f'{server} did not answer'
        self._lost = lost
        self._typed = typed
        self._reached = False
        """Whether the server was there the last time: then it may be restarting, else its name may be wrong."""
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self._guard = threading.Lock()

    async def do(self, once: Callable[[Waiting], Awaitable[T]]) -> T:
        """Return what `once` returns. It may be called again, so it does a whole transaction or nothing.

        Raises what `once` raises, the driver's exceptions as `StorageError`.
        """
        # Nothing is awaited before the lock, so that tasks queue up in the order in which they were made.
        async with self._turn():
            asked = _times_cancelled()
            try:
                result = await self._in_time(once, asked)
            except Exception as error:
                if _times_cancelled() > asked:
                    raise asyncio.CancelledError from error
                raise
            # A driver lost it: before Python 3.12 `wait_for` swallows a cancellation that comes with its outcome.
            if _times_cancelled() > asked:
                raise asyncio.CancelledError
            return result

    async def _in_time(self, once: Callable[[Waiting], Awaitable[T]], asked: int) -> T:
        waiting = Waiting(self._silent, asyncio.get_running_loop().time() + self._wait)
        clock = asyncio.timeout_at(waiting.deadline)
        try:
            async with clock:
                return await self._repeat(once, waiting, asked)
        except PlanctlError:
            raise
        except Raised as raised:
            raise raised.error from raised.error.__cause__
        except TimeoutError as error:
            what = 'others who write this plan left no moment for us' if waiting.interfered else waiting.what
            when = f'within {self._wait:g} seconds' if clock.expired() else 'before its driver gave up'
            raise _unavailable(f'{what} {when}', waiting) from error
        except Exception as error:
            typed = self._typed(error)
            if typed is None:
                raise
            if isinstance(typed, StoreUnavailable):
                typed = _unavailable(typed.message, waiting)
            raise typed from error

    def _turn(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        with self._guard:
            lock = self._locks.get(loop)
            if lock is None:
                # A lock that was waited for holds its loop, so a weak dictionary would keep both for ever.
                self._locks = {other: held for other, held in self._locks.items() if not other.is_closed()}
                lock = self._locks[loop] = asyncio.Lock()
            return lock

    async def _repeat(self, once: Callable[[Waiting], Awaitable[T]], waiting: Waiting, asked: int) -> T:
        """Do it, again where that is sure to do no harm: where others wrote in between, and where a connection is dead.

        Pools keep connections that a server or a firewall has long forgotten, so one that is dead is no reason to give
        up; and a server that was there before may be restarting.
        """
        conflicts = losses = 0
        while True:
            waiting.what, waiting.unconfirmed = self._silent, False
            try:
                result = await once(waiting)
                self._reached = True
                return result
            except Interfered as error:
                if error.__cause__ is not None and conflicts > 20:
                    raise error.__cause__ from None
                waiting.interfered = True
                conflicts += 1
                longest = min(0.0005 * 2 ** min(conflicts, 10), 0.05)
            except Exception as error:
                if waiting.unconfirmed or not self._lost(error):
                    raise
                longest = min(0.05 * losses, 0.5)
                if asyncio.get_running_loop().time() + longest > waiting.deadline:
                    self._reached = False  # What comes next does not wait again.
                    raise
                if losses and not self._reached:
                    raise
                waiting.interfered = False
                losses += 1
            if _times_cancelled() > asked:
                raise asyncio.CancelledError
            # A little longer each time, never the same for two writers.
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311


def _times_cancelled() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _unavailable(message: str, waiting: Waiting) -> StoreUnavailable:
    if not waiting.unconfirmed:
        return StoreUnavailable(message)
    return StoreUnavailable(
        f'{message}; the change may be stored or not', hint='look at the plan before it is done again'
    )


def driver_names(error: BaseException | None, *packages: str) -> set[str]:
    """Return what an exception of a driver is called, its bases too; nothing for one of another package.

    Asking for names imports no driver, and takes the exceptions of a fork that kept them.
    """
    if error is None or type(error).__module__.partition('.')[0] not in packages:
        return set()
    return {kind.__name__ for kind in type(error).__mro__}


def is_network_error(error: Exception) -> bool:
    """Whether the operating system says that the other side cannot be reached."""
    return isinstance(error, OSError) and not isinstance(error, TimeoutError)
