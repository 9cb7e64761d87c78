"""Declared indexes: built for what is there, kept covering, dropped; and no answer ever depends on them."""

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from phalanx.lake import Lake
from phalanx.log import item as it
from phalanx.table import Table
from phalanx.tables.index import VECTOR
from phalanx.tail.lookup import KEY_INDEX as KEY
from tests.unit.covering import asked, coverage, covered, head, held, opened

SIZE = 8
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("t", pa.string()),
        ("x", pa.list_(pa.float32(), SIZE)),
    ]
)
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "btree": ("n", {}),
    "bitmap": ("s", {}),
    "inverted": ("t", {}),
    "ivf_flat": ("x", {"num_partitions": 2}),
    "ivf_pq": ("x", {"num_partitions": 1, "num_sub_vectors": 2}),
    "ivf_sq": ("x", {"num_partitions": 2}),
    "ivf_rq": ("x", {"num_partitions": 2}),
    "ivf_hnsw_flat": ("x", {"num_partitions": 2}),
    "ivf_hnsw_sq": ("x", {"num_partitions": 2}),
    "ivf_hnsw_pq": ("x", {"num_partitions": 1, "num_sub_vectors": 2}),
}
WORDS = ["red", "green", "blue", "elephant", "mouse", "tower"]
ODD = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -1.5, None]


def rows(count: int, first: int = 0, seed: int = 7) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "id": number,
            "n": chance.choice([None, -3, 0, 1, 2, 3, 4, 5]),
            "f": chance.choice(ODD),
            "s": chance.choice([None, "", "a", "ab", "b%", "it's", "Ö", "z"]),
            "t": " ".join(chance.choices(WORDS, k=3)),
            "x": [chance.random() for _ in range(SIZE)],
        }
        for number in range(first, first + count)
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        yield lake


def made(lake: Lake, count: int, name: str = "t") -> Table:
    """A table with so many rows, flushed."""
    table = lake.create_table(name, SCHEMA, key="id")
    if count:
        table.append(rows(count))
        lake.flush(name)
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_every_kind_is_built_at_once_and_kept_covering(lake: Lake, kind: str) -> None:
    """Built for what is there, told with its coverage; a flush leaves it behind, upkeep catches it up."""
    table = made(lake, 300)
    column, options = KINDS[kind]
    at = table.create_index(column, kind, **options)
    assert at == lake.version - 1  # then the coverage landed
    info = table.indexes()[-1]
    assert (info.name, info.column, info.kind, info.options) == (f"{column}_{kind}", column, kind, options)
    assert (info.segments, info.fragments, info.of) == (1, 1, 1)
    types = {one.index_type.lower() for one in head(lake, "t").dataset.describe_indices()}
    assert types - {"btree"} == {kind} - {"btree"}  # what Lance has built, beside the key's
    table.append(rows(300, first=300))
    assert table.indexes()[-1].of == 1
    lake.flush("t")
    assert coverage(lake, "t")[info.name] == (1, 2)
    lake.optimize("t")
    assert set(coverage(lake, "t").values()) == {(1, 1)}
    assert table.count() == 600
    if kind in VECTOR:  # both lots of rows have the same vectors
        found = table.search(rows(300)[7]["x"], k=2, nprobes=2, refine_factor=50)
        assert sorted(found["id"].to_pylist()) == [7, 307]


def test_every_kind_that_lance_has_for_vectors_can_be_declared(lake: Lake) -> None:
    """Lance lists them when it is asked for one that it lacks: each is known here, and built by the test above."""
    made(lake, 20)
    with pytest.raises(NotImplementedError, match="index types supported") as told:
        head(lake, "t").dataset.create_index_uncommitted("x", "IVF", fragment_ids=[0])
    assert {one.lower() for one in re.findall(r"IVF_\w+", str(told.value))} == VECTOR <= set(KINDS)


def test_vectors_of_a_length_that_a_kind_cannot_take_are_refused_before_there_is_one(lake: Lake) -> None:
    """Otherwise an index that is declared on an empty table would be warned of for ever, and never built."""
    table = lake.create_table("v", pa.schema([("x", pa.list_(pa.float32(), 12))]))
    with pytest.raises(InvalidInputError, match="a multiple of 8 numbers: 'x' has 12"):
        table.create_index("x", "ivf_rq")
    assert table.indexes() == []


