"""Indexes of a dataset: built for some of its fragments, announced on whatever head the table has by then.

An index is a set of segments, each for some fragments; rows of other fragments are found without it. Announcing the
same segment for other fragments gives wrong answers, so what was rewritten gets a new segment; two segments of one index
for the same fragment make Lance panic. Rows that were deleted since a segment was built are left out by Lance itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from lance.dataset import Index as LanceIndex
from lance.dataset import LanceOperation

from phalanx.errors import PhalanxError
from phalanx.tables.dataset import Datasets, Version, manifest_name
from phalanx.tables.speaking import speaking

_TOO_FEW = "KMeans cannot train"
"""What Lance says where there are fewer usable vectors (no nulls, no zeros for the cosine) than partitions."""

APART = frozenset({"btree", "bitmap", "inverted"})
"""Kinds whose segments can be built apart and put together; a vector index learns from all rows first."""

VECTOR = frozenset({"ivf_flat", "ivf_pq", "ivf_sq", "ivf_rq", "ivf_hnsw_flat", "ivf_hnsw_pq", "ivf_hnsw_sq"})


class Spec(Protocol):
    """What an index is to be; `stored` is what Lance calls it."""

    @property
    def stored(self) -> str: ...  # noqa: D102 - said above
    @property
    def column(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def options(self) -> Mapping[str, Any]: ...  # noqa: D102


class Segment(msgspec.Struct, frozen=True):
    """A part of an index that a version has: for which fragments, and what Lance calls it."""

    name: str
    fragments: frozenset[int]
    uuid: str


class Built(msgspec.Struct, frozen=True):
    """A segment on disk that no version has yet."""

    name: str
    fragments: frozenset[int]
    made: LanceIndex

    @property
    def files(self) -> list[str]:
        """The names of its files, inside the table's folder."""
        return [f"_indices/{self.made.uuid}/{file.path}" for file in self.made.files or []]


def segments(version: Version) -> list[Segment]:
    """What a version is indexed by."""
    with speaking("reading indexes"):
        found = version.dataset.describe_indices()
        return [
            Segment(one.name, frozenset(part.fragment_ids), str(part.uuid)) for one in found for part in one.segments
        ]


def build(version: Version, spec: Spec, fragments: Sequence[int]) -> Built | None:
    """Build one segment: this is the work, and nothing is visible yet. None if there was too little to learn from."""
    try:
        return _built(version, spec, fragments)
    except PhalanxError as error:
        if spec.kind in VECTOR and _TOO_FEW in str(error):
            return None
        raise


def _built(version: Version, spec: Spec, fragments: Sequence[int]) -> Built | None:
    made = part(version, spec, fragments)
    if spec.kind == "inverted" and fragments:
        return merged(version, spec, fragments, [made])
    return Built(spec.stored, frozenset(fragments), made) if made.fragment_ids or not fragments else None


def part(version: Version, spec: Spec, fragments: Sequence[int]) -> LanceIndex:
    """A segment as Lance makes it for some fragments: one of several that are to be put together, or all of it."""
    with speaking(f"building an index on column {spec.column!r}"):
        return version.dataset.create_index_uncommitted(
            spec.column,
            spec.kind.upper(),
            name=spec.stored,
            fragment_ids=list(fragments),
            replace=True,
            train=bool(fragments),
            **spec.options,
        )


def merged(version: Version, spec: Spec, fragments: Sequence[int], parts: Sequence[LanceIndex]) -> Built | None:
    """One segment of parts that were built apart, wherever that was; the parts are of no use any more."""
    there = [one for one in parts if one.fragment_ids]
    if not there:
        return None
    with speaking(f"putting an index on column {spec.column!r} together"):
        made = version.dataset.merge_existing_index_segments(there)
    return Built(spec.stored, frozenset(fragments), made)


def any_value(version: Version, column: str, fragments: Sequence[int]) -> bool:
    """Whether a row of these fragments has a value there."""
    rows = version.scan([column], fragments=fragments)
    return any(batch.num_rows > batch.column(0).null_count for batch in rows)


def fits(built: Built, head: Version, held: Sequence[Segment]) -> bool:
    """Whether a segment is for fragments that a version has, and covers more than those do that it would replace."""
    there = set(head.fragments)
    if not built.fragments:
        return all(one.name != built.name for one in held)
    rivals = [one.fragments & there for one in _rivals(built, held)]
    inside = built.fragments <= there and all(one <= built.fragments for one in rivals)
    return inside and (len(rivals) > 1 or built.fragments > frozenset().union(*rivals))


def announce(
    datasets: Datasets, head: Version, built: Sequence[Built], unwanted: frozenset[str] = frozenset()
) -> Version | None:
    """The head with these segments instead of those for the same fragments, and without what is unwanted."""
    held = segments(head)
    gone = unwanted.union(*(frozenset(rival.uuid for rival in _rivals(one, held)) for one in built))
    removed = [_named(one, head) for one in held if one.uuid in gone]
    if not built and not removed:
        return None
    made = datasets.commit(head, LanceOperation.CreateIndex([one.made for one in built], removed))
    names = [name for one in built for name in one.files]
    datasets.persist(head.table, [*names, manifest_name(made.manifest)])
    return made


def bare(datasets: Datasets, head: Version) -> Version:
    """The same rows without any index, for a look at the fragments alone."""
    held = segments(head)
    return datasets.commit(head, LanceOperation.CreateIndex([], [_named(one, head) for one in held])) if held else head


def _rivals(built: Built, held: Sequence[Segment]) -> list[Segment]:
    """The segments of the same index for some of the same fragments."""
    return [one for one in held if one.name == built.name and one.fragments & built.fragments]


def _named(segment: Segment, head: Version) -> LanceIndex:
    """As Lance wants to be told which segment goes: it looks at the id only."""
    return LanceIndex(segment.uuid, segment.name, [0], head.manifest, set(segment.fragments), 1)  # type: ignore[arg-type]
