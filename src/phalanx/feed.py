"""The change feed of a table: every row that was inserted, updated or deleted, in the order of the log (rule J1).

Upkeep changes no row and is not in it; a restore is in it as the rows that differ. Rows have the columns that the table
has at the end of what was asked for: what an alteration did to values is not a change of rows.

Many transactions may share a position of the log, and one may change a row more than once: a version does not order the
changes of a row, a version and the place of the change among all of that version do. Both are the same in every reading.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from phalanx.contents import Contents, since
from phalanx.errors import ChangesExpiredError, InvalidInputError, NotFoundError, SnapshotExpiredError
from phalanx.pins import Hold
from phalanx.runs import Ids
from phalanx.schema import decode_schema
from phalanx.tail.cache import Overlays
from phalanx.tail.columns import conversion
from phalanx.tail.difference import difference, fitted
from phalanx.tail.effects import Changed, Counted, Kind
from phalanx.tail.follow import Follower, told
from phalanx.txn.core import Core, Found

CHANGE, VERSION, TIME, ORDER = "_change_type", "_commit_version", "_commit_timestamp", "_commit_order"
"""The columns that a feed adds; they are called as other lakes call them."""
NAMES = {Kind.INSERT: "insert", Kind.BEFORE: "update_preimage", Kind.AFTER: "update_postimage", Kind.DELETE: "delete"}
_WORDS = pa.array([NAMES[kind] for kind in Kind])
_ADDED = (
    pa.field(CHANGE, pa.string(), nullable=False),
    pa.field(VERSION, pa.int64(), nullable=False),
    pa.field(TIME, pa.timestamp("us", "UTC"), nullable=False),
    pa.field(ORDER, pa.int64(), nullable=False),
)


def feed_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a feed: the table's own, which may be null there, and what happened when."""
    return pa.schema([*(field.with_nullable(nullable=True) for field in schema), *_ADDED])


def changes(core: Core, here: Found, above: int, upto: int) -> pa.RecordBatchReader:
    """The changes of a table above one version of the lake, up to another, as a stream."""
    _check(core, above, upto)
    schema = feed_schema(here.shape.schema)
    return pa.RecordBatchReader.from_batches(schema, _batches(core, here, above, upto, schema))


def counted(core: Core, table: str, above: int, upto: int) -> dict[tuple[int, int], Counted]:
    """How many rows each commit changed, by its position and place."""
    found: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
    for _, changed in _walk(core, table, above, upto):
        for position, place in set(zip(changed.positions.tolist(), changed.places.tolist(), strict=True)):
            own = changed.kinds[(changed.positions == position) & (changed.places == place)]
            so_far = found.get((position, place), np.zeros(len(Kind), dtype=np.int64))
            found[position, place] = so_far + np.bincount(own, minlength=len(Kind))
    return {
        at: Counted(int(many[Kind.INSERT]), int(many[Kind.AFTER]), int(many[Kind.DELETE])) for at, many in found.items()
    }


def compared(core: Core, old: Found, new: Found) -> pa.Table:
    """The difference between two states of a table, with the columns of the newer: what changed, row by row."""
    found = difference(core.reading(old), core.reading(new))
    schema = pa.schema([*(field.with_nullable(nullable=True) for field in new.shape.schema), _ADDED[0]])
    parts = [_worded(one, new.shape.schema) for one in told(found, new.position, 0)]
    return pa.concat_tables([schema.empty_table(), *parts])


def _worded(changed: Changed, schema: pa.Schema) -> pa.Table:
    rows = fitted(changed.rows, schema)
    return rows.append_column(_ADDED[0], _words(changed))


def _check(core: Core, above: int, upto: int) -> None:
    end = core.log.view.position
    if not 0 <= above <= upto <= end:
        raise InvalidInputError(
            f"changes are those after one version of the lake, up to another: {above} and {upto} are not; it is at {end}"
        )
    oldest = core.log.oldest()
    if above < oldest - 1:
        raise _expired(above, oldest)


def _expired(above: int, oldest: int) -> ChangesExpiredError:
    return ChangesExpiredError(
        f"the changes after version {above} are no longer kept: those after version {oldest - 1} are; read the table as a "
        "whole, and follow its changes from there"
    )


