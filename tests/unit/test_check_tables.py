"""`check` looks at every version of every table that can be read, and says of each finding what causes it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from phalanx import Lake
from phalanx.cli.app import app
from phalanx.log import action as do
from phalanx.log.check import Cause, Problem
from phalanx.objects import layout
from phalanx.tables.files import Kind, kind_of
from phalanx.tables.guard import guard
from phalanx.txn.core import Found
from phalanx.upkeep import check as checking
from phalanx.upkeep.garbage import Why
from tests.unit.pruning import BULK, Ground, bulk, few, grown

RUN = CliRunner()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def busy(ground: Ground) -> Path:
    """A lake that has seen everything; the folder of its table."""
    table = grown(ground, 3)
    quiet = ground.lake.create_table("quiet", few(1))
    quiet.append(few(2))
    table.create_index("v", kind="btree")
    back = ground.lake.tag("a", version=4)
    table.delete("id % 3 = 0")
    ground.lake.flush()
    table.add_column("w", "int64")
    table.upsert([{"id": 1, "v": 1, "w": 1}])
    ground.lake.flush()
    ground.lake.optimize(cluster_by="v")
    ground.lake.restore(version=back)
    table.append(bulk(10**6))
    table.append(few(5))
    return ground.folder / "tables" / table.id


def files(ground: Ground, kind: Kind) -> list[Path]:
    """The files of one kind that some version is made of."""
    kept = ground.lake.prune(keep=10**6, protect=0, dry_run=True).kept_files
    names = [layout.table(one.table, one.name) for one in kept if one.why is Why.REACHED and kind_of(one.name) is kind]
    return [ground.folder / name for name in sorted(names)]


def of(lake: Lake, path: Path, *, deep: bool = False) -> list[Problem]:
    """What is said of one file."""
    return [one for one in lake.check(deep=deep).problems if str(path).endswith(one.name)]


def test_a_busy_lake_is_clean_before_and_after_it_is_pruned(ground: Ground) -> None:
    busy(ground)
    first = ground.lake.check(deep=True)
    assert (first.problems, first.unrecorded) == ((), 0)
    assert first.rows == ground.lake["t"].count() + 2
    ground.lake.prune(keep=2, protect=0)
    second = ground.lake.check(deep=True)
    assert (second.problems, second.unrecorded) == ((), 0)
    assert second.compared < first.compared


def test_a_missing_file_of_an_older_version_is_named(ground: Ground) -> None:
    """Not only the newest version counts."""
    busy(ground)
    for kind in (Kind.DATA, Kind.DELETIONS, Kind.INDEX, Kind.MANIFEST):
        for path in files(ground, kind)[:2]:
            data = path.read_bytes()
            path.unlink()
            assert [one.cause for one in of(ground.lake, path)] == [Cause.DANGLING]
            assert not ground.lake.check().whole
            path.write_bytes(data)
    assert ground.lake.check().whole


def test_a_size_that_is_wrong_is_found_and_flipped_bytes_only_deeply(ground: Ground) -> None:
    busy(ground)
    for kind in (Kind.DATA, Kind.DELETIONS, Kind.INDEX):
        path = files(ground, kind)[0]
        data = path.read_bytes()
        path.write_bytes(data[:-5])
        assert {one.cause for one in of(ground.lake, path)} == {Cause.CORRUPT}
        path.write_bytes(data[:-5] + bytes(byte ^ 1 for byte in data[-5:]))
        assert of(ground.lake, path) == []
        assert [one.cause for one in of(ground.lake, path, deep=True)] == [Cause.CORRUPT]
        path.write_bytes(data)
    assert ground.lake.check(deep=True).problems == ()


def test_a_manifest_is_compared_each_time(ground: Ground) -> None:
    busy(ground)
    one, other = files(ground, Kind.MANIFEST)[:2]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert [len(of(ground.lake, path)) for path in (one, other)] == [1, 1]


def test_what_is_foreign_is_named_and_harmless(ground: Ground) -> None:
    """Known bug 7: in tables and in the log's own folders."""
    folder = busy(ground)
    names = ["data/notes.txt", "_new_kind/file.bin", "_versions/7.manifest", "README"]
    paths = [folder / name for name in names]
    paths += [ground.folder / name for name in ("tables/README", "log/notes", "kept/x", "floor/1", "checkpoint/x")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
    report = ground.lake.check()
    assert report.whole
    assert {one.name for one in report.problems} == {str(path.relative_to(ground.folder)) for path in paths}
    assert {one.cause for one in report.problems} == {Cause.FOREIGN}


def test_files_that_nobody_can_reach_are_counted_with_their_bytes(ground: Ground) -> None:
    table = grown(ground, 2)
    left = ground.lake.transaction()
    left["t"].append(bulk(10**7))
    left.rollback()
    del left
    assert ground.lake.check().whole, "young files may belong to somebody"
    ground.lake.set_property("prune.protect", "0")
    report = ground.lake.check()
    assert report.whole
    assert {one.cause for one in report.problems} == {Cause.ORPHANED}
    there = {one.name: one.size for one in report.problems}
    assert all((ground.folder / name).stat().st_size == size for name, size in there.items())
    gone = ground.lake.prune(keep=10**6)
    assert {layout.table(one.table, one.name) for one in gone.removed} == set(there)
    assert table.count() == 2 * BULK


def test_a_guard_that_is_missing_or_changed_is_named(ground: Ground) -> None:
    path = busy(ground) / guard()[0]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert [(one.cause, one.harmless) for one in of(ground.lake, path)] == [(Cause.CORRUPT, False)]
    path.unlink()
    assert [(one.cause, one.harmless) for one in of(ground.lake, path)] == [(Cause.DANGLING, False)]


def test_what_is_kept_below_the_floor_must_be_there(ground: Ground) -> None:
    busy(ground)
    ground.lake.prune(keep=2, protect=0)
    kept = [path for path in (ground.folder / "kept").rglob("*") if path.is_file()]
    assert len(kept) > 1
    for path in kept:
        data = path.read_bytes()
        path.unlink()
        assert [one.cause for one in of(ground.lake, path)] == [Cause.DANGLING]
        path.write_bytes(data)
    assert ground.lake.check().whole


def test_a_pin_that_expired_and_a_property_that_means_nothing_are_told(ground: Ground) -> None:
    grown(ground, 1)
    ground.lake.commit([do.SetProperty("flush.rows", "many"), do.SetProperty("checksums", "perhaps")])
    name = str(layout.PinName("at", 2, "f" * 32, 0, 0))
    (ground.folder / name).touch()
    (ground.folder / "pins" / "lease-of-the-future").touch()
    report = ground.lake.check()
    assert report.whole
    assert [one.name for one in report.problems if one.cause is Cause.EXPIRED] == [name]
    assert [one.name for one in report.problems if one.cause is Cause.SETTING] == [
        "property checksums",
        "property flush.rows",
    ]
    assert [one.name for one in report.problems if one.cause is Cause.FOREIGN] == ["pins/lease-of-the-future"]


def test_a_version_that_somebody_has_seen_cannot_be_gone(ground: Ground) -> None:
    """The newest entry leaves no other trace; a pin of somebody who saw it does."""
    grown(ground, 1)
    (ground.folder / str(layout.PinName("from", ground.lake.version + 2, "f" * 32, 600, 0))).touch()
    report = ground.lake.check()
    assert [one.name for one in report.problems] == [layout.entry(ground.lake.version + 1)]
    assert not report.whole


def test_two_rows_of_one_key_are_found(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """I13; planted, because nothing makes them."""
    table = ground.lake.create_table("t", bulk(0, count=50).schema)
    table.append(few(1, 2, 3, 2))
    assert ground.lake.check(deep=True).problems == ()
    found = checking.Deep._table

    def keyed(self: checking.Deep, name: str, here: Found) -> Iterator[Problem]:
        shape = msgspec.structs.replace(here.shape, key=("id",))
        return found(self, name, msgspec.structs.replace(here, shape=shape))

    monkeypatch.setattr(checking.Deep, "_table", keyed)
    report = ground.lake.check(deep=True)
    assert [one.cause for one in report.problems] == [Cause.BROKEN]
    assert "whose key another one has" in report.problems[0].what


def test_a_list_of_versions_and_a_next_row_id_must_fit(ground: Ground) -> None:
    grown(ground, 2)
    state = ground.lake.refresh().state
    table, contents = next(iter(state.contents.items()))
    view = ground.lake._core.log.view
    folder = checking.Folder(ground.lake._store, table, {}, contents)
    assert list(checking._rules("t", contents, view, folder)) == []
    replace = msgspec.structs.replace
    for broken in (
        replace(contents, version=contents.version + 1),
        replace(contents, versions=contents.versions.add(contents.version + 1, view.position + 5, 0)),
        replace(contents, head=replace(contents.head, manifest=7)),
    ):
        assert list(checking._rules("t", broken, view, folder)) != []


def test_a_check_beside_writers_and_prunes_finds_nothing(ground: Ground) -> None:
    """What is being staged, flushed or pruned meanwhile is not taken for damage."""
    ground.lake.set_property("prune.protect", "0")
    table, other = grown(ground, 1), ground.process()
    stop = threading.Event()

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            table.upsert(bulk(number * 10, number), stage=True)
            table.append(few(number))
            ground.lake.flush()
            ground.lake.prune(keep=1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(6):
            assert [one for one in other.check(deep=True).problems if not one.harmless] == []
    finally:
        stop.set()
        thread.join()


def test_the_verb_names_causes_and_ends_with_9_only_for_damage(ground: Ground) -> None:
    folder = busy(ground)
    (folder / "README").write_bytes(b"mine")
    good = RUN.invoke(app, ["check", str(ground.folder), "--deep"])
    assert good.exit_code == 0
    assert "foreign, harmless" in good.output
    assert "nothing is wrong" in good.output
    files(ground, Kind.DATA)[0].unlink()
    bad = RUN.invoke(app, ["check", str(ground.folder), "--json"])
    assert bad.exit_code == 9
    told = msgspec.json.decode(bad.output)
    assert told["whole"] is False
    assert [one["cause"] for one in told["problems"] if not one["harmless"]] == ["missing"]
