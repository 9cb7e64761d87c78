"""A process may die at any step of any work on tables: nothing acknowledged is lost, nothing is half done.

Each kind of work is run again and again, each time with a death one step later, until it gets through. After each death
another handle opens what is left there.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import AlreadyExistsError
from phalanx.lake import Lake
from phalanx.runs import NO_IDS
from phalanx.tables import rewrite
from phalanx.tables.dataset import Datasets, Version
from phalanx.tail import writeout
from phalanx.tail.overlay import Overlay
from phalanx.upkeep import groups
from phalanx.upkeep.cover import cover
from tests.crash.steps import AFTER, Death, Held, Steps, dying, rows, stepping

BULK = pa.table({"id": [3, 4, 5, 6, 7, 20, 21, 20], "v": [70, 71, 72, 73, 74, 75, 76, 77]})
FEW = pa.table({"id": [1, 20, 30], "v": [80, 81, 82]})
PLACE = rewrite.place
NEW = pa.table({"id": [1, 2], "v": [90, 91]})


def added(held: Held, table: str, more: pa.Table) -> Held:
    """With more rows, which on table k replace those of the same key."""
    given = [tuple(row.values()) for row in more.to_pylist()]
    if table == "k":
        return held | {"k": sorted({**dict(held["k"]), **dict(given)}.items())}
    return held | {table: sorted([*held.get(table, []), *given])}


@dataclass(frozen=True)
class Work:
    """What is done, and what it makes of the rows that are there; `moving` tables have a tail when it begins."""

    run: Callable[[Lake], object]
    effect: Callable[[Held], Held] = dict
    moving: bool = True


def transact(lake: Lake) -> None:
    with lake.transaction() as txn:
        txn["t"].append(BULK, stage=True)
        txn["t"].append(FEW)
        txn["t"].delete("id < 2")
        txn["k"].upsert(BULK, stage=True)
        txn["k"].upsert(FEW)
        txn["k"].update({"v": "v + 1000"}, "id > 20")


def transacted(held: Held) -> Held:
    held = added(added(held, "t", BULK), "t", FEW)
    held = held | {"t": [row for row in held["t"] if row[0] >= 2]}
    held = added(added(held, "k", BULK), "k", FEW)
    return held | {"k": [(key, v + 1000 if key > 20 else v) for key, v in held["k"]]}


def cover_keys(lake: Lake) -> None:
    lake.flush("k")
    cover(lake._core, lake["k"].id, lake._core.deadline(30), least_rows=1)


WORKS = {
    "a staged append that becomes the head": Work(
        lambda lake: lake["t"].append(BULK, stage=True), lambda held: added(held, "t", BULK), moving=False
    ),
    "a staged append over a tail": Work(
        lambda lake: lake["t"].append(BULK, stage=True), lambda held: added(held, "t", BULK)
    ),
    "a staged upsert that becomes the head": Work(
        lambda lake: lake["k"].upsert(BULK, stage=True), lambda held: added(held, "k", BULK), moving=False
    ),
    "a staged upsert over a tail": Work(
        lambda lake: lake["k"].upsert(BULK, stage=True), lambda held: added(held, "k", BULK)
    ),
    "a staged overwrite": Work(
        lambda lake: lake["t"].overwrite(BULK, stage=True),
        lambda held: added(held | {"t": []}, "t", BULK),
        moving=False,
    ),
    "a transaction over two tables": Work(transact, transacted),
    "a flush": Work(lambda lake: lake.flush()),
    "an optimize": Work(lambda lake: lake.optimize("t")),
    "the cover of a key's index": Work(cover_keys),
    "an index that is created": Work(lambda lake: lake["t"].create_index("v", name="by_v")),
    "a table that is created with rows": Work(
        lambda lake: lake.create_table("new", NEW), lambda held: held | {"new": [(1, 90), (2, 91)]}
    ),
}


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two lakes to be copied: tables that are written out, in fragments worth rewriting, and the same with a tail."""
    folder = tmp_path_factory.mktemp("lakes")
    with phalanx.open(folder / "still", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        for name, key in (("t", ()), ("k", "id")):
            lake.create_table(name, pa.table({"id": [0, 1, 2, 3], "v": [0, 1, 2, 3]}), key=key)
            lake.flush(name)
            lake[name].append(pa.table({"id": [4, 5, 6], "v": [4, 5, 6]}))
            lake.flush(name)
    shutil.copytree(folder / "still", folder / "moving")
    with phalanx.open(folder / "moving") as lake:
        for name in ("t", "k"):
            lake[name].append(pa.table({"id": [8, 9, 5], "v": [18, 19, 15]}))
            lake[name].append(pa.table({"id": [10, 11, 6], "v": [20, 21, 16]}), stage=True)
            lake[name].update({"v": "v + 100"}, "id = 1 or id = 8 or id = 10")
            lake[name].delete("id = 2 or id = 9 or id = 11")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def claims_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that die here have the number of a process that lives: nobody is to wait for them."""
    monkeypatch.setattr(groups, "CLAIM_SECONDS", 0.1)


def recover(path: Path, work: Work, before: Held, *, done: bool) -> None:
    """Open what a death has left, look at it, do the work again, and go on."""
    with phalanx.open(path) as lake:
        found = rows(lake)
        assert found == (work.effect(before) if done else before), "the rows after a death"
        with suppress(AlreadyExistsError):
            work.run(lake)
        again = work.effect(found)
        assert rows(lake) == again, "the rows when it was done again"
        lake.flush()
        assert rows(lake) == again, "the rows after a flush"
        lake["t"].append(NEW)
        again = added(again, "t", NEW)
        assert lake.check().whole
    with phalanx.open(path) as lake:
        assert rows(lake) == again, "the rows after opening again"


def survives(path: Path, work: Work, steps: Steps) -> bool:
    """Whether a process that takes these steps gets through."""
    with stepping(path, steps) as lake:
        try:
            work.run(lake)
        except Death:
            return False
    return True


@pytest.mark.parametrize("kind", WORKS)
def test_work_that_dies_at_any_step_is_done_as_a_whole_or_not_at_all(kind: str, lakes: Path, tmp_path: Path) -> None:
    """From its entry on it is done, before it never was; every acknowledged row is there once, and work goes on."""
    work = WORKS[kind]
    source = lakes / ("moving" if work.moving else "still")
    with phalanx.open(source) as lake:
        before = rows(lake)
    for number in range(1, 100):
        path = shutil.copytree(source, tmp_path / f"{number}")
        steps = dying(number)
        if survives(path, work, steps):
            break
        recover(path, work, before, done=AFTER in steps.names)
    recover(path, work, before, done=True)
    assert number > 3, steps.names
    assert steps.names[-1] == AFTER


def test_the_deaths_are_at_every_kind_of_step(lakes: Path, tmp_path: Path) -> None:
    """What the deaths above go through: rows written, versions staged, indexes built, files synced, objects put."""
    seen: set[str] = set()
    for kind, work in WORKS.items():
        steps = Steps()
        with stepping(shutil.copytree(lakes / ("moving" if work.moving else "still"), tmp_path / kind), steps) as lake:
            work.run(lake)
        seen.update(steps.names)
    assert seen == {"write", "commit", "run", "build", "persist", "put tables", "put log", AFTER}


def forgetful(overlay: Overlay, datasets: Datasets, writer: writeout.Writer) -> writeout.WrittenOut:
    """Planted: a flush that forgets which rows of the head the tail hides."""
    bare = tuple(msgspec.structs.replace(one, hidden=NO_IDS) if one.is_head else one for one in overlay.segments)
    return writeout.write_out(msgspec.structs.replace(overlay, segments=bare), datasets, writer)


def one_less(datasets: Datasets, head: Version, rewritten: rewrite.Rewritten) -> Version:
    """Planted: a rewrite that drops a row."""
    placed = PLACE(datasets, head, rewritten)
    assert placed is not None
    return rewrite.hide(datasets, placed, rewrite.alive_in(rewritten.base, rewritten.old)[:1])


@pytest.mark.parametrize(
    ("kind", "name", "planted"),
    [
        ("a flush", "phalanx.upkeep.flush.write_out", forgetful),
        ("an optimize", "phalanx.tables.rewrite.place", one_less),
    ],
    ids=["a flush brings deleted rows back", "a rewrite drops a row"],
)
def test_maintenance_that_changes_a_row_would_be_found(
    kind: str, name: str, planted: object, lakes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted mistakes: the law above turns red."""
    monkeypatch.setattr(name, planted)
    with pytest.raises(AssertionError, match="rows"):
        test_work_that_dies_at_any_step_is_done_as_a_whole_or_not_at_all(kind, lakes, tmp_path)