def _require_versions(core: Core, table: str, above: int, upto: int, oldest: int) -> None:
    """Refuse changes between versions of which one was pruned or deleted: what a row was before may be gone."""
    now = core.log.view.state.contents.get(table)
    if now is None or not now.deleted:
        return
    first, last = now.versions.at(above), now.versions.at(upto)
    if last is None:
        return
    low = 1 if first is None else first.version
    if any(start <= last.version and low <= end for start, end in now.deleted):
        raise ChangesExpiredError(
            f"versions {low} to {last.version} of the table are not all kept: read it as a whole, and follow its changes "
            f"from there (the log goes back to {oldest})"
        )


def hold_changes(core: Core, table: str, above: int, upto: int) -> Hold:
    """A hold on all that changes are read from; refused if some of it is gone."""
    try:
        held = core.hold(max(above, 1), whole=True)
    except SnapshotExpiredError as error:
        raise _expired(above, core.log.oldest()) from error
    _require_versions(core, table, above, upto, core.log.oldest())
    return held


def _walk(core: Core, table: str, above: int, upto: int) -> Iterator[tuple[dict[int, int], Changed]]:
    """Changes in order, and the times of the positions that they may have (rule J3)."""
    follower: Follower | None = None
    times: dict[int, int] = {}
    held = hold_changes(core, table, above, upto)  # until the last row was given
    try:
        for walked in core.log.walk(max(above, 1), upto):  # the first entry is the lake's, no table is in it
            times[walked.position] = walked.time
            if follower is None:
                # Overlays of the past are its own: those that readers of the present share would make room for them.
                own = Overlays(core.datasets)
                follower = Follower(own, table, walked.before.state.contents.get(table))
            for landing, transaction in walked.landings:
                for changed in follower.take(landing, transaction):
                    yield times, changed
    except SnapshotExpiredError as error:
        raise _expired(above, core.log.oldest()) from error
    except NotFoundError as error:
        if core.log.oldest() > above + 1:
            raise _expired(above, core.log.oldest()) from error
        raise
    if follower is not None:
        for changed in follower.rest():
            yield times, changed
    del held


def _batches(core: Core, here: Found, above: int, upto: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    last, count = -1, 0
    for times, changed in _walk(core, here.table.id, above, upto):
        if not changed.rows.num_rows:
            continue
        order = _order(changed.positions, last, count)
        last, count = int(changed.positions[-1]), int(order[-1]) + 1
        rows = _fitted(changed, here.contents, here.shape.schema)
        positions, at = np.unique(changed.positions, return_inverse=True)
        when = np.array([times[position] for position in positions.tolist()], dtype=np.int64)[at]
        added: list[Any] = [
            _words(changed),
            pa.array(changed.positions),
            pa.array(when).cast(_ADDED[2].type),
            pa.array(order),
        ]
        table = pa.table([*rows.columns, *added], schema=schema)
        yield from table.to_batches()


def _order(positions: Ids, last: int, count: int) -> Ids:
    """The place of each change among those of its position, of which the last one had so many before these."""
    _, begin, own = np.unique(positions, return_index=True, return_inverse=True)
    found: Ids = np.arange(len(positions), dtype=np.int64) - begin[own]
    return found + np.where(positions == last, count, 0)


def _words(changed: Changed) -> "pa.Array[Any]":
    return _WORDS.take(pa.array(changed.kinds, pa.int8()))


def _fitted(changed: Changed, contents: Contents, schema: pa.Schema) -> pa.Table:
    """Rows of any layout that the table has had, with the columns that it has at the end.

    Names and types tell nothing: a column may have gone, and another one have come that is called the same.
    """
    rows = changed.rows
    later = since(contents, changed.layout)
    if later and all(one.steps for one in later):  # a client of the namespace does not say how it changed columns
        before = next(one for one in reversed(contents.layouts) if one.id == changed.layout)
        return conversion(decode_schema(before.schema), tuple(step for one in later for step in one.steps)).rows(rows)
    if rows.schema.names == schema.names and rows.schema.types == schema.types:
        return rows
    return fitted(rows, schema)
