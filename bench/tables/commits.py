"""A commit of four tables beside a commit of one: an entry changes any number of tables, and is one file whatever is in it."""

from collections.abc import Callable, Mapping, Sequence

from bench.frame import Bench, timed
from bench.report import Section, Target, median, milliseconds
from bench.systems.port import SCHEMA, numbered
from phalanx import Lake
from phalanx.log import item as it
from phalanx.tail.payload import encode_rows

TARGET = Target("<=", 1.3)
ROWS = 10
CHUNK = 50
"""Rounds between two flushes, so that no tail gets long."""

FOUR = ("a", "b", "c", "d")


def measure(bench: Bench) -> Section:
    """The section."""
    note = (
        f'Durability "disk"; each table gets {ROWS} rows in each commit. Bare entry: the same items, without statements or '
        "a transaction around them."
    )
    with bench.section("commits", "A commit of four tables beside one of one", note) as section:
        with bench.place.lake(bench.place.new("commits")) as lake:
            work = _contestants(lake)
            for one in work.values():
                one()
            contestants = {name: timed(section.series(name), one) for name, one in work.items()}
            for _ in range(bench.pick(8, 1)):
                bench.in_turns("in turns", bench.pick(CHUNK, 10), contestants)
                lake.flush()
        _conclude(section, list(work))
    return section


def _contestants(lake: Lake) -> Mapping[str, Callable[[], object]]:
    """Each with tables of its own, so that they grow alike."""
    rows = numbered(0, ROWS)

    def tables(way: str, names: Sequence[str]) -> list[str]:
        return [lake.create_table(f"{way}_{len(names)}_{name}", SCHEMA).name for name in names]

    def transaction(names: Sequence[str]) -> Callable[[], None]:
        inside = tables("transaction", names)

        def commit() -> None:
            with lake.transaction() as txn:
                for name in inside:
                    txn[name].append(rows)

        return commit

    def bare(names: Sequence[str]) -> Callable[[], object]:
        ids = [lake[name].id for name in tables("bare", names)]

        def commit() -> object:
            payloads = [encode_rows(rows) for _ in ids]
            items = [it.Put(table, it.Inline(number, ROWS)) for number, table in enumerate(ids)]
            return lake._core.commit(items, payloads=payloads)

        return commit

    alone = lake[tables("statement", ("a",))[0]]
    each = [lake[name] for name in tables("statements", FOUR)]
    return {
        "transaction, 1 table": transaction(("a",)),
        "transaction, 4 tables": transaction(FOUR),
        "bare entry, 1 table": bare(("a",)),
        "bare entry, 4 tables": bare(FOUR),
        "statement, 1 table": lambda: alone.append(rows),
        "4 statements, not together": lambda: [table.append(rows) for table in each],
    }


def _conclude(section: Section, names: Sequence[str]) -> None:
    times = {name: median(section.samples[name]) for name in names}
    for name in names:
        section.row(name, milliseconds(section.samples[name]))
    for way in ("transaction", "bare entry"):
        ratio = times[f"{way}, 4 tables"] / times[f"{way}, 1 table"]
        section.ratio(f"{way}: 4 tables / 1, medians", ratio, TARGET)
    section.ratio("transaction / statement, 1 table", times["transaction, 1 table"] / times["statement, 1 table"])
    apart = times["4 statements, not together"] / times["transaction, 4 tables"]
    section.ratio("4 statements / transaction of 4 tables", apart)
