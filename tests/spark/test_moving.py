"""A lake that moves on: versions that are gone, tables that are dropped or altered under a job, frames that stay as they were."""

import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

import phalanx
from phalanx.errors import ChangesExpiredError, NotFoundError, SchemaChangedError, SnapshotExpiredError
from phalanx.spark import SparkLake
from phalanx.spark.telling import told, translated
from tests.spark.rows import EVENTS, events, multiset

FEW, MANY = 10, 20_000
"""Rows that travel in the log, and rows that tasks write as files."""
WRITERS = ["helper", "source"]


def reading(there: SparkLake, **options: str | int) -> DataFrame:
    return there.spark.read.format("phalanx").options(lake=there.lake.uri, table="events", **options).load()


def meanwhile(there: SparkLake, count: int, change: Callable[[phalanx.Lake], object]) -> DataFrame:
    """Rows for the table, whose only task changes the lake before it gives any: the write was planned before."""
    uri = there.lake.uri

    def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with phalanx.open(uri) as other:
            change(other)
        yield from batches

    rows = there.spark.range(0, count, 1, 1).selectExpr("id", "'s' as kind", "id / 2 as x")
    return rows.mapInArrow(slowly, rows.schema)


def write(there: SparkLake, how: str, frame: DataFrame, mode: str = "append") -> None:
    """Write to the table, and raise what Phalanx says of it; a trace of Java is no sentence."""
    if how == "helper":
        there.write(frame, "events", mode)
        return
    options = {"lake": there.lake.uri, "table": "events"}
    try:
        frame.write.format("phalanx").options(**options).mode(mode).save()
    except PySparkException as error:
        require_short(error)
        raise translated(str(error), "writing") from None


def require_short(error: Exception) -> None:
    assert str(error).count("\tat ") == 0, "no trace of Java"
    assert len(str(error)) < 2500


def test_a_version_that_was_pruned_is_refused_in_a_sentence(lake: phalanx.Lake, there: SparkLake) -> None:
    """By the helper and by the options, in the driver: what is no longer kept, and what to do."""
    table = lake.create_table("events", EVENTS)
    for number in range(5):
        table.append(events(FEW * number, FEW))
    gone = lake.version - 4
    lake.prune(keep=1, unconditional=True)
    version = lake.version
    says = rf"^version {gone} is no longer kept: the oldest version that is kept is \d+; choose a newer one$"
    changed = rf"^the changes after version {gone} are no longer kept: .*; read the table as a whole"
    with pytest.raises(SnapshotExpiredError, match=says):
        there.snapshot(version=gone)
    with pytest.raises(ChangesExpiredError, match=changed):
        there.changes("events", since=gone)
    for options, kind, words in (
        ({"version": gone}, SnapshotExpiredError, says),
        ({"since": gone}, ChangesExpiredError, changed),
    ):
        with pytest.raises(PySparkException) as caught:
            reading(there, **options).count()
        require_short(caught.value)
        with pytest.raises(kind, match=words):
            raise translated(str(caught.value), "reading")
    assert lake.version == version
    assert reading(there, version=version).count() == there.snapshot(version=version).table("events").count() == 5 * FEW


def drop(other: phalanx.Lake) -> None:
    other.drop_table("events")


def replace(other: phalanx.Lake) -> None:
    other.drop_table("events")
    other.create_table("events", EVENTS)


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("change", [drop, replace])
def test_a_table_that_is_dropped_under_a_write_takes_none_of_its_rows(
    lake: phalanx.Lake, there: SparkLake, how: str, count: int, change: Callable[[phalanx.Lake], None]
) -> None:
    """Not even when another one of its name is there by then."""
    lake.create_table("events", EVENTS).append(events(-5, 5))
    with pytest.raises(NotFoundError, match=r"^the table does no longer exist: it was dropped; open it again [^\n]*$"):
        write(there, how, meanwhile(there, count, change))
    assert lake.refresh().tables() == ([] if change is drop else ["events"])
    assert change is drop or lake["events"].count() == 0
    assert lake.check().whole


ALTERED: dict[str, tuple[Callable[[phalanx.Lake], object], pa.Schema, Callable[[int], dict[str, object]]]] = {
    "added": (
        lambda other: other["events"].add_column("extra", pa.int64(), default=7),
        EVENTS.append(pa.field("extra", pa.int64())),
        lambda at: {"id": at, "kind": "s", "x": at / 2, "extra": 7},
    ),
    "dropped": (
        lambda other: other["events"].drop_column("x"),
        EVENTS.remove(2),
        lambda at: {"id": at, "kind": "s"},
    ),
    "renamed": (
        lambda other: other["events"].rename_column("x", "y"),
        EVENTS.remove(2).append(pa.field("y", pa.float64())),
        lambda at: {"id": at, "kind": "s", "y": at / 2},
    ),
    "another": (
        lambda other: (other["events"].drop_column("x"), other["events"].add_column("x", pa.string(), default="new")),
        EVENTS.remove(2).append(pa.field("x", pa.string())),
        lambda at: {"id": at, "kind": "s", "x": "new"},
    ),
}
"""How columns change under a write, the columns then, and what a row of the write is in them if it lands."""


@pytest.mark.parametrize("how", WRITERS)
@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("altered", ALTERED)
def test_a_write_lands_right_on_columns_that_changed_under_it_or_not_at_all(
    lake: phalanx.Lake, there: SparkLake, how: str, count: int, altered: str
) -> None:
    """All of its rows, as the columns are by then; or a sentence, and none of them."""
    change, columns, row = ALTERED[altered]
    table = lake.create_table("events", EVENTS)
    table.append(events(-5, 5))
    refused = None
    try:
        write(there, how, meanwhile(there, count, change))
    except SchemaChangedError as error:
        refused = str(error)
    assert refused is None or re.fullmatch(
        r"the columns of table 'events' have changed since .*run the change again", refused
    )
    assert table.schema.names == columns.names
    written = table.to_arrow(where="id >= 0").sort_by("id").to_pylist()
    assert written == ([row(at) for at in range(count)] if refused is None else [])
    assert table.count() == 5 + len(written)
    assert lake.check().whole


def frames(there: SparkLake) -> dict[str, Callable[[], DataFrame]]:
    """Frames of the same rows, in each way to make one."""
    return {
        "table": lambda: there.table("events"),
        "snapshot": lambda: there.snapshot(version=there.lake.version).table("events"),
        "derived": lambda: there.table("events").where("id >= 0").select("id", "kind", "x"),
        "source": lambda: reading(there),
        "version": lambda: reading(there, version=there.lake.version),
    }


def test_a_frame_keeps_its_rows_whatever_others_do_before_its_action(lake: phalanx.Lake, there: SparkLake) -> None:
    """Rows in files and pending rows: others append, overwrite, optimize, and prune all that nobody needs."""
    table = lake.create_table("events", EVENTS)
    table.append(events(0, MANY), stage=True)
    table.append(events(MANY, FEW))
    then = multiset(table)
    made = {name: make() for name, make in frames(there).items()}
    with phalanx.open(lake.uri) as other:
        other["events"].append(events(-5, 5))
        other["events"].overwrite(events(1_000_000, MANY), stage=True)
        other["events"].append(events(2_000_000, MANY), stage=True)
        other.optimize()
        other.prune(keep=1, protect=0)
    found = {}
    for name, frame in made.items():
        with told(name):
            found[name] = [row.id for row in frame.select("id").collect()]
    wanted = sorted(row[0] for row in then)
    assert {name: sorted(ids) == wanted for name, ids in found.items()} == dict.fromkeys(made, True)
