"""Optimize: fewer fragments, the same rows under the same row ids, shared work, and a reason for what is left."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.clock import SYSTEM, Deadline, is_gone, writer_identity
from phalanx.errors import InvalidInputError, UnavailableError
from phalanx.lake import Lake
from phalanx.log import item as it
from phalanx.tables import rewrite
from phalanx.testing import Process
from phalanx.upkeep import groups as grouping
from phalanx.upkeep import optimize as optimizing
from phalanx.upkeep.optimize import Done, Options, optimize
from tests.unit.covering import coverage, found, head, opened, soon

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with opened(tmp_path) as lake:
        yield lake


@pytest.fixture
def other(lake: Lake, tmp_path: Path) -> Iterator[Lake]:
    """Another process with the same lake open."""
    with phalanx.open(tmp_path / "lake") as other:
        yield other


def rows(first: int, count: int = 20) -> list[dict[str, Any]]:
    return [
        {"id": number, "day": f"d{number * 7 % 5}", "v": number * 31 % 101} for number in range(first, first + count)
    ]


def filled(lake: Lake, name: str = "t", parts: int = 4, **options: Any) -> phalanx.Table:
    table = lake.create_table(name, SCHEMA, **options)
    for part in range(parts):
        table.append(rows(20 * part))
        lake.flush(name)
    return table


def identified(lake: Lake, name: str = "t") -> dict[int, tuple[Any, ...]]:
    """The rows of a table's head by their row ids."""
    there = head(lake, name).scan(["id", "day", "v"], row_ids=True).read_all().to_pylist()
    assert len({row["_rowid"] for row in there}) == len(there)
    return {row.pop("_rowid"): tuple(row.values()) for row in there}


def multiset(lake: Lake, name: str = "t") -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in lake[name].to_arrow().to_pylist())


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *, times: int = 1) -> None:
    """Do something else between the rewrite of a group and its commit, so often."""
    run, left = rewrite.run, [times]

    def watched(*arguments: Any) -> Any:
        made = run(*arguments)
        if left[0] > 0:
            left[0] -= 1
            act()
        return made

    monkeypatch.setattr(rewrite, "run", watched)


def test_rows_and_their_ids_stay_and_fragments_go(lake: Lake) -> None:
    """Known bug 18: the multiset of rows is equal, and every row is known by the id that it had."""
    table = filled(lake)
    table.delete("id % 5 = 0")
    table.update({"v": "v + 1"}, "id = 1")
    lake.flush("t")
    before, ids = multiset(lake), identified(lake)
    done = lake.optimize("t")["t"]
    assert (done.rewritten, done.by_others, done.skipped, done.after) == (1, 0, (), 1)
    assert done.before > 1
    assert min(done.read, done.written) > 0
    assert (multiset(lake), identified(lake)) == (before, ids)
    again = lake.optimize("t")["t"]
    assert (again.rewritten, again.read, again.written, again.before) == (0, 0, 0, 1)
    assert lake.check().whole


