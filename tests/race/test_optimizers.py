"""Several optimizers at once share the work; writers beside one go on as before (known bugs 33 and 34)."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import phalanx
from phalanx.clock import SYSTEM, Deadline
from phalanx.lake import Lake
from phalanx.tables.dataset import Version
from phalanx.tables.rewrite import Group, Rewritten
from phalanx.upkeep import groups
from phalanx.upkeep.optimize import Optimized, Options, optimize
from tests.race.crew import together

PARTS, SIZE = 48, 5_000
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("text", pa.string())])
HOW = Options(target_rows=4 * SIZE)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake to be copied: a table in many fragments, some rows deleted."""
    path = tmp_path_factory.mktemp("lakes") / "lake"
    with phalanx.open(path, create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        table = lake.create_table("t", SCHEMA, key="id")
        for part in range(PARTS):
            table.append(some(part * SIZE, SIZE), stage=True)
        table.delete("id % 50 = 7")
        lake.flush("t")
        lake.set_property("flush.background", "on")
    return path


def some(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "v": np.sin(ids), "text": [f"text {one * 7919 % 10007}" for one in ids]}, SCHEMA)


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lake["t"].to_arrow().to_pylist())


def optimized(lake: Lake) -> tuple[int, int, int, int]:
    """Groups rewritten, groups left, and bytes written, by one process; and fragments in the end."""
    done = optimize(lake._core, lake["t"].id, Deadline.after(SYSTEM, 120), HOW)
    return done.rewritten, len(done.skipped), done.written, done.after


def unclaimed(lake: Lake) -> tuple[int, int, int, int]:
    """Planted: as if there were no claims."""
    groups.Groups.claims = lambda *_: ()  # type: ignore[method-assign]
    groups.Groups._claim = lambda *_: None  # type: ignore[method-assign]
    return optimized(lake)


def quiet(source: Path, folder: Path) -> int:
    """Bytes that one optimizer writes when nobody else does anything."""
    with phalanx.open(shutil.copytree(source, folder)) as lake:
        groups_, left, written, _ = optimized(lake)
    assert (groups_ > 8, left) == (True, 0)
    return written


def test_four_optimizers_share_the_work(source: Path, tmp_path: Path) -> None:
    """Known bug 34: no more than 1.3 times the bytes of one, and the table is in order for each of them."""
    alone = quiet(source, tmp_path / "alone")
    path = str(shutil.copytree(source, tmp_path / "lake"))
    with phalanx.open(path) as lake:
        before = rows(lake)
    done = together(path, [(optimized, ())] * 4)
    written = sum(one[2] for one in done)
    print(f"\n4 optimizers wrote {written / alone:.2f} x the bytes of one; groups {[one[0] for one in done]}")
    assert written <= 1.3 * alone
    assert [one[1] for one in done] == [0] * 4
    with phalanx.open(path) as lake:
        assert rows(lake) == before
        assert lake.check().whole


def test_optimizers_that_mind_no_claims_would_be_found(source: Path, tmp_path: Path) -> None:
    """Known bug 34, planted: the same work is done several times over."""
    alone = quiet(source, tmp_path / "alone")
    path = str(shutil.copytree(source, tmp_path / "lake"))
    done = together(path, [(unclaimed, ())] * 4)
    written = sum(one[2] for one in done)
    print(f"\nwithout claims, 4 optimizers wrote {written / alone:.2f} x the bytes of one")
    assert written > 1.3 * alone


def stormed(lake: Lake, number: int) -> tuple[int, int]:
    """Append from when somebody optimizes until that is over: rows that were acknowledged, and flushes meanwhile."""
    table, done, flushes = lake["t"], 0, 0
    give_up = time.monotonic() + 60
    while not claimed(lake):
        assert time.monotonic() < give_up, "nobody optimizes"
    while claimed(lake):
        for _ in range(10):
            table.append(some((number + 1) * 10_000_000 + 20 * done, 20))
            done += 1
        lake.flush("t")
        flushes += 1
    return 20 * done, flushes


