"""The limits of a run, from what was typed. Knows amounts and lengths of time, not what they limit."""

from __future__ import annotations

import re
from decimal import Decimal

from planctl.agent.limits import RETRIES, LimitName, Limits, option
from planctl.errors import InputError

_AMOUNT = re.compile(r'\$?(\d+(?:\.\d+)?|\.\d+)')
_TIME = re.compile(r'(\d+(?:\.\d+)?|\.\d+) ?(s|m|min|h)?')
_SECONDS = {'s': 1, 'm': 60, 'min': 60, 'h': 3600}


def limits_of(
    max_requests: int | None,
    max_tokens: int | None,
    max_cost: str | None,
    timeout: str | None,
    retries: int | None,
    *,
    planning: bool = False,
    of_both: frozenset[LimitName] = frozenset(),
) -> Limits:
    """Return the limits of a phase; those `of_both` are set for both phases at once.

    Raises `InputError` for an amount or a time that is none.
    """
    return Limits(
        max_requests=max_requests,
        max_tokens=max_tokens,
        max_cost=None if max_cost is None else _dollars(max_cost, option('max_cost', planning=planning)),
        timeout=None if timeout is None else _seconds(timeout, option('timeout', planning=planning)),
        retries=RETRIES if retries is None else retries,
        of_both=of_both,
    )


def _dollars(text: str, option: str) -> Decimal:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or not Decimal(match[1]):
        raise InputError(f'{option}: {text!r} is no amount of US dollars, such as 2.50')
    return Decimal(match[1])


def _seconds(text: str, option: str) -> float:
    match = _TIME.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise InputError(f'{option}: {text!r} is no length of time, such as 90, 90s, 15m or 2h')
    return float(match[1]) * _SECONDS[match[2] or 's']
