"""Every Arrow type that Lance stores goes into a table and comes out the same: logged, staged, flushed, rewritten."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx import InvalidInputError

NOON = dt.datetime(2026, 11, 15, 12, 0, 0, 123456)  # noqa: DTZ001 - without a zone on purpose

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, 127]),
    "int16": (pa.int16(), [-(1 << 15), 5]),
    "int32": (pa.int32(), [-(1 << 31), 5]),
    "int64": (pa.int64(), [-(1 << 63), (1 << 63) - 1]),
    "uint8": (pa.uint8(), [0, 255]),
    "uint16": (pa.uint16(), [0, 65535]),
    "uint32": (pa.uint32(), [0, (1 << 32) - 1]),
    "uint64": (pa.uint64(), [0, (1 << 64) - 1]),
    "float16": (pa.float16(), [1.5, -2.0]),
    "float32": (pa.float32(), [1.5, float("inf")]),
    "float64": (pa.float64(), [1.5, -0.0]),
    "string": (pa.string(), ["", "grüße 🐘"]),
    "large_string": (pa.large_string(), ["", "x" * 1000]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "large_binary": (pa.large_binary(), [b"", b"\x00\xff"]),
    "fixed_size_binary": (pa.binary(3), [b"abc", b"\x00\x01\x02"]),
    "date32": (pa.date32(), [dt.date(2026, 1, 1), dt.date(1, 1, 1)]),
    "date64": (pa.date64(), [dt.date(2026, 1, 1), dt.date(1970, 1, 1)]),
    "time32": (pa.time32("ms"), [dt.time(1, 2, 3), dt.time(0)]),
    "time64": (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0)]),
    "timestamp_s": (pa.timestamp("s"), [NOON.replace(microsecond=0), dt.datetime(1970, 1, 1)]),  # noqa: DTZ001
    "timestamp_us": (pa.timestamp("us"), [NOON, dt.datetime(1969, 1, 1)]),  # noqa: DTZ001
    "timestamp_ns": (pa.timestamp("ns"), [NOON, NOON]),
    "timestamp_tz": (pa.timestamp("us", "Europe/Zurich"), [NOON.replace(tzinfo=dt.UTC), NOON.replace(tzinfo=dt.UTC)]),
    "duration": (pa.duration("us"), [dt.timedelta(days=1, microseconds=3), dt.timedelta(0)]),
    "decimal128": (pa.decimal128(20, 4), [Decimal("1.2345"), Decimal("-99999.0000")]),
    "decimal256": (pa.decimal256(50, 2), [Decimal("1.25"), Decimal("-7.00")]),
    "list": (pa.list_(pa.int32()), [[1, None, 3], []]),
    "large_list": (pa.large_list(pa.string()), [["a", "b"], []]),
    "vector": (pa.list_(pa.float32(), 4), [[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0]]),
    "struct": (pa.struct({"a": pa.int64(), "b": pa.struct({"c": pa.string()})}), [{"a": 1, "b": {"c": "x"}}] * 2),
    "list_of_struct": (pa.list_(pa.struct({"a": pa.int64()})), [[{"a": 1}, {"a": 2}], []]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [("b", 2), ("c", 3)]]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["red", "green"]),
    "null": (pa.null(), [None, None]),
}

REFUSED: dict[str, pa.DataType] = {
    "interval": pa.month_day_nano_interval(),
    "run_end": pa.run_end_encoded(pa.int32(), pa.string()),
    "union": pa.dense_union([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
    "list_view": pa.list_view(pa.int32()),
}


def rows(kind: str) -> pa.Table:
    of, values = VALUES[kind]
    return pa.table({"id": pa.array([1, 2, 3], pa.int64()), "x": pa.array([*values, None], of)})


@pytest.mark.parametrize("stage", [False, True], ids=["logged", "staged"])
@pytest.mark.parametrize("kind", list(VALUES))
def test_a_value_comes_out_as_it_went_in(tmp_path: Path, kind: str, stage: bool) -> None:
    """By way of the log or of files, in the tail and in the head, after an update of another column's rows."""
    given = rows(kind)
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        table = lake.create_table("t", given.schema, key="id")
        table.append(given, stage=stage)
        for step in ("pending", "updated", "flushed", "flushed again", "optimized"):
            found = table.to_arrow().sort_by("id")
            assert found.schema == given.schema, step
            assert found.to_pylist() == given.to_pylist(), step
            if step == "pending":
                table.update({"id": "id"}, "id = 1")
                table.delete("id = 9")
            elif step == "updated":
                lake.flush("t")
                table.upsert(given.slice(1, 1))
            elif step == "flushed":
                lake.flush("t")
            elif step == "flushed again":
                lake.optimize("t")
        assert table.get(2) == given.to_pylist()[1]


def test_all_types_live_in_one_table(tmp_path: Path) -> None:
    """Columns of every type side by side, one row updated by an expression over one of them."""
    columns = {name: pa.array([*values, None], of) for name, (of, values) in VALUES.items()}
    given = pa.table({"id": [1, 2, 3], **columns})
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        table = lake.create_table("t", given)
        table.update({"int32": "int32 + 1"}, "string = ''")
        lake.flush()
        expected = given.to_pylist()
        expected[0]["int32"] += 1
        assert table.to_arrow().sort_by("id").to_pylist() == expected


@pytest.mark.parametrize("kind", list(REFUSED))
def test_a_type_that_lance_does_not_store_is_refused_before_anything_is_committed(tmp_path: Path, kind: str) -> None:
    """With an error that says so, and no table."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        before = lake.version
        with pytest.raises(InvalidInputError, match="data type"):
            lake.create_table("t", pa.schema([("id", pa.int64()), ("x", REFUSED[kind])]))
        assert lake.version == before
        assert lake.tables() == []
        assert not (tmp_path / "lake" / "tables").exists()
