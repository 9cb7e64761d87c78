"""One table's folder against what the log needs of it: what is missing, damaged, or not ours. Changes nothing.

What every readable version is made of is told by its manifest, sizes included; what was staged is noted with its
checksum (`tables/sums.py`). Manifests and notes are small, so they are compared with their checksums each time; all other
files only by whoever checks deeply.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from phalanx.contents import Contents, is_deleted
from phalanx.errors import CorruptionError
from phalanx.log.check import Cause, Problem
from phalanx.objects import Store, Sum, layout
from phalanx.tables import sums
from phalanx.tables.dataset import manifest_name
from phalanx.tables.files import Kind, Named, Part, kind_of, named
from phalanx.tables.guard import guard
from phalanx.tables.manifest import Manifest, managed_version

_LIMIT = 1 << 30
_AT_ONCE = 256


class Wanted(msgspec.Struct, frozen=True):
    """A file that some readable version is made of, and what is noted of it."""

    name: str
    size: int
    noted: Sum | None
    cure: str = ""
    """The version for clients that is the only one to need it, and that can be made again."""

    @property
    def counts(self) -> bool:
        """Whether rows depend on it; how a version was made is not noted, because none does."""
        return kind_of(self.name) is not Kind.TRANSACTION


class Folder:
    """What is in a table's folder, and what is needed of it."""

    def __init__(self, store: Store, table: str, listed: Mapping[str, int], contents: Contents | None) -> None:
        self._store, self._table, self._listed, self._contents = store, table, listed, contents
        self.problems: list[Problem] = []
        self.manifests: dict[int, Manifest] = {}
        self._noted = self._read_sums()
        self._needed: dict[str, int] = {}
        self._borrowed: dict[str, str] = {}
        """Files that only a version for clients needs, and its name."""
        self._folders: set[str] = set()

    def look(self, parts: Iterable[Part]) -> None:
        """Compare with what these versions are made of."""
        for part, manifest in self._read_manifests(parts):
            self._need(named(manifest, part))
        if self._contents is not None:
            self._look_at_guard()
            for name in [one for one in self._listed if kind_of(one) is Kind.MANAGED and "#" not in one]:
                self._look_at_managed(name)
        self._look_for_foreign()

    def wanted(self) -> Iterator[Wanted]:
        """Every file that is there and needed."""
        inside = {name for name in self._listed if name.rpartition("/")[0] in self._folders}
        for name in sorted({one for one in self._needed if one in self._listed} | inside):
            cure = self._borrowed.get(name) or self._borrowed.get(name.rpartition("/")[0], "")
            yield Wanted(
                name, self._listed[name], self._noted.get(name), layout.table(self._table, cure) if cure else ""
            )

    def _tell(self, name: str, what: str, cause: Cause, *, harmless: bool = False, cure: str = "") -> None:
        size = self._listed.get(name, 0)
        remedy = f"`phalanx repair` sees to {cure}" if cure and cure != name else "`phalanx repair` sees to it"
        said = f"{what}: {remedy if cure else 'restore it from a copy'}" if not harmless else what
        cured = layout.table(self._table, cure) if cure else ""
        self.problems.append(Problem(layout.table(self._table, name), said, harmless, cause, size, cured))

    def _read(self, names: list[str]) -> Iterator[tuple[str, bytes | None]]:
        for at in range(0, len(names), _AT_ONCE):
            some = names[at : at + _AT_ONCE]
            paths = [layout.table(self._table, name) for name in some]
            yield from zip(some, self._store.get_many(paths, limit=_LIMIT), strict=True)

    def _read_sums(self) -> dict[str, Sum]:
        found: dict[str, Sum] = {}
        names = [name for name in self._listed if kind_of(name) is Kind.SUMS and "#" not in name]
        for name, data in self._read(names):
            if data is not None:
                try:
                    found |= sums.decode(data, self._table, name).files
                except CorruptionError as error:
                    self._tell(name, f"{error}; no row depends on it", Cause.CORRUPT, cure=name)
        return found

    def _read_manifests(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Manifest]]:
        by_name: dict[str, list[Part]] = {}
        for part in sorted(parts, key=lambda one: (one.manifest, one.first, one.fragments)):
            by_name.setdefault(manifest_name(part.manifest), []).append(part)
        for name, data in self._read(list(by_name)):
            if data is None:
                self._tell(name, "a version that can be read stands on it", Cause.DANGLING)
                continue
            self._needed[name] = 0
            noted = self._noted.get(name)
            if noted is not None and noted != Sum(len(data), hashlib.sha256(data).digest()):
                self._tell(name, "it is not what was written", Cause.CORRUPT)
                continue
            try:
                read = Manifest.read(data, name)
            except CorruptionError as error:
                self._tell(name, str(error), Cause.CORRUPT)
                continue
            if f"d{read.version}" != name.rpartition("/")[2].partition(".")[0]:
                self._tell(name, f"it is version {read.version}, not the one of its name", Cause.CORRUPT)
                continue
            for part in by_name[name]:
                self.manifests[part.manifest] = read
                yield part, read

    def _need(self, found: Named, cure: str = "") -> None:
        """Files that a version names: all there, and as large as it says and as was noted."""
        folders = {one for one in found.folders if one.startswith("_indices/")} - self._folders
        self._folders |= folders
        names = [one for one in {*found.files, *found.sizes} if one not in self._needed]
        if cure:
            self._borrowed |= dict.fromkeys([*names, *folders], cure)
        for name in names:
            self._needed[name] = found.sizes.get(name, 0)
            self._look_at(name, self._needed[name], cure)

    def _look_at(self, name: str, size: int, cure: str) -> None:
        there = self._listed.get(name)
        if there is None:
            other = name.removeprefix("data/") if name.startswith("data/") else f"data/{name}"
            if kind_of(name) is Kind.TRANSACTION:
                self._tell(name, "how a version was made stood in it: no row is lost", Cause.DANGLING, harmless=True)
            elif other not in self._listed:
                self._tell(name, "rows of a version that can be read stood in it", Cause.DANGLING, cure=cure)
            return
        noted = self._noted.get(name)
        for expected in {one for one in (size, noted.size if noted else 0) if one} - {there}:
            self._tell(name, f"it has {there} bytes, and {expected} were written", Cause.CORRUPT, cure=cure)

    def _look_at_guard(self) -> None:
        name, content = guard()
        if self._contents is None or not self._contents.head.manifest:
            return
        found = self._store.get(layout.table(self._table, name), limit=_LIMIT)
        if found != content:
            cause = Cause.DANGLING if found is None else Cause.CORRUPT
            self._tell(name, "without it stock Lance would write past the log", cause, cure=name)

    def _look_at_managed(self, name: str) -> None:
        """A version for clients: made again if it is removed, and wrong for them if it is damaged."""
        version = managed_version(name)
        if self._contents is None or version > self._contents.version or is_deleted(self._contents, version):
            return
        data = self._store.get(layout.table(self._table, name), limit=_LIMIT)
        if data is None:
            return
        try:
            read = Manifest.read(data, name)
        except CorruptionError as error:
            self._tell(name, str(error), Cause.CORRUPT, cure=name)
            return
        if data not in (read.sealed(version), read.numbered(version)):
            self._tell(name, "it is not what was written for clients", Cause.CORRUPT, cure=name)
        else:
            self._need(named(read), cure=name)

    def _look_for_foreign(self) -> None:
        for name in self._listed:
            if kind_of(name) is Kind.FOREIGN:
                past = name.startswith("_versions/")
                what = (
                    "somebody wrote this past the log: it is ignored; write through the lake, and remove it"
                    if past
                    else "it is not known what this is: nothing removes it; find out who put it there"
                )
                self._tell(name, what, Cause.FOREIGN, harmless=True)


Progress = Callable[[str, int, int], None]
"""Called with what is being done, how far it is, and of how much."""
