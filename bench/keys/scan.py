"""Reading all rows while some have changed and are not written out, beside reading them when they are."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from bench.frame import Bench, timed
from bench.keys.large import KEY, TABLE, chosen
from bench.report import Section, Target, Value, median
from bench.tables.rows import FILTER, SCHEMA, batches, made
from bench.tails import quiet_lake, upserts
from phalanx.table import Readable

TARGET = Target(">=", 0.8)
FIRST = "first read of the tail"
TAIL, FLUSHED, ANEW = "with the tail", "written out", "loaded anew"


def measure(bench: Bench) -> Section:
    """The section."""
    count, changed = bench.pick(5_000_000, 20_000, "rows"), bench.pick(50_000, 500, "changed_rows")
    note = (
        f"{count:,} rows of 6 columns, {changed:,} of them, all over the table, changed by logged upserts. They are read as "
        "they were then, with the tail, and as they are after flush and optimize, which leaves marks of deletion where few "
        "rows of a file are deleted; and from another table, into which they were loaded at once. In turns; the best of each "
        "is compared, because noise only ever adds."
    )
    uri = bench.place.new("scan")
    with (
        bench.section("tail_scan", "A scan with a tail beside one without", note) as section,
        quiet_lake(bench, uri) as lake,
        bench.place.lake(uri) as other,  # what each keeps in memory is its own, and neither takes the other's place
    ):
        bench.step("loading")
        table = lake.create_table(TABLE, SCHEMA, key=KEY)
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches(count)), stage=True, timeout=600)
        lake.optimize(TABLE, timeout=600)
        new = made(changed, first=count).set_column(0, KEY, pa.array(chosen(count, changed, 3)))
        for statement in upserts(table, new):
            statement()
        then = other.snapshot()[TABLE]
        timed(section.series(FIRST), then.count)()
        assert table._found().contents.weight.rows == changed  # nothing was flushed
        bench.step("flush and optimize")
        lake.optimize(TABLE, timeout=600)
        anew = lake.create_table(ANEW.replace(" ", "_"), SCHEMA, key=KEY)
        anew.append(table.scan(), stage=True, timeout=600)
        tables: dict[str, Readable] = {TAIL: then, FLUSHED: table, ANEW: anew}
        for name, (read, target) in _questions().items():
            _compete(bench, section, name, read, tables, target)
        section.row(FIRST, _figures(section.samples[FIRST]))
    return section


def _questions() -> dict[str, tuple[Callable[[Readable], int], Target | None]]:
    return {
        "all columns": (lambda table: table.to_arrow().num_rows, TARGET),
        "one column": (lambda table: table.to_arrow(["x"]).num_rows, None),
        f"where {FILTER}": (lambda table: table.to_arrow(where=FILTER).num_rows, None),
    }


def _compete(
    bench: Bench,
    section: Section,
    question: str,
    read: Callable[[Readable], int],
    tables: dict[str, Readable],
    target: Target | None,
) -> None:
    assert len({read(table) for table in tables.values()}) == 1  # and whatever is slow only the first time is done
    names = {f"{question}, {state}": table for state, table in tables.items()}
    contestants = {name: timed(section.series(name), partial(read, table)) for name, table in names.items()}
    bench.in_turns(question, bench.pick(15, 3), contestants)
    for name in names:
        section.row(name, _figures(section.samples[name]))
    tail, flushed, anew = (section.samples[name] for name in names)
    section.ratio(f"{question}: time {FLUSHED} / {TAIL}, best", min(flushed) / min(tail), target)
    section.ratio(f"{question}: time {FLUSHED} / {TAIL}, medians", median(flushed) / median(tail))
    section.ratio(f"{question}: time {ANEW} / {TAIL}, best", min(anew) / min(tail))


def _figures(values: list[float]) -> dict[str, Value]:
    return {"best ms": min(values) * 1e3, "p50 ms": median(values) * 1e3, "samples": len(values)}
