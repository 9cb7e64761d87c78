"""Coverage beside other upkeep: built once, announced on whatever head there is, never twice, and lost without harm."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import phalanx
from phalanx.errors import UnavailableError
from phalanx.lake import Lake, join
from phalanx.objects import open_store
from phalanx.tables import index as indexes
from phalanx.tables import rewrite
from phalanx.tables.index import Built
from phalanx.tail.lookup import KEY_INDEX as KEY
from phalanx.testing import Fault, FaultyStore, Process, nth
from phalanx.upkeep import cover as covering
from phalanx.upkeep import optimize as optimizing
from tests.unit.covering import coverage, covered, found, head, held, opened, soon, written_out

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("x", pa.list_(pa.float32(), 2)), ("t", pa.string())])


def rows(first: int, count: int = 50) -> list[dict[str, Any]]:
    return [
        {"id": number, "n": number % 5, "x": [number % 7, number % 3], "t": f"word{number % 4} all"}
        for number in range(first, first + count)
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """A table with an index of each family, and rows that none of them covers."""
    with opened(tmp_path) as lake:
        table = lake.create_table("t", SCHEMA, key="id")
        for kind, column in (("bitmap", "n"), ("inverted", "t"), ("ivf_flat", "x")):
            table.create_index(column, kind, **({"num_partitions": 1} if column == "x" else {}))
        for first in (0, 50):
            table.append(rows(first))
            written_out(lake, "t")
        yield lake


@pytest.fixture
def other(lake: Lake, tmp_path: Path) -> Iterator[Lake]:
    """Another process with the same lake open."""
    with phalanx.open(tmp_path / "lake") as other:
        yield other


class Builds:
    """Counts what is built, and does something else in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.names: list[str] = []
        self._build = indexes.build
        monkeypatch.setattr(indexes, "build", self._counted)

    def _counted(self, version: Any, spec: Any, fragments: Any) -> Built | None:
        self.names.append(spec.name)
        return self._build(version, spec, fragments)

    def then(self, act: Callable[[], object]) -> None:
        """Do this once, when everything is built and before it is announced."""
        announced = covering._announced

        def after(*arguments: Any) -> Any:
            self._patch.setattr(covering, "_announced", announced)
            act()
            return announced(*arguments)

        self._patch.setattr(covering, "_announced", after)

    def before_commit(self, act: Callable[[], object]) -> None:
        """Do this once, when the version is made and before the entry is put: the entry then meets another head."""
        announce = indexes.announce

        def after(*arguments: Any) -> Any:
            self._patch.setattr(indexes, "announce", announce)
            made = announce(*arguments)
            act()
            return made

        self._patch.setattr(indexes, "announce", after)


ALL = sorted([KEY, "n_bitmap", "t_inverted", "x_ivf_flat"])


def consistent(lake: Lake) -> None:
    """Every fragment is in one segment of an index at the most, and the answers are right."""
    fragments = set(head(lake, "t").fragments)
    for segments in held(lake, "t").values():
        assert sum(len(one & fragments) for one in segments) == len(fragments.intersection(set().union(*segments)))
    table = lake["t"]
    there = table.to_arrow().to_pylist()
    assert sorted(row["id"] for row in there) == sorted({row["id"] for row in there})
    for n in range(5):
        assert table.count(f"n = {n}") == sum(row["n"] == n for row in there)
    assert table.search(text="word1", k=1000).num_rows == sum("word1 " in row["t"] for row in there)
    assert table.search([0.0, 0.0], k=1000, nprobes=100).num_rows == len(there)
    for row in there[::17]:
        assert table.get(row["id"]) == row


