"""A base: the complete fold of all entries below a position, stored.

One format under three names. `floor/<P>` is truth: entries below P may be gone (rule A3). `checkpoint/<P>-<hash>` is a
cache that makes opening short: it may be missing, stale or torn. `kept/<P>` keeps a position that a tag needs after the
floor has passed it. A base at P names the attempt id of the entry at P, which every replay reads next anyway: so it is
verified at no cost, and a base that belongs to another history is found out (rule F1).

What the fold is, and how it is dumped, is an argument (`Fold`); two processes that fold the same entries dump the
same bytes.
"""

import hashlib
from typing import Annotated, Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Meta

from phalanx.errors import CorruptionError, UnsupportedError
from phalanx.ids import ID_BYTES, NO_LAKE, AttemptId, LakeId
from phalanx.log import frame
from phalanx.log.action import FEATURES, Settings
from phalanx.log.entry import Landing, Transaction
from phalanx.log.recent import Recent

MAGIC = b"PHLXBAS\n"
NOBODY = AttemptId(bytes(ID_BYTES))
"""What `floor/1` names as the attempt of entry 1: nobody knows it yet."""
NO_CHAIN = bytes(frame.DIGEST_BYTES)

S = TypeVar("S")


class Fold(Protocol[S]):
    """The pure function that turns entries into state, with a way to store the state."""

    version: int
    """Raised when the same entries fold to something else: a cached base of another version is not used."""

    def empty(self) -> S:
        """The state before entry 1."""
        ...

    def step(self, state: S, landing: Landing, transaction: Transaction) -> S:
        """The state after one more transaction, which landed there."""
        ...

    def settings(self, state: S) -> Settings:
        """The lake's settings, as entry 1 gave them."""
        ...

    def dump(self, state: S) -> bytes:
        """The state as bytes: equal states, equal bytes."""
        ...

    def load(self, data: bytes) -> S:
        """The inverse of `dump`."""
        ...


class Base(msgspec.Struct, Generic[S], frozen=True):
    """The fold of all entries below `position`; `chain` is the running hash over them."""

    lake: LakeId
    position: int
    next: AttemptId
    chain: bytes
    time: int
    recent: Recent
    state: S
    folded: bytes = b""
    """What somebody has worked out from the state already, so that others need not. A checkpoint may have it; what it
    means is not known here."""


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    fold: int
    position: Annotated[int, Meta(ge=1)]
    chain: Annotated[bytes, Meta(min_length=frame.DIGEST_BYTES, max_length=frame.DIGEST_BYTES)]
    time: Annotated[int, Meta(ge=0)]
    recent: tuple[int, int, bytes, bytes]
    state: bytes
    extra: dict[str, Any] = {}


_FOLDED = "folded"

_encoder = msgspec.msgpack.Encoder(order="sorted")
_decoder = msgspec.msgpack.Decoder(_Body)


def chained(chain: bytes, digest: bytes) -> bytes:
    """The running hash, one entry further."""
    return hashlib.blake2b(chain + digest, digest_size=frame.DIGEST_BYTES).digest()


def empty(fold: Fold[S]) -> Base[S]:
    """What `floor/1` holds: nothing came before entry 1."""
    return Base(NO_LAKE, 1, NOBODY, NO_CHAIN, 0, Recent(0), fold.empty())


def encode(base: Base[S], fold: Fold[S]) -> tuple[bytes, bytes]:
    """The bytes of a base, and their digest."""
    extra = {_FOLDED: base.folded} if base.folded else {}
    body = _Body(fold.version, base.position, base.chain, base.time, base.recent.dump(), fold.dump(base.state), extra)
    return frame.encode(MAGIC, base.lake, base.next, _encoder.encode(body))


def decode(data: bytes, fold: Fold[S], where: str) -> Base[S]:
    """The base in `data`; `where` says in errors what was being read."""
    found = frame.decode(MAGIC, data, where, FEATURES)
    try:
        body = _decoder.decode(found.body)
        if body.fold != fold.version:
            msg = f"{where} was folded by rules of version {body.fold}, and this Phalanx has version {fold.version}"
            raise UnsupportedError(msg)
        state = fold.load(body.state)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{where} is malformed: {error}; run `phalanx check`"
        raise CorruptionError(msg) from error
    recent = Recent.load(*body.recent)
    folded = body.extra.get(_FOLDED, b"")
    return Base(
        LakeId(found.lake),
        body.position,
        AttemptId(found.id),
        body.chain,
        body.time,
        recent,
        state,
        folded if isinstance(folded, bytes) else b"",
    )
