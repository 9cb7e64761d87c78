"""Reading a segment as what its rows have become: converted, where their columns have changed since they were written.

Everything that reads rows on disk for a table's tail comes through here. What a conversion is made of is read, no more;
conditions are not handed to Lance then, which knows the old columns only. That lasts until the next flush.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from phalanx.runs import Ids
from phalanx.tables.dataset import ROW_ID, Version
from phalanx.tail.columns import Conversion
from phalanx.tail.overlay import Segment


def scan(  # noqa: PLR0913 - what Lance's own scan takes
    version: Version,
    segment: Segment,
    columns: Sequence[str],
    *,
    where: str | None = None,
    without: Ids | None = None,
    only: Ids | None = None,
    limit: int | None = None,
    row_ids: bool = False,
    batch_size: int | None = None,
) -> pa.RecordBatchReader:
    """Rows of a segment, streamed, with the columns that they have by now."""
    conversion = segment.conversion
    if conversion is None:
        return version.scan(
            columns,
            where=where,
            without=without,
            only=only,
            fragments=segment.fragments,
            limit=limit,
            row_ids=row_ids,
            batch_size=batch_size,
        )
    needed = conversion.needed(columns)
    reader = version.scan(
        needed,
        without=without,
        only=only,
        fragments=segment.fragments,
        limit=limit,
        row_ids=row_ids or not needed,
        batch_size=batch_size,
    )
    extra = [ROW_ID] if row_ids else []
    fields = [conversion.after.field(name) for name in columns] + [reader.schema.field(name) for name in extra]
    batches = _converted(reader, conversion, columns, extra)
    return pa.RecordBatchReader.from_batches(pa.schema(fields), batches)


def _converted(
    reader: pa.RecordBatchReader, conversion: Conversion, columns: Sequence[str], extra: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        yield conversion.batch(batch, columns, extra)