def test_a_delete_during_a_rewrite_is_not_lost(lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 17: plan, delete, append, finish: the rows stay deleted, and those that were added stay."""
    filled(lake)

    def change() -> None:
        other["t"].delete("id % 3 = 0")
        other["t"].append(rows(500))
        other.flush("t")

    meanwhile(monkeypatch, change)
    assert lake.optimize("t")["t"].rewritten == 1
    wanted = [row for row in rows(0, 80) if row["id"] % 3] + rows(500)
    assert multiset(lake) == Counter(tuple(row.values()) for row in wanted)
    assert len(head(lake, "t").fragments) == 2


def test_a_planted_placement_that_forgets_deletions_is_caught(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known bug 17, planted: without hiding them again, the rows come back."""
    filled(lake)
    monkeypatch.setattr(rewrite, "hide", lambda _datasets, made, _gone: made)
    meanwhile(monkeypatch, lambda: (other["t"].delete("id % 3 = 0"), other.flush("t")))
    lake.optimize("t")
    assert multiset(lake) == Counter(tuple(row.values()) for row in rows(0, 80))


def test_a_planted_rewrite_that_drops_rows_is_caught(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 18, planted: a fragment is left out of what is written."""
    filled(lake)
    before, worth = multiset(lake), rewrite._worth

    def careless(version: Any, task: Any) -> Iterator[rewrite.Group]:
        for group in worth(version, task):
            yield rewrite.Group((*group.fragments, max(version.fragments)), group.task, group.size)

    monkeypatch.setattr(rewrite, "_worth", careless)
    with monkeypatch.context() as patch:
        patch.setattr(rewrite.json, "loads", _without_last(rewrite.json.loads))
        lake.optimize("t")
    assert multiset(lake) != before


def _without_last(loads: Callable[[str], Any]) -> Callable[[str], Any]:
    def shortened(text: str) -> Any:
        said = loads(text)
        if "task" in said:
            said["task"]["fragments"] = said["task"]["fragments"][:-1]
        return said

    return shortened


def test_a_lost_put_never_repeats_a_rewrite(lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known bug 33: each newer head gets what was written once; nothing of it is taken for somebody else's."""
    filled(lake)
    place, numbers, runs = rewrite.place, iter(range(1000, 2000)), []
    meanwhile(monkeypatch, lambda: runs.append(1), times=100)

    def overtaken(*arguments: Any) -> Any:
        made = place(*arguments)
        number = next(numbers)
        if number < 1010:
            other["t"].append(rows(number, 1))
            other.flush("t")
        return made

    monkeypatch.setattr(rewrite, "place", overtaken)
    done = lake.optimize("t")["t"]
    assert (done.rewritten, done.skipped, len(runs)) == (1, (), 1)
    wanted = rows(0, 80) + [row for number in range(1000, 1010) for row in rows(number, 1)]
    assert multiset(lake) == Counter(tuple(row.values()) for row in wanted)


def test_what_somebody_else_rewrote_is_done(lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is what was wanted, by whomever; here the other one does not see the claim."""
    filled(lake)
    before = multiset(lake)

    def unheeding() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grouping.Groups, "claims", lambda *_: ())
            patch.setattr(grouping.Groups, "_claim", lambda *_: None)
            assert other.optimize("t")["t"].rewritten == 1

    meanwhile(monkeypatch, unheeding)
    done = lake.optimize("t")["t"]
    assert (done.rewritten, done.by_others, done.skipped, done.after) == (0, 1, (), 1)
    assert multiset(lake) == before


def test_a_budget_that_is_spent_ends_with_a_reason(lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time one fragment goes, the rest is planned again; then it is said what was left."""
    filled(lake, parts=8)
    gone = iter(range(8))

    def drop_one() -> None:
        first = next(gone) * 20
        other["t"].delete(f"id >= {first} and id < {first + 20}")
        other.flush("t")

    meanwhile(monkeypatch, drop_one, times=100)
    done = lake.optimize("t", budget=3)["t"]
    assert done.rewritten == 0
    assert done.skipped[-1].reason == "one of the fragments is gone"
    assert next(gone) == 3
    monkeypatch.undo()
    assert lake.optimize("t")["t"].after == 1
    assert multiset(lake) == Counter(tuple(row.values()) for row in rows(60, 100))


def test_a_table_that_cannot_be_rewritten_holds_up_no_other(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is skipped with what Lance says of it, its claim is given up, and the others go on."""
    for name in ("a", "b", "c"):
        filled(lake, name)
    run = rewrite.run

    def picky(version: Any, group: Any) -> Any:
        if version.table == lake["b"].id:
            raise UnavailableError("Lance does not do blobs")
        return run(version, group)

    monkeypatch.setattr(rewrite, "run", picky)
    done = lake.optimize()
    assert {name: one.rewritten for name, one in done.items()} == {"a": 1, "b": 0, "c": 1}
    assert [one.reason for one in done["b"].skipped] == ["Lance does not do blobs"]
    assert found(lake, "b").contents.claims == ()


def test_a_dry_run_changes_nothing_and_says_what_would_be_done(lake: Lake) -> None:
    """Neither flush nor claim nor rewrite."""
    filled(lake)
    lake["t"].append(rows(900))
    version = lake.version
    done = lake.optimize("t", dry_run=True)["t"]
    assert (done.rewritten, done.written, done.before, done.after) == (1, 0, 4, 4)
    assert done.read > 0
    assert lake.version == version


def test_max_bytes_and_max_time_leave_the_rest_with_a_reason(lake: Lake) -> None:
    """What does not fit is left; nothing is begun when the time is over."""
    filled(lake)
    size = lake.optimize("t", dry_run=True)["t"].read
    little = lake.optimize("t", max_bytes=size - 1)["t"]
    assert (little.rewritten, little.read) == (0, 0)
    assert "max_bytes is spent" in little.skipped[0].reason
    late = lake.optimize("t", max_time=0)["t"]
    assert [one.reason for one in late.skipped] == ["the time is spent"]
    assert lake.optimize("t", max_bytes=size, max_time=60)["t"].rewritten == 1


def test_groups_run_in_threads_and_each_is_told(lake: Lake) -> None:
    """One commit for each group, so that progress is kept."""
    filled(lake, parts=8)
    before, told = multiset(lake), list[Done]()
    how = Options(target_rows=40, threads=3, progress=told.append)
    done = optimize(lake._core, lake["t"].id, soon(), how)
    assert (done.rewritten, done.after) == (4, 4)
    assert [(one.table, one.groups, one.of) for one in told] == [("t", number, 4) for number in range(1, 5)]
    assert (told[-1].bytes, told[-1].of_bytes) == (done.read, done.read)
    assert multiset(lake) == before


def test_a_large_fragment_is_not_written_again_for_a_few_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones gather until they are as large as what they join: a storm of appends costs a logarithm."""
    monkeypatch.setattr(rewrite, "SMALL", 0)
    table = lake.create_table("t", SCHEMA)
    written = total = 0
    for part in range(32):
        table.append(rows(1000 * part, 1000))
        lake.flush("t")
        written += lake.optimize("t")["t"].written
    total = sum(rewrite.data_size(head(lake, "t").fragment(one).metadata) for one in head(lake, "t").fragments)
    print(f"\n32 appends, each optimized: {written / total:.1f} x the table's bytes were written")
    assert written < 5.5 * total
    assert len(head(lake, "t").fragments) <= 6


@pytest.mark.parametrize(("share", "worn"), [(0.003, False), (0.01, True)])
def test_deleted_rows_are_removed_from_half_a_percent_on(lake: Lake, share: float, worn: bool) -> None:
    """Scans of a fragment with one percent of its rows deleted take twice as long: see docs/defaults.md."""
    table = lake.create_table("t", SCHEMA)
    table.append(rows(0, 6000), stage=True)
    table.delete(f"id % {int(1 / share)} = 0")
    lake.flush("t")
    assert lake.optimize("t")["t"].rewritten == worn
    [fragment] = head(lake, "t").fragments
    assert bool(head(lake, "t").fragment(fragment).num_deletions) != worn


def test_indexes_cover_as_much_or_more(lake: Lake) -> None:
    """Whatever became of the fragments."""
    table = filled(lake, key="id")
    table.create_index("v", "bitmap")
    table.append(rows(70, 40))
    done = lake.optimize("t")["t"]
    assert set(done.indexed) == {"v_bitmap", "phalanx_key"} or done.indexed
    assert set(coverage(lake, "t").values()) == {(1, 1)}
    assert [table.get(number) for number in (3, 71)] == [rows(3, 1)[0], rows(71, 1)[0]]


@pytest.mark.parametrize(
    "options",
    [{"budget": 0}, {"threads": 0}, {"max_bytes": -1}, {"max_time": -1.0}, {"cluster_by": "nothing"}],
    ids=str,
)
def test_what_makes_no_sense_is_refused(lake: Lake, options: dict[str, Any]) -> None:
    """Before anything is written."""
    filled(lake)
    version = lake.version
    with pytest.raises(InvalidInputError):
        lake.optimize("t", **options)
    assert lake.version == version


CLAIMS = """
import sys, phalanx
from phalanx.tables import rewrite
run = rewrite.run
def stop(*arguments):
    print("ready", flush=True)
    sys.stdin.readline()
    return run(*arguments)
rewrite.run = stop
with phalanx.open(sys.argv[1]) as lake:
    lake.optimize("t")
    print("done", flush=True)
"""


def test_one_that_finds_the_work_claimed_waits_for_it(lake: Lake, tmp_path: Path) -> None:
    """Writers go on meanwhile; when the time is over it says who has it; when it is done, it is done."""
    filled(lake)
    with Process(CLAIMS, tmp_path / "lake") as process:
        assert process.line() == "ready"
        lake["t"].append(rows(900))
        lake["t"].delete("id = 901")
        left = lake.optimize("t", max_time=0.2)["t"]
        assert left.rewritten == 0
        assert "claimed by" in left.skipped[0].reason
        process.tell("go")
        done = lake.optimize("t")["t"]
        assert process.line() == "done"
    assert (done.rewritten, done.by_others, done.skipped) == (0, 1, ())
    assert lake["t"].count() == 99


def test_the_claim_of_a_process_that_was_killed_holds_up_nobody(lake: Lake, tmp_path: Path) -> None:
    """Known bug 32: on this machine it is known to be dead; of another machine, its claim expires."""
    filled(lake)
    with Process(CLAIMS, tmp_path / "lake") as process:
        assert process.line() == "ready"
        process.kill()
    assert len(found(lake, "t").contents.claims) == 1
    lake["t"].append(rows(900))
    done = lake.optimize("t", timeout=20)["t"]
    assert (done.rewritten, done.skipped) == (1, ())
    assert found(lake, "t").contents.claims == ()


def test_a_claim_from_elsewhere_expires(lake: Lake) -> None:
    """Nobody knows whether that process lives: it is waited for until then, and not longer."""
    filled(lake)
    now = SYSTEM.now()
    claim = it.Claim(lake["t"].id, 0, tuple(head(lake, "t").fragments), "ann@elsewhere:1/ab", now, now + 1_500_000)
    lake.commit([claim])
    done = lake.optimize("t")["t"]
    assert (done.rewritten, done.skipped) == (1, ())
    assert SYSTEM.now() >= claim.until


def test_who_is_gone_is_known_of_this_machine_only() -> None:
    """By the process's number; whoever cannot be read is taken to be alive."""
    own = writer_identity()
    place = own.rpartition(":")[0]
    assert not is_gone(own)
    assert is_gone(f"{place}:4194304")
    assert is_gone(f"{place}:4194304.2")
    for alive in ("ann@elsewhere:4194304", f"{place}:x", "", f"{place}:1"):
        assert not is_gone(alive)


def test_a_deadline_that_has_passed_is_a_reason_and_no_error(lake: Lake) -> None:
    """What landed before it stays."""
    filled(lake)
    done = optimizing.optimize(lake._core, lake["t"].id, Deadline.after(SYSTEM, 0))
    assert (done.rewritten, [one.reason for one in done.skipped][-1]) == (0, "the time is spent")
    assert lake["t"].count() == 80
