"""Checkpoints hold tails as somebody has applied them: others begin there, and read the same rows."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import phalanx
from phalanx import Lake
from phalanx.catalog import Catalog
from phalanx.log import checkpoint
from phalanx.objects import open_store
from phalanx.tail import apply, cache, folded
from phalanx.tail.overlay import Overlay
from phalanx.waiting import Pending

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64()), ("s", pa.string())])
EVERY = 10


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LONG", 5)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    where = str(tmp_path / "lake")
    with phalanx.open(where, create=True, durability="os", settings={"checkpoint_every": EVERY}) as lake:
        lake.set_property("flush.background", "off")
    return where


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the items that are applied, by whomever."""
    found: list[int] = []
    real = apply._Work.apply

    def noting(work: apply._Work, run: list[Pending]) -> None:
        found.extend(one.seq for one in run)
        real(work, run)

    monkeypatch.setattr(apply._Work, "apply", noting)
    return found


def up_to_a_checkpoint(lake: Lake, name: str) -> None:
    """Upserts until a checkpoint has just been written."""
    number = 1000
    while lake.version % EVERY:
        lake.core.log.close()  # a checkpoint is left out while the one before is being written
        lake[name].append([{"id": number, "v": number, "s": "filling"}])
        number += 1
    lake.core.log.close()


def rows(lake: Lake, name: str = "t") -> list[dict[str, object]]:
    return sorted(lake[name].to_arrow().to_pylist(), key=repr)


def anew(uri: str, name: str = "t") -> list[dict[str, object]]:
    """The rows, where nothing is taken from others."""
    with phalanx.open(uri) as lake:
        lake.core.overlays._lent = {}
        return rows(lake, name)


def change(lake: Lake, key: str | None) -> None:
    """Changes of every kind that a tail can hold."""
    made = {"id": list(range(60)), "v": list(range(60)), "s": [f"s{n}" for n in range(60)]}
    table = lake.create_table("t", SCHEMA, key=key)
    table.append(made)
    lake.flush()
    for number in range(50, 56):
        table.append([{"id": number, "v": -number, "s": None}])
    table.delete("id = 3 or v = -52")
    table.update({"v": "v + 1000"}, where="id < 5 or id = 53")
    table.append({"id": [70, 71], "v": [7, 8], "s": ["a", "b"]}, stage=True)
    if key:
        table.upsert([{"id": 70, "v": 0, "s": "again"}, {"id": 1, "v": 0, "s": "again"}])
        with lake.writer("t") as writer:
            writer.delete(2).result()
    table.update({"s": "'last'"}, where="id = 71 or id = 9")


@pytest.mark.parametrize("key", [None, "id"])
def test_a_tail_that_others_have_applied_has_the_same_rows(uri: str, key: str | None) -> None:
    """Items of every kind; the one who opens the lake later reads what a checkpoint holds, and what has come since."""
    with phalanx.open(uri) as lake:
        change(lake, key)
        rows(lake)
        up_to_a_checkpoint(lake, "t")
        lake["t"].append([{"id": 5000, "v": 0, "s": "after"}])
        lake["t"].delete("id = 9")
        expected = rows(lake)
    with phalanx.open(uri) as other:
        lent = other.core.overlays._lent[other["t"].id]
        assert len(lent.parts) == 2, "the rows that were staged are a segment of their own"
        assert rows(other) == expected == anew(uri)
        other["t"].update({"v": "v * 2"})
        other.flush()
        doubled = [one | {"v": 2 * one["v"]} for one in expected]  # type: ignore[operator]
        assert rows(other) == sorted(doubled, key=repr) == anew(uri)


def test_who_opens_a_lake_applies_only_what_came_after_the_checkpoint(uri: str, applied: list[int]) -> None:
    """Also where the process that wrote the checkpoint never read the table."""
    with phalanx.open(uri) as lake:
        table = lake.create_table("t", SCHEMA, key="id")
        for number in range(40):
            table.append([{"id": number % 20, "v": number, "s": ""}])
        up_to_a_checkpoint(lake, "t")
        end = table._found().contents.until
        table.append([{"id": 7, "v": 777, "s": "new"}])
    applied.clear()
    with phalanx.open(uri) as other:
        assert other["t"].get(7) == {"id": 7, "v": 777, "s": "new"}
        assert applied == list(range(min(applied), end + 1))
        assert len(applied) <= end / 8 + 1


