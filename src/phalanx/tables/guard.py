"""What a table's folder begins with: a guard against writers past the log, and the nothing its first version stands on.

A table's folder holds detached versions only, which nobody finds unless told their number. To a client that was merely
given the path it would look empty, and its first append would silently become version 1 of a table nobody knows. So each
folder carries a *guard* (rule G4): an ordinary version whose features no Lance knows, whatever its release. Stock Lance
then refuses to read, write, compact or clean up on that path, while detached versions are opened and committed as before.

The guard is version 0. Clients that write through a namespace look in the folder for ordinary versions newer than the
one they stand on before they ask the namespace to commit: a guard with a high number would stop them, version 0 never
does. For the same reason it is only as good as the rule that nothing else gets an ordinary name in `_versions/`: what is
materialised for such clients lives elsewhere, and `intruders` finds what does not belong there.

A detached version needs a base, even the first. That is *genesis*: a manifest of no columns and no rows that is only
ever handed to Lance in memory. Its number is a detached one, so that Lance looks for nothing on storage.

A manifest file is, in this order: its length (4 bytes, little-endian), the protobuf message `lance.table.Manifest`, the
offset of that length in the file (8 bytes), the format's major and minor number (2 bytes each), and `LANC`. Both manifests
are written out by hand here: they are the same bytes in every process and every release, so that two processes that put
the guard at once do each other no harm.
"""

import re
import struct
from collections.abc import Iterable
from functools import cache

from phalanx.tables import proto

DATA_FORMAT = "2.2"
"""The newest format of data files that Lance calls stable; the first one with maps."""

DETACHED = 1 << 63
"""Versions from here on are detached: the order of versions does not know them."""

_STABLE_ROW_IDS = 1 << 1
_NO_LANCE_KNOWS = 1 << 62
"""Lance gives out its feature bits from the lowest one up."""

_GUARD_VERSION = 0
_GUARD_NAME = f"{(1 << 64) - 1 - _GUARD_VERSION:020d}.manifest"
"""The newest version has the smallest name, so that it comes first in a listing."""

# Fields of lance.table.Manifest, and of its DataStorageFormat.
_VERSION, _READER_FEATURES, _WRITER_FEATURES, _DATA_FORMAT = 3, 9, 10, 15
_FORMAT_NAME, _FORMAT_VERSION = 1, 2

_MAGIC = b"LANC"
_MANIFEST_FORMAT = (0, 2)

_DETACHED_NAME = re.compile(r"d(\d{19,20})\.manifest(#\d+)?")
"""With a suffix: what a process that was killed left of one."""
_HARMLESS_NAME = re.compile(r"\d+\.manifest-[0-9a-f-]{36}(#\d+)?|latest_version_hint\.json(#\d+)?")
"""What clients of a namespace leave: manifests staged for it, and a hint that outranks no version."""


@cache
def guard() -> tuple[str, bytes]:
    """The guard's name inside a table's folder, and its bytes. To be put if absent, before anything else."""
    message = _manifest(_GUARD_VERSION, _NO_LANCE_KNOWS)
    content = struct.pack("<I", len(message)) + message + struct.pack("<QHH", 0, *_MANIFEST_FORMAT) + _MAGIC
    return f"_versions/{_GUARD_NAME}", content


@cache
def genesis() -> bytes:
    """The base of a table's first version, as `LanceDataset(uri, serialized_manifest=…)` takes it.

    What it says holds for the table's whole life: row ids are stable, data files have `DATA_FORMAT`, and there is no
    configuration, so that Lance never cleans up by itself.
    """
    return _manifest(DETACHED, _STABLE_ROW_IDS)


def intruders(names: Iterable[str]) -> list[str]:
    """Those names in `_versions/` that were put there past the log: neither the guard nor a detached version."""
    return sorted(name for name in names if name != _GUARD_NAME and not _expected(name))


def _expected(name: str) -> bool:
    if found := _DETACHED_NAME.fullmatch(name):
        return DETACHED <= int(found[1]) < 1 << 64
    return _HARMLESS_NAME.fullmatch(name) is not None


def _manifest(version: int, features: int) -> bytes:
    data_format = proto.content(_FORMAT_NAME, b"lance") + proto.content(_FORMAT_VERSION, DATA_FORMAT.encode())
    return (
        proto.number(_VERSION, version)
        + proto.number(_READER_FEATURES, features)
        + proto.number(_WRITER_FEATURES, features)
        + proto.content(_DATA_FORMAT, data_format)
    )
