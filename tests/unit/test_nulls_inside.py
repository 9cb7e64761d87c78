"""Nulls inside of lists, structs and maps that must have none: refused before anything is written."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.dicts import dicts
from phalanx.errors import InvalidInputError

FLOAT, INT = pa.float32(), pa.int64()
STRICT: "pa.Field[Any]" = pa.field("item", FLOAT, nullable=False)
KINDS: dict[str, tuple[pa.DataType, object, object]] = {
    "list": (pa.list_(STRICT), [1.0, 2.0], [1.0, None]),
    "vector": (pa.list_(STRICT, 2), [1.0, 2.0], [None, 2.0]),
    "struct": (pa.struct([pa.field("a", INT, nullable=False), pa.field("b", INT)]), {"a": 1, "b": None}, {"b": 1}),
    "map": (pa.map_(pa.string(), pa.field("value", INT, nullable=False)), [("k", 1)], [("k", None)]),
    "list of structs": (pa.list_(pa.struct([pa.field("a", INT, nullable=False)])), [{"a": 1}, None], [{"a": None}]),
}


@pytest.mark.parametrize("stage", [False, True])
@pytest.mark.parametrize("way", ["dicts", "other dicts", "arrow", "writer"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_null_inside_is_refused_where_it_must_not_be(tmp_path: Path, kind: str, way: str, stage: bool) -> None:
    """However the rows come, and whether they are logged or staged; what is right is taken, and can be flushed."""
    column, good, bad = KINDS[kind]
    schema = pa.schema([pa.field("id", INT), pa.field("v", column), pa.field("more", INT)])
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        table = lake.create_table("t", schema)

        def write(*values: object) -> None:
            rows: list[dict[str, Any]] = [{"id": at, "v": value, "more": at} for at, value in enumerate(values)]
            if way == "writer":
                with lake.writer("t") as writer:
                    for ack in [writer.append(row) for row in rows]:
                        ack.result(30)
            elif way == "arrow":
                table.append(pa.Table.from_pylist(rows, schema), stage=stage)
            else:
                for row in rows if way == "other dicts" else ():
                    del row["more"]
                table.append(rows, stage=stage)

        with pytest.raises(InvalidInputError, match="a value inside of it is null"):
            write(bad)
        assert table.count() == 0
        if kind == "vector":  # its numbers would be null with it
            with pytest.raises(InvalidInputError, match="a value inside of it is null"):
                write(good, None, good)
            assert table.count() == (2 if way == "writer" else 0)
            write(good, good, good)
        else:
            write(good, None, good)
        lake.flush("t")
        held = [row["v"] for row in table.to_arrow().to_pylist()][-3:]
        assert (held[1] is None) == (kind != "vector")
        assert held[0] == held[2] == good


def test_only_what_is_in_a_slice_of_maps_counts() -> None:
    """Arrow shows the values of the whole array that it is a slice of."""
    kind = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    loose = pa.array([[("a", None)], [("b", 2)], [("c", None)]], pa.map_(pa.string(), pa.int64()))
    maps = pa.MapArray.from_arrays(loose.offsets, loose.keys, loose.items, kind)
    dicts(pa.schema([pa.field("m", kind)])).require_inside([maps[1:2]])
    dicts(pa.schema([pa.field("m", kind)])).require_inside([maps[1:1]])
    with pytest.raises(InvalidInputError, match="a value inside of it is null"):
        dicts(pa.schema([pa.field("m", kind)])).require_inside([maps[1:]])
