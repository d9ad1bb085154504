"""Measuring side by side: paired runs, medians of their ratios, how sure they are, and goals. It knows no plans."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal['ms', '/s', 'MB', 'chars', 'x']
Bound = Literal['at most', 'at least', 'exactly']
Samples = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was measured of ours, of the reference, and of what both are held against.

    The samples of ours and of `base` were taken in turn, so that the n-th of each belong together; what is exact has
    one. The reference is there to compare and may have been measured at another time, unless it is the base. `base`
    is named by `against`: a floor, the reference itself, or ours at another size. `goal` bounds the ratio of ours to
    the base, from above or, with `at_least`, from below; without a base it bounds ours.
    """

    what: str
    unit: Unit
    ours: Samples
    reference: Samples = ()
    base: Samples = ()
    against: str = ''
    goal: float | None = None
    bound: Bound = 'at most'

    @property
    def ratios(self) -> Samples:
        """Ours by the base, run by run; without a base ours."""
        return _ratios(self.ours, self.base) if self.base else self.ours

    @property
    def missed(self) -> bool:
        """Whether the goal is missed by more than the noise: the whole range of the median lies on the wrong side."""
        if self.goal is None:
            return False
        low, high = interval(self.ratios)
        too_low, too_high = high < self.goal, low > self.goal
        return (too_low and self.bound != 'at most') or (too_high and self.bound != 'at least')


def paired(rounds: int, *measures: Callable[[], float]) -> list[Samples]:
    """Return what each of the measures returned, taken in turn, in one order and then in the other (A B, B A, …).

    What the machine does meanwhile then meets all of them alike. Each is called once before, which does not count.
    """
    for measure in measures:
        measure()
    samples: list[list[float]] = [[] for _ in measures]
    for at in range(rounds):
        order = list(zip(measures, samples, strict=True))
        for measure, taken in order if at % 2 == 0 else reversed(order):
            taken.append(measure())
    return [tuple(taken) for taken in samples]


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return between which two samples the median lies in 19 cases of 20, without assuming how they are spread."""
    ordered, count = sorted(samples), len(samples)
    outside, term, skipped = 0.0, 0.5**count, 0
    # The chance that at most `skipped` samples fall on one side of the median; both sides count.
    while skipped < (count - 1) // 2 and 2 * (outside + term) <= 0.05:
        outside += term
        term *= (count - skipped) / (skipped + 1)
        skipped += 1
    at = max(skipped - 1, 0)
    return ordered[at], ordered[-1 - at]


def _ratios(ours: Samples, base: Samples) -> Samples:
    return tuple(mine / its for mine, its in zip(ours, base, strict=True))


# --- The table --------------------------------------------------------------------------------------------------

HEAD = ('', 'ours', 'reference', 'ours/ref', 'against', 'base', 'ratio', 'range', 'goal', '')


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    cells = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEAD))]
    left = (0, 4, len(HEAD) - 1)
    for line in cells:
        texts = (text.ljust(width) if at in left else text.rjust(width) for at, (text, width) in _columns(line, widths))
        yield '  '.join(texts).rstrip()


def markdown(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the rows that have a goal as a table for the README: ratios alone, which other machines share."""
    yield '| | ratio | goal | the reference |'
    yield '|---|---|---|---|'
    for row in rows:
        if row.goal is not None:
            base = row.base if row.base and row.against != 'reference' else ()
            theirs = (
                _number(statistics.median(row.reference) / statistics.median(base)) if row.reference and base else ''
            )
            against = f' / {row.against}' if row.against else ''
            yield f'| {row.what}{against} | {_number(statistics.median(row.ratios))} | {_goal(row)} | {theirs} |'


def _columns(line: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[int, tuple[str, int]]]:
    yield from enumerate(zip(line, widths, strict=True))


def _cells(row: Row) -> tuple[str, ...]:
    low, high = interval(row.ratios)
    said = ''
    if row.goal is not None:
        said = 'MISSED' if row.missed else 'ok'
    compared = bool(row.base) or row.goal is not None
    return (
        row.what,
        _value(row.ours, row.unit),
        _value(row.reference, row.unit) if row.reference else '',
        _number(statistics.median(row.ours) / (statistics.median(row.reference) or 1)) if row.reference else '',
        row.against,
        _value(row.base, row.unit) if row.base else '',
        _number(statistics.median(row.ratios)) if compared else '',
        f'{_number(low)}-{_number(high)}' if compared and len(row.ours) > 1 else '',
        _goal(row),
        said,
    )


def _goal(row: Row) -> str:
    if row.goal is None:
        return ''
    return f'{_SIGN[row.bound]} {_number(row.goal)}'


_SIGN: Mapping[Bound, str] = {'at most': '≤', 'at least': '≥', 'exactly': '='}
_SCALE: Mapping[Unit, float] = {'ms': 1e3, '/s': 1, 'MB': 1, 'chars': 1, 'x': 1}


def _value(samples: Samples, unit: Unit) -> str:
    value = statistics.median(samples) * _SCALE[unit]
    return _number(value) if unit == 'x' else f'{_number(value)} {unit}'


def _number(value: float) -> str:
    return f'{value:,.0f}' if value >= 100 or value == int(value) else f'{value:.1f}' if value >= 10 else f'{value:.2f}'
