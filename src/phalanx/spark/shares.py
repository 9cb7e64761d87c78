"""Which rows of a table each task reads: about as many for each, in the order of the table.

A task that has more rows than others is waited for alone. So fragments are cut where shares meet, if what is cut off is worth
it; otherwise shares meet where the nearest fragment ends.
"""

import bisect
import heapq
import itertools
import os
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types

from phalanx.tables.dataset import Version

BYTES_PER_TASK = 512 << 20
"""What a task reads, about, if there is enough for all that run at once: to begin one costs Spark some hundredths of a second."""
SMALL = 10 << 20
"""Bytes that Spark may send to every task of a join, as it does by itself with tables that are no larger."""
_TEXT_BYTES = 32
"""A value whose size its type does not tell."""

LEAST_ROWS = 1 << 16
"""A fragment is cut into parts that have at least so many rows."""

Group = tuple[int, ...]


class Part(msgspec.Struct, frozen=True):
    """Rows of a fragment from one place to another, of those that live."""

    fragment: int
    begin: int
    end: int


class Share(msgspec.Struct, frozen=True):
    """What one task reads: some fragments, and parts of others."""

    fragments: Group = ()
    parts: tuple[Part, ...] = ()


def sizes(version: Version) -> dict[int, int]:
    """The rows of each fragment."""
    return {number: int(version.fragment(number).metadata.num_rows) for number in version.fragments}


def bytes_of(rows: int, wanted: pa.Schema) -> int:
    """How much so many rows of some columns are, about."""
    return rows * sum(_width(kind) for kind in wanted.types)


def tasks_for(size: int, slots: int) -> int:
    """How many tasks share a read: one for each that runs at once, and more only where there is much to read."""
    return max(slots, -(-size // BYTES_PER_TASK))


def cores() -> int:
    """How many tasks run at once, as a process takes it to be that cannot ask Spark: one for each core here."""
    return len(os.sched_getaffinity(0))


def _width(kind: Any) -> int:  # noqa: ANN401 - a type
    """The bytes of a value, about."""
    if types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    if types.is_struct(kind):
        return sum(_width(kind.field(at).type) for at in range(kind.num_fields))
    if types.is_primitive(kind):
        return max(1, int(kind.bit_width) // 8)
    return int(kind.byte_width) if types.is_fixed_size_binary(kind) or types.is_decimal(kind) else _TEXT_BYTES


def shared(rows: dict[int, int], tasks: int) -> tuple[Share, ...]:
    """The rows of fragments for so many tasks, or fewer where there are few."""
    numbers = sorted(number for number, many in rows.items() if many)
    ends = list(itertools.accumulate(rows[number] for number in numbers))
    if not ends:
        return ()
    total, wanted = ends[-1], max(1, tasks)
    meeting = [0]
    for at in range(1, wanted):
        place = total * at // wanted
        meeting.append(_place(ends, place, meeting[-1]) if place > meeting[-1] else meeting[-1])
    bounds = itertools.pairwise(sorted({*meeting, total}))
    return tuple(_share(numbers, ends, begin, end) for begin, end in bounds)


def _place(ends: list[int], place: int, last: int) -> int:
    """Where two shares meet: at a place, or where the nearest fragment begins or ends if a part would be small."""
    at = bisect.bisect_right(ends, place)
    begin, end = max(last, ends[at - 1] if at else 0), ends[at]
    if min(place - begin, end - place) >= LEAST_ROWS:
        return place
    return begin if place - begin < end - place else end


def _share(numbers: list[int], ends: list[int], begin: int, end: int) -> Share:
    """The rows from one place in the table to another."""
    whole, parts = list[int](), list[Part]()
    for at in range(bisect.bisect_right(ends, begin), len(ends)):
        since, upto = ends[at - 1] if at else 0, ends[at]
        if since >= end:
            break
        first, last = max(begin, since), min(end, upto)
        if (first, last) == (since, upto):
            whole.append(numbers[at])
        else:
            parts.append(Part(numbers[at], first - since, last - since))
    return Share(tuple(whole), tuple(parts))


def balanced(rows: dict[int, int], tasks: int) -> tuple[Group, ...]:
    """Fragments in groups of about as many rows each: the largest first, each to the group that has least."""
    count = min(len(rows), max(1, tasks))
    groups: list[list[int]] = [[] for _ in range(count)]
    least = [(0, at) for at in range(count)]
    for number, many in sorted(rows.items(), key=lambda one: (-one[1], one[0])):
        held, at = heapq.heappop(least)
        groups[at].append(number)
        heapq.heappush(least, (held + many, at))
    return tuple(tuple(sorted(group)) for group in groups)
