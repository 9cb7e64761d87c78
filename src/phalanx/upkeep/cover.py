"""Index coverage: what was flushed, loaded or rewritten is indexed, in the background, as maintenance.

Keyed tables keep an index on the first column of their key by themselves. A new segment is built for the fragments that
have none, and takes in the segments that are not larger than what it has by then: so there are few of them (each is larger
than all smaller ones together), and a row is indexed again a few times only, however large its table. For vectors, one is
built for all fragments when too much is left out. What was built is announced on whatever head the table has by then: nothing is built twice because somebody flushed, and
nothing is announced for fragments that another process has covered meanwhile. An index that cannot be built holds up no
other one.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from phalanx.clock import Deadline
from phalanx.errors import ConflictError, PhalanxError, StagingExpiredError
from phalanx.log import item as it
from phalanx.pins import Pin
from phalanx.tables import index as indexes
from phalanx.tables.dataset import Version
from phalanx.tail.lookup import KEY_INDEX
from phalanx.txn.core import Core, Found, locate

log = logging.getLogger("phalanx.upkeep")

LEAST_ROWS = 10_000
"""Rows without an index that are worth a segment: fewer are scanned in a few milliseconds."""
LEFT_OUT = 0.2
"""The share of a table that a vector index may leave out before it is built anew."""
ATTEMPTS = 8


class Covered(msgspec.Struct, frozen=True):
    """The indexes that were built or brought up to date, and those that could not be, with the reason."""

    names: tuple[str, ...] = ()
    failed: dict[str, PhalanxError] = {}


def wanted(here: Found) -> tuple[it.Index, ...]:
    """The indexes that a table should have."""
    key = here.shape.key
    own = (it.Index(KEY_INDEX, key[0], "btree", {}),) if key else ()
    return own + here.contents.indexes


Builder = Callable[[Version, it.Index, Sequence[int]], indexes.Built | None]
"""Builds a segment of an index for some fragments: in this process, or in one elsewhere."""


def cover(
    core: Core, table: str, deadline: Deadline, *, least_rows: int = LEAST_ROWS, builder: Builder | None = None
) -> Covered:
    """Build what is missing; without effect if nothing is."""
    here = locate(core.refresh(), table)
    if here.contents.head.layout != here.shape.layout:
        return Covered()  # the columns on disk are not yet those that the indexes are of
    pin = core.pins.staging()
    head = core.datasets.own(table, here.contents.head.manifest)
    built: dict[str, indexes.Built] = {}
    failed: dict[str, PhalanxError] = {}
    for spec in wanted(here):
        try:
            made = _built(head, spec, least_rows, builder or indexes.build)
        except PhalanxError as error:
            log.warning("index %s of table %s cannot be built; readers do without: %s", spec.name, table, error)
            failed[spec.name] = error
        else:
            built.update({} if made is None else {spec.stored: made})
    for _ in range(ATTEMPTS):
        now = locate(core.refresh(), table)
        if _moved_on(now, here):
            break
        names = _announced(core, now, built, deadline, pin)
        if names is not None:
            return Covered(names, failed)
    return Covered((), failed)


def _moved_on(now: Found, here: Found) -> bool:
    """Whether what was built for one state of a table is of no use for another."""
    before, after = here.contents, now.contents
    return after.generation != before.generation or after.head.layout != before.head.layout


def _announced(
    core: Core, here: Found, built: Mapping[str, indexes.Built], deadline: Deadline, pin: Pin
) -> tuple[str, ...] | None:
    """The names of what landed; None if the head moved meanwhile."""
    table, contents = here.table.id, here.contents
    head = core.datasets.open(table, contents.head.manifest)
    held = indexes.segments(head)
    specs = {spec.stored: spec for spec in wanted(here)}
    fitting = [one for name, one in built.items() if name in specs and indexes.fits(one, head, held)]
    made = indexes.announce(core.datasets, head, fitting, _unwanted(head, held, specs, fitting))
    if made is None:
        return ()
    names = tuple(sorted(specs[one.name].name for one in fitting))
    action = it.Cover(table, contents.generation, contents.head.manifest, made.manifest, names)
    try:
        core.committer.commit(core.intent([action], deadline, pins=[pin]))
    except StagingExpiredError:
        raise  # what was built is gone: there is nothing to announce
    except ConflictError as error:
        log.debug("indexes of %s are announced again: %s", table, error)
        return None
    return names


def _built(head: Version, spec: it.Index, least_rows: int, build: Builder) -> indexes.Built | None:
    """What brings an index up to date; None if too little is missing, or there is too little to learn from."""
    own = [segment for segment in indexes.segments(head) if segment.name == spec.stored]
    there = frozenset(head.fragments)
    covering = [segment for segment in own if segment.fragments & there]
    missing = there.difference(*(segment.fragments for segment in own))
    rows = _rows(head, missing)
    if spec.kind == "inverted" and not own and not rows:
        return build(head, spec, [])  # covers nothing, and says how text is read
    if rows < (1 if not covering and spec.name != KEY_INDEX else least_rows):  # what was asked for, at any size
        return None
    if spec.kind in indexes.VECTOR and not indexes.any_value(head, spec.column, sorted(missing)):
        return None
    if spec.kind in indexes.VECTOR and rows > LEFT_OUT * head.rows:
        return build(head, spec, sorted(there))
    return build(head, spec, sorted(missing | _taken_in(head, covering, rows)))


def _taken_in(head: Version, own: Sequence[indexes.Segment], rows: int) -> frozenset[int]:
    """The fragments of segments that are built again with so many rows, smallest first."""
    there = frozenset(head.fragments)
    taken: frozenset[int] = frozenset()
    for size, fragments in sorted((_rows(head, one.fragments & there), sorted(one.fragments & there)) for one in own):
        if size > rows:
            break
        taken, rows = taken.union(fragments), rows + size
    return taken


def _rows(head: Version, fragments: frozenset[int]) -> int:
    return sum(head.fragment(one).count_rows() for one in fragments)


def _unwanted(
    head: Version,
    held: Sequence[indexes.Segment],
    specs: Mapping[str, it.Index],
    built: Sequence[indexes.Built],
) -> frozenset[str]:
    """Segments of indexes that were dropped, and those none of whose fragments is left.

    A full-text index keeps its last one all the same: it says how text is read.
    """
    there = set(head.fragments)
    gone = {one.uuid for one in held if one.name not in specs or not one.fragments & there}
    replaced = {one.name for one in built}
    for spec in specs.values():
        own = [one.uuid for one in held if one.name == spec.stored]
        if spec.kind == "inverted" and own and spec.stored not in replaced and gone.issuperset(own):
            gone.remove(own[-1])
    return frozenset(gone)
