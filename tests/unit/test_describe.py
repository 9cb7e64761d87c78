"""What is said of a table is so, whatever its rows went through."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx.describe import ColumnInfo
from phalanx.errors import NotFoundError
from phalanx.lake import Lake
from phalanx.names import suggestion

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.float32())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.create_table("t", SCHEMA, key="id", properties={"b": "2", "a": "1"})
        yield made


def test_a_table_is_described_as_it_stands(lake: Lake) -> None:
    """Rows are counted through head and tail; the tail says of what it is made."""
    lake["t"].append([{"id": n} for n in range(10)])
    lake.flush("t")
    lake["t"].append([{"id": 9}, {"id": 10}])
    lake["t"].delete("id < 5")
    lake["t"].append([{"id": 50}], stage=True)
    found = lake.describe("t")
    assert (found.name, found.id, found.key, found.rows) == ("t", lake["t"].id, ("id",), lake["t"].count())
    assert found.columns == (ColumnInfo("id", "int64", False), ColumnInfo("v", "float", True))
    assert (found.version, found.lake_version, found.created, found.changed) == (5, lake.version, 2, lake.version)
    assert (found.head.rows, found.head.fragments) == (10, 1)
    assert (found.tail.items, found.tail.rows, found.tail.predicates, found.tail.bulk) == (3, 2, 1, 1)
    assert found.tail.bytes > 0
    assert list(found.properties.items()) == [("a", "1"), ("b", "2")]


def test_a_snapshot_describes_what_was(lake: Lake) -> None:
    """Later changes are not in it."""
    lake["t"].append([{"id": 1}])
    before = lake.refresh()
    lake["t"].append([{"id": 2}])
    assert (before.describe("t").rows, lake.describe("t").rows) == (1, 2)
    with pytest.raises(NotFoundError, match="did you mean 't'"):
        before.describe("tt")


def test_a_summary_says_how_much_is_pending(lake: Lake) -> None:
    """For the tables of the lake, or of one namespace."""
    lake.create_namespace("n")
    lake.create_table("n.u", SCHEMA)
    lake["t"].append([{"id": 1}])
    lake["t"].append([{"id": 2}])
    now = lake.refresh()
    assert [(one.name, one.version, one.pending) for one in now.summaries()] == [("n.u", 1, 0), ("t", 3, 2)]
    assert [one.name for one in now.summaries("n")] == ["n.u"]
    lake.flush()
    assert [one.pending for one in lake.refresh().summaries()] == [0, 0]


def test_what_is_near_is_suggested_else_what_there_is() -> None:
    """The list stays short."""
    assert suggestion("turn", ["crm.turns", "turns", "x"]) == "did you mean 'turns' or 'crm.turns'?"
    assert suggestion("q", ["a", "b"]) == "there is: a, b"
    assert suggestion("q", []) == "there is: none"
    assert suggestion("q", [f"t{n}" for n in range(9)]) == "there is: t0, t1, t2, t3, t4 and 4 more"
