"""Typed identifiers: 16 random bytes each, so that no two processes need to agree on anything.

Randomness comes in as an argument (see clock.py), so that a run can be repeated.
"""

import itertools
from collections.abc import Callable
from typing import NewType

LakeId = NewType("LakeId", bytes)
AttemptId = NewType("AttemptId", bytes)
TransactionId = NewType("TransactionId", bytes)
TableId = NewType("TableId", str)
"""A table's incarnation: 32 hexadecimal digits, safe as a directory name."""

ID_BYTES = 16
NO_LAKE = LakeId(bytes(ID_BYTES))
"""The lake id of `floor/1`, which is written before entry 1 decides the real one."""


_DRAWN = 10


class TransactionIds:
    """Ids of one handle's transactions: 10 random bytes drawn once, and a counter.

    Asking the kernel for each would cost as much as encoding the transaction. A handle is refused after a fork, so no
    id is drawn twice (rule B1).
    """

    def __init__(self, token: Callable[[int], bytes]) -> None:
        self._prefix = token(_DRAWN)
        self._count = itertools.count()

    def next(self) -> bytes:
        """One more."""
        return self._prefix + next(self._count).to_bytes(ID_BYTES - _DRAWN, "big")
