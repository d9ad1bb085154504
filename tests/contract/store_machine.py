"""A Hypothesis state machine that does everything to a store and to the one in memory, and finds them the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import astuple
from itertools import count
from typing import Any

import plan_strategies
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from planctl import BaseStore, InMemoryPlanStore, PlanctlError, PlanItem, apply, read
from planctl.core import log
from planctl.errors import InputError
from planctl.journal import replay
from planctl.operations import Operation

IDS = plan_strategies.IDS | st.sampled_from(['6', 'nope'])
MAYBE_ID = st.none() | IDS
TEXTS = plan_strategies.TEXTS | st.sampled_from([' ', '\x00\ud800', '👩‍💻', 'it\'s "quoted" \\', 'x' * 300])
ACTORS = st.sampled_from(['me', 'you', 'half \ud800'])
KEYS = st.sampled_from([None, None, None, 'k1', 'k2'])
OPERATIONS = plan_strategies.operations(ids=IDS, texts=TEXTS, owners=ACTORS)
ITEMS = st.builds(
    PlanItem,
    id=IDS,
    content=TEXTS.filter(lambda text: text.strip() != '' and text.isprintable()),
    status=plan_strategies.STATUSES,
    active_form=TEXTS,
    parent_id=MAYBE_ID,
    depends_on=st.lists(IDS, max_size=2),
)

OpenStore = Callable[[str], BaseStore]
"""Returns a new store object on the same storage each time, for the session that is named."""


def machine(runner: asyncio.Runner, open_store: OpenStore, *, hold: bool = False) -> type[RuleBasedStateMachine]:
    """Return the machine for one kind of store, whose calls all run in the runner's loop; each run has its session."""
    numbers = count()

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.session = f'machine {next(numbers)}'
            self.model = InMemoryPlanStore(session=self.session)
            self.now = 1_000.0

        @initialize()
        def begin(self) -> None:
            self.stack = AsyncExitStack()
            self.store = self.opened()
            self.reader = open_store(self.session)

        def opened(self) -> BaseStore:
            store = open_store(self.session)
            if hold:
                runner.run(self.stack.enter_async_context(store))
            return store

        def teardown(self) -> None:
            if hasattr(self, 'stack'):
                self.whole_log()
                runner.run(self.stack.aclose())

        def both(self, call: Callable[[BaseStore], Awaitable[Any]]) -> Any:
            """Do it to both; return what came of it, the same for both."""
            model, store = (runner.run(outcome(call, each)) for each in (self.model, self.store))
            assert store == model
            return model

        @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=3), actor=ACTORS, key=KEYS, passed=st.floats(0, 30))
        def operate(self, operations: list[Operation], actor: str, key: str | None, passed: float) -> None:
            self.now += passed
            self.both(lambda store: apply(store, *operations, actor=actor, now=self.now, key=key))

        @rule(item=ITEMS)
        def add_item(self, item: PlanItem) -> None:
            self.both(lambda store: store.add_item(item))

        @rule(
            step_id=IDS, fields=ITEMS, names=st.sets(st.sampled_from(['content', 'status', 'parent_id', 'depends_on']))
        )
        def update_item(self, step_id: str, fields: PlanItem, names: set[str]) -> None:
            given = {name: getattr(fields, name) for name in names}
            self.both(lambda store: store.update_item(step_id, **given))

        @rule(step_id=IDS)
        def remove_item(self, step_id: str) -> None:
            self.both(lambda store: store.remove_item(step_id))

        @rule(items=st.lists(ITEMS, max_size=4))
        def set_items(self, items: list[PlanItem]) -> None:
            self.both(lambda store: store.set_items(items))

        @rule(data=st.data())
        def set_in_another_order(self, data: st.DataObject) -> None:
            items = data.draw(st.permutations(runner.run(self.model.get_items())))
            self.both(lambda store: store.set_items(items))

        @rule()
        def open_again(self) -> None:
            runner.run(self.stack.aclose())
            runner.run(self.store.aclose())
            self.store = self.opened()

        @rule(since=st.integers(0, 20), limit=st.none() | st.integers(0, 10), step_id=MAYBE_ID | st.just(''))
        def log_of(self, since: int, limit: int | None, step_id: str | None) -> None:
            model, store = (
                rows(runner.run(log(each, since=since, limit=limit, step_id=step_id)))
                for each in (self.model, self.store)
            )
            assert store == model

        @precondition(lambda self: hasattr(self, 'stack'))
        @invariant()
        def the_plan_is_the_same_for_everybody(self) -> None:
            wanted = runner.run(read(self.model))
            assert runner.run(read(self.store)) == wanted
            assert runner.run(read(self.reader)) == wanted

        def whole_log(self) -> None:
            plan = runner.run(read(self.model))
            found = runner.run(log(self.reader))
            assert rows(found) == rows(runner.run(log(self.model)))
            assert [step.id for step in replay(found).steps] == [step.id for step in plan.steps]

    return Machine


def rows(found: list[Any]) -> list[Any]:
    """Return rows of the log without their times: the six methods take those of the clock."""
    return [astuple(row)[:3] + astuple(row)[4:] for row in found]


async def outcome(call: Callable[[BaseStore], Awaitable[Any]], store: BaseStore) -> Any:
    """Return what came of a call, as far as two stores must agree on it."""
    try:
        answer = await call(store)
    except PlanctlError as error:
        return type(error), error.message, error.ids, isinstance(error, InputError)
    if hasattr(answer, 'steps'):
        return answer.steps, answer.remarks, answer.progress, answer.replayed, answer.changed, answer.after
    return answer
