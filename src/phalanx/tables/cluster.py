"""Clustering: the rows of fragments are written anew in the order of some columns, under the row ids that they have.

Lance gives the rows of a fragment their ids by a list that may be in any order, so a sorted rewrite keeps identities as
any other does (rule C5). The price: ids in no order take four bytes a row in every manifest of the table.

Only the columns to sort by are held in memory for all rows of a group; the others pass by in slices.
"""

import dataclasses
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, RowIdMeta

from phalanx.errors import InvalidInputError
from phalanx.tables import proto, stage
from phalanx.tables.dataset import ROW_ID, Ids, Version
from phalanx.tables.rewrite import SMALL, Group, Rewritten, data_size, tiers
from phalanx.tables.speaking import speaking

MOST_ROWS = 1 << 24
"""In one group: what is sorted at once."""
_AT_ONCE = 64 << 20
"""Bytes on disk of a group that is read as a whole; of a larger one, rows are fetched in the order they are written."""
_SLICE = 1 << 16
_SHORT_RUNS = 4
"""Row ids in runs that are shorter on average are written one by one."""


def plan(version: Version, columns: Sequence[str], excluded: Collection[int] = ()) -> list[Group]:
    """The groups worth sorting: runs of fragments that are in order are left alone, if they are large beside the rest."""
    require(version.dataset.schema.names, columns)
    sizes = {number: data_size(version.fragment(number).metadata) for number in version.fragments}
    runs = _runs(version, columns, [number for number in version.fragments if number not in excluded])
    rough = tuple(one for run, in_order in runs if not in_order for one in run)
    tidy = [tuple(run) for run, in_order in runs if in_order]
    sized = [(sum(sizes[one] for one in run), run) for run in ([*tidy, rough] if rough else tidy)]
    groups: list[Group] = []
    for tier in tiers(sized, SMALL):
        if tier not in tidy:  # several runs, or one that is none
            parts = _parts(version, sorted(tier))
            groups += [Group(one, "", sum(sizes[at] for at in one), tuple(columns)) for one in parts]
    return groups


def require(there: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns that are not there."""
    missing = [name for name in columns if name not in there]
    if missing:
        raise InvalidInputError(f"there is no column {missing[0]!r} to cluster by; there is: {', '.join(there)}")


def run(version: Version, group: Group) -> Rewritten:
    """Write a group's rows in order."""
    names = list(version.dataset.schema.names)
    if group.size <= _AT_ONCE:
        rows = version.scan(names, row_ids=True, fragments=group.fragments).read_all()
        order = _order(rows, group.sort_by)
        ids = _ids(rows)[order]
        slices = rows.select(names).take(order).to_batches(_SLICE)
        reader = pa.RecordBatchReader.from_batches(rows.select(names).schema, slices)
    else:
        keys = version.scan(list(group.sort_by), row_ids=True, fragments=group.fragments).read_all()
        ids = _ids(keys)[_order(keys, group.sort_by)]
        reader = pa.RecordBatchReader.from_batches(version.scan(names, limit=0).schema, _fetched(version, names, ids))
    written = stage.write(version, reader)
    return Rewritten(group.fragments, _with_ids(written.fragments, ids), version)


def _runs(version: Version, columns: Sequence[str], fragments: Sequence[int]) -> list[tuple[list[int], bool]]:
    """Fragments that follow each other in order, and whether they are; one that is not stands alone."""
    runs: list[tuple[list[int], bool]] = []
    last: pa.Table | None = None
    for number in fragments:
        keys = version.scan(list(columns), fragments=[number]).read_all()
        in_order = _in_order(keys, columns)
        if runs and runs[-1][1] and in_order and last is not None and _follows(last, keys, columns):
            runs[-1][0].append(number)
        else:
            runs.append(([number], in_order))
        last = keys.slice(max(0, keys.num_rows - 1))
    return runs


def _in_order(keys: pa.Table, columns: Sequence[str]) -> bool:
    order = _order(keys, columns)
    return bool(np.array_equal(order, np.arange(len(order))))


def _follows(last: pa.Table, keys: pa.Table, columns: Sequence[str]) -> bool:
    return _in_order(pa.concat_tables([last, keys.slice(0, 1)]), columns)


def _order(rows: pa.Table, columns: Sequence[str]) -> Ids:
    """Where the rows are that come first, second, …; equal ones as they are, nulls last."""
    counted = rows.select(list(columns)).append_column("", pa.array(np.arange(rows.num_rows)))
    names = [str(at) for at in range(len(columns) + 1)]
    try:
        found = pc.sort_indices(counted.rename_columns(names), sort_keys=[(name, "ascending") for name in names])
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise InvalidInputError(f"cannot cluster by {', '.join(columns)}: {error}") from error
    return found.to_numpy().astype(np.int64)


def _parts(version: Version, fragments: Sequence[int]) -> Iterator[tuple[int, ...]]:
    part: list[int] = []
    rows = 0
    for number in fragments:
        count = version.fragment(number).count_rows()
        if part and rows + count > MOST_ROWS:
            yield tuple(part)
            part, rows = [], 0
        part.append(number)
        rows += count
    if part:
        yield tuple(part)


def _fetched(version: Version, names: list[str], ids: Ids) -> Iterator[pa.RecordBatch]:
    dataset: Any = version.dataset
    for at in range(0, len(ids), _SLICE):
        with speaking("reading a table"):
            rows = dataset._take_rows(ids[at : at + _SLICE].tolist(), columns=names)  # noqa: SLF001 - by row id, in this order
        yield from rows.to_batches()


def _ids(rows: pa.Table) -> Ids:
    return rows[ROW_ID].to_numpy().astype(np.int64)


def _with_ids(fragments: Sequence[FragmentMetadata], ids: Ids) -> list[FragmentMetadata]:
    """The fragments with the row ids that their rows had, in the order they were written."""
    found: list[FragmentMetadata] = []
    meta: Any = RowIdMeta
    at = 0
    for one in fragments:
        own = ids[at : at + one.physical_rows]
        held = meta.from_json(json.dumps({"Inline": list(sequence(own))}))
        found.append(dataclasses.replace(one, row_id_meta=held))
        at += len(own)
    return found


def sequence(ids: Ids) -> bytes:
    """Row ids in their order, as Lance writes them: as ranges where they run, else one by one."""
    cuts = np.flatnonzero(np.diff(ids) != 1) + 1
    if len(ids) >= _SHORT_RUNS * (len(cuts) + 1):
        ends = [(int(run[0]), int(run[-1]) + 1) for run in np.split(ids, cuts)]
        return b"".join(
            proto.content(1, proto.content(1, proto.number(1, start) + proto.number(2, end))) for start, end in ends
        )
    least = int(ids.min())
    if int(ids.max()) - least < 1 << 32:
        narrow = proto.number(1, least) + proto.content(2, (ids - least).astype("<u4").tobytes())
        return proto.content(1, proto.content(5, proto.content(2, narrow)))
    wide = proto.content(2, ids.astype("<u8").tobytes())
    return proto.content(1, proto.content(5, proto.content(3, wide)))
