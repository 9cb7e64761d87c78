"""Streams of tables that little happens to, in a lake where much happens: what is pruned meanwhile is not theirs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import phalanx
from phalanx.errors import ChangesExpiredError
from phalanx.objects.layout import PINS
from phalanx.spark import Pipeline, SparkLake, changes, run_pipeline
from phalanx.spark.options import read_options
from phalanx.spark.stream import FeedReader, _kept, stream_schema
from tests.spark.rows import EVENTS, events, multiset
from tests.spark.test_stream import followed, into


@pytest.fixture
def tables(lake: phalanx.Lake) -> tuple[phalanx.Table, phalanx.Table]:
    """A quiet table with some rows, and a busy one."""
    quiet, busy = lake.create_table("events", EVENTS), lake.create_table("busy", EVENTS)
    quiet.append(events(0, 5))
    return quiet, busy


@pytest.fixture
def reader(lake: phalanx.Lake) -> Iterator[FeedReader]:
    """The source of a query that runs here."""
    asked = read_options({"lake": lake.uri, "table": "events"})
    made = FeedReader(asked, stream_schema(asked))
    yield made
    made.stop()


def time_passes(lake: phalanx.Lake, busy: phalanx.Table) -> None:
    """Others write, and all is pruned that may be."""
    for number in range(6):
        busy.append(events(number, 1))
    lake.core.pins.renew()  # what a handle does by itself, now and then
    lake.prune(keep=1, unconditional=True)


def forget_pins(lake: phalanx.Lake) -> None:
    """Remove all pins, as if those of processes that are gone had expired."""
    for one in lake.core.store.list(PINS):
        lake.core.store.delete([one.name])


def ids(reader: FeedReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    return [
        row["id"] for part in reader.partitions(start, end) for batch in reader.read(part) for row in batch.to_pylist()
    ]


def test_a_stream_of_a_quiet_table_goes_on_though_the_log_was_pruned(
    spark: SparkSession, lake: phalanx.Lake, tables: tuple[phalanx.Table, phalanx.Table], tmp_path: Path
) -> None:
    """Between two runs others write, and the version that it has read is pruned; nothing of the table was."""
    quiet, busy = tables
    copy = lake.create_table("copy", EVENTS)
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    end = lake.version
    forget_pins(lake)
    time_passes(lake, busy)
    assert lake.core.log.oldest() > end + 1
    quiet.append(events(5, 1))
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    assert multiset(copy) == multiset(quiet)


def test_what_a_query_waits_for_is_not_pruned(
    lake: phalanx.Lake, tables: tuple[phalanx.Table, phalanx.Table], reader: FeedReader
) -> None:
    """Behind the whole table, behind a batch and behind nothing, however long it waits between two looks at the lake."""
    quiet, busy = tables
    start, seen = reader.initialOffset(), []
    for first in (5, 6, 7):
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        seen += ids(reader, start, end)
        if first == 7:
            assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
        quiet.append(events(first, 1))
        _kept(reader._asked.reach).core.pins.renew()
        time_passes(lake, busy)
        start = end
    seen += ids(reader, start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    assert seen == list(range(8))


def test_changes_that_were_pruned_are_not_left_out(
    lake: phalanx.Lake, tables: tuple[phalanx.Table, phalanx.Table], reader: FeedReader
) -> None:
    """A query that is started again too late is refused, and so is one whose table is another one by now."""
    quiet, busy = tables
    start = {"version": lake.version}
    quiet.append(events(5, 1))
    quiet.append(events(6, 1))
    time_passes(lake, busy)
    with pytest.raises(ChangesExpiredError):
        ids(reader, start, {"version": lake.version})
    start = {"version": lake.version}
    lake.drop_table("events")
    lake.create_table("events", EVENTS)
    forget_pins(lake)
    time_passes(lake, busy)
    with pytest.raises(ChangesExpiredError):
        ids(reader, start, {"version": lake.version})


def test_a_pipeline_takes_the_changes_of_a_quiet_table_from_the_log(
    there: SparkLake, tables: tuple[phalanx.Table, phalanx.Table]
) -> None:
    """Those after a version that is not kept, with the version at which each landed."""
    lake, (quiet, busy) = there.lake, tables
    since = lake.version
    time_passes(lake, busy)
    quiet.append(events(5, 1))
    landed = lake.version
    rows = there.changes("events", since).collect()
    assert [(row.id, row["_commit_version"]) for row in rows] == [(5, landed)]
    copying = Pipeline("copying")
    copying.sql("copy", "select id from events", reads=[changes("events")], writes="copy", create=True)
    assert run_pipeline(there, copying).steps[0].rows == 6
