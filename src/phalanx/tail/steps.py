"""Logged items, made ready to be applied: neighbours of one kind are decoded together and count as one step.

Ten thousand one-row upserts in a row are one batch of ten thousand rows: nothing lies between them that could tell the
difference, as long as the last one of a key wins.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.log import item as it
from phalanx.runs import NO_IDS, Ids
from phalanx.waiting import Pending


class Step(msgspec.Struct, frozen=True):
    """Neighbouring items of one kind; `rows` are the rows or keys they bring, `numbers` whose each of them is."""

    items: Sequence[Pending]
    rows: pa.Table | None = None
    numbers: Ids = NO_IDS
    serials: Ids = NO_IDS

    @property
    def item(self) -> it.Waiting:
        """What they do."""
        return self.items[0].item

    @property
    def seq(self) -> int:
        """The number of the first."""
        return self.items[0].seq


Decode = Callable[[it.Rowwise, bytes], pa.Table]
"""The rows or keys that an item brought, with the columns that the table has by now."""


def steps(run: Iterable[Pending], decode: Decode) -> Iterator[Step]:
    """The steps of a run of logged items, in order."""
    for kind, group in groupby(run, key=_kind):
        items = list(group)
        if kind is None:
            yield from (Step([one]) for one in items)
        else:
            yield _together(items, decode)


def _kind(pending: Pending) -> type | None:
    item = pending.item
    return type(item) if isinstance(item, it.Put | it.Upsert | it.DeleteKeys) else None


def _together(items: list[Pending], decode: Decode) -> Step:
    parts = [decode(one.item, one.payloads[payload_of(one.item)]) for one in items]  # type: ignore[arg-type]
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts).combine_chunks()
    counts = [part.num_rows for part in parts]
    numbers = np.repeat(np.array([one.seq for one in items], dtype=np.int64), counts)
    starts = np.repeat(np.cumsum([0, *counts[:-1]], dtype=np.int64), counts)
    firsts = np.repeat(np.array([one.serial for one in items], dtype=np.int64), counts)
    return Step(items, rows, numbers, firsts + np.arange(len(numbers), dtype=np.int64) - starts)


def payload_of(item: it.Waiting) -> int:
    """Which of its payloads are the rows or keys that an item brings."""
    if isinstance(item, it.DeleteKeys):
        return item.keys
    rows = getattr(item, "rows", None)
    return rows.payload if isinstance(rows, it.Inline) else 0
