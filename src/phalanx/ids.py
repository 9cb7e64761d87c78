"""Typed identifiers: 16 random bytes each, so that no two processes need to agree on anything.

Randomness comes in as an argument (`Entropy`, see clock.py), so that a run can be repeated. Every id is drawn
from the kernel at the moment it is needed: nothing is buffered in the process, so a fork cannot duplicate ids.
"""

from typing import NewType

LakeId = NewType("LakeId", bytes)
AttemptId = NewType("AttemptId", bytes)
TransactionId = NewType("TransactionId", bytes)
TableId = NewType("TableId", str)
"""A table's incarnation: 32 hexadecimal digits, safe as a directory name."""

ID_BYTES = 16
NO_LAKE = LakeId(bytes(ID_BYTES))
"""The lake id of `floor/1`, which is written before entry 1 decides the real one."""


def show(identifier: bytes) -> str:
    """Ids as people see them: hexadecimal digits."""
    return identifier.hex()
