"""How far one phase of a run may go, and how often a failed request is made again. Pure; nothing is measured here."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from planctl.text import counted

LimitName: TypeAlias = Literal['max_requests', 'max_tokens', 'max_cost', 'timeout', 'agent']
"""What ended a run: an option, or a limit that the agent brings with it."""

RETRIES = 5
"""How often a request is made again by default; with the pauses between, that is about half a minute."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one phase; `None` is no limit. They are looked at before a request, so the last one may pass them.

    Only `timeout` ends what is under way.
    """

    max_requests: int | None = None
    max_tokens: int | None = None
    """Tokens in and out, as the provider counts them."""
    max_cost: Decimal | None = None
    """US dollars, at the prices that genai-prices knows."""
    timeout: float | None = None
    """Seconds from the beginning of the phase, without those in which a person is asked."""
    retries: int = RETRIES
    """How often in a row a request is made again that the provider could not serve."""
    of_both: frozenset[LimitName] = frozenset()
    """Which of them planning has because it has what carrying out has: options without `planner` set them."""

    def reached(self, *, requests: int, tokens: int, cost: Decimal | None) -> LimitName | None:
        """Return the limit that forbids another request, or `None`."""
        if self.max_requests is not None and requests >= self.max_requests:
            return 'max_requests'
        if self.max_tokens is not None and tokens >= self.max_tokens:
            return 'max_tokens'
        if self.max_cost is not None and cost is not None and cost >= self.max_cost:
            return 'max_cost'
        return None

    def words(self, name: LimitName, *, planning: bool) -> str:
        """Return what it means that a limit was reached, with the option that sets it."""
        match name:
            case 'max_requests':
                what = counted(self.max_requests or 0, 'request')
            case 'max_tokens':
                what = counted(self.max_tokens or 0, 'token')
            case 'max_cost':
                what = dollars(self.max_cost or Decimal(0))
            case _:
                what = f'{self.timeout:g} s'
        return f'the limit of {what} was reached ({self.option(name, planning=planning)})'

    def option(self, name: LimitName, *, planning: bool) -> str:
        """Return the option that sets the limit of the phase."""
        return option(name, planning=planning and name not in self.of_both)


def option(name: LimitName, *, planning: bool) -> str:
    """Return the option of `planctl run` that sets a limit."""
    return f'--{"planner-" if planning else ""}{name.replace("_", "-")}'


def dollars(cost: Decimal) -> str:
    """Return a cost as people read it: cents, and of less than a cent what is not nought of it."""
    return f'${cost:.2f}' if cost >= Decimal('0.1') or not cost else f'${cost:.4f}'
