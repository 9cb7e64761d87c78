"""The files in a table's folder: which kinds there are, and which of them a version is made of.

A registry of kinds, because what prune does not know it must not delete (known bug 7): a name of no known kind is
foreign, whoever put it there. What a version is made of is read from its manifest alone, not by opening it: a table may
have thousands.
"""

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from uuid import UUID

import msgspec

from phalanx.tables import proto
from phalanx.tables.guard import guard
from phalanx.tables.manifest import MANAGED, Manifest

_FRAGMENTS, _TRANSACTION = 2, 12
_ID, _FILES, _DELETION = 1, 2, 3
_OUTSIDE = (6, 8, 10)
"""Lists of row ids and versions that are too long for a manifest stand in files of their own."""
_BITMAP = 1


class Kind(Enum):
    """What a file in a table's folder is."""

    DATA = "rows"
    DELETIONS = "deleted rows"
    INDEX = "index"
    MANIFEST = "version"
    MANAGED = "version for clients"
    TRANSACTION = "how a version was made"
    STAGED = "staged by a client"
    SUMS = "checksums"
    GUARD = "guard"
    FOREIGN = "foreign"


_PARTIAL = r"(#\d+)?"
"""What is left of a file that was being written when its writer was killed."""
_KINDS = (
    (Kind.DATA, re.compile(rf"data/[^/#]+\.lance{_PARTIAL}|data/[^/#]+/[^/]+")),
    (Kind.DELETIONS, re.compile(rf"_deletions/\d+-\d+-\d+\.(arrow|bin){_PARTIAL}")),
    (Kind.INDEX, re.compile(r"_indices/[0-9a-f-]{36}/.+")),
    (Kind.MANIFEST, re.compile(rf"_versions/d\d{{19,20}}\.manifest{_PARTIAL}")),
    (Kind.MANAGED, re.compile(rf"{MANAGED}/\d+\.manifest{_PARTIAL}")),
    (Kind.TRANSACTION, re.compile(rf"_transactions/\d+-[0-9a-f-]{{36}}\.txn{_PARTIAL}")),
    (Kind.STAGED, re.compile(rf"(_versions|{MANAGED})/\d+\.manifest-[0-9a-f-]{{36}}{_PARTIAL}")),
    (Kind.STAGED, re.compile(rf"_versions/latest_version_hint\.json{_PARTIAL}")),
    (Kind.STAGED, re.compile(r"(data|_deletions|_versions|_transactions|_managed)/\.tmp\w+")),  # of a killed writer
    (Kind.SUMS, re.compile(rf"_sums/d\d{{19,20}}{_PARTIAL}")),
)


@lru_cache(maxsize=1 << 16)
def kind_of(name: str) -> Kind:
    """What kind a file is, by its name inside the table's folder."""
    if name == guard()[0]:
        return Kind.GUARD
    return next((kind for kind, form in _KINDS if form.fullmatch(name)), Kind.FOREIGN)


class Part(msgspec.Struct, frozen=True):
    """A version, or only some of its fragments: those that were staged with it."""

    manifest: int
    first: int = 0
    fragments: int = -1
    """How many from `first` on; all of them, and the indexes, if negative."""

    @property
    def whole(self) -> bool:
        """Whether it is all of the version."""
        return self.fragments < 0


class Named(msgspec.Struct, frozen=True):
    """What a manifest names: files and folders inside the table's folder, and how large the files are, if it says."""

    files: frozenset[str]
    folders: frozenset[str]
    sizes: dict[str, int]


def named(manifest: Manifest, part: Part | None = None) -> Named:
    """The files that a version, or a part of it, is made of; its own is not among them."""
    files: set[str] = set()
    folders: set[str] = set()
    sizes: dict[str, int] = {}
    for field in proto.parts(manifest.message):
        if field.field == _FRAGMENTS and isinstance(field.value, bytes):
            number = proto.number_of(field.value, _ID)
            if part is None or part.whole or part.first <= number < part.first + part.fragments:
                for name, size in _of_fragment(number, field.value):
                    files.add(name)
                    sizes.update({name: size} if size else {})
                    folders.update({name.removesuffix(".lance")} if name.startswith("data/") else ())
        elif field.field == _TRANSACTION and isinstance(field.value, bytes):
            files.add(f"_transactions/{field.value.decode()}")
    if part is None or part.whole:
        for folder, file, size in _of_indexes(manifest):
            folders.add(folder)
            sizes.update({f"{folder}/{file}": size} if file else {})
    return Named(frozenset(files), frozenset(folders), sizes)


def _of_fragment(number: int, fragment: bytes) -> Iterator[tuple[str, int]]:
    for field in proto.parts(fragment):
        if not isinstance(field.value, bytes):
            continue
        if field.field == _FILES:
            yield f"data/{proto.bytes_of(field.value, 1).decode()}", proto.number_of(field.value, 6)
        elif field.field == _DELETION:
            suffix = "bin" if proto.number_of(field.value, 1) == _BITMAP else "arrow"
            read, serial = proto.number_of(field.value, 2), proto.number_of(field.value, 3)
            yield f"_deletions/{number}-{read}-{serial}.{suffix}", 0
        elif field.field in _OUTSIDE:
            path = proto.bytes_of(field.value, 1).decode()
            yield path, 0
            yield f"data/{path}", 0


def _of_indexes(manifest: Manifest) -> Iterator[tuple[str, str, int]]:
    for index in proto.parts(manifest.indexes()):
        if not isinstance(index.value, bytes):
            continue
        folder = f"_indices/{UUID(bytes=proto.bytes_of(proto.bytes_of(index.value, 1), 1))}"
        yield folder, "", 0
        for file in proto.parts(index.value):
            if file.field == 10 and isinstance(file.value, bytes):
                yield folder, proto.bytes_of(file.value, 1).decode(), proto.number_of(file.value, 2)
