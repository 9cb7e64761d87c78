"""Writing an overlay out: what flush commits, and what readers that need a real Lance version are given.

Rows get fresh row ids (rule C4): hidden rows are deleted from the version they are in, staged fragments are adopted
without being written again, and the rows in memory become fragments. Nothing is visible until an entry names the result.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.runs import NO_IDS, Ids
from phalanx.schema import decode_schema
from phalanx.tables.dataset import ROW_ID, Datasets, Version
from phalanx.tables.evolve import evolve, same_fields
from phalanx.tables.stage import Written, adopt, extend, hide, write
from phalanx.tail.columns import Conversion, conversion, metadata_only
from phalanx.tail.disk import scan
from phalanx.tail.overlay import Overlay, Segment

_NOBODY = np.iinfo(np.int64).min
"""An identity that no row has."""


class WrittenOut(msgspec.Struct, frozen=True):
    """A version that holds exactly an overlay's rows; `moved` are the identities that its fresh row ids had before."""

    version: Version
    next_row_id: int
    moved: Ids


Writer = Callable[[Version, pa.Table], Written]
"""Writes rows as fragments of a table, in their order."""


def written_here(head: Version, rows: pa.Table) -> Written:
    """Rows in memory as fragments."""
    return write(head, pa.RecordBatchReader.from_batches(rows.schema, rows.combine_chunks().to_batches()))


def write_out(overlay: Overlay, datasets: Datasets, writer: Writer = written_here) -> WrittenOut:
    """Write the overlay as a detached version of its table, on top of its head."""
    table, limit = overlay.shape.table, overlay.head.next_row_id
    head = datasets.open(table, overlay.head.manifest)
    parts: list[Written] = []
    gone: list[Ids] = []
    moved: list[Ids] = [NO_IDS]
    kept = [segment for segment in overlay.segments if segment.is_head]
    dropped = [] if kept else head.fragments
    steps = overlay.steps_since(overlay.head.layout)
    if steps:
        schema = next(decode_schema(one.schema) for one in overlay.layouts if one.id == overlay.head.layout)
        head = evolved(datasets, hide(datasets, head, NO_IDS, dropped), conversion(schema, steps))
        dropped = []
    fresh = limit
    for segment in overlay.segments:
        if segment.fragments is None:
            gone.append(segment.hidden)
            continue
        version = datasets.open(table, segment.manifest)
        if _adoptable(version, head, segment):
            parts.append(adopt(version, segment.fragments))
            gone.append(segment.hidden - segment.first + fresh)
            moved.append(_living(segment))
            fresh += segment.count
        else:
            written, row_ids = _written_anew(version, head, segment, overlay.shape.schema)
            parts.append(written)
            moved.append(segment.identities(row_ids))
            fresh += written.rows
    living = overlay.memory.living()
    if living.num_rows:
        parts.append(writer(head, living))
        moved.append(overlay.memory.living_identities())
        fresh += living.num_rows
    longer = extend(datasets, head, parts)
    version = hide(datasets, longer, np.concatenate([NO_IDS, *gone]), dropped)
    return WrittenOut(version, fresh, np.concatenate(moved))


def _living(segment: Segment) -> Ids:
    """The identities of a staged segment's rows; of those that are hidden nobody's.

    A row that an update took to memory is there under its identity, and is written once more: that one counts.
    """
    found = segment.identities(segment.first + np.arange(segment.count, dtype=np.int64))
    found[segment.hidden - segment.first] = _NOBODY
    return found


def evolved(datasets: Datasets, version: Version, change: Conversion) -> Version:
    """A version with the columns that its rows have become."""
    origins = {name: change.origin(name) for name in change.after.names}
    new = [name for name, origin in origins.items() if origin is None]
    return evolve(datasets, version, change.after, origins, change.needed(new), lambda batch: change.batch(batch, new))


def _adoptable(version: Version, head: Version, segment: Segment) -> bool:
    """Whether staged fragments can be part of the head as they are: no value has changed, and fields mean the same."""
    if segment.conversion is None:
        return version.dataset.lance_schema == head.dataset.lance_schema or same_fields(version, head)
    return metadata_only(segment.conversion.steps) and same_fields(version, head)


def _written_anew(version: Version, head: Version, segment: Segment, schema: pa.Schema) -> tuple[Written, Ids]:
    """Staged rows, converted, as fragments of their own; and the row ids that they had, in their order."""
    row_ids: list[Ids] = [NO_IDS]

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in scan(version, segment, schema.names, without=segment.hidden, row_ids=True):
            row_ids.append(batch.column(ROW_ID).to_numpy().astype(np.int64))
            yield pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema)

    written = write(head, pa.RecordBatchReader.from_batches(schema, batches()))
    return written, np.concatenate(row_ids)
