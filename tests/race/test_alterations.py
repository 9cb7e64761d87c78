"""Columns that change while other processes write and read: nobody sees a table that is half changed."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import phalanx
from phalanx import ConflictError, InvalidInputError, Lake
from phalanx.snapshot import Snapshot
from tests.race.crew import together

SECONDS = 6.0
FIRST = 500
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("note", pa.string())])


def row(lake: Lake, number: int) -> dict[str, Any]:
    """A row as somebody would write it who looks at the columns first."""
    names = lake["t"].schema.names
    value = number % 1000
    held = {"id": number, "v": value, "n": value, "twice": 2 * value, "note": "x"}
    return {name: held[name] for name in names}


def writes(lake: Lake, number: int, kind: str) -> list[int]:
    """Rows of its own, one after the other; the ids that were acknowledged."""
    done: list[int] = []
    end = time.monotonic() + SECONDS
    writer = lake.writer("t") if kind == "writer" else None
    while time.monotonic() < end:
        own = number * 1_000_000 + len(done)
        try:
            one = row(lake, own)
            if writer is not None:
                writer.upsert(one).result()
            elif kind == "transaction":
                with lake.transaction() as txn:
                    txn["t"].upsert([one])
            else:
                lake["t"].append([one], stage=kind == "bulk")
        except InvalidInputError as error:
            if "column" not in str(error):  # one that it wanted to write is gone: it looks again
                raise
        except ConflictError:
            if kind != "transaction":
                raise
        else:
            done.append(own)
    return done


def counts_up(lake: Lake, number: int) -> int:
    """Updates by condition, which are planned again when columns change; how many rows a pass touched is left open."""
    passes = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        names = lake["t"].schema.names
        value = "n" if "n" in names else "v"
        changes = {value: f"{value} + 0"} | ({"twice": f"{value} * 2"} if "twice" in names else {})
        try:
            lake["t"].update(changes, f"id % 3 = {passes % 3}")
            passes += 1
        except InvalidInputError as error:
            if value not in str(error) and "twice" not in str(error):
                raise
        time.sleep(0.02)
    return passes


def check(snapshot: Snapshot) -> None:
    """What holds at every version: the columns are those of one layout, and the derived one agrees.

    A row that somebody wrote who had looked before the column was added has none there, and it is null: rows that were
    there get a value, later ones bring their own.
    """
    table = snapshot["t"]
    rows = table.to_arrow()
    assert rows.schema.names == table.schema.names
    value = rows["n" if "n" in rows.schema.names else "v"]
    assert value.null_count == 0
    if "twice" in rows.schema.names:
        there = pc.less(rows["id"], FIRST)
        assert rows["twice"].filter(there).null_count == 0
        assert pc.all(pc.equal(rows["twice"], pc.multiply(value.cast(pa.int64()), 2))).as_py() in (True, None)
    ids = rows["id"].to_pylist()
    assert len(set(ids)) == len(ids)


def reads(lake: Lake, number: int) -> int:
    passes = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        check(lake.refresh())
        passes += 1
        time.sleep(0.02)
    return passes


def alters(lake: Lake, number: int) -> list[str]:
    """Every kind of alteration, over and over, with flushes and rewrites in between."""
    done: list[str] = []
    end = time.monotonic() + SECONDS
    table = lake["t"]
    while time.monotonic() < end:
        names = table.schema.names
        value = "n" if "n" in names else "v"
        step = len(done) % 7
        if step == 0 and "twice" not in names:
            table.add_column("twice", pa.int64(), expression=f"{value} * 2")
        elif step == 1:
            table.rename_column(value, "n" if value == "v" else "v")
        elif step == 2 and table.schema.field(value).type == pa.int32():
            table.widen_column(value, pa.int64())
        elif step == 3:
            table.order_columns(list(reversed(names)))
        elif step == 4 and "twice" in names:
            table.drop_column("twice")
        elif step == 5:
            table.drop_column("note") if "note" in names else table.add_column("note", pa.string(), default="y")
        elif step == 6:
            lake.optimize("t")
        done.append(str(step))
        time.sleep(0.1)
    return done


@pytest.mark.parametrize("key", ["id", ()], ids=["keyed", "without a key"])
def test_nobody_sees_a_table_that_is_half_changed(tmp_path: Path, key: str) -> None:
    uri = str(tmp_path / "lake")
    with phalanx.open(uri, create=True) as lake:
        lake.create_table("t", SCHEMA, key=key).append([{"id": n, "v": n, "note": "a"} for n in range(FIRST)])
        start = lake.version
        kinds = ["append", "bulk", "append" if not key else "transaction", "append" if not key else "writer"]
        jobs: list[tuple[Any, tuple[Any, ...]]] = [(writes, (n + 1, kind)) for n, kind in enumerate(kinds)]
        jobs += [(counts_up, (0,)), (reads, (0,)), (reads, (1,)), (alters, (0,))]
        answers = together(uri, jobs)
        acknowledged = [one for told in answers if isinstance(told, list) for one in told if isinstance(one, int)]
        print(f"{len(acknowledged)} rows acknowledged in {lake.version - start} versions")
        wanted = sorted([*range(FIRST), *acknowledged])
        assert sorted(lake["t"].to_arrow(columns=["id"])["id"].to_pylist()) == wanted
        for version in range(start, lake.version + 1, max(1, (lake.version - start) // 40)):
            check(lake.snapshot(version=version))
        lake.flush()
        check(lake.refresh())
        lake.optimize("t")
        check(lake.refresh())
        assert sorted(lake["t"].to_arrow(columns=["id"])["id"].to_pylist()) == wanted
        assert lake.check().whole
