"""What somebody asks of a prune, and what it answers."""

from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from phalanx.errors import InvalidInputError
from phalanx.upkeep.garbage import Cleared, File

Mode = Literal["eager", "background", "sweep"]


class Options(msgspec.Struct, frozen=True):
    """How a prune goes about it; see `Lake.prune`."""

    keep: int = 1
    older_than: float = 0.0
    protect: float = 600.0
    mode: Mode = "eager"
    tables: frozenset[str] | None = None
    anchor: bool = True
    dry_run: bool = False
    files: bool = True
    """Not only mark, but remove as well; in the background nothing is removed anyway."""
    least: int = 1
    """Entries go only if they are so many."""
    by_itself: bool = False
    trust_clock: bool = False
    progress: Callable[[int, int], None] | None = None

    def checked(self) -> "Options":
        """Refuse what makes no sense."""
        if self.mode not in get_args(Mode):
            raise InvalidInputError(f"mode is one of {', '.join(get_args(Mode))}: {self.mode!r} is not")
        return self


class Pruned(msgspec.Struct, frozen=True):
    """What a prune did, or would do: versions by table, entries of the log, files with their bytes; and what stays, why."""

    version: int | None
    """The lake's version at which the decision stands; None if there was nothing to decide."""
    floor: int
    entries: int
    versions: dict[str, int]
    files: int
    bytes: int
    removed: tuple[File, ...]
    kept_files: tuple[File, ...]
    kept_versions: dict[str, dict[int, str]]
    going: dict[str, tuple[tuple[int, int], ...]] = {}
    """The versions that go, from first to last, by table."""
    log: Cleared = Cleared()
    why: str = ""
    """Why entries from the floor on stay."""
    kept: dict[int, str] = {}
    """Versions of the lake that stay below the floor, and why."""
