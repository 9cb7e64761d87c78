"""Files sorted into what can go and what stays, with the reason for each that stays."""

from collections.abc import Iterable
from enum import Enum

import msgspec

from phalanx.catalog import State
from phalanx.contents import is_deleted
from phalanx.tables.dataset import manifest_name
from phalanx.tables.files import Kind, kind_of
from phalanx.tables.sums import manifest_of
from phalanx.upkeep.reach import Manifests, Reach

_MARGIN = 2.0
"""Seconds by which a file may seem older than the pin that was put before it: some stores stamp whole seconds."""


class Why(Enum):
    """Why a file stays, or that it goes."""

    GOES = "nobody can reach it"
    REACHED = "a version that is kept is made of it"
    WINDOW = "it is younger than the window"
    STAGED = "a writer may still name it"
    FOREIGN = "it is not known what it is"
    DAMAGED = "it is damaged, and cannot say what it is for: run `phalanx check`"
    NOT_OURS = "its table was deregistered, and its files were left to others"


class File(msgspec.Struct, frozen=True):
    """A file of a table's folder."""

    table: str
    name: str
    size: int
    modified: float
    why: Why = Why.GOES


class Cleared(msgspec.Struct, frozen=True):
    """What went of the log, and with it; `bytes` are those of the entries."""

    entries: int = 0
    bytes: int = 0
    checkpoints: int = 0
    floors: int = 0
    kept: int = 0
    """Positions and versions that had been kept below the floor, and that nobody needs any more."""
    pins: int = 0
    """Pins whose processes have been gone for a day."""


class Protection(msgspec.Struct, frozen=True):
    """From which stamps on files stay: because of the window, and because of writers that have pinned."""

    window: float | None
    writers: float | None


class Garbage(msgspec.Struct, frozen=True):
    """Files that can go, and files that stay."""

    garbage: list[File]
    kept: list[File]


def sort_out(
    files: Iterable[File], found: Reach, manifests: Manifests, newest: State, protection: Protection
) -> Garbage:
    """Say of each file whether it can go. Reads every manifest that counts, so that doubt ends it."""
    by_table: dict[str, list[File]] = {}
    for one in files:
        by_table.setdefault(one.table, []).append(one)
    garbage: list[File] = []
    kept: list[File] = []
    for table, own in by_table.items():
        needed = _Needed(table, found, manifests, newest, own)
        for one in own:
            why = needed.why(one)
            if why is Why.GOES:
                why = _protected(one, protection)
            told = msgspec.structs.replace(one, why=why)
            (garbage if why is Why.GOES else kept).append(told)
    return Garbage(garbage, kept)


def _protected(file: File, protection: Protection) -> Why:
    if protection.window is not None and file.modified > protection.window:
        return Why.WINDOW
    if protection.writers is not None and file.modified >= protection.writers - _MARGIN:
        return Why.STAGED
    return Why.GOES


class _Needed:
    """What one table needs of its folder."""

    def __init__(self, table: str, found: Reach, manifests: Manifests, newest: State, own: list[File]) -> None:
        self._left = table in newest.deregistered
        self._known = table in found.parts
        self._contents = newest.contents.get(table)
        parts = found.parts.get(table, set())
        named = [] if self._left else list(manifests.names(table, parts))
        named += manifests.names(table, found.spared.get(table, set()), strict=False)
        named += [manifests.managed(table, one.name) for one in own if not self._left and self._shown(one.name)]
        self._files = frozenset[str]().union(*(one.files for one in named))
        self._folders = frozenset[str]().union(*(one.folders for one in named))
        self._sums = self._needed_sums(table, manifests, own)

    def why(self, file: File) -> Why:
        """Why a file is needed; or that it is not."""
        if self._left:
            return Why.NOT_OURS
        kind = kind_of(file.name)
        if kind is Kind.FOREIGN:
            return Why.FOREIGN
        if kind is Kind.SUMS:
            return self._sums.get(file.name, Why.GOES)
        if self._reached(file.name) or self._shown(file.name) or (kind is Kind.GUARD and self._known):
            return Why.REACHED
        return Why.GOES

    def _reached(self, name: str) -> bool:
        """Whether a version that is kept is made of it."""
        inside = name.rpartition("/")[0] in self._folders or "/".join(name.split("/")[:2]) in self._folders
        return name in self._files or inside

    def _needed_sums(self, table: str, manifests: Manifests, own: list[File]) -> dict[str, Why]:
        """Checksums are needed as long as one of their files is; they are read only if they could go."""
        names = [one.name for one in own if kind_of(one.name) is Kind.SUMS and "#" not in one.name and not self._left]
        own_kept = {name for name in names if manifest_name(manifest_of(name)) in self._files}
        needed = dict.fromkeys(own_kept, Why.REACHED)
        for name, files in manifests.summed(table, [name for name in names if name not in own_kept]):
            if files is None:
                needed[name] = Why.DAMAGED
            elif any(self._reached(one) for one in files):
                needed[name] = Why.REACHED
        return needed

    def _shown(self, name: str) -> bool:
        """Whether it is a version for clients that can still be asked for."""
        if kind_of(name) is not Kind.MANAGED or self._contents is None or "#" in name:
            return False
        version = int(name.rpartition("/")[2].partition(".")[0])
        return self._contents.versions.of(version) is not None and not is_deleted(self._contents, version)
