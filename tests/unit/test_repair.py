"""`repair` puts right what needs no copy, says so first, and never removes what could be live."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from lance_namespace import DescribeTableVersionRequest
from typer.testing import CliRunner

import phalanx
from phalanx.cli.app import app
from phalanx.errors import StateError
from phalanx.namespace import PhalanxNamespace
from phalanx.objects import layout
from phalanx.tables.files import Kind
from phalanx.tables.guard import guard
from phalanx.testing.aging import AgingStore
from tests.unit.pruning import BULK, Ground, bulk, few, grown
from tests.unit.test_check_tables import busy, files

RUN = CliRunner()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def everything(folder: Path) -> dict[str, bytes]:
    """Every object of a lake but the pins of who looks."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "pins"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def harm(ground: Ground) -> set[str]:
    """Everything that can be repaired, and the names that repair has to speak of."""
    folder = busy(ground)
    ground.lake._log.close()
    version = ground.lake["t"].version
    PhalanxNamespace(ground.lake).describe_table_version(DescribeTableVersionRequest(id=["t"], version=version))
    spoilt = [
        files(ground, Kind.MANAGED)[0],
        *files(ground, Kind.SUMS),
        ground.folder / layout.checkpoint(9, b"12345678"),
    ]
    (folder / guard()[0]).unlink()
    for path in spoilt:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"torn")
    pin = ground.folder / str(layout.PinName("at", 2, "f" * 32, 0, 0))
    pin.touch()
    return {str(path.relative_to(ground.folder)) for path in (*spoilt, folder / guard()[0])}


def test_a_dry_run_names_everything_and_touches_nothing(ground: Ground) -> None:
    names = harm(ground)
    before = everything(ground.folder)
    planned = ground.lake.repair()
    assert {step.name for step in planned.steps} == names
    assert {step.verb for step in planned.steps} == {"remove", "put"}
    assert planned.whole
    assert everything(ground.folder) == before


def test_what_was_planned_is_done_and_the_lake_is_clean_and_holds_the_same_rows(ground: Ground) -> None:
    harm(ground)
    rows = ground.lake["t"].to_arrow().sort_by("id")
    planned = ground.lake.repair()
    done = ground.lake.repair(dry_run=False)
    assert done.steps == planned.steps
    report = ground.lake.check(deep=True)
    assert [one for one in report.problems if not one.harmless] == []
    assert report.unrecorded > 0, "the notes that were damaged are gone, and that is said"
    assert (ground.folder / "tables" / ground.lake["t"].id / guard()[0]).read_bytes() == guard()[1]
    assert ground.process()["t"].to_arrow().sort_by("id") == rows
    assert ground.lake.repair().steps == ()


def test_what_only_a_copy_restores_is_named_and_nothing_is_touched(ground: Ground) -> None:
    folder = busy(ground)
    lost = files(ground, Kind.DATA)[0]
    lost.unlink()
    (folder / guard()[0]).unlink()
    before = everything(ground.folder)
    done = ground.lake.repair(dry_run=False)
    assert not done.whole
    assert done.steps == ()
    assert [one.name for one in done.lost] == [str(lost.relative_to(ground.folder))]
    assert everything(ground.folder) == before


