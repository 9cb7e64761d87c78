"""Mistakes to plant: each is one function of the product that does less than it should. A run must find each of them.

The first lose rows or let something land that must not; the others leave the rows alone, and only lookups by key and
searches show them.
"""

from typing import Any

import msgspec

from phalanx import contents
from phalanx.runs import NO_IDS
from phalanx.tables import rewrite
from phalanx.tables.dataset import Version
from phalanx.tables.index import segments
from phalanx.tail import apply, memory, read
from phalanx.tail.cache import Overlays
from phalanx.tail.folded import Folded
from phalanx.tail.overlay import Overlay, Segment
from phalanx.tail.read import Reading
from phalanx.tail.search import Search
from phalanx.txn import touched

_get, _get_many, _by_vector = Reading.get, Reading.get_many, Search.by_vector
_nearest, _rows_with_keys, _overlay = Version.nearest, read.rows_with_keys, Folded.overlay


def _on_disk(reading: Reading) -> Reading:
    """Without the rows in memory."""
    overlay = reading.overlay
    nothing = memory.empty(overlay.shape.schema, overlay.shape.key)
    return Reading(msgspec.structs.replace(overlay, memory=nothing), reading._datasets)


def _near_on_disk(search: Search, *given: Any) -> Any:
    search._reading = _on_disk(search._reading)
    return _by_vector(search, *given)


def _near_with_hidden(version: Version, *given: Any, **limits: Any) -> Any:
    return _nearest(version, *given, **(limits | {"without": None}))


def _found_with_hidden(version: Version, segment: Segment, *given: Any) -> Any:
    return _rows_with_keys(version, msgspec.structs.replace(segment, hidden=NO_IDS), *given)


def _written_before(overlays: Overlays, overlay: Overlay) -> Version:
    return overlays.datasets.open(overlay.shape.table, overlay.head.manifest)


def _for_any_head(folded: Folded, contents: contents.Contents) -> Overlay | None:
    standing = {"manifest": contents.head.manifest, "generation": contents.generation, "first": contents.first}
    return _overlay(msgspec.structs.replace(folded, **standing), contents) if folded.until >= contents.first else None


def _only_whole(head: Version, old: frozenset[int]) -> bool:
    """Segments keep rows that are gone when the deletion file goes that tells so."""
    return any(one.fragments & old and not old <= one.fragments for one in segments(head))


MISTAKES: dict[str, tuple[object, str, object]] = {
    "a delete forgets its rows at a flush": (contents, "_renumbered", lambda items, weight, *_: (items, weight)),
    "what moved since is forgotten": (contents, "becomes_head", lambda _, rows: rows.whole),
    "nobody looks for conflicts": (touched, "_check", lambda *_: None),
    "rows are hidden that are gone": (apply._Work, "_still_there", lambda *given: given[-1]),
    "a key is not looked up in the tail": (Reading, "get", lambda self, key: _get(_on_disk(self), key)),
    "keys are not looked up in the tail": (Reading, "get_many", lambda self, *keys: _get_many(_on_disk(self), *keys)),
    "a key finds a row that was replaced": (read, "rows_with_keys", _found_with_hidden),
    "the tail is not searched": (Search, "by_vector", _near_on_disk),
    "hidden rows are searched": (Version, "nearest", _near_with_hidden),
    "words are looked for in the head alone": (Overlays, "written_out", _written_before),
    "an index keeps rows that are gone": (rewrite, "_unfit", _only_whole),
    "a tail that was applied to another head is taken": (Folded, "overlay", _for_any_head),
}

MET_BY = {
    "a delete forgets its rows at a flush": 13,
    "what moved since is forgotten": 1,
    "nobody looks for conflicts": 11,
    "rows are hidden that are gone": 9,
    "a key is not looked up in the tail": 6,
    "keys are not looked up in the tail": 2,
    "a key finds a row that was replaced": 11,
    "the tail is not searched": 6,
    "hidden rows are searched": 10,
    "words are looked for in the head alone": 6,
    "an index keeps rows that are gone": 39,
    "a tail that was applied to another head is taken": 1,
}
"""Seeds of runs that meet each of them soon, to be tried first."""
