"""Index coverage: what was flushed, loaded or rewritten is indexed, in the background, as maintenance.

Keyed tables keep an index on the first column of their key by themselves. A new segment is built for the fragments that
have none; when there are too many segments, or for vectors when too much is left out, one is built for all of them. What
was built is announced on whatever head the table has by then: nothing is built twice because somebody flushed.
"""

import logging
from collections.abc import Iterator

import msgspec

from phalanx.clock import Deadline
from phalanx.contents import Contents, Index
from phalanx.errors import ConflictError
from phalanx.log import item as it
from phalanx.tables import index as indexes
from phalanx.tables.dataset import Version
from phalanx.tail.lookup import KEY_INDEX
from phalanx.txn.core import Core, Found, locate

log = logging.getLogger("phalanx.upkeep")

LEAST_ROWS = 10_000
"""Rows without an index that are worth a segment: fewer are scanned in a few milliseconds."""
MOST_SEGMENTS = 8
LEFT_OUT = 0.2
"""The share of a table that a vector index may leave out before it is built anew."""
ATTEMPTS = 8


class Covered(msgspec.Struct, frozen=True):
    """The indexes that were built or brought up to date."""

    names: tuple[str, ...] = ()


def wanted(here: Found) -> tuple[Index, ...]:
    """The indexes that a table should have."""
    key = here.shape.key
    own = (Index(KEY_INDEX, key[0], "btree", {}),) if key else ()
    return own + here.contents.indexes


def cover(core: Core, table: str, deadline: Deadline, *, least_rows: int = LEAST_ROWS) -> Covered:
    """Build what is missing; without effect if nothing is."""
    here = locate(core.refresh(), table)
    head = core.datasets.own(table, here.contents.head.manifest)
    built = list(_built(head, wanted(here), least_rows))
    unwanted = _unwanted(head, wanted(here))
    if not built and not unwanted:
        return Covered()
    for _ in range(ATTEMPTS):
        contents = locate(core.refresh(), table).contents
        if contents.generation != here.contents.generation:
            break
        names = _announced(core, table, contents, built, unwanted, deadline)
        if names is not None:
            return Covered(names)
    return Covered()


def _announced(
    core: Core,
    table: str,
    contents: Contents,
    built: list[indexes.Built],
    unwanted: frozenset[str],
    deadline: Deadline,
) -> tuple[str, ...] | None:
    """The names of what landed; None if the head moved meanwhile."""
    head = core.datasets.open(table, contents.head.manifest)
    there = set(head.fragments)
    fitting = [one for one in built if one.fragments <= there]
    made = indexes.announce(core.datasets, head, fitting, unwanted)
    if made is None:
        return ()
    names = tuple(sorted({one.name for one in fitting}))
    action = it.Cover(table, contents.generation, contents.head.manifest, made.manifest, names)
    try:
        core.committer.commit(core.intent([action], deadline))
    except ConflictError as error:
        log.debug("indexes of %s are announced again: %s", table, error)
        return None
    return names


def _built(head: Version, specs: tuple[Index, ...], least_rows: int) -> Iterator[indexes.Built]:
    held = indexes.segments(head)
    there = frozenset(head.fragments)
    for spec in specs:
        own = [segment for segment in held if segment.name == spec.name]
        missing = there.difference(*(segment.fragments for segment in own))
        rows = _rows(head, missing)
        if rows < (1 if not own and spec.name != KEY_INDEX else least_rows):  # what was asked for is built at any size
            continue
        anew = _anew(spec, own, rows, head.rows)
        fragments = there if anew else missing
        replaced = frozenset(segment.uuid for segment in own) if anew else frozenset()
        yield indexes.build(head, spec.name, spec.column, spec.kind, spec.options, sorted(fragments), replaced)


def _anew(spec: Index, own: list[indexes.Segment], missing: int, rows: int) -> bool:
    if spec.kind in indexes.VECTOR:
        return missing > LEFT_OUT * rows or not own
    return len(own) >= MOST_SEGMENTS or not own


def _unwanted(head: Version, specs: tuple[Index, ...]) -> frozenset[str]:
    """Segments of indexes that were dropped, and those none of whose fragments is left."""
    names = {spec.name for spec in specs}
    there = set(head.fragments)
    return frozenset(
        segment.uuid for segment in indexes.segments(head) if segment.name not in names or not segment.fragments & there
    )


def _rows(version: Version, fragments: frozenset[int]) -> int:
    return sum(version.fragment(one).count_rows() for one in fragments)
