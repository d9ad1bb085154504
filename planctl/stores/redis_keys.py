"""The keys of a session in Redis: all in one slot of a cluster, whatever the session is called. Pure."""

from __future__ import annotations

from binascii import crc_hqx
from itertools import count

from planctl.errors import InvalidName
from planctl.sanitize import clean

SLOTS = 16_384


class Keys:
    """The list of steps at the harness's own key, and ours beside it.

    A cluster places a key by what stands between its first `{` and the next `}`, so whatever is put behind the
    harness's key stays beside it. Only where nothing stands between the two (`plan:{}x}`, for the session `}x`) does
    it place by the whole key; then ours gets the smallest number that leads to the same slot.
    """

    def __init__(self, prefix: str, session: str) -> None:
        if clean(prefix) != prefix or '{}' in prefix:
            raise InvalidName('a key prefix has no control characters, no blank at its ends and no {}')
        self.steps = f'{prefix}:{{{session}}}'
        self.own = self._beside('planctl')
        self.log = self._beside('planctl:log')

    def _beside(self, name: str) -> str:
        key = f'{self.steps}:{name}'
        if not self.steps.partition('{')[2].startswith('}'):
            return key
        slot = slot_of(self.steps)
        start = crc_hqx(f'{key}:'.encode(), 0)
        return next(f'{key}:{n}' for n in count() if crc_hqx(str(n).encode(), start) % SLOTS == slot)


def slot_of(key: str) -> int:
    """Return the slot in which a cluster keeps a key."""
    _, opened, rest = key.partition('{')
    tag, closed, _ = rest.partition('}')
    return crc_hqx((tag if opened and closed and tag else key).encode(), 0) % SLOTS
