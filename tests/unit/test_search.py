"""Search: every row counts by its newest value, wherever it is; the answers are those of trying every row."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phalanx.errors import InvalidInputError
from phalanx.lake import Lake
from phalanx.table import Readable, Table
from tests.unit.covering import covered, opened

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("t", pa.string()), ("x", pa.list_(pa.float32(), 2))])
METRICS = ["l2", "cosine", "dot"]
WORDS = ["alpha", "beta", "gamma", "delta", "omega"]
Row = dict[str, Any]


def row(number: int, version: int = 0, vector: list[float] | None = None) -> Row:
    """A row that tells which version of it this is."""
    chosen = [float(number % 7 - 3), float((number + version) % 5 - 2)] if vector is None else vector
    words = f"{WORDS[number % 5]} {WORDS[(number + version) % 4]}"
    return {"id": number, "n": number + 1000 * version, "t": words, "x": chosen or None}


def distance(row: Row, query: list[float], metric: str) -> float | None:
    """As numpy would, one row at a time; None if there is none."""
    if row["x"] is None:
        return None
    one, other = np.array(row["x"], dtype=np.float64), np.array(query, dtype=np.float64)
    if metric == "l2":
        return float(((one - other) ** 2).sum())
    if metric == "dot":
        return float(1 - one @ other)
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(1 - one @ other / lengths) if lengths else None


def require_nearest(
    found: pa.Table, there: dict[int, Row], query: list[float], metric: str, k: int, fits: Callable[[Row], bool]
) -> None:
    """The k nearest rows of those that are there: as many, as near, each once, with its newest values, in order."""
    measured = {one: distance(row, query, metric) for one, row in there.items() if fits(row)}
    best = sorted(near for near in measured.values() if near is not None)[:k]
    told = found["_distance"].to_pylist()
    assert told == pytest.approx(best, abs=1e-5)
    ids = found["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    assert told == pytest.approx([measured[one] for one in ids], abs=1e-5)
    assert found.drop_columns(["_distance"]).to_pylist() == [there[one] for one in ids]


def require_matches(found: pa.Table, there: dict[int, Row], words: str, fits: Callable[[Row], bool]) -> None:
    """The rows that have one of the words, each once, with their newest values, best first."""
    wanted = {one for one, row in there.items() if fits(row) and set(words.split()) & set((row["t"] or "").split())}
    ids = found["id"].to_pylist()
    assert sorted(ids) == sorted(wanted)
    assert found.drop_columns(["_score"]).to_pylist() == [there[one] for one in ids]
    scores = found["_score"].to_pylist()
    assert scores == sorted(scores, reverse=True)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        yield lake


def spread(lake: Lake, key: str | tuple[()] = "id", **index: Any) -> tuple[Table, dict[int, Row]]:
    """A table with rows in the head (indexed and not), in staged files and in memory, some of them hidden."""
    table = lake.create_table("t", SCHEMA, key=key)
    there = {number: row(number) for number in range(40)}
    table.append(list(there.values()))
    if index:
        table.create_index("x", **index)
    table.create_index("t", "inverted")
    more = {number: row(number) for number in range(40, 50)}
    table.append(list(more.values()))
    lake.flush("t")
    staged = {number: row(number) for number in range(50, 60)} | ({5: row(5, 1), 45: row(45, 1)} if key else {})
    table.append(list(staged.values()), stage=True)
    memory = {number: row(number) for number in range(60, 65)} | ({6: row(6, 1), 52: row(52, 1)} if key else {})
    memory[64] = row(64, vector=[])
    table.append(list(memory.values()), stage=False)
    table.delete("id % 10 = 8")
    there |= more | staged | memory
    return table, {number: one for number, one in there.items() if number % 10 != 8}


WHERES: list[tuple[str | None, Callable[[Row], bool]]] = [
    (None, lambda _: True),
    ("id < 30 or id > 50", lambda row: row["id"] < 30 or row["id"] > 50),
    ("n >= 1000", lambda row: row["n"] >= 1000),
    ("substr(t, 1, 1) = 'a'", lambda row: row["t"].startswith("a")),  # not one that Lance's scanner takes
    ("id = -1", lambda _: False),
]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "ivf_flat"])
@pytest.mark.parametrize("key", ["id", ()], ids=["keyed", "no key"])
def test_the_nearest_rows_are_found_wherever_they_are(
    lake: Lake, metric: str, indexed: bool, key: str | tuple[()]
) -> None:
    """In the head with an index and without, staged, in memory, hidden; filtered by Lance or not; few or all of them."""
    index = {"kind": "ivf_flat", "num_partitions": 2, "metric": metric} if indexed else {}
    table, there = spread(lake, key, **index)
    for query in ([1.0, 1.0], [-3.0, 0.5]):
        for where, fits in WHERES:
            for k in (1, 4, 500):
                found = table.search(query, k=k, where=where, metric=metric, nprobes=100)
                require_nearest(found, there, query, metric, k, fits)


@pytest.mark.parametrize("kind", ["ivf_pq", "ivf_sq", "ivf_hnsw_flat", "ivf_hnsw_sq"])
def test_an_approximate_index_tells_true_distances_of_rows_that_are_there(lake: Lake, kind: str) -> None:
    """Which rows are nearest may be approximate; what is told of them is exact, and none of them is stale."""
    chance = np.random.default_rng(5)
    table = lake.create_table("t", SCHEMA, key="id")
    there = {number: row(number, vector=chance.random(2).tolist()) for number in range(400)}
    for one in there.values():
        one["x"] = [float(np.float32(value)) for value in one["x"]]
    table.append(list(there.values()))
    table.create_index("x", kind, num_partitions=1, **({"num_sub_vectors": 2} if kind == "ivf_pq" else {}))
    table.delete("id < 100")
    moved = {number: {**row(number, 1), "x": [5.0, 5.0]} for number in range(100, 200)}
    table.upsert(list(moved.values()))
    there = {number: one for number, one in (there | moved).items() if number >= 100}
    for upkeep in (lambda: None, lambda: lake.flush("t"), lambda: lake.optimize("t")):
        upkeep()
        found = table.search([0.5, 0.5], k=50, nprobes=10, refine_factor=4)
        ids = found["id"].to_pylist()
        assert len(ids) == len(set(ids)) == 50
        assert found.drop_columns(["_distance"]).to_pylist() == [there[one] for one in ids]
        measured = [distance(there[one], [0.5, 0.5], "l2") for one in ids]
        assert found["_distance"].to_pylist() == pytest.approx(measured, abs=1e-5)
        assert max(one for one in measured if one is not None) < 1
        same = set(table.search([5.0, 5.0], k=100, refine_factor=4)["id"].to_pylist())
        # Of a hundred equal vectors the graph of an index need not lead to every one.
        assert same == set(moved) if "hnsw" not in kind else len(same & set(moved)) >= 80


@pytest.mark.parametrize("metric", METRICS)
def test_rows_that_are_gone_take_no_place_in_an_answer(lake: Lake, metric: str) -> None:
    """An index that was built while they were there does not find them instead of others, whatever was rewritten."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.append([{"id": one, "t": "alpha", "x": [1.0 + one, 1.0]} for one in range(6)])
    table.create_index("x", "ivf_flat", num_partitions=1, metric=metric)
    table.create_index("t", "inverted")
    table.delete("id < 5")
    for upkeep in (lambda: None, lambda: lake.flush("t"), lambda: lake.optimize("t"), lambda: covered(lake, "t")):
        upkeep()
        for k in (1, 3):
            assert table.search([1.0, 1.0], k=k, metric=metric, nprobes=10)["id"].to_pylist() == [5]
            assert table.search(text="alpha", k=k)["id"].to_pylist() == [5]


