"""What is said of a change, and read back from an editor, takes ten times as long for ten times as many steps."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from planctl import rules
from planctl.change import Change
from planctl.cli.answer import brought, moved
from planctl.editing import edited, sheet
from planctl.operations import Add, SetStatus
from planctl.plan import Plan, TaskStatus


def made(count: int) -> Change:
    return rules.apply(Plan(), [Add(f'step {n}') for n in range(count)], actor='x', now=0)


def bringing(count: int) -> Callable[[], object]:
    change = made(count)
    ids = [step.id for step in change.after.steps]
    return lambda: brought(change, ids, {}, dry_run=False)


def moving(count: int) -> Callable[[], object]:
    plan = made(count).after
    named = [step.id for step in plan.steps]
    change = rules.apply(plan, [SetStatus(each, TaskStatus.completed) for each in named[::2]], actor='x', now=0)
    return lambda: moved(change, named, 'done', TaskStatus.completed)


def reading_back(count: int) -> Callable[[], object]:
    plan = made(count).after
    shown = sheet(plan)
    text = shown.text.replace(f'step {count // 2}', 'other words')
    return lambda: edited(shown, text, plan)


def seconds(call: Callable[[], object]) -> float:
    took: list[float] = []
    for _ in range(3):
        began = time.process_time()
        call()
        took.append(time.process_time() - began)
    return min(took)


@pytest.mark.parametrize('prepared', [bringing, moving, reading_back], ids=lambda each: each.__name__)
def test_ten_times_as_many_steps_take_ten_times_as_long(prepared: Callable[[int], Callable[[], object]]) -> None:
    small, large = seconds(prepared(1_000)), seconds(prepared(10_000))
    assert large < 30 * small
