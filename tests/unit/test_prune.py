"""Prune: what goes, what stays and why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import phalanx
from phalanx.errors import (
    ChangesExpiredError,
    InvalidInputError,
    SnapshotExpiredError,
    StateError,
    UnavailableError,
    VersionDeletedError,
)
from phalanx.log import action as do
from phalanx.tables.files import Kind, kind_of
from phalanx.testing.aging import AgingStore
from phalanx.upkeep.garbage import Why
from tests.unit.pruning import BULK, SCHEMA, Ground, bulk, few, grown, live

DAY = 86_400.0


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def test_the_newest_versions_stay_and_the_anchor(ground: Ground) -> None:
    table = grown(ground)  # versions 1 to 6
    done = ground.lake.prune(keep=2, protect=0)
    assert live(ground.lake, "t") == [4, 5, 6]
    assert done.versions == {"t": 3}
    assert table.count() == 5 * BULK
    assert [table.at(one).count() for one in (4, 5, 6)] == [3 * BULK, 4 * BULK, 5 * BULK]


def test_unconditional_drops_window_and_anchor_and_nothing_else(ground: Ground) -> None:
    table = grown(ground)
    ground.lake.tag("old", version=ground.lake.version - 3)
    held = ground.lake.snapshot(version=ground.lake.version - 2)
    ground.lake.prune(keep=1, unconditional=True)
    assert live(ground.lake, "t") == [3, 5, 6], "the tag's, the snapshot's, the newest"
    assert held["t"].count() == 4 * BULK
    del held
    ground.lake.untag("old")
    ground.lake.prune(keep=1, unconditional=True)
    assert live(ground.lake, "t") == [6]
    assert table.count() == 5 * BULK


def test_a_second_prune_finds_nothing_and_writes_nothing(ground: Ground) -> None:
    table = grown(ground)
    table.overwrite(bulk(0))  # so that the version before has files of its own
    ground.lake.prune(keep=2, protect=0)
    before = (ground.files(), ground.entries(), ground.lake.version)
    again = ground.lake.prune(keep=2, protect=0)
    assert (again.version, again.files, again.entries) == (None, 0, 0)
    assert (ground.files(), ground.entries(), ground.lake.version) == before


def test_a_dry_run_says_exactly_what_a_prune_does(ground: Ground) -> None:
    grown(ground)
    ground.lake.tag("old", version=3)
    before = (ground.files(), ground.lake.version)
    planned = ground.lake.prune(keep=2, protect=0, dry_run=True)
    assert (ground.files(), ground.lake.version) == before
    done = ground.lake.prune(keep=2, protect=0)
    assert {one.name for one in planned.removed} == {one.name for one in done.removed} != set()
    assert (planned.entries, planned.versions, planned.bytes) == (done.entries, done.versions, done.bytes)
    assert planned.log == done.log
    assert before[0] - ground.files() == {f"tables/{one.table}/{one.name}" for one in done.removed}


def test_the_window_keeps_what_is_young_and_zero_is_no_check_at_all(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    store = ground.store()
    other = ground.process(store)
    grown(ground)
    ground.lake._core.pins.renew()
    assert not other.prune(keep=1).files
    assert live(other, "t") == [1, 2, 3, 4, 5, 6]
    store.ahead = 601.0
    assert other.prune(keep=1).versions == {"t": 4}
    store.ahead = -50.0  # whatever the clock says
    ground.lake._core.pins.renew()
    assert other.prune(keep=1, unconditional=True).versions == {"t": 1}
    ground.close()


def test_the_window_is_an_argument_the_environment_or_a_property(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown(ground)
    ground.lake.set_property("prune.protect", "0")
    assert ground.lake.prune(keep=4, dry_run=True).versions
    monkeypatch.setenv("PHALANX_PRUNE_PROTECT", "10m")
    assert not ground.lake.prune(keep=4, dry_run=True).versions
    assert ground.lake.prune(keep=4, protect=0, dry_run=True).versions
    monkeypatch.setenv("PHALANX_PRUNE_PROTECT", "soon")
    with pytest.raises(InvalidInputError, match="PHALANX_PRUNE_PROTECT takes a number and a unit"):
        ground.lake.prune(keep=4)


@pytest.mark.parametrize("mode", ["eager", "background"])
@pytest.mark.parametrize("logged", [False, True])
def test_live_versions_after_each_write_that_prunes(ground: Ground, mode: Any, logged: bool) -> None:
    """Rule E6: eager 1 / 2 / 2, background 1 / 1 / 1."""
    ground.lake.set_property("prune.protect", "0")
    table = ground.lake.create_table("t", SCHEMA, key="id")
    expected = {"eager": [2, 2, 2, 2], "background": [1, 1, 1, 1]}[mode]  # it is created with version 1
    for number, many in enumerate(expected):
        rows: Any = few(number) if logged else bulk(number * BULK)
        table.upsert(rows, prune_previous=mode)
        found = live(ground.lake, "t")
        assert len(found) == many
        assert found[-1] == table.version
        if mode == "eager":
            assert found[0] == table.version - 1, "the anchor is the one before (known bug 37)"
    ground.lake._background.close()
    assert table.count() == (4 if logged else 4 * BULK)


@pytest.mark.parametrize("mode", ["eager", "background"])
def test_a_transaction_prunes_the_tables_it_is_asked_to_once_it_is_committed(ground: Ground, mode: Any) -> None:
    """Rule E6 for each of its tables, and nothing if it is not committed; the others keep their versions."""
    ground.lake.set_property("prune.protect", "0")
    for name in ("t", "u", "kept"):
        ground.lake.create_table(name, SCHEMA, key="id")
    for number in range(4):
        with ground.lake.transaction() as txn:
            txn["t"].upsert(bulk(number * BULK), prune_previous=mode)
            txn["u"].append(few(number), prune_previous=mode)
            txn["kept"].upsert(few(number))
        many = 2 if mode == "eager" else 1
        assert [len(live(ground.lake, name)) for name in ("t", "u", "kept")] == [many, many, number + 2]
    before = [live(ground.lake, name) for name in ("t", "u", "kept")]
    txn = ground.lake.transaction()
    txn["kept"].overwrite(few(9), prune_previous=mode)
    txn.rollback()
    with pytest.raises(InvalidInputError, match="prune_previous is"), ground.lake.transaction() as txn:
        txn["kept"].append(few(9), prune_previous="later")  # type: ignore[arg-type]
    with ground.lake.transaction() as txn, pytest.raises(InvalidInputError):
        txn["kept"].overwrite([{"nope": 1}], prune_previous=mode)
    assert [live(ground.lake, name) for name in ("t", "u", "kept")] == before
    with ground.lake.transaction() as txn:
        txn["kept"].append(few(9))
        with pytest.raises(InvalidInputError):
            txn["kept"].overwrite([{"nope": 1}], prune_previous=mode)
    before[2] = [*before[2], before[2][-1] + 1]
    assert [live(ground.lake, name) for name in ("t", "u", "kept")] == before
    ground.lake._background.close()
    assert ground.lake["t"].count() == 4 * BULK


@pytest.mark.parametrize("how", ["in the background", "flush", "optimize"])
def test_a_logged_change_only_marks_and_a_flush_removes(ground: Ground, how: str) -> None:
    ground.lake.set_property("prune.protect", "0")
    table = ground.lake.create_table("t", SCHEMA, key="id")
    table.append(bulk(0))
    ground.lake.optimize()
    for number in range(3):
        table.upsert(few(number, v=number), prune_previous="background")
    before = ground.files()
    if how == "in the background":
        ground.lake._background._flush(table.id)
        ground.lake._background.close()
    else:
        getattr(ground.lake, how)("t")
    assert before - ground.files(), "what the earlier versions stood on"
    assert table.count() == BULK


def test_a_version_that_only_a_tag_holds_is_read_by_number_time_and_tag(ground: Ground) -> None:
    """Known bug 12."""
    table = grown(ground)
    tagged = ground.lake.snapshot(version=ground.lake.version - 2)
    at, when, number = tagged.version, tagged.time, 4
    ground.lake.tag("release", version=at)
    del tagged
    ground.lake.prune(keep=1, unconditional=True)
    assert live(ground.lake, "t") == [4, 6]
    for found in (ground.lake.snapshot(version=at), ground.lake.snapshot(tag="release")):
        assert found["t"].count() == 3 * BULK
    assert ground.lake.snapshot(as_of=when)["t"].count() == 3 * BULK
    assert table.at(number).count() == 3 * BULK
    with pytest.raises(SnapshotExpiredError):
        ground.lake.snapshot(version=at - 1)


def test_a_quiet_table_keeps_its_versions_below_the_floor(ground: Ground) -> None:
    """Rule A6: the log goes, and the versions that were asked for stay, tail included."""
    quiet = ground.lake.create_table("quiet", SCHEMA, key="id")
    quiet.append(few(1))
    quiet.append(few(2))
    grown(ground, 8)
    ground.lake.prune(keep=3, protect=0)
    assert ground.entries()[0] > 10
    assert live(ground.lake, "quiet") == [1, 2, 3]
    other = ground.process()
    assert [other["quiet"].at(one).count() for one in (1, 2, 3)] == [0, 1, 2]
    other.close()  # what it read is pinned until then, or until somebody gets round to it
    ground.lake.prune(keep=1, unconditional=True)
    assert live(ground.lake, "quiet") == [3]
    assert not [path for path in (ground.folder / "kept").rglob("*") if path.is_file()]


def test_a_sweep_goes_by_the_window_that_its_prune_was_given(ground: Ground) -> None:
    grown(ground)
    ground.lake["t"].overwrite(bulk(0))
    before = ground.files()
    ground.lake.prune(keep=1, protect=0, mode="background")
    ground.lake._background.close()
    assert len(before - ground.files()) > 5


def test_what_was_pruned_cannot_be_named_again(ground: Ground) -> None:
    table = grown(ground)
    old = 3
    ground.lake.prune(keep=1, unconditional=True)
    for named in (
        lambda: ground.lake.snapshot(version=old),
        lambda: ground.lake.commit([do.PutTag("late", old, move=False)]),
        lambda: ground.lake.restore(version=old),
        lambda: ground.lake.changes("t", old).read_all(),
    ):
        with pytest.raises(StateError, match="no longer kept"):
            named()
    with pytest.raises(VersionDeletedError):
        table.at(2)


def test_changes_across_versions_that_were_pruned_are_refused(ground: Ground) -> None:
    ground.lake.set_property("prune.protect", "0")
    table = grown(ground, 2)
    since = ground.lake.version
    table.upsert(bulk(0, 7), prune_previous=True)
    table.upsert(bulk(0, 8), prune_previous=True)
    table.upsert(bulk(0, 9), prune_previous=True)
    with pytest.raises(ChangesExpiredError, match="not all kept"):
        ground.lake.changes("t", since).read_all()
    assert ground.lake.changes("t", ground.lake.version - 3).read_all().num_rows


def test_a_dropped_table_goes_with_the_log_and_a_deregistered_one_is_left_alone(ground: Ground) -> None:
    grown(ground)
    ground.lake.create_table("other", few(1, 2))
    parts, held = ground.lake.refresh().table("other")
    folder = ground.folder / "tables" / held.id
    ground.lake.commit([do.DeregisterTable(parts, held.id)])
    ground.lake.drop_table("t")
    ground.lake.create_table("u", few(1))
    ground.lake.create_table("w", few(1))
    dropped = {
        path for path in (ground.folder / "tables").iterdir() if path.name not in ground.lake.core.log.view.state.names
    }
    assert len(dropped) == 2
    done = ground.lake.prune(keep=1, unconditional=True)
    assert [path for path in dropped if path.exists()] == [folder], "not even empty folders are left of the other"
    assert any(path.is_file() for path in folder.rglob("*"))
    assert {one.why for one in done.kept_files if one.table == held.id} == {Why.NOT_OURS}
    assert all(one.table != held.id for one in done.removed)
    assert {name.split("/")[1] for name in ground.files()} == {
        held.id,
        ground.lake["u"].id,
        ground.lake["w"].id,
    }


def test_nothing_is_there_that_nobody_can_reach(ground: Ground) -> None:
    """Known bug 10, the leak oracle: whatever was done before."""
    table = grown(ground)
    table.create_index("v", kind="btree")
    ground.lake.tag("a", version=4)
    table.delete("id % 3 = 0")
    table.update({"v": "v + 1"}, where="id < 100")
    ground.lake.flush()
    table.add_column("w", "int64")
    ground.lake.flush()
    ground.lake.optimize(cluster_by="v")
    ground.lake.restore(version=6)
    table.append(bulk(10**6))
    left = ground.lake.transaction()
    left["t"].append(bulk(10**7))
    left.rollback()
    ground.lake.untag("a")
    ground.lake.prune(keep=1, unconditional=True)
    first = ground.files()
    assert ground.lake.prune(keep=1, unconditional=True).version is None
    assert ground.files() == first
    state = ground.lake.refresh().state
    head = state.contents[table.id].head.manifest
    assert [name for name in first if kind_of(name.split("/", 2)[2]) is Kind.MANIFEST] == [
        f"tables/{table.id}/_versions/d{head}.manifest"
    ]


def test_what_is_foreign_stays_and_is_named(ground: Ground) -> None:
    """Known bug 7."""
    table = grown(ground)
    names = ["data/notes.txt", "_new_kind/file.bin", "_versions/7.manifest", "README"]
    for name in names:
        path = ground.folder / "tables" / table.id / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
    done = ground.lake.prune(keep=1, unconditional=True)
    assert {one.name for one in done.kept_files if one.why is Why.FOREIGN} == set(names)
    assert all((ground.folder / "tables" / table.id / name).exists() for name in names)


def test_what_a_killed_writer_left_half_written_goes(ground: Ground) -> None:
    """Names that Lance and its storage give to files on their way."""
    table = grown(ground, 1)
    for name in ("data/.tmpyej744", "data/abc.lance#1", "_versions/.tmpx"):
        (ground.folder / "tables" / table.id / name).write_bytes(b"half")
    assert ground.lake.prune(keep=9, protect=0).files == 3


def test_a_pin_of_an_unknown_kind_protects_everything(ground: Ground) -> None:
    grown(ground)
    (ground.folder / "pins").mkdir(exist_ok=True)
    pin = ground.folder / "pins" / "lease-7-from-the-future"
    pin.write_bytes(b"")
    before = ground.files()
    with pytest.raises(UnavailableError, match="does not understand"):
        ground.lake.prune(keep=1, unconditional=True)
    assert ground.files() == before
    pin.unlink()
    assert ground.lake.prune(keep=1, unconditional=True).files


@pytest.mark.parametrize(("ahead", "says"), [(3650 * DAY, "3650 days"), (-DAY, "seconds ahead")])
def test_a_clock_that_jumped_deletes_nothing(tmp_path: Path, ahead: float, says: str) -> None:
    """Known bug 16: +10 years, -1 day; and a restart in between changes nothing."""
    ground = Ground(tmp_path)
    grown(ground)
    before = ground.files()
    for _ in range(2):
        store = ground.store()
        store.ahead = ahead
        with pytest.raises(StateError, match=says):
            ground.process(store).prune(keep=1)
    assert ground.files() == before
    ground.close()


def test_after_off_is_committed_no_stale_process_prunes_by_itself(ground: Ground) -> None:
    """Known bug 36: the judge decides, not what a process remembers."""
    grown(ground)
    ground.lake.set_property("upkeep", "on")
    stale = ground.process()
    stale.refresh()
    ground.lake.set_property("upkeep", "off")
    action = do.Prune(2, 0, 0, by_itself=True)
    with pytest.raises(StateError, match="does not prune by itself"):
        stale._core.commit([action])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"keep": 0}, "1 at the least"),
        ({"older_than": "5y"}, "a number and a unit"),
        ({"protect": -1}, "0 or more"),
        ({"mode": "now"}, "one of eager, background, sweep"),
        ({"tables": "nope"}, "there is no table"),
    ],
)
def test_bad_input_is_refused(ground: Ground, asked: dict[str, Any], says: str) -> None:
    grown(ground, 1)
    with pytest.raises(phalanx.PhalanxError, match=says):
        ground.lake.prune(**asked)
    with pytest.raises(InvalidInputError, match="prune_previous is"):
        ground.lake["t"].append(few(1), prune_previous="later")  # type: ignore[arg-type]


def test_stamps_are_the_stores_own(tmp_path: Path) -> None:
    """Rule E4: how old something is says the store, not the process."""
    store = AgingStore(Ground(tmp_path).store())
    store.ahead = 5.0
    assert store.now() - AgingStore(store.inner).now() > 4.0
