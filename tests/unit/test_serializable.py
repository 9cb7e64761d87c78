"""Serializable transactions: whoever writes may land only if what it read would read the same there (rule D2)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import ConflictError, InvalidInputError
from phalanx.lake import Lake
from phalanx.transaction import Transaction

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = phalanx.open(tmp_path / "lake", create=True)
    lake.create_table("t", SCHEMA, key="id").append([{"id": n, "v": n} for n in range(6)])
    lake.create_table("u", SCHEMA, key="id").append([{"id": n, "v": 0} for n in range(3)])
    lake.create_table("log", SCHEMA)
    return lake


Step = Callable[[Any], object]
READS: dict[str, Step] = {
    "get": lambda txn: txn["t"].get(1),
    "get absent": lambda txn: txn["t"].get(77),
    "get many": lambda txn: txn["t"].get_many([1, 3]),
    "delete many": lambda txn: txn["t"].delete_many([77]),
    "scan": lambda txn: txn["t"].to_arrow(where="v >= 4"),
    "count": lambda txn: txn["t"].count("v = 50"),
    "whole": lambda txn: txn["t"].to_arrow(),
    "limit": lambda txn: txn["t"].to_arrow(where="id = 0", limit=1),
    "tables": lambda txn: txn.tables(),
    "nothing": lambda _: None,
}
WRITES: dict[str, Step] = {
    "update 1": lambda lake: lake["t"].update({"v": 100}, "id = 1"),
    "into the condition": lambda lake: lake["t"].update({"v": 50}, "id = 0"),
    "out of the condition": lambda lake: lake["t"].upsert([{"id": 5, "v": 0}]),
    "insert 77": lambda lake: lake["t"].append([{"id": 77, "v": 3}]),
    "delete 3": lambda lake: lake["t"].delete("id = 3"),
    "overwrite": lambda lake: lake["t"].overwrite([{"id": 2, "v": 2}], stage=True),
    "another table": lambda lake: lake["u"].update({"v": 1}),
    "new table": lambda lake: lake.create_table("new", SCHEMA),
    "flush": lambda lake: lake.flush(),
    "optimize": lambda lake: lake.optimize("t"),
    "two in a row": lambda lake: [
        lake["t"].update({"v": "v + 44"}, "id = 2"),
        lake["t"].update({"v": "v + 4"}, "id = 2"),
    ],
}
CONFLICTS = {
    "get": {"update 1", "overwrite"},
    "get absent": {"insert 77"},
    "get many": {"update 1", "delete 3", "overwrite"},
    "delete many": {"insert 77"},
    "scan": {"update 1", "into the condition", "out of the condition", "overwrite", "two in a row"},
    "count": {"into the condition", "two in a row"},
    "whole": {key for key in WRITES if key not in ("another table", "new table", "flush", "optimize")},
    "limit": {key for key in WRITES if key not in ("another table", "new table", "flush", "optimize")},
    "tables": {"new table"},
    "nothing": set(),
}


CASES = [(read, write, False) for read in READS for write in WRITES] + [("scan", write, True) for write in WRITES]


@pytest.mark.parametrize(("read", "write", "flushed"), CASES)
def test_what_was_read_and_changed_since_is_a_conflict(lake: Lake, read: str, write: str, flushed: bool) -> None:
    txn = lake.transaction(isolation="serializable")
    READS[read](txn)
    txn["log"].append([{"id": 1, "v": 1}])
    with phalanx.open(lake.uri) as other:
        WRITES[write](other)
        if flushed:
            other.flush()
    if write in CONFLICTS[read]:
        with pytest.raises(ConflictError, match="read"):
            txn.commit()
        assert lake["log"].count() == 0
    else:
        txn.commit()
        assert lake["log"].count() == 1


def _skew(lake: Lake, isolation: Any) -> tuple[Transaction, Transaction]:
    one, other = lake.transaction(isolation=isolation), lake.transaction(isolation=isolation)
    for txn in (one, other):
        assert txn["t"].get(1) is not None
        assert txn["t"].get(2) is not None
    one["t"].upsert([{"id": 1, "v": -1}])
    other["t"].upsert([{"id": 2, "v": -1}])
    one.commit()
    return one, other


def test_write_skew_is_allowed_in_a_snapshot_and_refused_when_serializable(lake: Lake) -> None:
    _skew(lake, "snapshot")[1].commit()
    _, other = _skew(lake, "serializable")
    with pytest.raises(ConflictError, match="key 1 was read, and changed"):
        other.commit()


def test_who_only_reads_never_conflicts(lake: Lake) -> None:
    with lake.transaction(isolation="serializable") as txn:
        before = txn["t"].to_arrow()
        lake["t"].delete("true")
        assert txn["t"].to_arrow() == before


def test_run_tries_again(lake: Lake) -> None:
    attempts = []

    def work(txn: Transaction) -> None:
        attempts.append(txn["t"].count("v > 2"))
        if len(attempts) == 1:
            lake["t"].append([{"id": 90, "v": 90}])
        txn["log"].append([{"id": 1, "v": attempts[-1]}])

    lake.run(work, isolation="serializable")
    assert attempts == [3, 4]


def test_an_unknown_isolation_is_refused(lake: Lake) -> None:
    with pytest.raises(InvalidInputError, match="serializable"):
        lake.transaction(isolation="repeatable")  # type: ignore[arg-type]
