"""Blobs are rewritten like any other column, with the files beside their fragments, and lose no byte."""

import lance
import pyarrow as pa
import pytest

from phalanx.lake import Lake
from tests.unit.covering import head
from tests.unit.test_optimize import filled, lake

__all__ = ["lake"]

SIZES = [10, 0, 200_000, 300_000]
"""Some are kept in the file of their fragment, and some beside it."""
ENCODED = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})


def blobs(lake: Lake) -> dict[int, bytes]:
    """What Lance reads of each row."""
    version = head(lake, "b").dataset
    rows = version.to_table(columns=["id"], with_row_id=True).to_pydict()
    read = [version.take_blobs("blob", ids=[one])[0].readall() for one in rows["_rowid"]]
    return dict(zip(rows["id"], read, strict=True))


@pytest.mark.parametrize("kind", ["encoded", "of the second kind"])
def test_blobs_are_rewritten_and_never_lost(lake: Lake, kind: str) -> None:
    """Of either kind that Lance has; what they were in before goes, and they stay."""
    field = ENCODED if kind == "encoded" else lance.blob_field("blob")
    table = lake.create_table("b", pa.schema([pa.field("id", pa.int64()), field]))
    for number, size in enumerate(SIZES):
        data = [bytes([number]) * size]
        column = pa.array(data, field.type) if kind == "encoded" else lance.blob_array(data)
        table.append(pa.table({"id": [number], "blob": column}), stage=True)
    filled(lake, "z")
    done = lake.optimize()
    assert [(done[name].rewritten, done[name].skipped) for name in "bz"] == [(1, ()), (1, ())]
    assert done["b"].after == 1
    assert lake.prune(keep=1, unconditional=True).files
    assert blobs(lake) == {number: bytes([number]) * size for number, size in enumerate(SIZES)}
    assert table.count() == len(SIZES)


def test_blobs_are_read_as_bytes(lake: Lake) -> None:
    """In the tail, staged, flushed and by key: Lance tells their places in files if it is not told otherwise."""
    table = lake.create_table("b", pa.schema([pa.field("id", pa.int64()), ENCODED]), key="id")
    table.append(pa.table({"id": [1, 2], "blob": pa.array([b"a" * 300_000, b""], pa.large_binary())}), stage=True)
    table.upsert([{"id": 3, "blob": b"small"}])
    for _ in range(2):
        assert {row["id"]: len(row["blob"]) for row in table.to_arrow().to_pylist()} == {1: 300_000, 2: 0, 3: 5}
        assert table.get(1) == {"id": 1, "blob": b"a" * 300_000}
        lake.flush()
    assert lake.check(deep=True).whole
