"""What a history consists of, and what can be found wrong with it.

A value is a list under a key, and only ever grows: a transaction reads it, or appends a value that nobody else appends
to that key. So each list that was read tells all that had happened to its key, in which order. The key
`accounts/7/a` belongs to the group `accounts/7`: a scan reads every key of a group at once, those it did not find
included, which it has read as absent.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec

Values = tuple[int, ...]
Outcome = Literal["committed", "aborted", "unknown"]


class Read(msgspec.Struct, frozen=True, tag="read"):
    """A list was read; an absent one is empty."""

    key: str
    values: Values


class Append(msgspec.Struct, frozen=True, tag="append"):
    """A value was added to the end of a list."""

    key: str
    value: int


class Scan(msgspec.Struct, frozen=True, tag="scan"):
    """All lists of a group were read, and these were found."""

    group: str
    found: Mapping[str, Values]


Operation = Read | Append | Scan


class Transaction(msgspec.Struct, frozen=True):
    """What one transaction did, in its order, and what its process was told.

    `begin` and `end` are of one clock for all processes, taken before its first and after its last operation; without
    an end, nobody was told. `position` is where a committed one stands in the log, `snapshot` the position that it
    says it read; transactions of one position are in no order.
    """

    name: str
    process: str
    begin: float
    end: float | None
    operations: tuple[Operation, ...]
    outcome: Outcome = "committed"
    position: int | None = None
    snapshot: int | None = None

    @property
    def writes(self) -> bool:
        """Whether it appends anything."""
        return any(isinstance(one, Append) for one in self.operations)


class Anomaly(Enum):
    """What can be wrong with a history, and what that means."""

    GARBAGE = "a value was read that nobody appended"
    DUPLICATE = "an append took effect twice"
    INCOMPATIBLE = "two lists of one key were read, and neither continues the other"
    ABORTED_READ = "G1a: what an aborted transaction appended was read"
    INTERMEDIATE_READ = "G1b: a list was read in the middle of another transaction's appends"
    OWN_WRITE = "a transaction does not see what it appended itself"
    NON_REPEATABLE_READ = "a transaction read a list twice, and it had changed"
    PHANTOM = "a scan misses a row that the transaction should see, or shows one that it should not"
    LOST_UPDATE = "two transactions read the same version of a list, and both appended to it"
    WRITE_CYCLE = "G0: writes in a circle"
    CIRCULAR_FLOW = "G1c: transactions that read from each other, in a circle"
    FRACTURED_READ = "part of what a transaction wrote was seen, and part was not"
    READ_SKEW = "G-single: one snapshot cannot have shown all of this"
    LONG_FORK = "two transactions saw two others in opposite orders"
    WRITE_SKEW = "G2: transactions that each did not see what the next one wrote, in a circle"
    REAL_TIME = "a transaction missed what had ended before it began, or saw what came after it"
    COMMIT_ORDER = "what was seen contradicts the order of the log"


class Finding(msgspec.Struct, frozen=True):
    """One anomaly: what it is, who took part, and how it is known, step by step."""

    anomaly: Anomaly
    transactions: tuple[str, ...]
    steps: tuple[str, ...]

    def __str__(self) -> str:
        told = "".join(f"\n  {step}" for step in self.steps)
        return f"{self.anomaly.name.lower().replace('_', ' ')} ({self.anomaly.value}):{told}"


def group_of(key: str) -> str:
    """The group that a key belongs to."""
    return key.rpartition("/")[0]