def test_an_index_is_kept_covering_by_the_background(lake: Lake) -> None:
    """Nobody asks for it: rows that are flushed in the background are indexed there too."""
    table = made(lake, 300)
    table.create_index("n")
    lake.set_property("flush.background", "on")
    lake.set_property("flush.rows", "5000")
    table.append(rows(12_000, first=1000), stage=False)
    end = time.monotonic() + 60
    while coverage(lake, "t") != {KEY: (2, 2), "n_btree": (2, 2)}:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert table.count("n = 3") == sum(row["n"] == 3 for row in rows(300) + rows(12_000, first=1000))


def test_names_are_the_users_and_one_of_a_name_is_enough(lake: Lake) -> None:
    """Under its own name if one is given, by column and kind otherwise; a second one of that name is refused."""
    table = made(lake, 20)
    table.create_index("n", name="by number")
    table.create_index("n", "bitmap")
    assert list(coverage(lake, "t")) == [KEY, "by number", "n_bitmap"]
    with pytest.raises(AlreadyExistsError, match="by number"):
        table.create_index("s", name="by number")
    with pytest.raises(NotFoundError, match="there is: by number, n_bitmap"):
        table.drop_index("none")
    assert list(coverage(lake, "t")) == [KEY, "by number", "n_bitmap"]


@pytest.mark.parametrize("upkeep", ["flush and cover", "optimize"])
def test_a_dropped_index_goes_with_the_next_upkeep(lake: Lake, upkeep: str) -> None:
    """At once nobody counts on it; its files are let go when indexes are next looked after."""
    table = made(lake, 20)
    table.create_index("n")
    assert list(held(lake, "t")) == ["n_btree"]
    table.drop_index("n_btree")
    assert list(coverage(lake, "t")) == [KEY]
    assert list(held(lake, "t")) == ["n_btree"]
    if upkeep == "optimize":
        lake.optimize("t")
    else:
        lake.flush("t")
        covered(lake, "t", 10_000)
    assert "n_btree" not in held(lake, "t")
    assert table.count("n = 3") == sum(row["n"] == 3 for row in rows(20))


def test_an_index_declared_anew_under_the_same_name_is_another_one(lake: Lake) -> None:
    """Nothing of the old one is taken for it: not its column, not its kind, not its options."""
    table = made(lake, 300)
    table.create_index("n", name="i")
    table.drop_index("i")
    table.create_index("s", "bitmap", name="i")
    with asked() as record:
        assert table.count("s = 'ab'") + table.to_arrow(where="s = 'ab'").num_rows == 2 * sum(
            row["s"] == "ab" for row in rows(300)
        )
    assert any("ScalarIndexQuery" in plan for plan in record.plans())
    table.drop_index("i")
    table.create_index("x", "ivf_flat", name="i", num_partitions=1, metric="cosine")
    table.drop_index("i")
    table.create_index("x", "ivf_flat", name="i", num_partitions=1, metric="dot")
    [found] = [one for one in head(lake, "t").dataset.describe_indices() if one.name.startswith("i-")]
    assert (found.index_type, found.details["metric_type"]) == ("IVF_FLAT", "DOT")


def test_too_few_vectors_to_learn_from_are_no_trouble(lake: Lake) -> None:
    """Zeros have no cosine, nulls no distance at all: until there are enough, rows are compared one by one."""
    schema = pa.schema([("id", pa.int64()), ("x", pa.list_(pa.float32(), 2))])
    table = lake.create_table("v", schema, key="id")
    table.append([{"id": 1, "x": [0.0, 0.0]}, {"id": 2, "x": [1.0, 2.0]}, {"id": 3, "x": None}])
    lake.flush("v")
    table.create_index("x", "ivf_flat", metric="cosine", num_partitions=2)
    assert coverage(lake, "v")["x_ivf_flat"] == (0, 1)
    assert table.search([1.0, 2.0], k=3, metric="cosine")["id"].to_pylist() == [2]
    table.append([{"id": one, "x": [1.0, float(one)]} for one in range(10, 60)])
    lake.optimize("v")
    assert coverage(lake, "v")["x_ivf_flat"] == (1, 1)
    assert table.search([1.0, 59.0], k=1, metric="cosine")["id"].to_pylist() == [59]


