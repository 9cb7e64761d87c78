"""What a read is asked for: whatever makes no sense is refused with an error that says so, before anything is read."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from phalanx.errors import InvalidInputError
from phalanx.lake import Lake
from phalanx.table import Table
from tests.unit.covering import opened

SCHEMA = pa.schema([("id", pa.int64()), ("t", pa.string()), ("x", pa.list_(pa.float32(), 2))])


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    with opened(tmp_path) as lake:
        yield filled(lake)


def filled(lake: Lake) -> Table:
    """A table with rows on disk and in memory."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.create_index("t", "inverted")
    for first in (0, 10):
        table.append([{"id": first + at, "t": "a", "x": [0.0, 1.0]} for at in range(10)])
        if not first:
            lake.flush("t")
    return table


COLUMNS: list[tuple[str, Callable[[Table, object], object]]] = [
    ("scan", lambda table, columns: table.scan(columns)),  # type: ignore[arg-type]
    ("to_arrow", lambda table, columns: table.to_arrow(columns)),  # type: ignore[arg-type]
    ("get_many", lambda table, columns: table.get_many([1], columns)),  # type: ignore[arg-type]
    ("by vector", lambda table, columns: table.search([0.0, 0.0], columns=columns)),  # type: ignore[arg-type]
    ("by text", lambda table, columns: table.search(text="a", columns=columns)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("what", "act"), COLUMNS)
def test_columns_that_are_none_or_no_names_are_refused(
    table: Table, what: str, act: Callable[[Table, object], object]
) -> None:
    """However the rows are asked for."""
    for columns, says in (
        ([], "no column is asked for"),
        ([1], "no column 1"),
        ("id", "list of names"),
        (5, "list of"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            act(table, columns)


NUMBERS: list[Callable[[Table], object]] = [
    lambda table: table.scan(batch_size=-1),
    lambda table: table.scan(batch_size=0),
    lambda table: table.scan(batch_size=1 << 64),
    lambda table: table.scan(batch_size="5"),  # type: ignore[arg-type]
    lambda table: table.to_arrow(limit=1 << 64),
    lambda table: table.to_arrow(limit=-1),
    lambda table: table.to_arrow(limit="5"),  # type: ignore[arg-type]
    lambda table: table.to_arrow(limit=1.5),  # type: ignore[arg-type]
    lambda table: table.search([0.0, 0.0], refine_factor=1 << 33),
    lambda table: table.search([0.0, 0.0], k=1 << 64),
    lambda table: table.search(text="a", k=1 << 63),
    lambda table: table.create_index("x", "ivf_flat", num_partitions=-1),
]


@pytest.mark.parametrize("act", NUMBERS)
def test_numbers_that_are_none_or_out_of_range_are_refused(table: Table, act: Callable[[Table], object]) -> None:
    """As what the caller has to put right, and not as trouble of the storage."""
    with pytest.raises(InvalidInputError):
        act(table)
