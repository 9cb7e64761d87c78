"""Indexes of a dataset: built for some of its fragments, announced on whatever head the table has by then.

An index is a set of segments, each for some fragments; rows of other fragments are found without it. Announcing the
same segment for other fragments gives wrong answers, so what was rewritten gets a new segment. Rows that were deleted
since a segment was built are left out by Lance itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from lance.dataset import Index as LanceIndex
from lance.dataset import LanceOperation

from phalanx.tables.dataset import Datasets, Version, manifest_name
from phalanx.tables.speaking import speaking

VECTOR = frozenset({"ivf_flat", "ivf_pq", "ivf_sq", "ivf_hnsw_pq", "ivf_hnsw_sq"})


class Segment(msgspec.Struct, frozen=True):
    """A part of an index that a version has: for which fragments, and what Lance calls it."""

    name: str
    fragments: frozenset[int]
    uuid: str


class Built(msgspec.Struct, frozen=True):
    """A segment on disk that no version has yet, and the segments of the same index that it takes the place of."""

    name: str
    fragments: frozenset[int]
    made: LanceIndex
    instead_of: frozenset[str]


def segments(version: Version) -> list[Segment]:
    """What a version is indexed by."""
    with speaking("reading indexes"):
        found = version.dataset.list_indices()
    return [Segment(one["name"], frozenset(one["fragment_ids"]), str(one["uuid"])) for one in found]


def build(
    version: Version,
    name: str,
    column: str,
    kind: str,
    options: Mapping[str, Any],
    fragments: Sequence[int],
    instead_of: frozenset[str] = frozenset(),
) -> Built:
    """Build one segment. This is the work; nothing is visible yet."""
    given = dict(options)
    with speaking(f"building index {name}"):
        made = version.dataset.create_index_uncommitted(
            column, kind.upper(), name=name, fragment_ids=list(fragments), replace=True, **given
        )
        if kind == "inverted":
            made = version.dataset.merge_existing_index_segments([made])
    return Built(name, frozenset(fragments), made, instead_of)


def announce(
    datasets: Datasets, head: Version, built: Sequence[Built], unwanted: frozenset[str] = frozenset()
) -> Version | None:
    """The head with more segments, and without those that are unwanted; None if one is for fragments it has no more."""
    there = set(head.fragments)
    if any(not one.fragments <= there for one in built):
        return None
    gone = unwanted.union(*(one.instead_of for one in built)) if built else unwanted
    removed = [_named(one, head) for one in segments(head) if one.uuid in gone]
    if not built and not removed:
        return None
    made = datasets.commit(head, LanceOperation.CreateIndex([one.made for one in built], removed))
    names = [f"_indices/{one.made.uuid}/{file.path}" for one in built for file in one.made.files or []]
    datasets.persist(head.table, [*names, manifest_name(made.manifest)])
    return made


def _named(segment: Segment, head: Version) -> LanceIndex:
    """As Lance wants to be told which segment goes: it looks at the id only."""
    return LanceIndex(segment.uuid, segment.name, [0], head.manifest, set(segment.fragments), 1)  # type: ignore[arg-type]