def test_rows_without_a_vector_are_never_near(lake: Lake) -> None:
    """Nor are vectors without a direction, where only directions count: the same in the head and in memory."""
    table = lake.create_table("t", SCHEMA, key="id")
    rows = {0: row(0, vector=[]), 1: row(1, vector=[0.0, 0.0]), 2: row(2, vector=[1.0, 0.0])}
    table.append(list(rows.values()))
    for _ in ("memory", "head"):
        assert sorted(table.search([1.0, 1.0], k=9)["id"].to_pylist()) == [1, 2]
        assert table.search([1.0, 1.0], k=9, metric="cosine")["id"].to_pylist() == [2]
        assert table.search([0.0, 0.0], k=9, metric="cosine").num_rows == 0
        lake.flush("t")


def test_an_empty_table_has_nothing_near(lake: Lake) -> None:
    """Before there is a row, and after all are gone."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.create_index("t", "inverted")
    for _ in range(2):
        assert table.search([0.0, 0.0]).num_rows == 0
        assert table.search(text="alpha").num_rows == 0
        assert table.search([0.0, 0.0], text="alpha").num_rows == 0
        table.append([row(1)])
        lake.flush("t")
        assert table.search([0.0, 0.0], text="alpha").num_rows == 1
        table.delete("true")


@pytest.mark.parametrize("key", ["id", ()], ids=["keyed", "no key"])
def test_the_rows_that_have_the_words_are_found(lake: Lake, key: str | tuple[()]) -> None:
    """In the head with an index and without, staged and in memory, by their newest text, filtered or not."""
    table, there = spread(lake, key)
    for upkeep in (lambda: None, lambda: lake.flush("t"), lambda: lake.optimize("t")):
        upkeep()
        for words in ("alpha", "beta omega", "nothing"):
            for where, fits in WHERES:
                require_matches(table.search(text=words, k=500, where=where), there, words, fits)
        assert table.search(text="alpha beta", k=3).num_rows == 3


def test_the_words_of_rows_that_are_not_flushed_are_read_as_the_index_reads_them(lake: Lake) -> None:
    """Whatever the index was told of case and stems holds for the tail as well."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.create_index("t", "inverted", lower_case=False, stem=False, remove_stop_words=False)
    table.append([{"id": 1, "t": "Running the Race"}, {"id": 2, "t": "running races"}])
    for _ in ("tail", "head"):
        assert table.search(text="Running")["id"].to_pylist() == [1]
        assert table.search(text="the")["id"].to_pylist() == [1]
        assert table.search(text="race").num_rows == 0
        lake.optimize("t")