BAD: list[tuple[str, Callable[[Table], object]]] = [
    ("no column 'w'", lambda table: table.create_index("w")),
    ("no column None", lambda table: table.create_index(None)),  # type: ignore[arg-type]
    ("no kind of index 'hash'", lambda table: table.create_index("n", "hash")),
    ("no kind of index 'IVF_PQ'", lambda table: table.create_index("x", "IVF_PQ")),
    ("plain values", lambda table: table.create_index("x")),
    ("text", lambda table: table.create_index("n", "inverted")),
    ("vectors", lambda table: table.create_index("n", "ivf_flat")),
    ("vectors", lambda table: table.create_index("t", "ivf_hnsw_sq")),
    ("called ''", lambda table: table.create_index("n", name="")),
    ("called 5", lambda table: table.create_index("n", name=5)),  # type: ignore[arg-type]
    ("called 'phalanx_key'", lambda table: table.create_index("n", name="phalanx_key")),
    ("num_partitions", lambda table: table.create_index("x", "ivf_flat", num_partitions="many")),
    ("num_partitions", lambda table: table.create_index("x", "ivf_flat", num_partitions=0)),
    ("foo", lambda table: table.create_index("x", "ivf_flat", metric="foo")),
    ("Klingon", lambda table: table.create_index("t", "inverted", language="Klingon")),
    ("no option 'ivf_centroids'", lambda table: table.create_index("x", "ivf_flat", ivf_centroids=np.zeros((1, SIZE)))),
    ("fragment_ids", lambda table: table.create_index("n", fragment_ids=1)),
]


@pytest.mark.parametrize(("says", "act"), BAD)
def test_bad_input_is_refused_and_leaves_no_index_behind(lake: Lake, says: str, act: Callable[[Table], object]) -> None:
    """A column, a kind, a type, a name or an option that will not do, before or after the work was tried."""
    table = made(lake, 20)
    with pytest.raises(InvalidInputError, match=says):
        act(table)
    assert list(coverage(lake, "t")) == [KEY]
    table.create_index("n")


