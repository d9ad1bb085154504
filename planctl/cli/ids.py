"""Which step a word of the command line means. The same for every command and for both ends of a dependency."""

from __future__ import annotations

from collections.abc import Iterable

from planctl.errors import AmbiguousId, InvalidId, StepNotFound
from planctl.plan import Plan, check_id

SHORTEST = 3
"""How many characters of an id are the fewest that may stand for it."""


def resolve(plan: Plan, word: str) -> str:
    """Return the id that `word` means in the plan: that very id, else the only one that begins with it.

    Only ids that are not all digits can be shortened. Raises `InvalidId`, `AmbiguousId` and `StepNotFound`.
    """
    if plan.get(word) is not None:
        return word
    if not word.strip():
        raise InvalidId('the id of a step is empty')
    check_id(word)
    matching = [step.id for step in plan.steps if step.id.startswith(word)] if len(word) >= SHORTEST else []
    meant = [step_id for step_id in matching if not step_id.isdecimal()]
    if not meant:
        hint = 'ids are given apart: 1 2, or --depends-on 1 --depends-on 2' if ',' in word else None
        raise StepNotFound(f'there is no step {word!r} in session {plan.session!r}', ids=[word], hint=hint)
    if len(meant) > 1:
        raise AmbiguousId(f'{word!r} could be {", ".join(meant)}', ids=meant)
    return meant[0]


def resolve_all(plan: Plan, words: Iterable[str]) -> list[str]:
    """Return the ids that the words mean, each once, in the order given."""
    return list(dict.fromkeys(resolve(plan, word) for word in words))
