"""Search: what is found does not depend on how many rows are wanted, on rows that are gone, or on what is left unsaid."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.lake import Lake
from tests.unit.covering import opened
from tests.unit.test_search import METRICS, SCHEMA, require_nearest, row, spread


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        yield lake


@pytest.mark.parametrize("metric", METRICS)
def test_the_metric_is_that_of_the_index_unless_it_is_named(lake: Lake, metric: str) -> None:
    """An index serves no other: by text and vector too, at a snapshot, in a transaction; l2 where there is no index."""
    table, there = spread(lake, kind="ivf_flat", num_partitions=2, metric=metric)
    query = [1.0, 0.5]
    words = table.search(query, text="alpha", k=9, metric=metric)
    with lake.transaction() as txn:
        for asked in (table, lake.snapshot()["t"], txn["t"]):
            require_nearest(asked.search(query, nprobes=9), there, query, metric, 10, lambda _: True)
            assert asked.search(query, text="alpha", k=9).equals(words)
    require_nearest(table.search(query, metric="l2", nprobes=9), there, query, "l2", 10, lambda _: True)
    table.drop_index("x_ivf_flat")
    require_nearest(table.search(query), there, query, "l2", 10, lambda _: True)


def test_a_condition_is_not_asked_of_rows_that_are_gone(lake: Lake) -> None:
    """A row in memory that was deleted or replaced makes no search fail."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.append([row(one) for one in range(1, 4)])
    table.upsert([{**row(0), "n": 0}, {**row(9), "n": 0}])
    table.delete("id = 0")
    table.upsert([row(9)])
    assert sorted(table.search([0.0, 0.0], where="10 / n >= 2")["id"].to_pylist()) == [1, 2, 3]
    table.delete("true")
    assert table.search([0.0, 0.0], where="10 / n >= 2").num_rows == 0


@pytest.mark.parametrize("metric", METRICS)
def test_fewer_rows_of_both_rankings_are_the_first_of_more(lake: Lake, metric: str) -> None:
    """A row that is rather near and rather has the words is found, however few rows are wanted; ties are the same."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.create_index("t", "inverted")
    near = [{"id": number, "t": "other", "x": [1 - number / 10, number / 10]} for number in range(1, 6)]
    words = [{"id": number, "t": "lamp", "x": [-9.0, 0.0]} for number in range(100, 102)]
    table.append([*near, *words, {"id": 50, "t": "a much longer text about a lamp", "x": [0.85, 0.15]}])
    for upkeep in (lambda: None, lambda: lake.optimize("t")):
        upkeep()
        found = table.search([1.0, 0.0], text="lamp", k=20, metric=metric)["id"].to_pylist()
        assert found[0] == 50
        for k in range(1, 9):
            assert table.search([1.0, 0.0], text="lamp", k=k, metric=metric)["id"].to_pylist() == found[:k]
