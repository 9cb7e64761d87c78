"""Conditions: who finds their rows, Lance or the task, and that the rows are the same either way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import phalanx
from phalanx import Lake
from phalanx.expr import plan_predicate
from phalanx.spark import selective
from phalanx.spark.parts import plan_scan
from phalanx.spark.reach import reach
from phalanx.spark.selective import ROWS, by_lance
from phalanx.tables.dataset import Version

COUNT = 40 * ROWS


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A table in three fragments; `at` ascends, `n` is one of a hundred numbers, everywhere."""
    with phalanx.open(tmp_path / "lake", create=True) as made:
        fields: list[tuple[str, pa.DataType]] = [("at", pa.int64()), ("n", pa.int64()), ("text", pa.string())]
        table = made.create_table("t", pa.schema(fields))
        numbers = np.random.default_rng(5).integers(0, 100, COUNT)
        for part in np.array_split(np.arange(COUNT), 3):
            rows = {"at": part, "n": numbers[part], "text": [f"text {one}" for one in part]}
            table.append(pa.table(rows, pa.schema(fields)), stage=True)
        yield made


def version_of(lake: Lake) -> Version:
    found = lake.refresh().found("t")
    return lake.core.overlays.written_out(lake.core.reading(found).overlay)


@pytest.mark.parametrize(
    ("where", "lance"),
    [
        ("n < 50", False),
        ("n < 10 and text like 'text%'", False),
        ("text <> 'text 7'", False),
        ("n = 3", True),  # everywhere, but few
        ("at < 100", True),
        (f"at < {COUNT // 3}", True),  # many, but they lie together
        (f"at > {COUNT}", True),
        ("1 = 1", True),
    ],
)
def test_lance_finds_rows_that_are_few_or_lie_together(lake: Lake, where: str, *, lance: bool) -> None:
    """The others are told by reading all."""
    predicate = plan_predicate(where, lake["t"].schema)
    assert by_lance(version_of(lake), predicate) == (predicate.lance if lance else None)


def test_deleted_rows_are_not_looked_at(lake: Lake) -> None:
    """A condition that held for them holds for none now."""
    lake["t"].delete(f"at < {COUNT - ROWS} and n < 90")
    lake.flush("t")
    assert by_lance(version_of(lake), plan_predicate("n < 90", lake["t"].schema)) is not None
    assert by_lance(version_of(lake), plan_predicate("n >= 90", lake["t"].schema)) is None


@pytest.mark.parametrize("count", [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 7])
def test_a_small_table_may_be_looked_at_too(tmp_path: Path, count: int) -> None:
    """Places are inside of it, whatever its size."""
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        fields: list[tuple[str, pa.DataType]] = [("n", pa.int64())]
        table = lake.create_table("t", pa.schema(fields))
        if count:
            table.append(pa.table({"n": range(count)}, pa.schema(fields)), stage=True)
        predicate = plan_predicate("n >= 0", table.schema)
        assert by_lance(version_of(lake), predicate) == (None if count >= ROWS else predicate.lance)


@pytest.mark.parametrize("few", [0.0, 1.0])
@pytest.mark.parametrize(
    "where", ["n < 50", "n = 3 or at % 5 = 1", "at < 100", "text > 'text 5' and n is not null", "n < 0"]
)
def test_the_rows_are_the_same(lake: Lake, where: str, few: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds them, with rows deleted and changes pending."""
    monkeypatch.setattr(selective, "FEW", few)
    table = lake["t"]
    table.delete("at % 11 = 3")
    lake.flush("t")
    table.update({"n": "n + 1"}, "at % 13 = 4")
    planned = plan_scan(lake.core, reach(lake), lake.refresh().found("t"), ["at", "n"], where, 2)
    assert few < 1 or planned.scan.pushed is not None
    found = [
        tuple(row.values())
        for at in range(planned.scan.count)
        for rows in planned.scan.rows(at)
        for row in rows.to_pylist()
    ]
    expected = [tuple(row.values()) for row in table.to_arrow(columns=["at", "n"], where=where).to_pylist()]
    assert sorted(found) == sorted(expected)


def test_conditions_on_blobs_are_left_to_lance(tmp_path: Path) -> None:
    """What is taken of such a column is a description of it."""
    fields: list[Any] = [
        pa.field("x", pa.int64()),
        pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
    ]
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        table = lake.create_table("t", pa.schema(fields))
        blobs = [None if at % 3 == 0 else b"x" * at for at in range(2 * ROWS)]
        table.append(pa.table({"x": range(2 * ROWS), "c": blobs}, pa.schema(fields)), stage=True)
        planned = plan_scan(lake.core, reach(lake), lake.refresh().found("t"), ["x"], "c is not null", 2)
        assert planned.scan.pushed is not None
        found = [number for rows in planned.scan.rows(0) for number in rows.column(0).to_pylist()]
        assert found == [at for at in range(2 * ROWS) if at % 3]