def test_both_rankings_are_fused(lake: Lake) -> None:
    """A row that is near and has the words comes first; rows of either ranking follow; each once; filtered or not."""
    table = lake.create_table("t", SCHEMA, key="id")
    table.create_index("t", "inverted")
    rows = [{"id": number, "n": number, "t": "beta", "x": [float(number), 9.0]} for number in range(20)]
    rows[3]["t"], rows[0]["t"], rows[19]["t"] = "alpha", "gamma", "alpha alpha"
    table.append(rows)
    for upkeep in (lambda: None, lambda: lake.flush("t"), lambda: lake.optimize("t")):
        upkeep()
        found = table.search([0.0, 9.0], text="alpha", k=5)
        ids = found["id"].to_pylist()
        assert ids[0] == 3
        assert {3, 19, 0, 1} <= set(ids)
        assert len(set(ids)) == 5
        scores = found["_relevance_score"].to_pylist()
        assert scores == sorted(scores, reverse=True)
        assert found.select(SCHEMA.names).to_pylist() == [rows[one] for one in ids]
        only = table.search([0.0, 9.0], text="alpha", k=5, where="n > 10")["id"].to_pylist()
        assert sorted(only) == [11, 12, 13, 14, 19]
    table.upsert([{**rows[3], "t": "beta", "x": [99.0, 9.0]}])
    assert 3 not in table.search([0.0, 9.0], text="alpha", k=5)["id"].to_pylist()


