"""The items of a tail, by number: a persistent map whose oldest part may be stored bytes that nobody has looked at yet.

Opening a lake would spend most of its time on the items of long tails, and a process may never read those tables, or
read them only after they were flushed. So they stay as a checkpoint has them until somebody asks for one.
"""

from __future__ import annotations  # HashTrieMap cannot be subscripted at run time

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from rpds import HashTrieMap

from phalanx.errors import CorruptionError
from phalanx.log import item as it

_ARRAY = struct.Struct(">BI")
_ARRAY_32 = 0xDD
"""How an array begins in MessagePack: stored items are its members, one after the other."""
_LENGTH = struct.Struct("<Q")
_CODEC: Final = "zstd"
_MOST = 1 << 31


class Pending(msgspec.Struct, frozen=True, gc=False):
    """An item of the tail: where it landed, the serial number of its first row, and the payloads it brought."""

    seq: int
    position: int
    place: int
    serial: int
    item: it.Waiting
    payloads: tuple[bytes, ...]


class Weight(msgspec.Struct, frozen=True, gc=False):
    """How heavy a tail is: what flushes are triggered by (rule C10)."""

    rows: int = 0
    size: int = 0
    predicates: int = 0

    def plus(self, other: Weight, sign: int = 1) -> Weight:
        """The sum, or the difference."""
        return Weight(
            self.rows + sign * other.rows, self.size + sign * other.size, self.predicates + sign * other.predicates
        )


def weigh(pending: Pending) -> Weight:
    """What an item adds to its tail: staged rows weigh nothing, they are on disk already."""
    item = pending.item
    size = sum(map(len, pending.payloads))
    if isinstance(item, it.DeleteWhere | it.UpdateWhere):
        return Weight(0, len(item.where or ""), 1)
    if isinstance(item, it.DeleteKeys | it.DeleteRows):
        return Weight(item.count, size, 0)
    if isinstance(item, it.Alter):
        return Weight(0, 0, 1)
    if isinstance(item.rows, it.Inline):
        return Weight(item.rows.count, size, 0)
    return Weight(0, 0, 1)  # each one is a set of files of its own, which every read has to open


def taken(item: it.Waiting, payloads: Sequence[bytes | memoryview]) -> tuple[it.Waiting, tuple[bytes, ...]]:
    """The item with only its own payloads, so that a tail does not keep whole entries alive."""
    if not payloads:
        return item, ()
    rows = getattr(item, "rows", None)
    if len(payloads) == 1 and isinstance(rows, it.Inline) and not rows.payload:
        return item, (bytes(payloads[0]),)  # by far the most frequent case
    own: list[bytes] = []

    def take(index: int | None) -> int | None:
        if index is None:
            return None
        own.append(bytes(payloads[index]))
        return len(own) - 1

    changes: dict[str, Any] = {}
    if isinstance(item, it.DeleteKeys):
        changes["keys"] = take(item.keys)
    elif isinstance(item, it.DeleteRows):
        changes["identities"] = take(item.identities)
    elif isinstance(item, it.Put | it.Upsert | it.Overwrite):
        rows = item.rows
        field = "payload" if isinstance(rows, it.Inline) else "dead"
        changes["rows"] = msgspec.structs.replace(rows, **{field: take(getattr(rows, field))})
        if isinstance(item, it.Upsert):
            changes["hidden"] = take(item.hidden)
    return msgspec.structs.replace(item, **changes) if changes else item, tuple(own)


_encoder = msgspec.msgpack.Encoder(order="sorted")
_decoder = msgspec.msgpack.Decoder(list[Pending])


class Stored:
    """Items as a checkpoint has them, from number `first` up to `until`; read when one of them is asked for.

    They are packed: each brings its schema along, so that a long tail of small ones is mostly repetition.
    """

    __slots__ = ("_packed", "_read", "first", "until")

    def __init__(self, first: int, until: int, packed: bytes) -> None:
        self.first = first
        self.until = until
        self._packed = packed
        self._read: list[Pending] | None = None

    def data(self) -> bytes:
        """The items, one after the other."""
        return unpacked(self._packed)

    def __getitem__(self, seq: int) -> Pending:
        if self._read is None:
            try:
                self._read = _decoder.decode(_ARRAY.pack(_ARRAY_32, self.until - self.first) + self.data())
            except (
                msgspec.DecodeError,
                UnicodeDecodeError,
                RecursionError,
                pa.ArrowException,
                struct.error,
                OSError,
            ) as error:
                raise CorruptionError(f"the items of a tail cannot be read: {error}; run `phalanx check`") from error
        return self._read[seq - self.first]


def packed(data: bytes) -> bytes:
    """Bytes made smaller, with their length before them."""
    return _LENGTH.pack(len(data)) + pa.compress(data, codec=_CODEC, asbytes=True)


def unpacked(data: bytes) -> bytes:
    """The inverse of `packed`."""
    (size,) = _LENGTH.unpack_from(data)
    if size > _MOST:
        raise pa.ArrowInvalid(f"{size} bytes are more than a tail has")
    return pa.decompress(data[_LENGTH.size :], decompressed_size=size, codec=_CODEC, asbytes=True)


class Items:
    """The items of one tail. Immutable: whoever changes it gets another one."""

    __slots__ = ("_first", "_newer", "_stored")

    def __init__(
        self, stored: Stored | None = None, newer: HashTrieMap[int, Pending] | None = None, first: int = 0
    ) -> None:
        self._stored = stored if stored is not None and first < stored.until else None
        self._newer: HashTrieMap[int, Pending] = HashTrieMap() if newer is None else newer
        self._first = first
        """Stored items below this number have gone."""

    @classmethod
    def load(cls, first: int, until: int, data: bytes) -> Items:
        """The inverse of `dump`."""
        return cls(Stored(first, until, data) if first < until else None, None, first)

    def dump(self) -> bytes:
        """The items in order, one after the other, packed: equal ones are equal bytes."""
        stored, newer = self._stored, self._newer
        if stored is not None and self._first == stored.first and all(seq >= stored.until for seq in newer):
            return packed(stored.data() + b"".join([_encoder.encode(newer[seq]) for seq in sorted(newer)]))
        return packed(b"".join([_encoder.encode(self[seq]) for seq in self]))

    def insert(self, seq: int, pending: Pending) -> Items:
        """With one more, or another one in its place."""
        return Items(self._stored, self._newer.insert(seq, pending), self._first)

    def remove(self, seq: int) -> Items:
        """Without the first one."""
        newer = self._newer.remove(seq) if seq in self._newer else self._newer
        return Items(self._stored, newer, max(self._first, seq + 1))

    def __getitem__(self, seq: int) -> Pending:
        found = self._newer.get(seq)
        if found is not None:
            return found
        if self._stored is None or not self._first <= seq < self._stored.until:
            raise KeyError(seq)
        return self._stored[seq]

    def __iter__(self) -> Iterator[int]:
        """The numbers, ascending."""
        held = () if self._stored is None else range(max(self._first, self._stored.first), self._stored.until)
        return iter(sorted({*held, *self._newer}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Items):
            return NotImplemented
        return list(self) == list(other) and all(self[seq] == other[seq] for seq in self)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Items({list(self)})"
