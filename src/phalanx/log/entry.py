"""An entry: several transactions in one frame, as they stand at one position of the log.

An entry does not contain its position, so one that lost a position can be put again at the next, byte for byte. Each
attempt has an id of its own inside its bytes; each transaction keeps its id over all attempts. The layout of the body
is in docs/format.md and pinned by golden bytes in tests/unit/test_entry.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from phalanx.errors import CorruptionError, InvalidInputError
from phalanx.ids import ID_BYTES, AttemptId, LakeId, TransactionId
from phalanx.log import frame
from phalanx.log.action import FEATURES, Action, Text
from phalanx.log.item import payloads_of

MAGIC = b"PHLXENT\n"
MAX_TRANSACTIONS = 16_384
"""Most transactions in one entry; a longer queue is committed in several entries."""

_Id = Annotated[bytes, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]


class Transaction(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Changes that take effect together; `payloads` is the number of this transaction's payloads."""

    id: _Id
    note: Text
    actions: Annotated[tuple[Action, ...], Meta(max_length=1 << 20)]
    payloads: Annotated[int, Meta(ge=0)] = 0
    extra: dict[str, Any] = {}


class Landing(msgspec.Struct, frozen=True, gc=False):
    """Where a transaction stands: its position, its place in the entry there, and the payloads it brought."""

    position: int
    place: int = 0
    payloads: Sequence[bytes | memoryview] = ()


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A transaction encoded by whoever asked for it, so that a bad one fails alone and batches are only joined."""

    transaction: Transaction
    encoded: bytes
    payloads: tuple[bytes, ...]
    size: int
    """Bytes it adds to an entry, a little over-estimated."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What stands at a position; `digest` identifies its bytes."""

    lake: LakeId
    attempt: AttemptId
    digest: bytes
    time: int
    writer: str
    transactions: tuple[Transaction, ...]
    payloads: tuple[memoryview, ...] = ()
    extra: dict[str, Any] = {}
    """`by`: for which places somebody else than `writer` asked; `from`: the position it was made for, at the earliest."""

    def landings(self, position: int) -> Iterator[tuple[Landing, Transaction]]:
        """The transactions of this entry at `position`, in order, each with what it brought."""
        at = 0
        for place, transaction in enumerate(self.transactions):
            after = at + transaction.payloads
            yield Landing(position, place, self.payloads[at:after]), transaction
            at = after

    @property
    def earliest(self) -> int:
        """No position below this one can be its own."""
        earliest = self.extra.get("from", 0)
        return earliest if isinstance(earliest, int) else 0

    def writer_of(self, place: int) -> str:
        """Who asked for the transaction at this place: somebody else than who put the entry, if it was carried."""
        for writer, places in self.extra.get("by", {}).items():
            if place in places:
                return str(writer)
        return self.writer

    def ids(self) -> list[TransactionId]:
        """The transactions' ids, in the order of their places."""
        return [TransactionId(transaction.id) for transaction in self.transactions]


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    time: Annotated[int, Meta(ge=0)]
    writer: Text
    transactions: Annotated[tuple[Transaction, ...], Meta(max_length=MAX_TRANSACTIONS)]
    extra: dict[str, Any] = {}


class _RawBody(msgspec.Struct, frozen=True, array_like=True):
    time: int
    writer: str
    transactions: tuple[msgspec.Raw, ...]
    extra: dict[str, Any] = {}


_encoder = msgspec.msgpack.Encoder(order="sorted")
_decoder = msgspec.msgpack.Decoder(_Body)
_transaction_decoder = msgspec.msgpack.Decoder(Transaction)


def seal(transaction: Transaction, payloads: Sequence[bytes] = ()) -> Sealed:
    """Encode a transaction and read it back: what is judged is what others will read; the error names what is wrong."""
    try:
        encoded = _encoder.encode(transaction)
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        raise _unwritable(error) from error
    return unseal(encoded, payloads)


def unseal(encoded: bytes, payloads: Sequence[bytes]) -> Sealed:
    """A transaction that was encoded, here or by another process, checked."""
    try:
        transaction = _transaction_decoder.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unwritable(error) from error
    size = len(encoded) + sum([len(payload) + 128 for payload in payloads])
    if transaction.payloads != len(payloads) or size > frame.MAX_FRAME - (1 << 16):
        msg = f"this change has {size} bytes, more than one entry holds ({frame.MAX_FRAME}): write it in bulk"
        raise InvalidInputError(msg)
    if any(index >= len(payloads) for action in transaction.actions for index in payloads_of(action)):
        raise InvalidInputError("this change speaks of rows that it does not bring: change tables by their own methods")
    return Sealed(transaction, encoded, tuple(payloads), size)


def _unwritable(error: Exception) -> InvalidInputError:
    return InvalidInputError(f"this change cannot be written to the log: {error}")


def encode(
    lake: LakeId,
    attempt: AttemptId,
    time: int,
    writer: str,
    sealed: Sequence[Sealed],
    extra: Mapping[str, Any] | None = None,
) -> tuple[bytes, bytes]:
    """The bytes of an entry, and their digest; for what is in `extra`, see `Entry`."""
    raw = tuple(msgspec.Raw(one.encoded) for one in sealed)
    payloads = [payload for one in sealed for payload in one.payloads]
    body = _RawBody(time, writer, raw, dict(extra or {}))
    return frame.encode(MAGIC, lake, attempt, _encoder.encode(body), payloads, features=0)


def decode(data: bytes, where: str) -> Entry:
    """The entry in `data`; `where` says in errors what was being read."""
    found = frame.decode(MAGIC, data, where, FEATURES)
    try:
        body = _decoder.decode(found.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{where} is malformed: {error}; run `phalanx check`"
        raise CorruptionError(msg) from error
    if sum([transaction.payloads for transaction in body.transactions]) != len(found.payloads):
        msg = f"{where} is malformed: its payloads do not add up; run `phalanx check`"
        raise CorruptionError(msg)
    return Entry(
        LakeId(found.lake),
        AttemptId(found.id),
        found.digest,
        body.time,
        body.writer,
        body.transactions,
        found.payloads,
        body.extra,
    )
