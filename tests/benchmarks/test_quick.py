"""What the benchmarks count, as tests: nothing here depends on how busy the machine is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import quick
from measure import Row, interval, paired, table


def hold(rows: Iterator[Row]) -> None:
    found = list(rows)
    assert found
    missed = [row for row in found if row.missed]
    assert not missed, '\n' + '\n'.join(table(missed))


@pytest.mark.parametrize('count', [quick.commits, quick.store_reads, quick.modules, quick.growth])
def test_what_is_counted_stays_within_its_bounds(tmp_path: Path, count: Callable[[Path], Iterator[Row]]) -> None:
    hold(count(tmp_path))


def test_what_every_request_pays_for_stays_small() -> None:
    hold(quick.characters())


def test_a_goal_is_missed_when_the_whole_range_of_the_median_is_on_the_wrong_side() -> None:
    base = (1.0,) * 9
    slow = Row('slow', 'ms', (3.0, 3.1, 3.2, 3.0, 3.1, 3.2, 9.0, 1.0, 3.3), base=base, goal=2.5)
    assert slow.missed
    noisy = Row('noisy', 'ms', (3.0, 1.0, 3.2, 1.0, 3.1, 1.2, 9.0, 1.0, 3.3), base=base, goal=2.5)
    assert not noisy.missed
    assert Row('few', '/s', (0.9,), base=(1.0,), goal=1, bound='at least').missed
    assert not Row('many', '/s', (1.1,), base=(1.0,), goal=1, bound='at least').missed
    assert Row('one too many', 'x', (2,), goal=1, bound='exactly').missed
    assert not Row('no goal', 'ms', (9.0,), base=(1.0,)).missed


def test_the_range_of_a_median_is_that_of_order_statistics() -> None:
    assert interval([5.0]) == (5.0, 5.0)
    # The known ranks of the 95 % range: all of 5, the 2nd and the 8th of 9, the 4th and the 12th of 15.
    assert interval([*range(1, 6)]) == (1, 5)
    assert interval([*range(1, 10)]) == (2, 8)
    assert interval([*range(1, 16)]) == (4, 12)


def test_pairs_are_taken_in_turn_after_a_first_time_that_does_not_count() -> None:
    taken: list[str] = []

    def measure(name: str, value: float) -> Callable[[], float]:
        return lambda: taken.append(name) or value

    assert paired(3, measure('a', 1.0), measure('b', 2.0)) == [(1.0, 1.0, 1.0), (2.0, 2.0, 2.0)]
    assert ''.join(taken) == 'ab' + 'ab' + 'ba' + 'ab'


def test_growth_that_is_not_linear_is_seen() -> None:
    def quadratic(steps: int) -> int:
        return sum(1 for one in range(steps) for other in range(steps // 100) if one >= other)

    assert quick.bytecodes(lambda: quadratic(200)) == 0, 'only what is ours is counted'
    store = quick.chained(10)
    assert quick.bytecodes(lambda: quick.available(quick.drive(quick.read(store)), 'me', 0.0)) > 100
    assert quick._grown('it', {quick.SMALL: 100, quick.LARGE: 10_000}).missed
