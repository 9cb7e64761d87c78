"""Files sorted into what can go and what stays, with the reason for each that stays."""

from collections.abc import Iterable
from enum import Enum

import msgspec

from phalanx.catalog import State
from phalanx.contents import is_deleted
from phalanx.tables.files import Kind, kind_of
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
    NOT_OURS = "its table was deregistered, and its files were left to others"


class File(msgspec.Struct, frozen=True):
    """A file of a table's folder."""

    table: str
    name: str
    size: int
    modified: float
    why: Why = Why.GOES


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

    def why(self, file: File) -> Why:
        """Why a file is needed; or that it is not."""
        if self._left:
            return Why.NOT_OURS
        kind = kind_of(file.name)
        if kind is Kind.FOREIGN:
            return Why.FOREIGN
        inside = file.name.rpartition("/")[0] in self._folders or "/".join(file.name.split("/")[:2]) in self._folders
        reached = file.name in self._files or inside or self._shown(file.name)
        if reached or (kind is Kind.GUARD and self._known):
            return Why.REACHED
        return Why.GOES

    def _shown(self, name: str) -> bool:
        """Whether it is a version for clients that can still be asked for."""
        if kind_of(name) is not Kind.MANAGED or self._contents is None or "#" in name:
            return False
        version = int(name.rpartition("/")[2].partition(".")[0])
        return version <= self._contents.version and not is_deleted(self._contents, version)
