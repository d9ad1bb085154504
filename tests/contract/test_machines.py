"""Every store against the one in memory: the same operations, the same outcomes, the same plan and the same log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from servers import new_place
from store_machine import OpenStore, machine

from planctl import PlanItem, SqlitePlanStore, StoreWrapper
from planctl.stores.sqlite_file import SqliteFile

SETTINGS = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[*HealthCheck], print_blob=True
)
Opening = Callable[[Any, Path, asyncio.Runner], Any]


def on_disk(make: Callable[[Path, str], Any]) -> Opening:
    @contextmanager
    def opening(request: Any, folder: Path, runner: asyncio.Runner) -> Iterator[OpenStore]:
        yield lambda session: make(folder / 'plan.db', session)

    return opening


def on_server(fixture: str) -> Opening:
    @contextmanager
    def opening(request: Any, folder: Path, runner: asyncio.Runner) -> Iterator[OpenStore]:
        with new_place(request.getfixturevalue(fixture)) as place:
            stack = AsyncExitStack()
            connected = runner.run(stack.enter_async_context(place.connect()))
            yield lambda session: place.store(connected, session)
            runner.run(stack.aclose())

    return opening


STORES: dict[str, tuple[Opening, bool]] = {
    'file': (on_disk(lambda path, session: SqliteFile(path, session=session)), False),
    'sqlite': (on_disk(lambda path, session: SqlitePlanStore(path, session=session, table='Steps')), False),
    'sqlite, held': (on_disk(lambda path, session: SqlitePlanStore(path, session=session)), True),
    'wrapped': (
        on_disk(lambda path, session: StoreWrapper(SqlitePlanStore(path, session=session, journal='delete'))),
        True,
    ),
    'postgres': (on_server('postgres_server'), False),
    'redis': (on_server('valkey_server'), False),
}


@pytest.mark.parametrize('name', STORES)
def test_a_store_does_what_the_one_in_memory_does(name: str, request: Any, tmp_path: Path) -> None:
    opening, hold = STORES[name]
    with asyncio.Runner() as runner, opening(request, tmp_path, runner) as open_store:
        # In a file, say, that another session made: to read one that is not there is an error for commands.
        runner.run(open_store('another').add_item(PlanItem(id='1', content='of another session')))
        run_state_machine_as_test(machine(runner, open_store, hold=hold), settings=SETTINGS)