def both(table: Readable, query: list[float], words: str) -> list[set[int]]:
    """What a vector, words, and both of them find."""
    near = table.search(query, k=2)
    return [
        set(found["id"].to_pylist())
        for found in (near, table.search(text=words, k=50), table.search(query, text=words, k=1))
    ]


def test_a_snapshot_is_searched_as_it_was(lake: Lake) -> None:
    """Whatever was changed, flushed or indexed since."""
    table, _ = spread(lake)
    table.upsert([{"id": 900, "n": 0, "t": "unique", "x": [50.0, 50.0]}])
    before = lake.snapshot()
    expected = both(before["t"], [50.0, 50.0], "unique")
    table.upsert([{"id": 900, "n": 0, "t": "other", "x": [0.0, 0.0]}, {"id": 901, "t": "unique", "x": [50.0, 50.0]}])
    lake.optimize("t")
    assert both(before["t"], [50.0, 50.0], "unique") == expected
    assert expected[1:] == [{900}, {900}]
    assert both(table, [50.0, 50.0], "unique")[1:] == [{901}, {901}]


def test_a_transaction_finds_its_own_rows_and_nobody_else_does(lake: Lake) -> None:
    """Neither before it is committed nor after it is given up; and it does not find what others wrote meanwhile."""
    table, _ = spread(lake)
    mine = {"id": 900, "n": 0, "t": "unique", "x": [50.0, 50.0]}
    theirs = {"id": 901, "n": 0, "t": "unique", "x": [60.0, 60.0]}
    txn = lake.transaction()
    txn["t"].upsert([mine])
    assert both(txn["t"], [50.0, 50.0], "unique")[1:] == [{900}, {900}]
    assert table.search(text="unique").num_rows == 0
    table.upsert([theirs])  # by its number, the same next change of the table
    assert table.search(text="unique").to_pylist()[0]["id"] == 901
    assert both(table, [50.0, 50.0], "unique")[1:] == [{901}, {901}]
    assert both(txn["t"], [50.0, 50.0], "unique")[1:] == [{900}, {900}]
    txn["t"].delete("id = 900")
    assert txn["t"].search(text="unique").num_rows == 0
    txn.rollback()
    assert both(table, [50.0, 50.0], "unique")[1:] == [{901}, {901}]


BAD: list[tuple[str, Callable[[Table], object]]] = [
    ("give a vector", lambda table: table.search()),
    ("vectors of 2 numbers", lambda table: table.search([1.0])),
    ("vectors of 2 numbers", lambda table: table.search([[1.0, 2.0]])),  # type: ignore[list-item]
    ("vectors of 2 numbers", lambda table: table.search("ab")),  # type: ignore[arg-type]
    ("vectors of 2 numbers", lambda table: table.search([1.0, float("nan")])),
    ("vectors of 2 numbers", lambda table: table.search({"a": 1})),  # type: ignore[arg-type]
    ("number of rows", lambda table: table.search([0.0, 0.0], k=0)),
    ("number of rows", lambda table: table.search([0.0, 0.0], k="3")),  # type: ignore[arg-type]
    ("no metric 'hamming'", lambda table: table.search([0.0, 0.0], metric="hamming")),
    ("no column 'w'", lambda table: table.search([0.0, 0.0], columns=["w"])),
    ("'n' cannot be searched", lambda table: table.search([0.0, 0.0], vector_column="n")),
    ("'w' cannot be searched", lambda table: table.search([0.0, 0.0], vector_column="w")),
    ("no column here", lambda table: table.search([0.0, 0.0], where="w = 1")),
    ("no option 'distance_range'", lambda table: table.search([0.0, 0.0], distance_range=(0, 1))),
    ("no option 'q'", lambda table: table.search([0.0, 0.0], q=[1.0, 1.0])),
    ("[Nn]probes", lambda table: table.search([0.0, 0.0], nprobes=0)),
    ("no option 'foo'", lambda table: table.search(text="a", foo=3)),
    ("no metric 'foo'", lambda table: table.search(text="a", metric="foo")),
    ("'w' cannot be searched", lambda table: table.search(text="a", vector_column="w")),
    ("is no text", lambda table: table.search(text=5)),  # type: ignore[arg-type]
    ("'n' cannot be searched", lambda table: table.search(text="a", text_column="n")),
    ("no full-text index", lambda table: table.search(text="a", text_column="plain")),
    ("no full-text index", lambda table: table.search([0.0, 0.0], text="a", text_column="plain")),
]


