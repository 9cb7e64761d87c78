"""Writing an overlay out: what flush commits, and what readers that need a real Lance version are given.

Rows get fresh row ids (rule C4): hidden rows are deleted from the version they are in, staged fragments are adopted
without being written again, and the rows in memory become fragments. Nothing is visible until an entry names the result.
"""

import msgspec
import numpy as np
import pyarrow as pa

from phalanx.runs import NO_IDS, Ids
from phalanx.tables.dataset import Datasets, Version
from phalanx.tables.stage import Written, adopt, extend, hide, write
from phalanx.tail.overlay import Overlay


class WrittenOut(msgspec.Struct, frozen=True):
    """A version that holds exactly an overlay's rows; `moved` are the identities that its fresh row ids had before."""

    version: Version
    next_row_id: int
    moved: Ids


def write_out(overlay: Overlay, datasets: Datasets) -> WrittenOut:
    """Write the overlay as a detached version of its table, on top of its head."""
    table, limit = overlay.shape.table, overlay.head.next_row_id
    head = datasets.open(table, overlay.head.manifest)
    parts: list[Written] = []
    gone: list[Ids] = []
    moved: list[Ids] = [NO_IDS]
    kept = [segment for segment in overlay.segments if segment.is_head]
    dropped = [] if kept else head.fragments
    fresh = limit
    for segment in overlay.segments:
        if segment.fragments is None:
            gone.append(segment.hidden)
            continue
        parts.append(adopt(datasets.open(table, segment.manifest), segment.fragments))
        gone.append(segment.hidden - segment.first + fresh)
        moved.append(segment.identities(segment.first + np.arange(segment.count, dtype=np.int64)))
        fresh += segment.count
    living = overlay.memory.living()
    if living.num_rows:
        reader = pa.RecordBatchReader.from_batches(living.schema, living.combine_chunks().to_batches())
        parts.append(write(head, reader))
        moved.append(overlay.memory.living_identities())
        fresh += living.num_rows
    longer = extend(datasets, head, parts)
    version = hide(datasets, longer, np.concatenate([NO_IDS, *gone]), dropped)
    return WrittenOut(version, fresh, np.concatenate(moved))