def test_a_writer_does_not_apply_predicates_for_others(uri: str, applied: list[int]) -> None:
    """They cost a scan of the table: that is for whoever reads it, and those who open the lake after it are spared."""
    with phalanx.open(uri) as lake:
        table = lake.create_table("t", SCHEMA, key="id")
        for _ in range(40):
            table.update({"v": "v + 1"}, where="id < 3")
        lake.core.log.close()
        assert applied == []
        rows(lake)
        applied.clear()
        up_to_a_checkpoint(lake, "t")
        assert applied == [], "what was read is taken as it is"
        expected = rows(lake)
    applied.clear()
    with phalanx.open(uri) as other:
        assert rows(other) == expected
        assert len(applied) <= EVERY


@pytest.mark.parametrize("what", ["flush", "optimize", "restore", "drop"])
def test_a_tail_that_was_applied_to_another_head_does_not_count(uri: str, what: str) -> None:
    """Whatever the table stands on since: its rows are those that the log tells."""
    with phalanx.open(uri) as lake:
        change(lake, "id")
        rows(lake)
        up_to_a_checkpoint(lake, "t")
        if what == "flush":
            lake.flush()
        elif what == "optimize":
            lake.optimize("t")
        elif what == "restore":
            lake.restore(version=lake.version - 3)
        else:
            lake.drop_table("t")
            lake.create_table("t", SCHEMA, key="id")
        lake["t"].append([{"id": 1, "v": 1, "s": what}])
        expected = rows(lake)
    with phalanx.open(uri) as other:
        assert other.core.overlays._lent
        assert rows(other) == expected == anew(uri)


def test_a_tail_is_not_taken_for_an_older_version(uri: str) -> None:
    """What it holds came later than what is asked for."""
    with phalanx.open(uri) as lake:
        change(lake, "id")
        past = lake.version
        before = rows(lake)
        up_to_a_checkpoint(lake, "t")
        rows(lake)
    with phalanx.open(uri) as other:
        assert other.core.overlays._lent
        found = other.snapshot(version=past)["t"].to_arrow().to_pylist()
        assert sorted(found, key=repr) == before


def test_columns_that_change_after_the_checkpoint_change_its_rows(uri: str) -> None:
    """The tail has the columns that it had then; the rest is applied as ever. With columns changed in it, it is left out."""
    with phalanx.open(uri) as lake:
        change(lake, "id")
        rows(lake)
        up_to_a_checkpoint(lake, "t")
        lake["t"].add_column("w", pa.int64(), default=7)
        lake["t"].rename_column("s", "z")
        expected = rows(lake)
    with phalanx.open(uri) as other:
        assert other.core.overlays._lent
        assert rows(other) == expected == anew(uri)
        for number in range(2 * EVERY):
            other.core.log.close()  # as above
            other["t"].append([{"id": number, "v": 0, "z": "", "w": 1}])
        other.core.log.close()
        expected = rows(other)
    with phalanx.open(uri) as third:
        assert not third.core.overlays._lent, "rows on disk have other columns by now"
        assert rows(third) == expected


@pytest.mark.parametrize("damage", ["all", "rows", "identities", "hidden", "fewer"])
def test_what_cannot_be_read_is_applied_anew(uri: str, damage: str) -> None:
    """An unreadable cache costs time."""
    with phalanx.open(uri) as lake:
        change(lake, "id")
        rows(lake)
        up_to_a_checkpoint(lake, "t")
        expected = rows(lake)
    with phalanx.open(uri) as other:
        overlays = other.core.overlays
        (table, one), bad = next(iter(overlays._lent.items())), b"\x10\0\0\0\0\0\0\0bad"
        part = msgspec.structs.replace(one.parts[0], hidden=bad)
        damaged = {
            "rows": {"rows": bad},
            "identities": {"identities": bad},
            "hidden": {"parts": (part, *one.parts[1:])},
            "fewer": {"identities": folded._bytes(folded._numbers(one.identities)[1:])},
        }
        if damage == "all":
            overlays._lent = folded.decode(b"\x91\x01")
        else:
            overlays._lent = {table: msgspec.structs.replace(one, **damaged[damage])}
            contents = other["t"]._found().contents
            assert overlays._lent[table].overlay(contents) is None
        assert rows(other) == expected


def test_a_head_that_is_gone_costs_the_tail_and_not_the_checkpoint(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint is written all the same."""

    def gone(*_: object) -> Overlay:
        raise phalanx.SnapshotExpiredError("pruned")

    monkeypatch.setattr(cache.Overlays, "at", gone)
    with phalanx.open(uri) as lake:
        table = lake.create_table("t", SCHEMA)
        for number in range(2 * EVERY):
            lake.core.log.close()  # a checkpoint is left out while the one before is being written
            table.append([{"id": number, "v": 0, "s": ""}])
    found = next(checkpoint.candidates(open_store(uri), Catalog(), lambda _: True))
    assert found.position >= 2 * EVERY
    assert found.folded == b""