@pytest.mark.parametrize(("says", "act"), BAD)
def test_a_search_that_makes_no_sense_is_refused(lake: Lake, says: str, act: Callable[[Table], object]) -> None:
    """With a typed error that says what is wrong with it."""
    table = lake.create_table("t", SCHEMA.append(pa.field("plain", pa.string())), key="id")
    table.append([row(1)])
    table.create_index("t", "inverted")
    with pytest.raises(InvalidInputError, match=says):
        act(table)


def test_the_column_has_to_be_named_only_where_there_are_several(lake: Lake) -> None:
    """One column of vectors is the one that is meant; of two, none is guessed."""
    schema = pa.schema(
        [("a", pa.list_(pa.float32(), 2)), ("b", pa.list_(pa.float64(), 2)), ("c", pa.list_(pa.int8(), 2))]
    )
    table = lake.create_table("t", schema)
    table.append([{"a": [0.0, 0.0], "b": [1.0, 1.0], "c": [0, 0]}, {"a": [1.0, 1.0], "b": [0.0, 0.0], "c": [0, 0]}])
    for _ in ("memory", "head"):
        with pytest.raises(InvalidInputError, match="name the column"):
            table.search([0.0, 0.0])
        with pytest.raises(InvalidInputError, match="'c' cannot"):
            table.search([0.0, 0.0], vector_column="c")
        assert table.search([0.0, 0.0], k=1, vector_column="a")["b"].to_pylist() == [[1.0, 1.0]]
        assert table.search([0.0, 0.0], k=1, vector_column="b")["a"].to_pylist() == [[1.0, 1.0]]
        assert table.search([0.0, 0.0], vector_column="a", columns=["b"]).column_names == ["b", "_distance"]
        lake.flush("t")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "bulk", "delete", "flush", "cover", "optimize", "overwrite"]),
        st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=5),
    ),
    min_size=2,
    max_size=9,
)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("indexed", [False, True], ids=["no index", "ivf_flat"])
def test_a_search_is_right_after_every_step(metric: str, indexed: bool) -> None:
    """Random changes and upkeep: what a vector and what words find is what trying every row would find."""
    tables = iter(range(1 << 20))
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as lake:

        @settings(max_examples=10, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
        @given(STEPS)
        def run(steps: list[tuple[str, list[tuple[int, bool]]]]) -> None:
            table = lake.create_table(f"t{next(tables)}", SCHEMA, key="id")
            table.create_index("t", "inverted")
            if indexed:
                table.create_index("x", "ivf_flat", num_partitions=2, metric=metric)
            there: dict[int, Row] = {}
            for version, (what, chosen) in enumerate(steps):
                new = {one: row(one, version, [] if bare else None) for one, bare in chosen}
                if what in {"upsert", "bulk"}:
                    table.upsert(list(new.values()), stage=what == "bulk")
                    there |= new
                elif what == "overwrite":
                    table.overwrite(list(new.values()))
                    there = new
                elif what == "delete":
                    table.delete(f"id in ({', '.join(map(str, new))})")
                    there = {one: held for one, held in there.items() if one not in new}
                else:
                    {"flush": lake.flush, "optimize": lake.optimize}.get(what, lambda name: covered(lake, name))(
                        table.name
                    )
                for where, fits in (WHERES[version % 2], WHERES[3]):
                    found = table.search([1.0, -1.0], k=3, where=where, metric=metric, nprobes=50)
                    require_nearest(found, there, [1.0, -1.0], metric, 3, fits)
                words = WORDS[version % 5]
                require_matches(table.search(text=words, k=99), there, words, lambda _: True)

        run()
