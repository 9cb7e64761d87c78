"""Manifests as files: a version under another number, and what one that a client made says of itself.

A client of the namespace stands on ordinary numbers, the lake on detached ones. Both are the same manifest, with another
number in it: no file that it names changes (rule G2). What Lance would do by itself with old versions is taken out (rule
G3). The layout of the file is in `guard.py`.
"""

import contextlib
import hashlib
import struct

import msgspec

from phalanx.errors import CorruptionError
from phalanx.tables import proto
from phalanx.tables.guard import DATA_FORMAT, DETACHED

MANAGED = "_managed"
"""The folder of manifests with ordinary numbers, apart from `_versions`, where they would outrank the guard."""

_FIELDS, _FRAGMENTS, _VERSION, _SCHEMA_METADATA, _INDEX_SECTION = 1, 2, 3, 5, 6
_READER_FEATURES, _NEXT_ROW_ID, _DATA_FORMAT, _CONFIG, _TABLE_METADATA = 9, 14, 15, 16, 19
_TRANSACTION_SECTIONS = (21, 23)  # up to Lance 13, and since
_RESERVE_FRAGMENTS = 107
_HOLDS = (_FIELDS, _FRAGMENTS, _SCHEMA_METADATA, _NEXT_ROW_ID, _CONFIG, _TABLE_METADATA)
_STABLE_ROW_IDS = 1 << 1
_CLEANUP = b"lance.auto_cleanup."
_FOOTER = struct.Struct("<QHH")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"
_SEAL = b"PHLXSEAL"
_SEALED = len(_SEAL) + 32


class Manifest(msgspec.Struct, frozen=True):
    """A manifest file in its parts: what comes before the message is found by its offset, so it stays where it is."""

    before: bytes
    message: bytes
    numbers: tuple[int, int]

    @classmethod
    def read(cls, data: bytes, where: str) -> "Manifest":
        """A manifest from the bytes of its file."""
        try:
            start, major, minor = _FOOTER.unpack(data[-16:-4])
            (length,) = _LENGTH.unpack_from(data, start)
            if data[-4:] != _MAGIC or start + 4 + length + 16 != len(data):
                raise CorruptionError(f"{where} is no manifest: its parts do not add up")
            before = data[: start - _SEALED] if data[:start][-_SEALED:].startswith(_SEAL) else data[:start]
            made = cls(before, data[start + 4 : start + 4 + length], (major, minor))
            made.numbered(0), made.indexes(), made.fits  # all that is read of it later
        except (ValueError, IndexError, OverflowError, struct.error) as error:
            raise CorruptionError(f"{where} is no manifest: {error}") from error
        return made

    def sealed(self, version: int) -> bytes:
        """As `numbered`, with a checksum of everything else: Lance reads by offsets, and passes over it."""
        plain = self.numbered(version)
        rest = plain[len(self.before) : -16] + _FOOTER.pack(len(self.before) + _SEALED, *self.numbers) + _MAGIC
        return self.before + _SEAL + hashlib.sha256(self.before + rest).digest() + rest

    def numbered(self, version: int) -> bytes:
        """The file of the same version under another number, without what Lance would clean up by itself."""
        kept = b"".join(
            part.raw
            for part in proto.parts(self.message)
            if part.field != _VERSION and not (part.field == _CONFIG and _cleans_up(part.value))
        )
        message = kept + proto.number(_VERSION, version)
        footer = _FOOTER.pack(len(self.before), *self.numbers)
        return self.before + _LENGTH.pack(len(message)) + message + footer + _MAGIC

    def says_the_same_as(self, other: "Manifest") -> bool:
        """Whether rows, columns and settings are those of the other: it only kept numbers of fragments for itself."""
        mine, theirs = (
            sorted(part.raw for part in proto.parts(one.message) if part.field in _HOLDS) for one in (self, other)
        )
        return mine == theirs and self.indexes() == other.indexes()

    def indexes(self) -> bytes:
        """What it says of its indexes."""
        return self._section(_INDEX_SECTION)

    @property
    def reserves(self) -> bool:
        """Whether it says of itself that it only keeps numbers of fragments for its client."""
        for field in _TRANSACTION_SECTIONS:
            with contextlib.suppress(ValueError, IndexError, OverflowError, struct.error):
                if any(part.field == _RESERVE_FRAGMENTS for part in proto.parts(self._section(field))):
                    return True
        return False

    @property
    def version(self) -> int:
        """The number it was given."""
        return proto.number_of(self.message, _VERSION)

    @property
    def next_row_id(self) -> int:
        """The row id that the next row gets."""
        return proto.number_of(self.message, _NEXT_ROW_ID)

    @property
    def fits(self) -> bool:
        """Whether its rows have ids that last, and its files the format that tables have."""
        stable = proto.number_of(self.message, _READER_FEATURES) & _STABLE_ROW_IDS
        written = proto.bytes_of(proto.bytes_of(self.message, _DATA_FORMAT), 2)
        return bool(stable) and written == DATA_FORMAT.encode()

    def _section(self, field: int) -> bytes:
        """A message that stands before this one, where a field of it says."""
        start = proto.number_of(self.message, field, -1)
        if start < 0:
            return b""
        (length,) = _LENGTH.unpack_from(self.before, start)
        return self.before[start + 4 : start + 4 + length]


def managed_name(version: int) -> str:
    """The name of a version for clients, inside its table's folder."""
    return f"{MANAGED}/{version}.manifest"


def managed_version(name: str) -> int:
    """The inverse of `managed_name`."""
    return int(name.rpartition("/")[2].partition(".")[0])


def detached_number(token: bytes) -> int:
    """A number that no version has."""
    return int.from_bytes(token[:8]) | DETACHED


def _cleans_up(entry: int | bytes) -> bool:
    return isinstance(entry, bytes) and proto.bytes_of(entry, 1).startswith(_CLEANUP)
