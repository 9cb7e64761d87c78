"""Prune beside others: nobody who reads, writes or tags meanwhile loses a file."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.clock import SYSTEM, Deadline
from phalanx.errors import ConflictError, SnapshotExpiredError, StagingExpiredError, StateError, UnavailableError
from phalanx.objects.local import LocalStore
from phalanx.txn.bulk import Cargo, Small
from phalanx.upkeep import prune as pruning
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few, grown

DAY = 86_400.0


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def test_a_reader_in_the_middle_of_a_scan_loses_nothing(ground: Ground) -> None:
    """Known bug 9."""
    grown(ground)
    reader = ground.process()
    stream = reader["t"].scan(batch_size=1000)
    first = stream.read_next_batch().num_rows
    for number in range(3):
        ground.lake["t"].overwrite(bulk(0, number))
    done = ground.lake.prune(keep=1, unconditional=True)
    assert done.versions["t"] < 8
    assert first + sum(batch.num_rows for batch in stream) == 5 * BULK
    del stream
    reader._core.pins.renew()
    assert ground.lake.prune(keep=1, unconditional=True).files


def test_a_transaction_that_is_open_keeps_its_snapshot(ground: Ground) -> None:
    table = grown(ground)
    other = ground.process()
    with other.transaction() as txn:
        assert txn["t"].count() == 5 * BULK
        table.append(bulk(10**6))
        ground.lake.optimize()
        ground.lake.prune(keep=1, unconditional=True)
        assert txn["t"].count("v = 0") == BULK
        txn["t"].append(few(-1))
    assert table.count() == 6 * BULK + 1


@pytest.mark.parametrize("how", ["statement", "transaction", "create", "flush", "optimize", "index", "restore"])
def test_a_writer_between_staging_and_commit_loses_nothing(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Known bugs 5 and 11: whoever stages is exempt while its pin holds, whatever the window."""
    table = grown(ground, 2)
    table.upsert(few(1, v=99))
    writer = ground.process()
    inner = writer._core.committer.commit
    pruned: list[int] = []

    def commit(intent: Any) -> int:
        if not pruned:
            table.upsert(few(2, v=98))  # what it was staged on is not the newest any more
            pruned.append(ground.lake.prune(keep=1, unconditional=True).files)
        return inner(intent)

    monkeypatch.setattr(writer._core.committer, "commit", commit)
    acts: dict[str, Any] = {
        "statement": lambda: writer["t"].append(bulk(10**6)),
        "transaction": lambda: _in_transaction(writer),
        "create": lambda: writer.create_table("u", bulk(0)),
        "flush": writer.flush,
        "optimize": writer.optimize,
        "index": lambda: writer["t"].create_index("v"),
        "restore": lambda: writer.restore(version=writer.version - 1),
    }
    acts[how]()
    assert pruned
    monkeypatch.undo()
    rows = {row["id"]: row["v"] for row in writer["t"].to_arrow().to_pylist()}
    wanted = 3 if how in {"statement", "transaction"} else 2
    assert len(rows) == wanted * BULK
    assert ground.lake.check().whole
    if how == "create":
        assert writer["u"].count() == BULK


def _in_transaction(lake: phalanx.Lake) -> None:
    with lake.transaction() as txn:
        txn["t"].append(bulk(10**6))


def test_a_writer_whose_pin_expired_has_to_stage_again(tmp_path: Path) -> None:
    """Rule E2, and known bug 6: it is told so before anything is committed, and nothing is lost."""
    ground = Ground(tmp_path, life=60.0)
    table = grown(ground, 2)
    old = ground.store()
    pruner = ground.process(old)
    writer = ground.process()
    with pytest.raises(StagingExpiredError, match="write it again"), writer.transaction() as txn:  # noqa: PT012
        txn["t"].append(bulk(10**6))
        old.ahead = 3600.0
        assert pruner.prune(keep=10, protect=0).files
    old.ahead = 0.0
    assert table.count() == 2 * BULK
    _in_transaction(writer)
    assert table.count() == 3 * BULK
    ground.close()


@pytest.mark.parametrize("given", ["a table", "a stream"])
def test_rows_that_are_still_there_are_written_again_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """A statement on its own stages again, unless its rows came by a stream, which is over."""
    ground = Ground(tmp_path, life=60.0)
    table = grown(ground, 2)
    old = ground.store()
    pruner, writer = ground.process(old), ground.process()
    real, done = writer.core.commit, list[int]()

    def commit(*given: Any, **more: Any) -> int:
        if not done:
            done.append(1)
            old.ahead = 3600.0
            assert pruner.prune(keep=10, protect=0).files
            old.ahead = 0.0
        return real(*given, **more)

    monkeypatch.setattr(writer.core, "commit", commit)
    rows = bulk(10**6)
    if given == "a table":
        writer["t"].append(rows)
    else:
        with pytest.raises(StagingExpiredError, match="write it again"):
            writer["t"].append(rows.to_reader())
    assert done
    assert table.count() == (3 if given == "a table" else 2) * BULK
    assert ground.lake.check().whole
    ground.close()


