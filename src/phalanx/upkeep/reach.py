"""What can be reached: the files that some version needs which can still be read (I8).

A point is what a table holds at some moment: every one from the floor to the end counts, those that tags and pins keep
below it, and versions that are kept one by one; not those that were deleted. The log tells which Lance versions a point
stands on, and their manifests which files they are made of. What cannot be read is an error: doubt deletes nothing (I9).
"""

from collections.abc import Iterable, Iterator, Sequence

from phalanx.catalog import State, is_lost, step
from phalanx.contents import Contents
from phalanx.errors import CorruptionError
from phalanx.log import item as it
from phalanx.log.cursor import View
from phalanx.objects import Store, layout
from phalanx.tables import sums
from phalanx.tables.dataset import manifest_name
from phalanx.tables.files import Named, Part, named
from phalanx.tables.manifest import Manifest
from phalanx.txn.core import Core

_LIMIT = 1 << 30
_AT_ONCE = 256


class Reach:
    """Marks what can be reached, table by table."""

    def __init__(self, newest: State) -> None:
        self._newest = newest
        self.parts: dict[str, set[Part]] = {}
        self.spared: dict[str, set[Part]] = {}
        """What readers have pinned although it was deleted: as far as it is still there."""
        self._seen: dict[tuple[str, int], tuple[int, int]] = {}

    def state(self, state: State, *, spare: bool = False) -> None:
        """The whole lake at one moment."""
        for table, contents in state.contents.items():
            self.contents(table, contents, spare=spare)

    def spare(self, state: State) -> None:
        """What readers have pinned and the log has let go: as far as it is still there."""
        for table, contents in state.contents.items():
            self.spared.setdefault(table, set()).update(_parts(contents))

    def contents(self, table: str, contents: Contents, *, spare: bool = False) -> None:
        """A table at one moment, unless that version was deleted; with `spare`, even then."""
        if is_lost(self._newest, table, contents.version):
            if spare:
                self.spared.setdefault(table, set()).update(_parts(contents))
            return
        found = self.parts.setdefault(table, set())
        if contents.head.manifest:
            found.add(Part(contents.head.manifest))
        # Items are numbered within a generation: those that were marked with the state before need not be looked at.
        key = (table, contents.generation)
        low, high = self._seen.get(key, (contents.first, contents.first))
        low, high = (low, high) if low <= contents.first <= high else (contents.first, contents.first)
        found.update(_staged(contents, high))
        self._seen[key] = low, max(high, contents.until)


def _parts(contents: Contents) -> Iterator[Part]:
    if contents.head.manifest:
        yield Part(contents.head.manifest)
    yield from _staged(contents, contents.first)


def _staged(contents: Contents, first: int) -> Iterator[Part]:
    for pending in contents.pending(first):
        rows = getattr(pending.item, "rows", None)
        if isinstance(rows, it.Staged):
            yield Part(rows.manifest, rows.first, rows.fragments)


def walk(found: Reach, core: Core, since: int, view: View[State], spare_from: int | None = None) -> None:
    """Mark all that can be reached from a position on, up to the end; from `spare_from` on, even what was deleted."""
    begun = False
    for walked in core.log.walk(since, view.position):
        spare = spare_from is not None and walked.position >= spare_from
        if not begun:
            found.state(walked.before.state, spare=spare_from is not None and walked.before.position >= spare_from)
            begun = True
        state = walked.before.state
        for landing, transaction in walked.landings:
            state = step(state, landing, transaction)
            for table in {one for action in transaction.actions if (one := getattr(action, "table", None))}:
                if table in state.contents:
                    found.contents(table, state.contents[table], spare=spare)
    found.state(view.state)


class Manifests:
    """The manifests of a lake, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, Part], Named] = {}

    def names(self, table: str, parts: Iterable[Part], *, strict: bool = True) -> Iterator[Named]:
        """What these versions are made of, their own files included. A missing one is an error if this is `strict`."""
        wanted = sorted(parts, key=lambda part: (part.manifest, part.first, part.fragments))
        unknown = [part for part in wanted if (table, part) not in self._known]
        for at in range(0, len(unknown), _AT_ONCE):
            some = unknown[at : at + _AT_ONCE]
            files = [layout.table(table, manifest_name(part.manifest)) for part in some]
            for part, name, data in zip(some, files, self._store.get_many(files, limit=_LIMIT), strict=True):
                if data is None and not strict:
                    continue
                if data is None:
                    raise CorruptionError(
                        f"{name} is missing, and the log names it: nothing was deleted; run `phalanx check`"
                    )
                own = manifest_name(part.manifest)
                found = named(Manifest.read(data, name), part)
                self._known[table, part] = Named(found.files | {own}, found.folders, found.sizes)
        return (self._known[table, part] for part in wanted if (table, part) in self._known)

    def managed(self, table: str, name: str) -> Named:
        """What a version for clients is made of."""
        data = self._store.get(layout.table(table, name), limit=_LIMIT)
        return Named(frozenset(), frozenset(), {}) if data is None else named(Manifest.read(data, name))

    def summed(self, table: str, names: Sequence[str]) -> Iterator[tuple[str, frozenset[str] | None]]:
        """The files whose checksums stand under these names; None where that cannot be read, nothing if it is gone."""
        for at in range(0, len(names), _AT_ONCE):
            some = names[at : at + _AT_ONCE]
            paths = [layout.table(table, name) for name in some]
            for name, data in zip(some, self._store.get_many(paths, limit=sums.LIMIT), strict=True):
                if data is not None:
                    try:
                        yield name, frozenset(sums.decode(data, table, name).files)
                    except CorruptionError:
                        yield name, None