def test_an_index_that_cannot_be_built_holds_up_no_other(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """It is warned of by name; the others are built, and queries do without it."""
    table = made(lake, 20)
    lake.commit([it.DeclareIndex(table.id, "broken", "x", "ivf_flat", {"num_partitions": "many"})])
    table.create_index("n")
    found = covered(lake, "t")
    assert (found.names, list(found.failed)) == ((KEY,), ["broken"])
    assert coverage(lake, "t") == {KEY: (1, 1), "broken": (0, 1), "n_btree": (1, 1)}
    assert "index broken of table" in caplog.text
    assert table.search([0.0] * SIZE, k=3).num_rows == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("there", ["no rows", "one row", "nothing but nulls"])
def test_an_index_may_be_declared_before_there_is_anything_to_index(lake: Lake, kind: str, there: str) -> None:
    """With too little to build it from, it is built once there is enough; until then the answers are the same."""
    table = made(lake, 0)
    column, options = KINDS[kind]
    if there != "no rows":
        table.append([{"id": 0} if there == "nothing but nulls" else rows(1)[0]])
    table.create_index(column, kind, **options)
    table.append(rows(300, first=1))
    assert table.count() == 300 + (there != "no rows")
    lake.optimize("t")
    assert coverage(lake, "t")[f"{column}_{kind}"] == (1, 1)
    before = lake.version
    lake.optimize("t")  # and is not built again
    assert lake.version == before


PREDICATES = [
    "n = 3",
    "n <> 3",
    "n < 2",
    "n >= 4 or n is null",
    "n is not null and n > 3",
    "n in (1, 5, 9)",
    "n not in (1, 5)",
    "n between 1 and 3",
    "not (n > 2)",
    "n = 3 and s = 'ab'",
    "n + 1 = 4",
    "f > 1.0",
    "f < 0.0",
    "f = 1.5",
    "f >= 0.0",
    "f = 0.0",
    "f is null or f <= -1.5",
    "s = 'it''s'",
    "s like 'a%'",
    "s like '%b%'",
    "s > 'a' and s < 'z'",
    "s = ''",
    "s is null",
    "s in ('z', 'Ö')",
    "upper(s) = 'AB'",
    "id < 40 and n = 3",
    "id in (1, 2, 3, 400)",
    "t = 'red green blue' or n = 0",
]
SEED = 20261116


@pytest.mark.parametrize(
    "kinds", [("btree", "btree", "btree"), ("bitmap", "bitmap", "bitmap"), ("btree", "bitmap", "btree")]
)
def test_filters_find_the_same_rows_with_indexes_and_without(lake: Lake, kinds: tuple[str, str, str]) -> None:
    """Before and after every kind of change and upkeep: nulls, NaN, signed zeros, quotes and patterns included."""
    chance = random.Random(SEED)
    print(f"seed {SEED}: pytest {__file__} -k test_filters_find_the_same_rows")
    bare, indexed = (lake.create_table(name, SCHEMA, key="id") for name in ("bare", "indexed"))
    for table in (bare, indexed):
        table.append(rows(150))
        lake.flush(table.name)
    for column, kind in zip("nfs", kinds, strict=True):
        indexed.create_index(column, kind)
    steps: list[Callable[[Table], object]] = [
        lambda table: table.upsert(rows(40, first=100, seed=8)),
        lambda table: lake.flush(table.name),
        lambda table: covered(lake, table.name) if table is indexed else None,
        lambda table: table.update({"n": "n + 1", "f": "-f"}, "id % 3 = 0"),
        lambda table: table.delete("id % 7 = 1"),
        lambda table: table.upsert(rows(30, first=120, seed=9), stage=True),
        lambda table: lake.optimize(table.name),
        lambda table: table.update({"s": "'ab'"}, "id % 11 = 0"),
        lambda table: lake.flush(table.name),
        lambda table: lake.optimize(table.name),
    ]
    for number, step in enumerate(steps):
        for table in (bare, indexed):
            step(table)
        for where in chance.sample(PREDICATES, 9):
            found = [sorted(table.to_arrow(["id"], where)["id"].to_pylist()) for table in (bare, indexed)]
            assert found[0] == found[1], f"{where} after step {number}"
            assert [table.count(where) for table in (bare, indexed)] == [len(found[0])] * 2, where


def test_optimize_leaves_coverage_as_it_was_or_better(lake: Lake) -> None:
    """Fragments that are written anew lose their index, and get it again before it is over."""
    table = made(lake, 100)
    for column, kind in (("n", "btree"), ("s", "bitmap"), ("t", "inverted"), ("x", "ivf_flat")):
        table.create_index(column, kind, **({"num_partitions": 1} if kind == "ivf_flat" else {}))
    for number in range(4):
        table.upsert(rows(60, first=80 * number, seed=number))
        table.delete(f"id % 9 = {number}")
        lake.flush("t")
        lake.optimize("t")
        assert {covers == of for covers, of in coverage(lake, "t").values()} == {True}
        for segments in held(lake, "t").values():
            assert sum(map(len, segments)) == len(set().union(*segments))


def test_snapshots_and_transactions_read_past_the_indexes_of_today(lake: Lake) -> None:
    """An old version is read as it was, before and after an index was built; a transaction finds its own rows."""
    table = made(lake, 100)
    before = lake.snapshot()
    expected = sorted(row["id"] for row in rows(100) if row["n"] == 3)
    table.create_index("n")
    table.update({"n": "null"}, "n = 3")
    lake.optimize("t")
    assert sorted(before["t"].to_arrow(["id"], "n = 3")["id"].to_pylist()) == expected
    assert table.count("n = 3") == 0
    with lake.transaction() as txn:
        txn["t"].upsert([{"id": 5000, "n": 3}])
        assert txn["t"].to_arrow(["id"], "n = 3")["id"].to_pylist() == [5000]
        assert table.count("n = 3") == 0
    assert table.count("n = 3") == 1


def test_an_option_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """Lance would swallow it, and build something else than what was meant."""
    with phalanx.open(tmp_path / "lake", create=True) as lake:
        table = lake.create_table("t", [{"id": 1, "s": "a"}])
        for kind, column in (("btree", "id"), ("inverted", "s")):
            with pytest.raises(InvalidInputError, match="no option 'num_partition'"):
                table.create_index(column, kind, num_partition=4)
        assert table.indexes() == []
