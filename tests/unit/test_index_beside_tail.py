"""Conditions on an indexed column while a tail hides rows: the index goes on to answer, and no hidden row comes back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, LanceScanner

from phalanx.lake import Lake
from phalanx.table import Table
from tests.unit.covering import asked, opened

ROWS = 3000
EACH = 10
"""So many rows have the same `n`."""
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
WHERE = "n = 3"
LEFT = [3, 300, 600, 900, 1500, 1800, 2100, 2400, 2700, ROWS]
"""The ids that have `n = 3` once the tail below is read with it."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        yield lake


def made(lake: Lake, kind: str | None, key: str | tuple[()]) -> Table:
    """A table that is written out, with an index or without; and a tail that deletes, moves, changes and adds rows."""
    table = lake.create_table("t", SCHEMA, key=key)
    table.append([{"id": one, "n": 3 if one % (ROWS // EACH) == 0 else -one} for one in range(ROWS)])
    lake.flush("t")
    if kind is not None:
        table.create_index("n", kind)
    table.delete("id = 0")  # one that the index finds
    table.update({"n": "4"}, "id = 1200")  # away from what is asked for
    table.update({"n": "3"}, "id = 3")  # and there from elsewhere
    table.append([{"id": ROWS, "n": 3}, {"id": ROWS + 1, "n": 4}])
    return table


@contextmanager
def planned() -> Iterator[list[str]]:
    """How Lance goes about what it is asked inside the block, with all that it is asked with: hidden rows too."""
    plans: list[str] = []
    scanner = LanceDataset.scanner

    def watched(self: LanceDataset, *arguments: Any, **options: Any) -> LanceScanner:
        made = scanner(self, *arguments, **options)
        plans.append(str(made.explain_plan()))
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanceDataset, "scanner", watched)
        yield plans


def listed(rows: pa.Table) -> list[int]:
    return sorted(rows["id"].to_pylist())


READS: dict[str, Callable[[Table], object]] = {
    "at once": lambda table: listed(table.to_arrow(where=WHERE)),
    "as a stream": lambda table: listed(table.scan(where=WHERE).read_all()),
    "some columns as a stream": lambda table: listed(table.scan(["id"], where=WHERE).read_all()),
    "counted": lambda table: list(LEFT) if table.count(WHERE) == len(LEFT) else table.count(WHERE),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ["btree", "bitmap"])
@pytest.mark.parametrize("key", ["id", ()], ids=["keyed", "no key"])
def test_an_index_is_used_while_a_tail_hides_rows(lake: Lake, kind: str, read: str, key: str | tuple[()]) -> None:
    """Lance is asked with the condition and finds a handful of rows by the index; those that are hidden are dropped."""
    table = made(lake, kind, key)
    assert table.count() == ROWS + 1  # the tail is applied: what follows is the read alone
    with asked() as record, planned() as plans:
        assert READS[read](table) == LEFT
    assert plans
    assert all("ScalarIndexQuery" in plan for plan in plans)
    assert 0 < record.rows <= EACH


@pytest.mark.parametrize("read", READS)
def test_without_an_index_the_same_rows_are_found(lake: Lake, read: str) -> None:
    """What the test above would see if no index were there."""
    table = made(lake, None, "id")
    with planned() as plans:
        assert READS[read](table) == LEFT
    assert plans
    assert not any("ScalarIndexQuery" in plan for plan in plans)
