"""Files and versions of jobs that nobody process lasts for, or that take long: nothing is pruned under them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

import phalanx
from phalanx import pins
from phalanx.errors import StagingExpiredError, UnavailableError
from phalanx.objects import Listed
from phalanx.objects.local import LocalStore
from phalanx.spark import SparkLake, land, lending
from phalanx.spark.source import PhalanxSource, ScanReader, TableWriter
from tests.spark.rows import EVENTS, events

if TYPE_CHECKING:
    from pyspark.sql.datasource import WriterCommitMessage

MANY = 60_000


def rows(first: int = 0) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_pylist(events(first, MANY), EVENTS).to_batches()


def writer(lake: phalanx.Lake, **options: str) -> TableWriter:
    source = PhalanxSource({"lake": lake.uri, "table": "events", **options})
    made = source.writer(source.schema(), overwrite=False)
    assert isinstance(made, TableWriter)
    return made


def age(lake: phalanx.Lake, seconds: float, where: str = "**/*") -> None:
    """Make files as old as if so much time had passed."""
    for path in Path(lake.uri).glob(where):
        if path.is_file():
            stamp = path.stat().st_mtime - seconds
            os.utime(path, (stamp, stamp))


def test_a_transaction_names_the_pin_that_was_put_before_its_first_file(
    lake: phalanx.Lake, there: SparkLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job takes longer than operations share a pin, and a prune that waits for nothing comes before the commit."""
    monkeypatch.setattr(pins, "_SHARED", 0.0)
    told = land.pieces

    def later(*given: Any) -> object:
        age(lake, 60)  # the job took a minute
        return told(*given)

    monkeypatch.setattr(land, "pieces", later)
    lake.create_table("events", EVENTS)
    frame = there.spark.range(MANY).selectExpr("id", "'a' as kind", "id / 2 as x")
    with phalanx.open(lake.uri) as other, there.transaction() as txn:
        txn.write("events", frame)
        lake.core.pins.tidy()  # what nobody holds any more is taken back
        other.prune(keep=1, unconditional=True)
    assert lake["events"].count() == MANY
    assert lake["events"].to_arrow()["id"].to_numpy().sum() == MANY * (MANY - 1) // 2


def test_tasks_that_are_done_are_kept_by_those_that_run(lake: phalanx.Lake) -> None:
    """A task is done, ten minutes go by in which another one works, and old things are pruned: all rows land."""
    table = lake.create_table("events", EVENTS)
    job = writer(lake)
    done: list[WriterCommitMessage | None] = [job.write(rows())]
    for _ in range(3):
        age(lake, pins.LIFE / 2)
        lending._renew(lake.core.store, job._place.job.id)  # type: ignore[union-attr]
    table.append(events(-5, 5))
    with phalanx.open(lake.uri) as other:
        other.prune(keep=1, protect=1)
    done.append(job.write(rows(MANY)))
    job.commit(done)
    assert table.count() == 2 * MANY + 5
    assert [one.name for one in lake.core.store.list("pins") if job._place.job.id in one.name] == []  # type: ignore[union-attr]


def test_a_task_that_begins_late_pins_anew(lake: phalanx.Lake) -> None:
    """All pins of the job have expired, and its version is pruned, before the first task writes."""
    lake.set_property("flush.background", "off")  # nobody else stages anything
    table = lake.create_table("events", EVENTS)
    table.append(events(0, MANY), stage=True)
    job = writer(lake)
    place = job._place
    assert place.job is not None
    age(lake, 2 * pins.LIFE)
    job._place = msgspec.structs.replace(place, job=msgspec.structs.replace(place.job, began=0.0))
    table.overwrite(events(0, 1), stage=True)
    lake.refresh()
    lake.core.pins.renew()
    lake.prune(keep=1, unconditional=True)
    assert not list(Path(lake.uri).glob(f"tables/*/_versions/d{place.manifest}.manifest"))
    job.commit([job.write(rows())])
    assert table.count() == MANY + 1


def test_files_that_were_pruned_are_said_to_be(lake: phalanx.Lake) -> None:
    """Everybody stood still for too long: the commit says so, and nothing is visible."""
    table = lake.create_table("events", EVENTS)
    job = writer(lake)
    done = job.write(rows())
    age(lake, 2 * pins.LIFE)
    table.append(events(0, 1))
    with phalanx.open(lake.uri) as other:
        other.prune(keep=1, protect=1, trust_clock=True)
    with pytest.raises(StagingExpiredError, match="write it again"):
        job.commit([done])
    assert table.count() == 1


def test_a_commit_that_landed_is_no_error(lake: phalanx.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storage fails when the pins of a job are taken back."""
    table = lake.create_table("events", EVENTS)
    job = writer(lake)
    done = job.write(rows())
    list_all: Callable[..., list[Listed]] = LocalStore.list

    def failing(store: LocalStore, folder: str, **how: object) -> list[Listed]:
        if folder == "pins":
            raise UnavailableError("storage does not answer: nothing was changed")
        return list_all(store, folder, **how)

    monkeypatch.setattr(LocalStore, "list", failing)
    job.commit([done])
    monkeypatch.undo()
    assert table.count() == MANY


def test_a_write_lands_however_much_was_committed_meanwhile(tmp_path: Path) -> None:
    """A job is planned, and more transactions land than a lake remembers the ids of."""
    with phalanx.open(tmp_path / "lake", create=True, settings={"remembered": 5}) as lake:
        table = lake.create_table("events", EVENTS)
        job = writer(lake)
        done = job.write(rows())
        for number in range(12):
            table.append(events(-number, 1))
        job.commit([done])
        assert table.count() == MANY + 12


def test_a_read_renews_what_it_reads(lake: phalanx.Lake) -> None:
    """A partition is read for longer than a pin lives; what is left of renewals is one object for each pin."""
    table = lake.create_table("events", EVENTS)
    table.append(events(0, MANY), stage=True)
    source = PhalanxSource({"lake": lake.uri, "table": "events"})
    reader = source.reader(source.schema())
    assert isinstance(reader, ScanReader)
    job = reader._scan.job
    assert job is not None
    table.overwrite(events(0, 1), stage=True)
    for _ in range(4):
        age(lake, pins.LIFE / 2)
        lending._renew(lake.core.store, job.id)
    with phalanx.open(lake.uri) as other:
        other.prune(keep=1, protect=1)
    read = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert sum(batch.num_rows for batch in read) == MANY
    assert len([one for one in lake.core.store.list("pins") if job.id in one.name]) == 2 * len(job.pins)


def test_who_may_only_read_does_without_pins(lake: phalanx.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read is not refused because nothing can be pinned; a write is."""
    table = lake.create_table("events", EVENTS)
    table.append(pa.Table.from_batches(rows()), stage=True)
    source = PhalanxSource({"lake": lake.uri, "table": "events"})
    schema = source.schema()

    def refuse(*_: object, **__: object) -> None:
        raise UnavailableError("this storage is read-only")

    monkeypatch.setattr(LocalStore, "prepare", refuse)
    reader = source.reader(schema)
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == MANY
    with pytest.raises(UnavailableError, match="read-only"):
        source.writer(schema, overwrite=False)
