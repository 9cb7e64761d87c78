"""What is said of a table is so, whatever its rows went through."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import phalanx
from phalanx.describe import ColumnInfo
from phalanx.errors import NotFoundError
from phalanx.history import describe
from phalanx.lake import Lake
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.names import suggestion
from phalanx.schema import encode_schema

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.float32())])


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as made:
        made.create_table("t", SCHEMA, key="id", properties={"b": "2", "a": "1"})
        yield made


def test_a_table_is_described_as_it_stands(lake: Lake) -> None:
    """Rows are counted through head and tail; the tail says of what it is made."""
    lake["t"].append([{"id": n} for n in range(10)])
    lake.flush("t")
    lake["t"].append([{"id": 9}, {"id": 10}])
    lake["t"].delete("id < 5")
    lake["t"].append([{"id": 50}], stage=True)
    found = lake.describe("t")
    assert (found.name, found.id, found.key, found.rows) == ("t", lake["t"].id, ("id",), lake["t"].count())
    assert found.columns == (ColumnInfo("id", "int64", False), ColumnInfo("v", "float", True))
    assert (found.version, found.lake_version, found.created, found.changed) == (5, lake.version, 2, lake.version)
    assert (found.head.rows, found.head.fragments) == (10, 1)
    assert (found.tail.items, found.tail.rows, found.tail.predicates, found.tail.bulk) == (3, 2, 1, 1)
    assert found.tail.bytes > 0
    assert list(found.properties.items()) == [("a", "1"), ("b", "2")]


def test_a_snapshot_describes_what_was(lake: Lake) -> None:
    """Later changes are not in it."""
    lake["t"].append([{"id": 1}])
    before = lake.refresh()
    lake["t"].append([{"id": 2}])
    assert (before.describe("t").rows, lake.describe("t").rows) == (1, 2)
    with pytest.raises(NotFoundError, match="did you mean 't'"):
        before.describe("tt")


def test_a_summary_says_how_much_is_pending(lake: Lake) -> None:
    """For the tables of the lake, or of one namespace."""
    lake.create_namespace("n")
    lake.create_table("n.u", SCHEMA)
    lake["t"].append([{"id": 1}])
    lake["t"].append([{"id": 2}])
    now = lake.refresh()
    assert [(one.name, one.version, one.pending) for one in now.summaries()] == [("n.u", 1, 0), ("t", 3, 2)]
    assert [one.name for one in now.summaries("n")] == ["n.u"]
    lake.flush()
    assert [one.pending for one in lake.refresh().summaries()] == [0, 0]


def test_what_is_near_is_suggested_else_what_there_is() -> None:
    """The list stays short."""
    assert suggestion("turn", ["crm.turns", "turns", "x"]) == "did you mean 'turns' or 'crm.turns'?"
    assert suggestion("q", ["a", "b"]) == "there is: a, b"
    assert suggestion("q", []) == "there is: none"
    assert suggestion("q", [f"t{n}" for n in range(9)]) == "there is: t0, t1, t2, t3, t4 and 4 more"


T, GONE = "a" * 32, "b" * 32
STEPS: list[tuple[it.Step, str]] = [
    (it.AddColumn(encode_schema(pa.schema([("w", pa.int64())])), "1"), "add column w"),
    (it.DropColumn("v"), "drop column v"),
    (it.RenameColumn("v", "w"), "rename column v to w"),
    (it.WidenColumn("v", b""), "widen column v"),
    (it.OrderColumns(("v", "id")), "order columns"),
    (it.SetNullable("v", True), "column v may be null"),
    (it.SetNullable("v", False), "column v may not be null"),
]
WORDS: list[tuple[do.Action, str]] = [
    (do.Found(do.Settings()), "create the lake (durability disk)"),
    (do.CreateNamespace(("n",), {}), "create namespace n"),
    (do.AlterNamespace(("n",), {}), "set properties of namespace n"),
    (do.DropNamespace(("n", "m")), "drop namespace n.m"),
    (do.CreateTable(("n", "t"), T, {}), "create table n.t"),
    (do.DropTable(("n", "t"), T), "drop table n.t"),
    (do.DeregisterTable(("n", "t"), T), "deregister table n.t"),
    (do.ReviveTable(("n", "t"), T, {}, 1, 2), "bring back table n.t"),
    (do.RenameTable(("t",), T, ("n", "t")), "rename table t to n.t"),
    (do.PutTag("v", 3, False), "tag version 3 as v"),
    (do.Untag("v"), "remove tag v"),
    (do.SetProperty("k", "v"), "set property k"),
    (do.SetProperty("k", None), "remove property k"),
    (do.Progress("feed", 1, 2), "source feed reaches 2"),
    (do.Prune(41, 7, 9), "prune below 41"),
    (do.Prune(1, 7, 9, versions=((T, ((1, 2), (4, 4))),)), "prune below 1, 3 versions of tables"),
    (it.Put(T, it.Inline(0, 1)), "append 1 row to n.t"),
    (it.Put(T, it.Staged(1, 0, 1, 2, 0, 0, 0, 2, True)), "append 2 rows in bulk to n.t"),
    (it.Upsert(T, it.Inline(0, 2)), "upsert 2 rows into n.t"),
    (it.Upsert(T, it.Inline(0, 2), None, True), "insert 2 rows into n.t"),
    (it.Overwrite(T, it.Inline(0, 0)), "overwrite with 0 rows in n.t"),
    (it.DeleteKeys(T, 0, 2), "delete 2 keys from n.t"),
    (it.DeleteRows(T, 0, 2), "delete 2 rows from n.t"),
    (it.DeleteWhere(T, "v > 1"), "delete where v > 1 from n.t"),
    (it.UpdateWhere(T, (("v", "1"),), "id = 1"), "update set v = 1 where id = 1 in n.t"),
    (it.UpdateWhere(GONE, (("v", "1"),), None), "update set v = 1 in a dropped table"),
    *((it.Alter(T, 0, it.Layout(1, b"", (), (step,))), f"alter {said} of n.t") for step, said in STEPS),
    (
        it.Alter(T, 0, it.Layout(1, b"", (), (it.DropColumn("v"), it.RenameColumn("a", "b")))),
        "alter drop column v, rename column a to b of n.t",
    ),
    (it.Alter(GONE, 0, it.Layout(1, b"", ())), "alter the columns of a dropped table"),
    (it.Restore(T, 8, 1, 0, (it.Layout(0, b"", ()),), ()), "restore version 8 of n.t"),
    (it.Advance(T, 3, 1, 0), "advance to version 3 of n.t"),
    (it.DeleteVersions(T, ((1, 1), (3, 5))), "delete versions 1, 3-5 of n.t"),
    (it.Flush(T, 0, 1, 2, 5, 2, 0, 2), "flush 3 items of n.t"),
    (it.Rewrite(T, 0, 1, 2, (0, 1), 1), "rewrite 2 fragments as 1 of n.t"),
    (it.Cover(T, 0, 1, 2, ("i", "j")), "build i, j for n.t"),
    (it.Claim(T, 0, (1, 2), "ann", 5, 9), "claim 2 fragments of n.t"),
    (it.Claim(T, 0, (1, 2), "ann", 5, 5), "release 2 fragments of n.t"),
    (it.DeclareIndex(T, "i", "v", "btree", {}), "create index i (btree of v) on n.t"),
    (it.DropIndex(T, "i"), "drop index i of n.t"),
]


@pytest.mark.parametrize(("action", "said"), WORDS, ids=[said for _, said in WORDS])
def test_every_action_has_its_words(action: do.Action, said: str) -> None:
    """As the history of a lake shows it."""
    assert describe(action, {T: ("n", "t")}) == said


def test_every_kind_of_action_has_words() -> None:
    """A new kind of action or step fails here until it is in the lists above."""
    assert {type(action) for action, _ in WORDS} == set(do.Action.__args__)
    assert {type(step) for step, _ in STEPS} == set(it.Step.__args__)
