"""Clustering: rows in the order of some columns, under the row ids that they have."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import LanceOperation

import phalanx
from phalanx.lake import Lake
from phalanx.tables import cluster
from tests.unit.covering import head, opened
from tests.unit.test_optimize import SCHEMA, filled, identified, multiset, rows


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        yield lake


@pytest.fixture
def other(lake: Lake, tmp_path: Path) -> Iterator[Lake]:
    """Another process with the same lake open."""
    with phalanx.open(tmp_path / "lake") as other:
        yield other


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in slices"])
def test_clustering_sorts_rows_and_keeps_their_ids(lake: Lake, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """Same rows, same ids, in order; keys, indexes and later changes find them; done again it does nothing."""
    if not at_once:
        monkeypatch.setattr(cluster, "_AT_ONCE", 0)
        monkeypatch.setattr(cluster, "_SLICE", 7)
    table = filled(lake, key="id")
    table.create_index("v", "btree")
    table.delete("id % 9 = 0")
    lake.flush("t")
    before, ids = multiset(lake), identified(lake)
    done = lake.optimize("t", cluster_by=["day", "id"])["t"]
    assert (done.rewritten, done.skipped) == (1, ())
    assert (multiset(lake), identified(lake)) == (before, ids)
    stored = head(lake, "t").scan(["day", "id"]).read_all().to_pylist()
    assert stored == sorted(stored, key=lambda row: (row["day"], row["id"]))
    for number in (1, 47, 79):
        assert table.get(number) == rows(number, 1)[0]
        assert table.count(f"v = {number * 31 % 101} and id = {number}") == 1
    assert lake.optimize("t", cluster_by=["day", "id"])["t"].rewritten == 0
    table.upsert(rows(40, 60))
    table.delete("id = 2")
    lake.flush("t")
    assert multiset(lake) == Counter(
        tuple(row.values()) for row in rows(0, 100) if row["id"] != 2 and (row["id"] % 9 or row["id"] >= 40)
    )
    lake.optimize("t")
    lake.optimize("t", cluster_by="v")
    stored = head(lake, "t").scan(["v"]).read_all()["v"].to_pylist()
    assert stored == sorted(stored)
    assert lake.check().whole


def test_a_delete_during_a_clustering_is_not_lost(lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is carried over by row id, as with any rewrite."""
    filled(lake)
    run = cluster.run

    def watched(*arguments: Any) -> Any:
        made = run(*arguments)
        other["t"].delete("id % 3 = 0")
        other.flush("t")
        return made

    monkeypatch.setattr(cluster, "run", watched)
    assert lake.optimize("t", cluster_by="v")["t"].rewritten == 1
    assert multiset(lake) == Counter(tuple(row.values()) for row in rows(0, 80) if row["id"] % 3)


def test_what_is_in_order_and_large_is_not_sorted_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows that came since are sorted among themselves."""
    monkeypatch.setattr(cluster, "SMALL", 0)
    table = lake.create_table("t", SCHEMA)
    table.append(rows(0, 20_000), stage=True)
    assert lake.optimize("t", cluster_by="v")["t"].rewritten == 1
    [large] = head(lake, "t").fragments
    for first in (30_000, 31_000):
        table.append(rows(first, 500), stage=True)
    done = lake.optimize("t", cluster_by="v")["t"]
    assert (done.rewritten, done.after) == (1, 2)
    assert large in head(lake, "t").fragments


def test_a_column_that_cannot_be_sorted_is_a_reason(lake: Lake) -> None:
    """Nothing is lost, and nothing is rewritten."""
    lake.create_table("t", pa.table({"id": [1, 2], "x": [[1], [2]]}))
    done = lake.optimize("t", cluster_by="x")["t"]
    assert done.rewritten == 0
    assert "cannot cluster by x" in done.skipped[0].reason


@pytest.mark.parametrize("case", ["runs", "shuffled", "wide", "one"])
def test_row_ids_in_any_order_are_read_back(lake: Lake, case: str) -> None:
    """As ranges, as 32 bits each, as 64: Lance reads what was written."""
    chance = np.random.default_rng(1)
    ids = {
        "runs": np.concatenate([np.arange(50, 60), np.arange(10, 20), np.arange(0, 5)]),
        "shuffled": chance.permutation(100),
        "wide": chance.permutation(np.arange(100, dtype=np.int64) << 40),
        "one": np.array([7]),
    }[case].astype(np.int64)
    table = lake.create_table("t", pa.table({"id": np.arange(len(ids))}))
    lake.flush("t")
    version = head(lake, "t")
    reader = version.scan(["id"])
    made = cluster._with_ids(cluster.stage.write(version, reader).fragments, ids)
    placed = lake._core.datasets.commit(version, cluster_operation(version, made))
    assert placed.scan(["id"], row_ids=True).read_all()["_rowid"].to_pylist() == ids.tolist()
    assert placed.scan(["id"], only=ids[:1]).read_all()["id"].to_pylist() == [0]
    assert table.count() == len(ids)


def cluster_operation(version: Any, made: Any) -> Any:
    old = [version.fragment(one).metadata for one in version.fragments]
    return LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, made)], [])


@pytest.mark.parametrize("seed", range(3))
def test_ids_that_overlap_between_fragments_find_their_rows(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each of many fragments has ids from all over the table: rows are found, changed and deleted by them as before."""
    monkeypatch.setattr(cluster.stage, "ROWS_PER_FILE", 64)
    chance = np.random.default_rng(seed)
    ids = chance.permutation(1000)
    wanted = {int(one): int(chance.integers(0, 50)) for one in ids}
    table = lake.create_table("t", pa.table({"id": list(wanted), "v": list(wanted.values())}), key="id")
    lake.flush("t")
    for turn, columns in enumerate((["v"], ["v", "id"], ["id"], ["v"])):
        done = lake.optimize("t", cluster_by=columns)["t"]
        assert (done.rewritten, done.skipped) == (1, ())
        assert len(head(lake, "t").fragments) > 10
        stored = head(lake, "t").scan(columns).read_all().to_pylist()
        assert stored == sorted(stored, key=lambda row: [row[name] for name in columns])
        for one in chance.choice(1000, 20).tolist():
            assert table.get(one) == ({"id": one, "v": wanted[one]} if one in wanted else None)
        gone = [one for one in chance.choice(1000, 30).tolist() if one in wanted]
        table.delete(f"id in ({', '.join(map(str, gone))})")
        for one in gone:
            wanted.pop(one, None)
        changed = [{"id": one, "v": turn + 100} for one in range(turn * 50, turn * 50 + 25)]
        table.upsert(changed)
        wanted |= {row["id"]: row["v"] for row in changed}
        lake.flush("t")
        assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == wanted
    assert lake.check().whole