def test_a_prune_that_has_not_seen_a_writers_pin_does_not_refuse_it(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began when the log was longer than what the writer knew of it, and before the writer's pin was there."""
    table = grown(ground, 1)
    for number in range(3):
        table.overwrite(bulk(0, number))
    writer, other = ground.process(), ground.process()
    ground.lake.core.pins.renew()
    pins = writer.core.pins
    real, runs = pins._put, list[Any]()

    def put(kind: str, *given: Any) -> Any:
        if kind == "staging" and not runs:
            other["t"].append(few(-7))
            options = pruning.Options(protect=0, anchor=False)
            runs.append(pruning._Run(other.core, options, Deadline.after(SYSTEM, 60.0)))
        return real(kind, *given)

    with writer.transaction() as txn:
        monkeypatch.setattr(pins, "_put", put)
        txn["t"].append(bulk(10**6))
        runs[0].go()
        assert other.core.log.view.state.retained.since  # whoever knew less, and is not exempt, has to stage again
    assert ground.lake["t"].count() == 2 * BULK + 1
    assert ground.lake.check().whole


def test_a_prune_begins_again_if_another_has_deleted_what_it_looks_at(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has not raised the floor: a manifest that is missing now is not damage."""
    grown(ground, 4)
    other = ground.process()
    for lake in (ground.lake, other):
        lake.refresh()
        lake.core.pins.renew()
    real, done = pruning._Run._garbage, list[int]()

    def garbage(run: Any, *given: Any) -> Any:
        if not done and run._core is ground.lake.core:
            done.append(1)
            assert other.prune("t", keep=1, protect=0).files
        return real(run, *given)

    monkeypatch.setattr(pruning._Run, "_garbage", garbage)
    ground.lake.prune("t", keep=3, protect=0)
    assert done
    assert ground.lake.check().whole


def test_a_job_that_renews_its_pin_may_take_longer_than_any_window(tmp_path: Path) -> None:
    """Known bug 6."""
    ground = Ground(tmp_path, life=60.0)
    table = grown(ground, 2)
    old = ground.store()
    pruner = ground.process(old)
    writer = ground.process()
    with writer.transaction() as txn:
        txn["t"].append(bulk(10**6))
        old.ahead = 3600.0
        writer._core.pins.renew()
        for name in (ground.folder / "pins").iterdir():  # as if it had been renewed then
            if name.name.endswith("-000001"):
                _touch(name, 3600.0)
        assert not [one for one in pruner.prune(keep=10, protect=0).removed if one.name.startswith("data/")]
    assert table.count() == 3 * BULK
    ground.close()


def _touch(path: Path, ahead: float) -> None:
    import os

    stamp = path.stat().st_mtime + ahead
    os.utime(path, (stamp, stamp))


def test_a_reader_whose_pin_expired_gets_a_typed_error(tmp_path: Path) -> None:
    ground = Ground(tmp_path, life=60.0)
    grown(ground)
    old = ground.store()
    pruner = ground.process(old)
    reader = ground.process()
    snapshot = reader.snapshot(version=5)
    old.ahead = 3600.0
    ground.lake["t"].overwrite(bulk(0, 1))
    pruner.prune(keep=1, protect=0)
    for pin in list(reader._core.pins._alive.values()):
        pin.renewed -= 3600.0
    with pytest.raises(SnapshotExpiredError, match="no longer kept"):
        snapshot["t"].count()
    assert reader["t"].count() == BULK
    ground.close()


def test_a_tag_that_comes_between_makes_prune_decide_anew(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(ground)
    other = ground.process()
    inner = pruning._Run._commit
    tagged: list[int] = []

    def commit(run: Any, decision: Any, first: Any) -> int:
        if not tagged:
            tagged.append(other.tag("late", version=4))
        return inner(run, decision, first)

    monkeypatch.setattr(pruning._Run, "_commit", commit)
    ground.lake.prune(keep=1, unconditional=True)
    assert ground.lake.snapshot(tag="late")["t"].count() == BULK


def test_versions_that_are_tagged_all_the_time_end_in_an_error(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(ground)
    monkeypatch.setattr(pruning._Run, "_commit", lambda *_: (_ for _ in ()).throw(ConflictError("tagged meanwhile")))
    before = ground.files()
    with pytest.raises(ConflictError, match="no file was deleted"):
        ground.lake.prune(keep=1, unconditional=True)
    assert ground.files() == before


@pytest.mark.parametrize("error", [UnavailableError("a disk that cannot be written to"), StateError("no more writes")])
def test_who_cannot_write_reads_all_the_same(ground: Ground, error: Exception) -> None:
    """Without a pin: what is read may be pruned meanwhile."""
    grown(ground, 1)
    store = ground.store()
    reader = ground.process(store)

    def refuse(*_: Any, **__: Any) -> Any:
        raise error

    store.prepare = refuse  # type: ignore[method-assign]
    assert reader["t"].count() == BULK
    assert reader.snapshot(version=4)["t"].count() == BULK
    reader._core.pins.renew()
    with pytest.raises(type(error)):
        reader["t"].append(bulk(10**6))


def test_a_snapshot_outlives_its_handle_but_pins_nothing(ground: Ground) -> None:
    """It can be read as long as nobody prunes; from then on what is gone is gone."""
    grown(ground, 1)
    other = ground.process()
    kept = other.snapshot()
    other.close()
    assert kept["t"].count() == BULK
    assert not [
        one for one in (ground.folder / "pins").iterdir() if not ground.lake._core.pins.owns(one.name.split("-")[2])
    ]


def test_a_reader_of_a_version_that_is_kept_by_itself_keeps_no_more(ground: Ground) -> None:
    """It has pinned a position of the lake that nobody keeps as a whole: the log does not say that somebody does."""
    lake = ground.lake
    table, other = lake.create_table("t", SCHEMA), lake.create_table("u", SCHEMA)
    for number in range(4):
        table.append(few(number))
    for number in range(20):
        other.append(few(number))
    lake.core.pins.renew()
    lake.prune(keep=4, protect=0)
    reader = ground.process()
    old = reader["t"].at(3)
    for number in range(8):
        other.append(few(number))
    for one in (lake, reader):
        one.core.pins.renew()
    lake.prune(keep=4, protect=0)
    assert lake.refresh().state.retained.kept == ()
    assert (old.count(), lake.check().whole) == (2, True)


def test_versions_of_one_entry_are_kept_when_the_floor_is_right_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several changes of a table land in one entry, which becomes the last below the floor: each of them can be read."""
    sync = LocalStore.sync_file

    def slowly(store: LocalStore, fd: int) -> None:
        time.sleep(0.05)  # what comes meanwhile is gathered
        sync(store, fd)

    monkeypatch.setattr(LocalStore, "sync_file", slowly)
    lake = phalanx.open(tmp_path / "synced", create=True)
    lake.set_property("flush.background", "off")
    table, other = lake.create_table("t", SCHEMA), lake.create_table("u", SCHEMA)

    async def together() -> None:
        acks = []
        for number in range(4):
            cargo = Cargo()
            item = cargo.put(table._shape, Small(pa.Table.from_pylist(few(number), SCHEMA)))
            acks.append(
                lake._committer.submit(lake.core.intent([item], lake.core.deadline(None), payloads=cargo.payloads))
            )
        for ack in acks:
            await ack

    asyncio.run(together())
    entry = lake.version
    assert len({one.position for one in lake.refresh().state.contents[table.id].versions.oldest_first()}) < 4
    for number in range(10):
        other.append(few(number))
    lake.core.pins.renew()
    assert lake.prune(keep=10, protect=0).floor == entry + 1
    assert [table.at(version).count() for version in range(2, 6)] == [1, 2, 3, 4]
    assert lake.check().whole
    lake.close()


def test_pins_of_the_dead_go_after_a_day(ground: Ground) -> None:
    """A process that was killed leaves its pins: they stand for a day after they expired, and go with a prune."""
    table = grown(ground)
    store = ground.lake.core.datasets.files.store
    with store.prepare([b""], lasting=False) as blob:
        blob.put("pins/at-00000000000000000003-" + "ab" * 16 + "-0000000600-000000")
    dead = next(ground.folder.glob("pins/at-*3-abab*"))
    for age, there in ((700.0, True), (DAY, True), (DAY + 700.0, False)):
        stamp = dead.stat().st_mtime - age
        os.utime(dead, (stamp, stamp))
        table.append(few(-1))
        ground.lake.prune(keep=1, protect=0)
        assert dead.exists() == there
        if there:
            os.utime(dead)
    assert ground.lake.core.pins._names
