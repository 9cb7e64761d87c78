"""The envelope of everything the log stores: entries, checkpoints, floors and kept folds.

    offset  size  field
    0       8     magic: what this is
    8       2     format, little endian; 1
    10      6     zero
    16      16    lake id
    32      16    id of this very byte string (an entry's attempt id)
    48      32    checksum: BLAKE2b-256 of all other bytes
    80      8     required features, a bit each
    88      4     length of the body
    92      4     number of payloads
    96      8 n   lengths of the payloads
            …     body, then each payload at the next multiple of 64

The first 80 bytes are fixed for ever (rule F2), so a reader of any age can tell damage from news: it checks the
checksum first, then the format, then the features. Decoding is strict: every byte is accounted for, padding is zero.
What a body means is left to `entry.py` and `base.py`; payloads are Arrow IPC streams and are not looked into.
"""

import hashlib
import struct
from collections.abc import Sequence

import msgspec

from phalanx.errors import CorruptionError, UnsupportedError
from phalanx.ids import ID_BYTES

FORMAT = 1
MAX_FRAME = 64 << 20
"""Largest frame that is written or read, in bytes: larger changes are staged as files."""
DIGEST_BYTES = 32

_FIXED = struct.Struct(f"<8sH6x{ID_BYTES}s{ID_BYTES}s{DIGEST_BYTES}s")
_SIZES = struct.Struct("<QII")
_ALIGN = 64
_CHECKSUM_AT = _FIXED.size - DIGEST_BYTES
_MIN_FRAME = _FIXED.size + _SIZES.size


class Frame(msgspec.Struct, frozen=True):
    """A decoded envelope; `digest` is its checksum, which names these bytes and no others."""

    lake: bytes
    id: bytes
    digest: bytes
    body: memoryview
    payloads: tuple[memoryview, ...]


def encode(
    magic: bytes, lake: bytes, identity: bytes, body: bytes, payloads: Sequence[bytes] = (), features: int = 0
) -> tuple[bytes, bytes]:
    """The bytes of a frame, and their digest."""
    lengths = struct.pack(f"<{len(payloads)}Q", *map(len, payloads))
    rest = [_SIZES.pack(features, len(body), len(payloads)), lengths, body]
    at = _MIN_FRAME + len(lengths) + len(body)
    for payload in payloads:
        pad = -at % _ALIGN
        rest += [bytes(pad), payload]
        at += pad + len(payload)
    tail = b"".join(rest)
    head = _FIXED.pack(magic, FORMAT, lake, identity, bytes(DIGEST_BYTES))[:_CHECKSUM_AT]
    digest = _checksum(head, tail)
    return head + digest + tail, digest


def decode(magic: bytes, data: bytes, where: str, known_features: int = 0) -> Frame:
    """The frame in `data`, checked; `where` says in errors what was being read."""
    if len(data) < _MIN_FRAME or data[:8] != magic:
        found = "is cut short" if data[:8] == magic or len(data) < len(magic) else "is not what its name says"
        msg = f"{where} {found} ({len(data)} bytes): run `phalanx check`"
        raise CorruptionError(msg)
    _, version, lake, identity, digest = _FIXED.unpack_from(data)
    view = memoryview(data)
    if _checksum(data[:_CHECKSUM_AT], view[_FIXED.size :]) != digest:
        msg = f"{where} is damaged: its checksum does not match its bytes; run `phalanx check`"
        raise CorruptionError(msg)
    if version != FORMAT:
        msg = f"{where} has format {version}, and this Phalanx reads format {FORMAT}: upgrade Phalanx"
        raise UnsupportedError(msg)
    features, body_size, count = _SIZES.unpack_from(data, _FIXED.size)
    if features & ~known_features:
        unknown = features & ~known_features
        msg = f"{where} needs features {unknown:#x}, which this Phalanx does not have: upgrade Phalanx"
        raise UnsupportedError(msg)
    if count == 0 and len(data) == _MIN_FRAME + body_size:
        return Frame(lake, identity, digest, view[_MIN_FRAME:], ())
    body, payloads = _split(view, body_size, count, where)
    return Frame(lake, identity, digest, body, payloads)


def digest_of(data: bytes) -> bytes:
    """The digest that a frame carries, without checking it."""
    return data[_CHECKSUM_AT : _FIXED.size]


def _split(view: memoryview, body_size: int, count: int, where: str) -> tuple[memoryview, tuple[memoryview, ...]]:
    body_at = _MIN_FRAME + 8 * count
    at = body_at + body_size
    payloads = []
    if at <= len(view):
        for length in struct.unpack_from(f"<{count}Q", view, _MIN_FRAME):
            start = at + -at % _ALIGN
            if any(view[at:start]) or start + length > len(view):
                break
            payloads.append(view[start : start + length])
            at = start + length
    if len(payloads) != count or at != len(view):
        msg = f"{where} is malformed: its lengths do not add up; run `phalanx check`"
        raise CorruptionError(msg)
    return view[body_at : body_at + body_size], tuple(payloads)


def _checksum(head: bytes | memoryview, tail: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(head, digest_size=DIGEST_BYTES)
    digest.update(tail)
    return digest.digest()
