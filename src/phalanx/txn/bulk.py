"""Small or large: rows that fit travel in the entry, all others are staged first, with bounded memory.

A staged change is written once, whatever lands in the meantime (rule C2): it names what it was matched with, and if
its table has not moved by the time it lands, its version is the new head there and then.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.data import Source, bytes_of
from phalanx.errors import InvalidInputError
from phalanx.log import item as it
from phalanx.pins import Pin
from phalanx.runs import NO_IDS, Ids, encode_ids
from phalanx.schema import decode_schema, require_keys
from phalanx.tables.dataset import Datasets, Version
from phalanx.tables.stage import Progress, Written, extend, hide, write
from phalanx.tail.columns import conversion
from phalanx.tail.keys import last_of_each, superseded
from phalanx.tail.lookup import rows_of_keys
from phalanx.tail.overlay import Segment, Shape
from phalanx.tail.payload import encode_rows
from phalanx.tail.writeout import evolved
from phalanx.txn.core import Found

INLINE_ROWS = 5_000
INLINE_BYTES = 512 << 10
"""Most rows and bytes of a change that travels in the entry by itself."""


class Small(msgspec.Struct, frozen=True):
    """Rows that travel in the entry, in one chunk; `fits` if they are known to be few enough."""

    rows: pa.Table
    fits: bool = False


class Large(msgspec.Struct, frozen=True):
    """Rows that are staged: `version` has them as its last fragments; `dead` of them never count."""

    version: Version
    first: int
    fragments: int
    count: int
    dead: Ids
    found: Found
    pin: Pin
    hidden: Ids | None = None
    whole: Version | None = None

    @property
    def layout(self) -> int:
        """The columns that it was staged with."""
        return self.found.shape.layout

    def with_dead(self, dead: Ids) -> "Large":
        """The same rows, as they were staged, of which others never count."""
        return Large(self.version, self.first, self.fragments, self.count, np.sort(dead), self.found, self.pin)

    def item(self, dead: int | None) -> it.Staged:
        """What the entry says of it."""
        contents = self.found.contents
        shown = self.whole or self.version
        return it.Staged(
            shown.manifest,
            self.first,
            self.fragments,
            self.count,
            contents.moved,
            contents.generation,
            contents.head.next_row_id,
            contents.head.next_row_id + self.count,
            self.whole is not None,
            dead,
        )


def take_in(given: Source, key: tuple[str, ...], *, stage: bool | None) -> Small | Source:
    """Rows that fit an entry, or the stream again, checked as it is read. `stage` forces the one or the other."""
    checked = _checked(given.batches, key)
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in checked if not stage else ():
        rows += batch.num_rows
        size += batch.nbytes if held else bytes_of(batch, INLINE_BYTES)
        held.append(batch)
        if stage is None and (rows > INLINE_ROWS or size > INLINE_BYTES):
            return Source(given.schema, itertools.chain(held, checked))
    if stage:
        return Source(given.schema, checked)
    table = pa.Table.from_batches(held, given.schema)
    table = table if len(held) == 1 else table.combine_chunks()
    return Small(last_of_each(table, key) if key else table, stage is None)


def _checked(batches: Iterator[pa.RecordBatch], key: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        require_keys(batch, key)
        yield batch


def stage(
    found: Found, rows: Source, datasets: Datasets, progress: Progress | None, own: Sequence[it.Layout] = ()
) -> Large:
    """Write a stream of rows as fragments of a version that nobody sees yet; `own` are layouts not yet committed."""
    pin = datasets.pins.staging()
    head = standing(found, datasets, own)
    written = write(head, pa.RecordBatchReader.from_batches(rows.schema, rows.batches), progress)
    return gathered(found, head, [written], datasets, pin)


def gathered(found: Found, head: Version, written: Sequence[Written], datasets: Datasets, pin: Pin) -> Large:
    """Fragments that were written on this head, here or by processes elsewhere, as a version that nobody sees yet."""
    version = extend(datasets, head, written)
    added = sum(len(one.fragments) for one in written)
    fragments = version.fragments[len(version.fragments) - added :]
    rows = sum(one.rows for one in written)
    large = Large(version, fragments[0] if fragments else 0, len(fragments), rows, NO_IDS, found, pin)
    return large if not found.shape.key else msgspec.structs.replace(large, dead=_earlier(large, found.shape.key))


def standing(found: Found, datasets: Datasets, own: Sequence[it.Layout] = ()) -> Version:
    """The head, with the columns that the rows have: an alteration may not be written out yet."""
    layouts = (*found.contents.layouts, *own)
    head = datasets.open(found.table.id, found.contents.head.manifest)
    at = [one.id for one in layouts].index(found.contents.head.layout)
    steps = tuple(step for one in layouts[at + 1 :] for step in one.steps)
    return evolved(datasets, head, conversion(decode_schema(layouts[at].schema), steps)) if steps else head


Matcher = Callable[[Version, Large, tuple[str, ...]], Ids]
"""Finds the rows of a head whose keys staged rows have: in this process, or in others elsewhere."""


def matched(large: Large, datasets: Datasets, *, replace: bool, matcher: Matcher | None = None) -> Large:
    """With the rows of the head that it replaces (all, or those of its keys), and the version that shows the result."""
    contents = large.found.contents
    head = datasets.open(large.found.table.id, contents.head.manifest)
    key = large.found.shape.key
    converted = contents.head.layout != large.layout  # then its keys are looked for when it is read
    hidden = None if replace or not key or converted else (matcher or replaced)(head, large, key)
    if contents.first != contents.until:  # with a tail there is no fast path: it would lose the items before this one
        return msgspec.structs.replace(large, hidden=hidden)
    gone = np.concatenate([NO_IDS if hidden is None else hidden, large.dead + contents.head.next_row_id])
    whole = hide(datasets, large.version, gone, head.fragments if replace else ())
    still = set(large.version.fragments[-large.fragments :]) <= set(whole.fragments) if large.fragments else True
    return msgspec.structs.replace(large, hidden=hidden, whole=whole if still else None)


def _earlier(large: Large, key: tuple[str, ...]) -> Ids:
    """The rows among the staged ones whose key comes again later: the last one counts (rule C8)."""
    keys = large.version.scan(key, fragments=range(large.first, large.first + large.fragments)).read_all()
    return superseded(keys, key)


def replaced(head: Version, large: Large, key: tuple[str, ...]) -> Ids:
    """The rows of a head whose keys staged rows have: through the key's index, if they are few beside those of the head."""
    return with_keys(head, None, large.version, range(large.first, large.first + large.fragments), key)


