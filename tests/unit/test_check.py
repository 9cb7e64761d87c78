"""`check` reads everything, names every damage, and changes nothing."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import phalanx
from phalanx.catalog import Catalog
from phalanx.cli.app import app
from phalanx.log.check import check
from phalanx.objects import layout
from phalanx.objects.memory import MemoryStore
from phalanx.testing import CountingStore, ManualClock
from tests.lakes import commit, handle, trim


def lake(remote: bool = False) -> tuple[MemoryStore, ManualClock]:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    made = handle(CountingStore(store, remote=remote), clock)
    for number in range(20):
        commit(made, f"c{number}")
        made._log.close()
    trim(made, 8, keep=(4,))
    clock.advance(1000)
    trim(made, 8)
    return store, clock


@pytest.mark.parametrize("remote", [False, True])
def test_a_good_lake_has_nothing_wrong(remote: bool) -> None:
    """Also after trimming, with a kept version."""
    store, clock = lake(remote)
    found = check(CountingStore(store, remote=remote), Catalog(), clock)
    assert (found.floor, found.end, found.entries, found.problems) == (8, 21, 14, ())
    assert found.bases >= 3


@pytest.mark.parametrize("folder", [layout.LOG, layout.FLOOR, layout.KEPT, layout.CHECKPOINT])
@pytest.mark.parametrize("how", ["flipped", "cut", "missing"])
def test_every_damaged_object_is_named(folder: str, how: str) -> None:
    """By its own name, except that a missing cache or kept version is not a damage of the log."""
    store, clock = lake()
    for name in [found.name for found in store.list(folder)][:-1] or [found.name for found in store.list(folder)]:
        data, at = store._objects[name]
        if how == "missing":
            if folder != layout.LOG:
                continue
            del store._objects[name]
        else:
            store._objects[name] = (data[:50] if how == "cut" else data[:90] + b"\xff" + data[91:], at)
        before = dict(store._objects)
        found = check(store, Catalog(), clock)
        assert store._objects == before
        assert name in {problem.name for problem in found.problems}
        assert found.whole == (folder == layout.CHECKPOINT)
        store._objects[name] = (data, at)


def test_the_verb_says_what_is_damaged_and_ends_with_9(tmp_path: Path) -> None:
    """Nothing wrong: 0; a flipped byte: 9, and the entry's name."""
    with phalanx.open(tmp_path / "lake", create=True) as made:
        made.set_property("k", "v")
    run = CliRunner()
    good = run.invoke(app, ["check", str(tmp_path / "lake")])
    assert good.exit_code == 0
    assert "entries 1 to 2" in good.output
    entry = tmp_path / "lake" / layout.entry(2)
    entry.write_bytes(entry.read_bytes()[:-1] + b"\x00")
    bad = run.invoke(app, ["check", str(tmp_path / "lake")])
    assert bad.exit_code == 9
    assert layout.entry(2) in bad.output
