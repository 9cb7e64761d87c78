"""Small histories with one anomaly each, made by hand."""

from typing import Any

import msgspec

from phalanx.testing.histories import Anomaly, Append, Read, Scan, Transaction


def one(name: str, begin: float, end: float | None, *operations: Read | Append | Scan, **more: Any) -> Transaction:
    return Transaction(name, name, begin, end, operations, **more)


def read(key: str, *values: int) -> Read:
    return Read(f"planted/{key}", values)


def append(key: str, value: int) -> Append:
    return Append(f"planted/{key}", value)


def scan(**found: tuple[int, ...]) -> Scan:
    return Scan("planted", {f"planted/{key}": values for key, values in found.items()})


FIRST = one("first", 0, 1, append("x", 1), append("y", 2))
PLANTED: dict[str, tuple[Anomaly, list[Transaction]]] = {
    "lost update": (
        Anomaly.LOST_UPDATE,
        [
            FIRST,
            one("a", 2, 5, read("x", 1), append("x", 3)),
            one("b", 3, 6, read("x", 1), append("x", 4)),
            one("c", 4, 7, read("x", 1, 4)),
        ],
    ),
    "lost update, both in the list": (
        Anomaly.LOST_UPDATE,
        [
            FIRST,
            one("a", 2, 5, read("x", 1), append("x", 3)),
            one("b", 3, 6, read("x", 1), append("x", 4)),
            one("c", 4, 7, read("x", 1, 3, 4)),
        ],
    ),
    "long fork": (
        Anomaly.LONG_FORK,
        [
            one("a", 2, 9, append("x", 1)),
            one("b", 2, 9, append("y", 2)),
            one("c", 2, 9, read("x", 1), read("y")),
            one("d", 2, 9, read("x"), read("y", 2)),
        ],
    ),
    "fractured read": (Anomaly.FRACTURED_READ, [FIRST, one("a", 0, 9, read("x", 1), read("y"))]),
    "non-repeatable read": (
        Anomaly.NON_REPEATABLE_READ,
        [FIRST, one("a", 2, 9, append("x", 3)), one("b", 2, 9, read("x", 1), read("x", 1, 3))],
    ),
    "phantom": (Anomaly.PHANTOM, [FIRST, one("a", 0, 9, read("y", 2), scan(y=(2,)))]),
    "phantom in a second scan": (Anomaly.PHANTOM, [FIRST, one("a", 0, 9, scan(), scan(x=(1,), y=(2,)))]),
    "aborted read": (
        Anomaly.ABORTED_READ,
        [one("a", 0, 1, append("x", 1), outcome="aborted"), one("b", 2, 3, read("x", 1))],
    ),
    "aborted read in a scan": (
        Anomaly.ABORTED_READ,
        [one("a", 0, 1, append("x", 1), outcome="aborted"), one("b", 2, 3, scan(x=(1,)))],
    ),
    "intermediate read": (
        Anomaly.INTERMEDIATE_READ,
        [one("a", 0, 9, append("x", 1), append("x", 2)), one("b", 1, 9, read("x", 1))],
    ),
    "own write not seen": (Anomaly.OWN_WRITE, [FIRST, one("a", 2, 3, append("x", 3), read("x", 1))]),
    "garbage": (Anomaly.GARBAGE, [FIRST, one("a", 2, 3, read("x", 1, 99))]),
    "duplicate": (Anomaly.DUPLICATE, [FIRST, one("a", 2, 3, read("x", 1, 1))]),
    "incompatible orders": (
        Anomaly.INCOMPATIBLE,
        [
            one("a", 0, 9, append("x", 1)),
            one("b", 0, 9, append("x", 2)),
            one("c", 0, 9, read("x", 1, 2)),
            one("d", 0, 9, read("x", 2)),
        ],
    ),
    "writes in a circle": (
        Anomaly.WRITE_CYCLE,
        [
            one("a", 0, 9, append("x", 1), append("y", 1)),
            one("b", 0, 9, append("x", 2), append("y", 2)),
            one("c", 0, 9, read("x", 1, 2)),
            one("d", 0, 9, read("y", 2, 1)),
        ],
    ),
    "circular flow": (
        Anomaly.CIRCULAR_FLOW,
        [one("a", 0, 9, append("x", 1), read("y", 2)), one("b", 0, 9, append("y", 2), read("x", 1))],
    ),
    "read skew over three": (
        Anomaly.READ_SKEW,
        [
            one("a", 0, 9, append("x", 1), append("y", 2)),
            one("b", 0, 9, read("y", 2), append("z", 3)),
            one("c", 0, 9, read("z", 3), read("x")),
        ],
    ),
    "stale read": (Anomaly.REAL_TIME, [FIRST, one("a", 2, 3, read("x"))]),
    "a later value, read earlier": (Anomaly.REAL_TIME, [one("a", 0, 1, read("x", 1)), one("b", 2, 3, append("x", 1))]),
    "an append that nobody sees again": (
        Anomaly.REAL_TIME,
        [FIRST, one("a", 2, 3, append("x", 3)), one("b", 4, 5, scan(x=(1,), y=(2,)))],
    ),
    "an append that was lost before the next one": (
        Anomaly.REAL_TIME,
        [
            FIRST,
            one("a", 2, 3, append("x", 3)),
            one("b", 4, 9, read("x", 1)),
            one("c", 4, 9, append("x", 4)),
            one("d", 0, 9, read("x", 1, 4)),
        ],
    ),
    "an older snapshot than one seen before": (
        Anomaly.REAL_TIME,
        [one("a", 0, None, append("x", 1)), one("b", 1, 2, read("x", 1)), one("c", 3, 4, read("x"))],
    ),
    "an unknown outcome, seen in part": (
        Anomaly.FRACTURED_READ,
        [msgspec.structs.replace(FIRST, outcome="unknown", end=None), one("a", 2, 3, read("x", 1), read("y"))],
    ),
    "an aborted transaction that saw no snapshot": (
        Anomaly.FRACTURED_READ,
        [FIRST, one("a", 0, 9, read("x", 1), read("y"), append("z", 3), outcome="aborted")],
    ),
}

SKEWS: dict[str, list[Transaction]] = {
    "of keys": [
        FIRST,
        one("a", 2, 5, read("x", 1), read("y", 2), append("x", 3)),
        one("b", 3, 6, read("x", 1), read("y", 2), append("y", 4)),
        one("c", 7, 8, read("x", 1, 3), read("y", 2, 4)),
    ],
    "of three": [
        one("a", 2, 9, read("x"), append("y", 1)),
        one("b", 2, 9, read("y"), append("z", 2)),
        one("c", 2, 9, read("z"), append("x", 3)),
        one("d", 10, 11, scan(x=(3,), y=(1,), z=(2,))),
    ],
    "of scans": [
        one("a", 2, 9, scan(), append("x", 1)),
        one("b", 2, 9, scan(), append("y", 2)),
        one("c", 10, 11, scan(x=(1,), y=(2,))),
    ],
    "that nobody looked at": [
        one("a", 2, 9, read("x"), append("y", 1)),
        one("b", 2, 9, read("y"), append("x", 2)),
    ],
}
