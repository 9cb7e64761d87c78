"""The nearest vectors while many rows have changed and are not written out: how long it takes, and whether it is right."""

from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from bench.frame import Bench, timed
from bench.report import Section, Target, median, milliseconds
from bench.search.flushed import TABLE, asked, filled
from bench.search.vectors import SIZE, K, Numbers, Vectors, around, collection, distances, rows
from bench.tails import upserts
from phalanx.table import Readable

LATENCY = Target("<=", 2)
NEVER = Target("==", 0)
FIRST, TAIL, FLUSHED = "first search of the tail", "with the tail", "nothing pending"
_ROUNDING = 1e-4
"""How far two ways to add up the same distance may lie apart."""


class Changed(msgspec.Struct, frozen=True):
    """Rows that got another vector: their ids, what they were and what they are; and `now`, all rows as they are."""

    ids: Numbers
    old: Vectors
    new: Vectors
    now: Vectors


def measure(bench: Bench) -> Section:
    """The section."""
    before, count = collection(bench), bench.pick(50_000, 200, "changed_vectors")
    note = (
        f"{len(before.vectors):,} vectors, {count:,} of which get another one by logged upserts. The same lake is asked as it "
        f"was before, and as it is now; for the {K} nearest to what changed rows are now, and to what they were. An answer is "
        "wrong if a row in it has an older vector than its newest, or if a changed row is nearer than its last and not in it."
    )
    with (
        bench.section("changed", "The nearest vectors with a tail", note) as section,
        bench.place.lake(filled(bench)) as lake,
    ):
        table, then = lake[TABLE], lake.snapshot()[TABLE]
        changed = _chosen(before.vectors, around(before.centres, count, 13))
        bench.step("upserting")
        for statement in upserts(table, rows(changed.ids, changed.new)):
            statement()
        timed(section.series(FIRST), partial(_search, bench, table, changed.new[0]))()
        assert table._found().contents.weight.rows == count  # nothing was flushed
        _judge(bench, section, table, changed)
        _compete(bench, section, {FLUSHED: then, TAIL: table}, around(before.centres, bench.pick(100, 5), 17))
    return section


def _chosen(vectors: Vectors, new: Vectors) -> Changed:
    ids = np.sort(np.random.default_rng(11).choice(len(vectors), len(new), replace=False))
    now = vectors.copy()
    now[ids] = new
    return Changed(ids, vectors[ids], new, now)


def _search(bench: Bench, table: Readable, query: Vectors) -> pa.Table:
    return table.search(query, k=K, **asked(bench))


def _judge(bench: Bench, section: Section, table: Readable, changed: Changed) -> None:
    """Ask for what rows are, and for what they were."""
    some = np.random.default_rng(19).choice(len(changed.ids), bench.pick(100, 10), replace=False)
    for name, queries in (("are now", changed.new[some]), ("were", changed.old[some])):
        bench.step(f"asking for what rows {name}")
        wrong = sum(not right(_search(bench, table, query), query, changed) for query in queries)
        section.count(f"wrong answers of {len(some)}, asked for what rows {name}", wrong, NEVER)


def right(answer: pa.Table, query: Vectors, changed: Changed) -> bool:
    """Whether an answer shows every row as it is now, and misses no changed one that is nearer than its last."""
    found = answer.column("id").to_numpy()
    lists: Any = answer.column("vec").combine_chunks()
    shown = lists.flatten().to_numpy().reshape(-1, SIZE)
    if len(np.unique(found)) != K or not np.array_equal(shown, changed.now[found]):
        return False
    told = answer.column("_distance").to_numpy()
    if not np.allclose(told, distances(shown, query), rtol=_ROUNDING, atol=_ROUNDING):
        return False
    nearer = changed.ids[distances(changed.new, query) < told.max() * (1 - _ROUNDING)]
    return bool(np.isin(nearer, found).all())


def _compete(bench: Bench, section: Section, tables: dict[str, Readable], queries: Vectors) -> None:
    for number, query in enumerate(queries):
        bench.step("in turns", number, len(queries))
        work = {
            name: timed(section.series(name), partial(table.search, query, k=K, columns=["id"], **asked(bench)))
            for name, table in tables.items()
        }
        bench.in_turns("in turns", bench.pick(2, 1), work)
    for name, values in section.samples.items():
        section.row(name, milliseconds(values))
    ratio = median(section.samples[TAIL]) / median(section.samples[FLUSHED])
    section.ratio(f"latency: {TAIL} / {FLUSHED}, medians", ratio, LATENCY)
