"""The nearest vectors of a table that has nothing pending, beside plain Lance with an index of the same kind."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import lance
import pyarrow as pa

from bench.frame import Bench, timed
from bench.report import Section, Target, median, milliseconds
from bench.search.vectors import SCHEMA, SIZE, K, Vectors, around, collection, nearest, stream
from bench.systems.port import LEFT_OUT
from bench.tables.scan import direct_dataset
from bench.tails import quiet_lake

LATENCY = Target("<=", 1.1)
RECALL = Target(">=", 0.9)
TABLE = "t"
OURS, SAME, PLAIN = "Phalanx", "Lance, the same files", "Lance, a dataset of its own"

Ask = Callable[[Vectors], pa.Table]


def indexed(bench: Bench) -> dict[str, Any]:
    """How both are indexed."""
    return {"num_partitions": bench.pick(256, 4), "num_sub_vectors": 16}


def asked(bench: Bench) -> dict[str, Any]:
    """How well both search."""
    return {"nprobes": bench.pick(20, 2), "refine_factor": 5}


def filled(bench: Bench) -> str:
    """The lake with all vectors in one table, written out and indexed."""
    return cast("str", bench.once("search", partial(_filled, bench)))


def _filled(bench: Bench) -> str:
    vectors = collection(bench).vectors
    bench.step(f"indexing {len(vectors):,} vectors")
    uri = bench.place.new("search")
    with quiet_lake(bench, uri) as lake:
        table = lake.create_table(TABLE, SCHEMA, key="id")
        table.append(stream(vectors), stage=True, timeout=600)
        table.create_index("vec", "ivf_pq", **indexed(bench))
        lake.optimize(TABLE, timeout=600)
        assert all(index.fragments == index.of for index in table.indexes())
    return uri


def _plain(bench: Bench) -> lance.LanceDataset:
    bench.step("the same with plain Lance")
    dataset = lance.write_dataset(stream(collection(bench).vectors), bench.place.new("search"))
    dataset.create_index("vec", "IVF_PQ", **indexed(bench))
    return dataset


def measure(bench: Bench) -> Section:
    """The section."""
    all_of_them = collection(bench)
    count = len(all_of_them.vectors)
    note = (
        f"{count:,} vectors of {SIZE} numbers, in clusters, written out; ivf_pq with {_words(indexed(bench))}; the {K} nearest "
        f"are asked for with {_words(asked(bench))}. Recall: how many of the {K} that are nearest, by looking at all, are "
        "found. Each index is trained by itself, so recalls differ a little; Lance's datasets are opened once."
    )
    with bench.section("search", "The nearest vectors, beside Lance", note) as section:
        uri = filled(bench)
        queries = around(all_of_them.centres, bench.pick(200, 10), 7)
        truth = nearest(all_of_them.vectors, queries)
        with bench.place.lake(uri) as lake:
            table = lake[TABLE]
            ask: dict[str, Ask] = {OURS: lambda query: table.search(query, k=K, columns=["id"], **asked(bench))}
            ask[SAME] = _asking(bench, direct_dataset(bench, lake, table))
            if bench.place.local:
                ask[PLAIN] = _asking(bench, _plain(bench))
            _compete(bench, section, ask, queries, truth)
    return section


def _asking(bench: Bench, dataset: lance.LanceDataset) -> Ask:
    options = {"column": "vec", "k": K, **asked(bench)}

    def ask(query: Vectors) -> pa.Table:
        return dataset.scanner(columns=["id", "_distance"], nearest={**options, "q": query}).to_table()

    return ask


def _compete(bench: Bench, section: Section, ask: dict[str, Ask], queries: Vectors, truth: Sequence[set[int]]) -> None:
    recalls = {}
    for name, search in ask.items():
        found = [set(search(query).column("id").to_pylist()) for query in queries]
        recalls[name] = sum(len(one & right) for one, right in zip(found, truth, strict=True)) / (K * len(queries))
    for number, query in enumerate(queries):
        bench.step("in turns", number, len(queries))
        work = {name: timed(section.series(name), partial(search, query)) for name, search in ask.items()}
        bench.in_turns("in turns", bench.pick(3, 1), work)
    for name in ask:
        section.row(name, {**milliseconds(section.samples[name]), f"recall@{K}": recalls[name]})
    if PLAIN not in ask:
        section.row(PLAIN, LEFT_OUT)
    for name in list(ask)[1:]:
        ratio = median(section.samples[OURS]) / median(section.samples[name])
        section.ratio(f"latency: {OURS} / {name}, medians", ratio, LATENCY)
        section.ratio(f"recall: {OURS} / {name}", recalls[OURS] / recalls[name], RECALL)


def _words(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())