def claimed(lake: Lake) -> bool:
    return bool(lake.refresh().state.contents[lake["t"].id].claims)


def optimized_slowly(lake: Lake) -> Optimized:
    """As `optimized`, and what is planned for a group is some flushes old when it lands."""

    def rewriter(bare: Version, group: Group) -> Rewritten:
        made = groups.rewritten_here(bare, group)
        time.sleep(0.2)
        return made

    how = msgspec.structs.replace(HOW, rewriter=rewriter)
    return optimize(lake._core, lake["t"].id, Deadline.after(SYSTEM, 120), how)


def test_a_storm_of_appends_costs_no_further_rewrites(source: Path, tmp_path: Path) -> None:
    """No row is rewritten twice because others flush meanwhile: 1.05 times the bytes of a quiet table at the most."""
    alone = quiet(source, tmp_path / "alone")
    path = str(shutil.copytree(source, tmp_path / "lake"))
    done = together(path, [(stormed, (0,)), (stormed, (1,)), (optimized_slowly, ())])
    [storm, other] = [one for one in done if isinstance(one, tuple)]
    [one] = [one for one in done if isinstance(one, Optimized)]
    flushes, share = storm[1] + other[1], one.written / alone
    print(f"\nunder {flushes} flushes: {share:.3f} x the bytes, {one.rewritten} groups, {one.skipped} left")
    assert flushes > 4
    assert share <= 1.05
    assert not one.skipped
    with phalanx.open(path) as lake:
        assert lake["t"].count() == PARTS * SIZE * 49 // 50 + storm[0] + other[0]


def wrote(lake: Lake, number: int, seconds: float) -> int:
    """Upsert, delete and count for so long; the commits that were acknowledged."""
    table, done = lake["t"], 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        first = (number + 1) * 10_000_000 + 10 * done
        table.upsert(some(first, 10))
        if done % 10 == 9:
            table.delete(f"id = {first}")
        done += 1
    return done


def ordered(lake: Lake, seconds: float) -> list[dict[str, Any]]:
    """The command, again and again for so long: what it said each time."""
    until, said = time.monotonic() + seconds, []
    while time.monotonic() < until:
        command = [sys.executable, "-m", "phalanx", "optimize", lake.uri, "t", "--json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
        assert answer.returncode == 0, answer.stderr
        said.append(msgspec.json.decode(answer.stdout)["t"])
    return said


def beside_writers(source: Path, tmp_path: Path, seconds: float) -> float:
    """Four writers without an optimizer and with one, twice by turns; the throughput with it, as a share."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(4):
        path = str(shutil.copytree(source, tmp_path / f"lake{turn}"))
        jobs = [(wrote, (number, seconds)) for number in range(4)]
        done = together(path, [*jobs, *([(ordered, (seconds,))] if turn % 2 else [])])
        commits = [one for one in done if isinstance(one, int)]
        rates[bool(turn % 2)].append(sum(commits) / seconds)
        with phalanx.open(path) as lake:
            assert lake["t"].count() == PARTS * SIZE * 49 // 50 + sum(10 * one - one // 10 for one in commits)
            assert lake.check().whole
        for said in (one for one in done if isinstance(one, list)):
            assert sum(one["rewritten"] for one in said) > 0
            print(f"optimize: {[(one['rewritten'], one['by_others'], len(one['skipped'])) for one in said]}")
    share = max(rates[True]) / max(rates[False])
    print(f"commits a second without optimize {rates[False]}, with it {rates[True]}: {share:.2f}")
    return share


def test_writers_go_on_beside_an_optimizer(source: Path, tmp_path: Path) -> None:
    """Known bug 33: optimize from the command line against four long-lived writers; nobody fails, and it gets done."""
    assert beside_writers(source, tmp_path, 2.5) > 0.05  # other work on the machine moves it by a factor: it is printed


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_writers_go_on_beside_an_optimizer_for_a_minute(source: Path, tmp_path: Path) -> None:
    """The same for longer."""
    assert beside_writers(source, tmp_path, 15) > 0.3