def test_pins_go_only_when_their_process_is_long_gone(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    grown(ground, 1)
    held = ground.lake.snapshot(version=3)
    dead = ground.folder / str(layout.PinName("at", 2, "f" * 32, 600, 0))
    dead.touch()
    store = ground.store()
    other = ground.process(store)
    for ahead in (0.0, 700.0, 1100.0):
        store.ahead = ahead
        assert [step.name for step in other.repair().steps if step.name.startswith("pins/")] == []
    store.ahead = 1300.0
    assert str(dead.relative_to(ground.folder)) in {step.name for step in other.repair().steps}
    store.ahead = 365 * 86_400.0
    assert not other.repair().steps, "a clock that may have jumped is not believed"
    store.ahead = 1300.0
    other.repair(dry_run=False)
    assert not dead.exists()
    assert held["t"].count() == 0
    ground.close()


def test_files_on_their_way_go_when_they_are_old(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    path = ground.folder / "tmp" / "abc"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"half")
    store = ground.store()
    other = ground.process(store)
    assert other.repair().steps == ()
    store.ahead = 2 * 86_400.0
    assert [(step.verb, step.name) for step in other.repair().steps] == [("remove", "tmp/abc")]
    ground.close()


def test_files_that_nobody_can_reach_go_by_prune_and_those_of_a_writer_stay(ground: Ground) -> None:
    table = grown(ground, 2)
    ground.lake.set_property("prune.protect", "0")
    left = ground.lake.transaction()
    left["t"].append(bulk(10**7))
    left.rollback()
    del left
    ground.lake.core.pins.renew()  # its thread may not have let go of it yet
    planned = {step.name for step in ground.lake.repair().steps}
    assert planned
    other = ground.process()
    writing = other.transaction()
    writing["t"].append(bulk(10**8))
    before = set(everything(ground.folder))
    assert ground.lake.repair(dry_run=False).steps == (), "a writer has pinned: its files cannot be told from others"
    assert {name for name in before if name.startswith("tables/")} <= set(everything(ground.folder))
    writing.commit()
    other.core.pins.renew()
    ground.lake.repair(dry_run=False)
    assert not planned & set(everything(ground.folder))
    assert table.count() == 3 * BULK


def quiet(ground: Ground, days: float = 40.0) -> AgingStore:
    """A lake with a file that nobody can reach and one that never arrived, which nobody has changed for so long."""
    grown(ground, 1)
    left = ground.lake.transaction()
    left["t"].append(bulk(10**7))
    left.rollback()
    ground.close()
    half = ground.folder / "tmp" / "abc"
    half.parent.mkdir(exist_ok=True)
    half.write_bytes(b"half")
    for path in [half, *(ground.folder / "tables").rglob("*")]:
        os.utime(path, (path.stat().st_mtime - 10 * 86_400.0,) * 2)
    store = ground.store()
    store.ahead = days * 86_400.0
    return store


@pytest.mark.parametrize(
    ("days", "says"), [(40.0, "40 days have passed since the last commit"), (-1.0, "seconds ahead: set it")]
)
def test_a_plan_that_needs_trust_in_the_clock_says_so_and_nothing_is_done_without(
    tmp_path: Path, days: float, says: str
) -> None:
    """Neither half of it: the clock is asked before the first step."""
    ground = Ground(tmp_path)
    other = ground.process(quiet(ground, days))
    planned = other.repair()
    assert "prune" in {step.verb for step in planned.steps}
    assert says in planned.clock
    before = everything(ground.folder)
    with pytest.raises(StateError, match=says):
        other.repair(dry_run=False)
    assert everything(ground.folder) == before
    assert other.repair(trust_clock=True).clock == ""
    if days > 0:  # a clock that is behind has to be set before anything can be committed
        assert other.repair(dry_run=False, trust_clock=True).steps
        assert other.repair(trust_clock=True).steps == ()
        assert other["t"].count() == BULK
    ground.close()


def test_the_verb_repairs_a_quiet_lake_that_it_is_told_to_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says that it is needed."""
    ground = Ground(tmp_path)
    store = quiet(ground)
    monkeypatch.setattr("phalanx.cli.repair.open_store", lambda *_: store)
    uri = str(ground.folder)
    assert "say trust_clock=True (--trust-clock)" in RUN.invoke(app, ["repair", uri]).output
    refused = RUN.invoke(app, ["repair", uri, "--yes"])
    assert isinstance(refused.exception, StateError)
    assert RUN.invoke(app, ["repair", uri, "--yes", "--trust-clock"]).exit_code == 0
    assert "nothing to repair" in RUN.invoke(app, ["repair", uri, "--trust-clock"]).output


def test_the_verb_shows_its_plan_and_does_it_only_when_told(ground: Ground) -> None:
    names = harm(ground)
    uri = str(ground.folder)
    shown = RUN.invoke(app, ["repair", uri])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in names)
    assert "would be done with --yes" in shown.output
    assert RUN.invoke(app, ["check", uri]).exit_code == 9
    done = RUN.invoke(app, ["repair", uri, "--yes", "--json"])
    assert done.exit_code == 0
    assert {step["name"] for step in msgspec.json.decode(done.output)["steps"]} == names
    assert RUN.invoke(app, ["check", uri]).exit_code == 0
    assert "nothing to repair" in RUN.invoke(app, ["repair", uri, "--yes"]).output


def test_a_lake_whose_log_is_damaged_is_left_as_it_is(tmp_path: Path) -> None:
    with phalanx.open(tmp_path / "lake", create=True) as made:
        made.create_table("t", few(1))
    entry = tmp_path / "lake" / layout.entry(2)
    entry.write_bytes(b"?" + entry.read_bytes()[1:])
    before = everything(tmp_path / "lake")
    done = RUN.invoke(app, ["repair", str(tmp_path / "lake"), "--yes"])
    assert done.exit_code == 9
    assert layout.entry(2) in done.output
    assert "nothing was touched" in done.output
    assert everything(tmp_path / "lake") == before
