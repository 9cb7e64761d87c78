"""Python values as rows: whatever Arrow would cut off without a word is refused."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import phalanx
from phalanx import InvalidInputError
from phalanx.lossless import column

NOON = dt.datetime(2026, 11, 15, 12, 0, 0, 123456)  # noqa: DTZ001 - without a zone on purpose
MIDNIGHT = dt.datetime(2026, 11, 15)  # noqa: DTZ001

CUT: list[tuple[pa.DataType, Any]] = [
    (pa.int64(), 1.5),
    (pa.int8(), Decimal("0.1")),
    (pa.uint64(), np.float64(2.5)),
    (pa.int64(), float("nan")),
    (pa.int64(), float("inf")),
    (pa.date32(), NOON),
    (pa.date64(), NOON),
    (pa.date32(), 1.5),
    (pa.timestamp("s"), NOON),
    (pa.timestamp("ms"), NOON),
    (pa.timestamp("us"), 1.5),
    (pa.time32("ms"), NOON.time()),
    (pa.duration("s"), dt.timedelta(milliseconds=1)),
]
KEPT: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int64(), 2.0, 2),
    (pa.int64(), Decimal("7.00"), 7),
    (pa.int64(), (1 << 63) - 1, (1 << 63) - 1),
    (pa.date32(), MIDNIGHT, MIDNIGHT.date()),
    (pa.date32(), MIDNIGHT.date(), MIDNIGHT.date()),
    (pa.timestamp("us"), NOON, NOON),
    (pa.timestamp("s"), MIDNIGHT, MIDNIGHT),
    (pa.time64("us"), NOON.time(), NOON.time()),
    (pa.float32(), 1.5, 1.5),
    (pa.decimal128(5, 2), Decimal("1.25"), Decimal("1.25")),
    (pa.int64(), None, None),
]


@pytest.mark.parametrize(("kind", "value"), CUT, ids=str)
def test_a_value_that_would_be_cut_off_is_refused(tmp_path: Path, kind: pa.DataType, value: object) -> None:
    """As a row, as a column and as a key, among values that are good."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        table = lake.create_table("t", pa.schema([("k", kind)]), key=() if pa.types.is_duration(kind) else "k")
        acts = [
            lambda: table.append([{"k": value}]),
            lambda: table.append({"k": [None, value]}),
            lambda: table.insert([{"k": value}]),
            lambda: table.get(value),
        ]
        for act in acts:
            with pytest.raises(InvalidInputError):
                act()
        assert table.count() == 0


@pytest.mark.parametrize(("kind", "value", "held"), KEPT, ids=str)
def test_a_value_that_has_an_equal_is_taken(kind: pa.DataType, value: object, held: object) -> None:
    """Two is two, whether it comes as 2 or as 2.0."""
    assert column([value, None], kind).to_pylist() == [held, None]
