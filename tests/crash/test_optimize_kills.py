"""Optimize that dies, or is overtaken, at any of its steps: writers go on at once, no row changes, the next one finishes.

Known bugs 32 and 33: nothing that a dead optimizer leaves stands in a writer's way, and what it has done itself is never
taken for somebody else's.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.lake import Lake
from phalanx.log import item as it
from phalanx.tables import rewrite
from phalanx.testing import Process
from phalanx.txn.conflict import RULES
from phalanx.txn.verdict import Conflict, Kind
from phalanx.upkeep import groups
from phalanx.upkeep.optimize import Options, optimize
from tests.crash.steps import AFTER, Death, Held, Steps, dying, rows, stepping
from tests.unit.covering import head, soon

PARTS, SIZE = 6, 30
CLAIM = 0.02
WAYS = {
    "compacting": Options(target_rows=50, threads=1),
    "clustering": Options(cluster_by=("v",), threads=1),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake to be copied: fragments worth rewriting, an index for some of them, deleted rows, and a tail."""
    folder = tmp_path_factory.mktemp("lakes")
    with phalanx.open(folder / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        table = lake.create_table("t", pa.schema([("id", pa.int64()), ("v", pa.int64())]), key="id")
        table.create_index("v", "bitmap")
        for part in range(PARTS):
            table.append(numbered(part * SIZE, SIZE))
            lake.flush("t")
        table.delete("id % 7 = 3")
        lake.flush("t")
        table.upsert(numbered(5, 3))
    yield folder / "lake"
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def claims_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that die here have the number of a process that lives: nobody is to wait for them."""
    monkeypatch.setattr(groups, "CLAIM_SECONDS", CLAIM)


def numbered(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": list(ids), "v": [number * 17 % 23 for number in ids]})


def rewrites(lake: Lake) -> int:
    """The groups of fragments that were rewritten, by whomever."""
    return sum("rewrite" in change for commit in lake.log(limit=1000) for change in commit.changes)


def finished(path: Path, how: Options, before: Held) -> None:
    """What a death, or trouble, has left: a writer is not held up, no row has changed, and the next one finishes."""
    with phalanx.open(path) as lake:
        assert rows(lake) == before, "the rows"
        began = time.monotonic()
        lake["t"].upsert(numbered(1000, 1))
        assert time.monotonic() - began < 5, "a writer was held up"
        landed = rewrites(lake)
        done = optimize(lake._core, lake["t"].id, soon(), how)
        assert done.skipped == ()
        assert rewrites(lake) == landed + done.rewritten
        again = optimize(lake._core, lake["t"].id, soon(), how)
        assert (again.rewritten, again.skipped) == (0, ())
        held = sorted(tuple(row.values()) for row in lake["t"].to_arrow().to_pylist())
        assert held == sorted([*before["t"], (1000, 1000 * 17 % 23)]), "the rows in the end"
        assert {(one.fragments, one.of) for one in lake["t"].indexes()} == {(again.after, again.after)}
        assert lake.check().whole


@pytest.mark.parametrize("way", WAYS)
def test_an_optimize_that_dies_at_any_step_holds_up_nobody(way: str, source: Path, tmp_path: Path) -> None:
    """Before its entry or after it; what landed is not done again."""
    how = WAYS[way]
    with phalanx.open(source) as lake:
        before = rows(lake)
    for number in range(1, 100):
        path, steps = shutil.copytree(source, tmp_path / f"{number}"), dying(number)
        with stepping(path, steps) as lake:
            try:
                optimize(lake._core, lake["t"].id, soon(), how)
            except Death:
                pass
            else:
                break
        time.sleep(2 * CLAIM)
        finished(path, how, before)
    assert number > 15, steps.names
    assert {"put log", "commit", "persist", "build", AFTER} <= set(steps.names)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("trouble", ["rows come", "rows go", "a fragment goes"])
def test_an_optimize_that_is_overtaken_at_any_step_loses_nothing(
    way: str, trouble: str, source: Path, tmp_path: Path
) -> None:
    """A conflict at each step: another process writes and flushes just before it; nothing fails, and nothing is lost."""
    how = WAYS[way]
    with phalanx.open(source) as lake:
        before = {row[0]: row for row in rows(lake)["t"]}
    for number in range(1, 100):
        path = shutil.copytree(source, tmp_path / f"{number}")
        with phalanx.open(path) as other:
            wanted = dict(before)
            steps = Steps(
                lambda at, _, other=other, wanted=wanted, number=number: _act(at, number, trouble, other, wanted)
            )
            with stepping(path, steps) as lake:
                done = optimize(lake._core, lake["t"].id, soon(), how)
            assert sorted(tuple(row.values()) for row in other["t"].to_arrow().to_pylist()) == sorted(wanted.values())
            assert done.skipped == (), steps.names
            assert other.check().whole
        if len(steps.names) < number:
            break
    assert number > 15


def _act(at: int, number: int, trouble: str, other: Lake, wanted: dict[int, tuple[Any, ...]]) -> None:
    if at != number:
        return
    if trouble == "rows come":
        other["t"].append(numbered(2000, 2))
        wanted.update({row["id"]: tuple(row.values()) for row in numbered(2000, 2).to_pylist()})
    else:
        gone = [one for one in wanted if (one % 2 if trouble == "rows go" else one < SIZE)]
        other["t"].delete(f"id in ({', '.join(map(str, gone))})")
        for one in gone:
            del wanted[one]
    other.flush("t")


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.crash.steps import Steps, stepping
from tests.crash.test_optimize_kills import WAYS
from tests.unit.covering import soon
from phalanx.upkeep.optimize import optimize

def kill(number, name):
    if name == sys.argv[2] and (name != "put log" or number > 8):
        os.kill(os.getpid(), signal.SIGKILL)

with stepping(Path(sys.argv[1]), Steps(kill)) as lake:
    optimize(lake._core, lake["t"].id, soon(), WAYS["compacting"])
"""


@pytest.mark.parametrize("step", ["run", "commit", "persist", "put log", AFTER, "build"])
def test_an_optimizer_that_is_killed_holds_up_nobody(
    step: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of its own, killed for good: its claim counts for half a minute, and nobody waits for it."""
    monkeypatch.undo()
    path = shutil.copytree(source, tmp_path / "lake")
    with phalanx.open(path) as lake:
        before = rows(lake)
    with Process(KILLED, path, step, environment={"PYTHONPATH": f"{Path(__file__).parents[2]}"}) as process:
        assert process.line() == ""
    began = time.monotonic()
    finished(path, WAYS["compacting"], before)
    assert time.monotonic() - began < groups.CLAIM_SECONDS / 2


def test_a_claim_that_stopped_writers_would_be_found(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known bug 32, planted: a claim that writers mind."""

    def minding(state: Any, action: Any, position: int) -> Conflict | None:
        claims = state.contents[action.table].claims
        return Conflict(Kind.CHANGED, "an optimize is under way", position) if claims else None

    monkeypatch.setattr("phalanx.txn.conflict.RULES", {**RULES, it.Upsert: (*RULES[it.Upsert], minding)})
    with pytest.raises(phalanx.ConflictError, match="under way"):
        test_an_optimize_that_dies_at_any_step_holds_up_nobody("compacting", source, tmp_path)


def test_one_that_took_its_own_work_for_somebody_elses_would_be_found(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known bug 33, planted: what it cannot place at once it gives up."""
    place, seen = rewrite.place, set[int]()

    def impatient(datasets: Any, version: Any, made: Any) -> Any:
        known = id(made) in seen
        seen.add(id(made))
        return None if known else place(datasets, version, made)

    monkeypatch.setattr(rewrite, "place", impatient)
    monkeypatch.setitem(WAYS, "compacting", Options(target_rows=50, threads=1, budget=1))
    with pytest.raises(AssertionError):
        test_an_optimize_that_is_overtaken_at_any_step_loses_nothing("compacting", "rows come", source, tmp_path)


def test_the_sample_is_worth_it(source: Path, tmp_path: Path) -> None:
    """Two groups at the least, so that there is something left after one has landed."""
    with phalanx.open(shutil.copytree(source, tmp_path / "lake")) as lake:
        assert optimize(lake._core, lake["t"].id, soon(), WAYS["compacting"]).rewritten >= 2
        assert len(head(lake, "t").fragments) > 1
