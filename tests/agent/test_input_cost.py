"""What a plan costs in input stays within its bounds; `tests/benchmarks/input_cost.py` prints all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip('anthropic')
sys.path.insert(0, str(Path(__file__).parents[1] / 'benchmarks'))

import input_cost
from input_cost import Bill, of_the_harness, ours, without_plan


async def test_fifty_requests_with_a_plan_cost_little_more_than_without():
    base = await without_plan()
    for steps in (20, 100):
        assert (await ours(steps)).cost / base.cost <= input_cost.GOALS[steps]


async def test_a_plan_costs_less_than_with_the_harness():
    pytest.importorskip('pydantic_ai_harness')
    assert (await ours(20)).cost < (await of_the_harness(20)).cost


def block(text: str, *, point: bool = False):
    return {'type': 'text', 'text': text} | ({'cache_control': {'type': 'ephemeral'}} if point else {})


def body(*blocks):
    return {'tools': [], 'system': [], 'messages': [{'role': 'user', 'content': [*blocks]}]}


def test_the_bill_reads_what_was_written_writes_up_to_the_last_point_and_counts_the_rest_plainly():
    bill, size = Bill(), len('{"type":"text","text":"a"}')
    bill.add(body(block('a'), block('b', point=True), block('x')))
    assert (bill.read, bill.written, bill.plain) == (0, 2 * size, size)
    bill.add(body(block('a'), block('b'), block('c', point=True), block('y')))
    assert (bill.read, bill.written, bill.plain) == (2 * size, 3 * size, 2 * size)
    # What is different at the front is read nowhere.
    bill.add(body(block('z'), block('b'), block('c', point=True)))
    assert (bill.read, bill.written) == (2 * size, 6 * size)
    # Out of reach of the point.
    far = [block(str(number)[-1]) for number in range(input_cost.LOOKBACK)]
    bill.add(body(block('a'), block('b'), block('c'), *far, block('d', point=True)))
    assert bill.read == 2 * size
