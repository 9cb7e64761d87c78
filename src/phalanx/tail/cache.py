"""The overlays of a process: advanced with the log, never rebuilt while a head stands, shared by all threads.

The newest few of each table are kept, because a transaction reads where it began while others read on. They are a
cache of the log: losing one costs time, never a row.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from phalanx.contents import Contents, Head
from phalanx.tables.dataset import Datasets, Version
from phalanx.tail import folded
from phalanx.tail.apply import advance
from phalanx.tail.folded import Folded
from phalanx.tail.memory import empty
from phalanx.tail.overlay import Overlay, Segment, Shape, bare, shape_of
from phalanx.tail.read import Reading
from phalanx.tail.writeout import write_out

_TABLES = 256
_KEPT = 4
_WRITTEN = 8
LONG = 1000
"""Items from which on a tail is worth to be applied for others."""
_MOSTLY = 7 / 8
"""What was applied of it may be older than the checkpoint by the rest: so a tail that grows is rarely taken up for this."""
_MANY_PREDICATES = 16
_MOST_BYTES = 16 << 20
_MOST_HIDDEN = 1 << 20
_SECONDS = 300.0
"""Versions that were written out for readers are kept for so long: nobody else can use them."""


class Overlays:
    """Overlays by table. Safe to use from many threads."""

    def __init__(self, datasets: Datasets, lent: bytes = b"") -> None:
        self.datasets = datasets
        self._lent = folded.decode(lent)
        """Tails as others have applied them: where to begin with a table that was not read here yet."""
        self._lock = threading.Lock()
        self._tables: OrderedDict[str, _Shelf] = OrderedDict()
        self._writing = threading.Lock()
        self._written: list[tuple[Overlay, Version, float]] = []

    def at(self, shape: Shape, contents: Contents) -> Overlay:
        """A table's overlay with all the items that its contents name."""
        with self._lock:
            shelf = self._tables.setdefault(shape.table, _Shelf())
            self._tables.move_to_end(shape.table)
            while len(self._tables) > _TABLES:
                self._tables.popitem(last=False)
        return shelf.at(shape, contents, self.datasets, self._lent.get(shape.table))

    def folded(self, tables: Iterable[tuple[str, Contents]]) -> bytes:
        """Long tails, applied, for others to begin with: those that were read here, and those that keys and rows make."""
        found = []
        for table, contents in tables:
            long, weight = contents.until - contents.first >= LONG, contents.weight
            if weight.size > _MOST_BYTES or not (long or weight.predicates >= _MANY_PREDICATES):
                continue
            with self._lock:
                shelf = self._tables.get(table)
            one = shelf and shelf.nearest(contents)
            known = one.until - contents.first if one else 0
            if long and not weight.predicates and known < _MOSTLY * (contents.until - contents.first):
                one = self.at(shape_of(table, contents.layout), contents)
            if one and one.hidden() <= _MOST_HIDDEN:
                found.append(one)
        return folded.encode(found)

    def written_out(self, overlay: Overlay) -> Version:
        """An overlay as a real Lance version that nobody else sees: made once for each.

        What counts is which overlay it is: a transaction's own has the same numbers as what others have committed.
        """
        if overlay.until == overlay.first_pending:
            return self.datasets.open(overlay.shape.table, overlay.head.manifest)
        with self._writing:
            found = next((version for one, version, _ in self._written if one is overlay), None)
            if found is None:
                pin = self.datasets.pins.staging()
                made = write_out(overlay, self.datasets).version
                found = Version(made.table, made.dataset)  # not the one that is kept open: it would keep the pin too
                found.pin = pin
                self._written = [(overlay, found, self.datasets.pins.time()), *self._written[: _WRITTEN - 1]]
            return found

    def forget_old(self) -> None:
        """Let go of what was written out some time ago: who still reads it holds it.

        Not while something is being written out, which may take long: pins are renewed after this.
        """
        if self._writing.acquire(blocking=False):
            try:
                self._written = [one for one in self._written if self.datasets.pins.time() - one[2] < _SECONDS]
            finally:
                self._writing.release()

    def settled(self, reading: Reading) -> Reading:
        """An overlay written out, ready to be read: for what needs the columns on disk to be the table's."""
        overlay = reading.overlay
        version = self.written_out(overlay)
        head = Head(version.manifest, overlay.head.next_row_id, overlay.shape.layout)
        nothing = empty(overlay.shape.schema, overlay.shape.key)
        alone = msgspec.structs.replace(
            overlay, head=head, segments=(Segment(version.manifest),), memory=nothing, first_pending=overlay.until
        )
        # Its own files have a pin; those that it has from the head are held by whoever asked.
        return Reading(alone, self.datasets, version.pin or reading.held, beside=reading.held)


class _Shelf:
    """The overlays of one table; one thread advances them at a time, the others wait for its result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[Overlay] = []

    def at(self, shape: Shape, contents: Contents, datasets: Datasets, lent: Folded | None) -> Overlay:
        found = self.nearest(contents)
        if found is not None and found.until == contents.until:
            return found
        with self._lock:
            found = self.nearest(contents)
            if found is None:
                found = (lent and lent.overlay(contents)) or bare(shape.table, contents)
            if found.until < contents.until:
                found = advance(found, contents.pending(found.until), datasets)
            self._kept = [found, *(one for one in self._kept if not _same(one, found))][:_KEPT]
            return found

    def nearest(self, contents: Contents) -> Overlay | None:
        """The overlay of the same head that has come furthest, but not too far."""
        same = [
            one
            for one in self._kept
            if one.head.manifest == contents.head.manifest
            and one.generation == contents.generation
            and contents.first <= one.until <= contents.until
        ]
        return max(same, key=lambda one: one.until, default=None)


def _same(one: Overlay, other: Overlay) -> bool:
    """Whether they are the same items on the same head: one that was flushed is another one, and both may be read."""
    return (one.head, one.generation, one.until) == (other.head, other.generation, other.until)