def with_keys(
    head: Version, some: tuple[int, ...] | None, staged: Version, fragments: Sequence[int], key: tuple[str, ...]
) -> Ids:
    """The row ids of a head, or of some of its fragments, whose keys rows of these staged fragments have."""
    keys = staged.scan(key, fragments=fragments).read_all()
    return np.sort(rows_of_keys(head, Segment(head.manifest, fragments=some), keys, key))


def require_rows(count: int, what: str) -> None:
    """Nothing to do is most likely a mistake; to empty a table, overwrite it or delete with "true"."""
    if not count:
        raise InvalidInputError(f"there are no rows to {what}")


class Cargo:
    """The payloads of a transaction, as its actions are put together."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.pins: list[Pin] = []

    def add(self, payload: bytes) -> int:
        """The index of one more."""
        self.payloads.append(payload)
        return len(self.payloads) - 1

    def rows(self, rows: Small | Large) -> it.Rows:
        """What an item says of its rows."""
        if isinstance(rows, Small):
            return it.Inline(self.add(encode_rows(rows.rows)), rows.rows.num_rows)
        self.pins.append(rows.pin)
        return rows.item(self.add(encode_ids(rows.dead)) if len(rows.dead) else None)

    def put(self, shape: Shape, rows: Small | Large) -> it.Put:
        """Rows for a table without a key."""
        return it.Put(shape.table, self.rows(rows), _layout(shape, rows))

    def overwrite(self, shape: Shape, rows: Small | Large) -> it.Overwrite:
        """Rows instead of all there are."""
        return it.Overwrite(shape.table, self.rows(rows), _layout(shape, rows))

    def upsert(self, shape: Shape, rows: Small | Large, *, fresh: bool = False) -> it.Upsert:
        """An upsert with what was precomputed for it."""
        said = self.rows(rows)
        hidden = None if isinstance(rows, Small) or rows.hidden is None else self.add(encode_ids(rows.hidden))
        return it.Upsert(shape.table, said, hidden, fresh, _layout(shape, rows))


def _layout(shape: Shape, rows: Small | Large) -> int:
    return rows.layout if isinstance(rows, Large) else shape.layout
