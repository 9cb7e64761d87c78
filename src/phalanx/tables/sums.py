"""Sizes and SHA-256 of staged files, recorded before an entry names them: what `check --deep` compares with.

Lance returns wrong rows after a flipped bit in a data file, without an error. So whoever stages a version notes what it
wrote, in `_sums/d<manifest>`: one small object for each staged version, immutable, with a checksum of its own, and with
the table and the version in it, so that one under another's name is found out. It says nothing of rows: lost or damaged,
it costs the comparison and nothing else. Files of one version may become part of another: all notes of a table count.

A store that is asked by requests would have to send everything back to be read. There the manifests' own sizes of files
have to do, unless the lake's property `checksums` is "on".
"""

import hashlib
import threading
from collections.abc import Mapping, Sequence

import msgspec

from phalanx.errors import CorruptionError, InvalidInputError, PhalanxError, UnavailableError
from phalanx.objects import Store, Sum, Unknown, layout

PROPERTY = "checksums"
"""The lake's property that says whether checksums are recorded: "on", "off", or by what the store costs."""
FOLDER = "_sums"
LIMIT = 256 << 20

_MAGIC = b"PHLXSUM\n"
_DIGEST = 32
_THREADS = 4


class Sums(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What was staged with one version of a table, by names inside its folder."""

    table: str
    manifest: int
    files: dict[str, Sum]


_encoder = msgspec.msgpack.Encoder(order="sorted")
_decoder = msgspec.msgpack.Decoder(Sums)


def sums_name(manifest: int) -> str:
    """The name of what is noted of a version, inside its table's folder."""
    return f"{FOLDER}/d{manifest}"


def manifest_of(name: str) -> int:
    """The inverse of `sums_name`."""
    return int(name.rpartition("/d")[2].partition("#")[0])


def encode(sums: Sums) -> bytes:
    """As it is stored: magic, digest of the rest, the rest."""
    body = _encoder.encode(sums)
    return _MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes, table: str, name: str) -> Sums:
    """What is noted under this name."""
    where = f"tables/{table}/{name}"
    at = len(_MAGIC) + _DIGEST
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : at] != hashlib.sha256(data[at:]).digest():
        raise CorruptionError(f"{where} is damaged: its checksum does not match its bytes")
    try:
        found = _decoder.decode(data[at:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptionError(f"{where} is malformed: {error}") from error
    if (found.table, sums_name(found.manifest)) != (table, name):
        raise CorruptionError(f"{where} is not what its name says: it belongs to another version")
    return found


def note(store: Store, sums: Sums) -> None:
    """Store what was staged with a version."""
    with store.prepare([encode(sums)]) as blob:
        outcome = blob.put(layout.table(sums.table, sums_name(sums.manifest)))
    if isinstance(outcome, Unknown):
        raise UnavailableError(f"cannot write what was staged: {outcome.cause}; nothing was committed, try again")


def wanted(store: Store, properties: Mapping[str, str]) -> bool:
    """Whether checksums are recorded here: where reading back costs next to nothing, if nobody says."""
    return properties.get(PROPERTY, "on" if store.probes else "off") == "on"


def check_checksums(key: str, value: str | None) -> None:
    """Refuse a value that means nothing, before it is written."""
    if key == PROPERTY and value not in {None, "on", "off"}:
        raise InvalidInputError(f"{PROPERTY} is on or off: {value!r} is neither")


class Hashing:
    """Reads files while they are being made durable, several at once: the disk is waited for anyway."""

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self._store, self._names = store, names
        self._found: dict[str, Sum] = {}
        self._error: PhalanxError | None = None
        self._waiting = iter(names)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        try:
            for _ in range(min(_THREADS, len(names))):
                thread = threading.Thread(target=self._hash, name="phalanx-sums", daemon=True)
                thread.start()
                self._threads.append(thread)
        except RuntimeError:  # Python is ending, and a last flush with it: nothing more is done at the same time
            self._hash()

    def result(self) -> list[Sum]:
        """One for each name."""
        for thread in self._threads:
            thread.join()
        if self._error is not None:
            raise self._error
        return [self._found[name] for name in self._names]

    def _hash(self) -> None:
        try:
            while (name := self._next()) is not None:
                found = self._store.digest(name)
                if found is None:
                    raise UnavailableError(f"{name} is gone before it was committed: nothing was committed, try again")
                self._found[name] = found
        except PhalanxError as error:
            self._error = error

    def _next(self) -> str | None:
        with self._lock:
            return next(self._waiting, None)