@pytest.mark.parametrize("when", ["then", "before_commit"])
def test_what_was_built_is_announced_on_the_head_that_a_flush_made(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Another process flushes meanwhile: nothing is built again, and the new rows are left for the next time."""
    builds = Builds(monkeypatch)
    other["t"].upsert(rows(40, 20))
    getattr(builds, when)(lambda: written_out(other, "t"))
    assert sorted(covered(lake, "t").names) == ALL
    assert sorted(builds.names) == ALL
    assert set(coverage(lake, "t").values()) == {(2, 3)}
    consistent(lake)
    covered(other, "t")
    assert set(coverage(lake, "t").values()) == {(3, 3)}
    consistent(other)


@pytest.mark.parametrize("when", ["then", "before_commit"])
def test_what_was_built_for_fragments_that_are_gone_is_dropped(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Another process rewrites and indexes them meanwhile: its work stands."""
    builds = Builds(monkeypatch)
    getattr(builds, when)(lambda: other.optimize("t"))
    assert covered(lake, "t").names == ()
    assert set(coverage(lake, "t").values()) == {(1, 1)}
    consistent(lake)


@pytest.mark.parametrize("when", ["then", "before_commit"])
def test_two_that_build_the_same_announce_it_once(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The second finds the fragments covered, and says nothing: two segments for one fragment break Lance."""
    builds = Builds(monkeypatch)
    getattr(builds, when)(lambda: covered(other, "t"))
    assert covered(lake, "t").names == ()
    assert sorted(builds.names) == sorted(2 * ALL)
    assert held(lake, "t") == {name: [{0, 1}] for name in ALL}
    assert covered(lake, "t").names == ()
    consistent(lake)


def test_an_index_that_is_dropped_meanwhile_is_not_announced(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one of the same name that was declared since taken for it."""
    builds = Builds(monkeypatch)

    def declare_anew() -> None:
        other["t"].drop_index("n_bitmap")
        other["t"].create_index("id", "bitmap", name="n_bitmap")

    builds.then(declare_anew)
    covered(lake, "t")
    assert [info.column for info in lake["t"].indexes() if info.name == "n_bitmap"] == ["id"]
    assert lake["t"].count("id = 77") == 1
    consistent(lake)


def test_rows_that_go_while_an_index_is_built_are_not_found(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted and updated rows, flushed before what was built without knowing of it is announced."""
    builds = Builds(monkeypatch)

    def change() -> None:
        other["t"].delete("id % 3 = 0")
        other["t"].update({"n": "n + 1", "t": "'word1 changed'", "x": "x"}, "id % 4 = 0")
        written_out(other, "t")

    builds.then(change)
    assert sorted(covered(lake, "t").names) == ALL
    consistent(lake)


def test_a_head_that_never_stands_still_costs_the_work_and_nothing_else(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some attempts it is left for the next time."""
    announce, ids = indexes.announce, iter(range(1000, 2000))

    def overtaken(*arguments: Any) -> Any:
        made = announce(*arguments)
        other["t"].upsert(rows(next(ids), 1))
        written_out(other, "t")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(indexes, "announce", overtaken)
        assert covered(lake, "t").names == ()
    assert next(ids) == 1000 + covering.ATTEMPTS
    consistent(lake)
    assert sorted(covered(lake, "t").names) == ALL


def test_a_rewrite_meets_indexes_that_were_announced_since_it_was_planned(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its fragments have an index by then and others not: it lands all the same."""
    run = rewrite.run

    def covered_meanwhile(*arguments: Any) -> Any:
        made = run(*arguments)
        [first, *_] = head(lake, "t").fragments
        pin = other._core.pins.staging()
        version = other._core.datasets.own(lake["t"].id, head(other, "t").manifest)
        built = [indexes.build(version, spec, [first]) for spec in covering.wanted(found(other, "t"))]
        here = found(other, "t")
        covering._announced(other._core, here, {one.name: one for one in built if one is not None}, soon(), pin)
        assert set(coverage(other, "t").values()) == {(1, 2)}
        return made

    monkeypatch.setattr(rewrite, "run", covered_meanwhile)
    done = lake.optimize("t")["t"]
    assert (done.rewritten, done.after) == (1, 1)
    assert set(coverage(lake, "t").values()) == {(1, 1)}
    consistent(lake)


def test_a_store_that_fails_loses_an_index_and_no_row(lake: Lake, tmp_path: Path) -> None:
    """The entry cannot be put: nothing has changed, and the next upkeep builds it again."""
    store = FaultyStore(open_store(tmp_path / "lake"), nth("put", 1, Fault.REFUSED, "log/"))
    before = lake.version
    with join(store, lake._clock, None, timeout=10) as troubled:
        with pytest.raises(UnavailableError, match="injected"):
            covered(troubled, "t")
        assert (lake.version, held(lake, "t").keys()) == (before, {"t_inverted"})
        assert sorted(covered(troubled, "t").names) == ALL
    consistent(lake)


DIES = """
import sys, phalanx
from phalanx.tables import index as indexes
from tests.unit.covering import covered
announce = indexes.announce

def stop(*arguments):
    made = announce(*arguments) if sys.argv[2] == "announced" else None
    print("ready", flush=True)
    sys.stdin.readline()
    return made

indexes.announce = stop
with phalanx.open(sys.argv[1]) as lake:
    covered(lake, "t")
"""


@pytest.mark.parametrize("when", ["built", "announced"])
def test_a_process_that_dies_before_its_entry_stands_loses_nothing(lake: Lake, tmp_path: Path, when: str) -> None:
    """Killed after the build, or after the version was made: files that nobody names, and the next one builds anew."""
    path = {"PYTHONPATH": f"{Path(__file__).parents[2]}"}
    with Process(DIES, tmp_path / "lake", when, environment=path) as process:
        assert process.line() == "ready"
        process.kill()
    consistent(lake)
    assert sorted(covered(lake, "t").names) == ALL
    assert set(coverage(lake, "t").values()) == {(2, 2)}
    consistent(lake)
    assert lake.check().whole


def test_a_rewrite_keeps_the_coverage_of_fragments_that_one_segment_has(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row ids stay, so the segment has the new fragment instead, and is not taken for one of the first fragment."""
    for first in (200, 210, 220):
        lake["t"].append(rows(first, 10))
        written_out(lake, "t")
    covered(lake, "t")
    before = {name: sorted(map(sorted, segments)) for name, segments in held(lake, "t").items()}
    assert before["n_bitmap"] == [[0, 1, 2, 3, 4]]
    monkeypatch.setattr(optimizing, "cover", lambda *_, **__: covering.Covered())
    optimizing.optimize(lake._core, lake["t"].id, soon(), optimizing.Options(target_rows=50))
    assert head(lake, "t").fragments == [0, 1, 5]
    for name in ("n_bitmap", "t_inverted", "x_ivf_flat"):
        assert held(lake, "t")[name] == [{0, 1, 5}]
    consistent(lake)
