"""Tails that somebody has applied, as bytes: a checkpoint has them beside the state, so that others need not (rule C10).

What is left of a tail's items are the row ids that they hide and the rows that live in memory. A cache and nothing more:
it counts for exactly one head, generation and number of items, and whoever has none applies the items. The items stay in
the state all the same, because feeds, transactions and flushes ask what each of them was.
"""

import struct
from collections.abc import Iterable

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.contents import Contents
from phalanx.errors import CorruptionError
from phalanx.runs import Ids
from phalanx.tail import memory
from phalanx.tail.overlay import Overlay, Segment, shape_of
from phalanx.tail.payload import decode_rows, encode_rows
from phalanx.waiting import packed, unpacked


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """A segment, as long as its columns are those that it was written with."""

    manifest: int
    hidden: bytes
    fragments: tuple[int, ...] | None
    first: int
    count: int
    serial: int


class Folded(msgspec.Struct, frozen=True, array_like=True):
    """The tail of a table, applied up to number `until` to the head that `manifest` names."""

    table: str
    generation: int
    manifest: int
    first: int
    until: int
    layout: int
    parts: tuple[_Part, ...]
    rows: bytes
    identities: bytes

    def overlay(self, contents: Contents) -> Overlay | None:
        """The overlay that it is, if that is on the way to these contents."""
        head = contents.head
        same = (self.manifest, self.generation, self.first) == (head.manifest, contents.generation, contents.first)
        at = next((at for at, layout in enumerate(contents.layouts) if layout.id == self.layout), None)
        if not same or self.until > contents.until or at is None:
            return None
        shape = shape_of(self.table, contents.layouts[at])
        try:
            rows = decode_rows(unpacked(self.rows))
            segments = tuple(map(_segment, self.parts))
            identities = _numbers(self.identities)
        except (CorruptionError, pa.ArrowException, struct.error, ValueError, OSError):
            return None  # an unreadable cache is no cache
        if not rows.schema.equals(shape.schema) or rows.num_rows != len(identities):
            return None
        held = memory.empty(shape.schema, shape.key).add(rows, identities, shape.key)
        layouts = contents.layouts[: at + 1]
        return Overlay(shape, self.generation, head, self.until, segments, held, self.first, layouts)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Folded, ...])


def encode(overlays: Iterable[Overlay]) -> bytes:
    """Overlays as bytes; those whose rows on disk have other columns by now are left out."""
    found = tuple(_folded(one) for one in overlays if not one.converts)
    return _encoder.encode(found) if found else b""


def decode(data: bytes) -> dict[str, Folded]:
    """The inverse of `encode`, by table; nothing where it cannot be read."""
    try:
        return {one.table: one for one in _decoder.decode(data)} if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _folded(overlay: Overlay) -> Folded:
    held = overlay.memory
    return Folded(
        overlay.shape.table,
        overlay.generation,
        overlay.head.manifest,
        overlay.first_pending,
        overlay.until,
        overlay.shape.layout,
        tuple(map(_part, overlay.segments)),
        packed(encode_rows(held.living().combine_chunks())),
        _bytes(held.living_identities()),
    )


def _part(one: Segment) -> _Part:
    return _Part(one.manifest, _bytes(one.hidden), one.fragments, one.first, one.count, one.serial)


def _segment(one: _Part) -> Segment:
    return Segment(one.manifest, _numbers(one.hidden), one.fragments, one.first, one.count, one.serial)


def _bytes(numbers: Ids) -> bytes:
    """Numbers in their order: as differences, which are small and much alike."""
    return packed(np.diff(numbers, prepend=0).astype("<i8").tobytes())


def _numbers(data: bytes) -> Ids:
    return np.cumsum(np.frombuffer(unpacked(data), dtype="<i8"), dtype=np.int64)
