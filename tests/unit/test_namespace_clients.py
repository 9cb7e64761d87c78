"""Stock Lance clients on tables of a lake: what they write is the lake's, and the lake goes on from there."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import pyarrow as pa
import pytest
from lance.dataset import LanceDataset

import phalanx
from phalanx import Lake
from phalanx.namespace import PhalanxNamespace
from tests.unit.stock import Held, Request, appended, everything, folder, held, ids, opened, rows, stage


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An unkeyed and a keyed table, each with rows on disk and rows in its tail."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        for name, key in (("t", ()), ("k", "id")):
            lake.create_table(name, rows(1, 2, 3), key=key)
            lake.flush(name)
            lake[name].append(rows(4, 5))
            lake[name].delete("id = 2")
        yield lake


def both(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table, which are the same for the lake, for a client, and after upkeep; and the feed adds up."""
    found = held(lake[name])
    assert held(opened(lake, name)) == found
    assert followed(lake, name) == found
    lake.flush(name)
    assert held(lake[name]) == held(opened(lake, name)) == found
    lake.optimize(name)
    assert held(lake[name]) == held(opened(lake, name)) == found
    assert lake.check().whole
    return found


def followed(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    """The rows that somebody has who only ever saw the table's changes."""
    seen: list[tuple[Any, ...]] = []
    for row in lake.changes(name, 0).read_all().to_pylist():
        kind, values = row["_change_type"], tuple(value for column, value in row.items() if column[0] != "_")
        if kind in ("insert", "update_postimage"):
            seen.append(values)
        else:
            seen.remove(values)
    return sorted(seen)


def merge(table: LanceDataset, data: pa.Table) -> None:
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)


WRITES: dict[str, tuple[Callable[[LanceDataset], Any], list[tuple[int, int]]]] = {
    "append": (lambda table: table.insert(rows(9)), [(1, 0), (3, 0), (4, 0), (5, 0), (9, 0)]),
    "overwrite": (lambda table: table.insert(rows(8, 9), mode="overwrite"), [(8, 0), (9, 0)]),
    "delete": (lambda table: table.delete("id in (1, 4)"), [(3, 0), (5, 0)]),
    "delete all": (lambda table: table.delete("true"), []),
    "update": (lambda table: table.update({"v": "id"}, "id > 3"), [(1, 0), (3, 0), (4, 4), (5, 5)]),
    "merge": (lambda table: merge(table, rows(3, 5, 9, v=7)), [(1, 0), (3, 7), (4, 0), (5, 7), (9, 7)]),
    "compaction": (lambda table: table.optimize.compact_files(), [(1, 0), (3, 0), (4, 0), (5, 0)]),
    "index": (lambda table: table.create_scalar_index("v", "BTREE"), [(1, 0), (3, 0), (4, 0), (5, 0)]),
    "restore": (lambda table: table.checkout_version(1).restore(), [(1, 0), (2, 0), (3, 0)]),
}


@pytest.mark.parametrize("name", ["t", "k"], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("kind", WRITES)
def test_whatever_a_client_writes_is_the_next_version(lake: Lake, kind: str, name: str) -> None:
    """And the lake writes on from there, however it writes: into its tail, in bulk, by predicate."""
    write, wanted = WRITES[kind]
    before, version = lake.version, lake[name].version
    write(opened(lake, name))
    assert held(lake[name]) == wanted
    assert ids(lake.snapshot(version=before)[name]) == [1, 3, 4, 5]
    assert lake[name].version == version + 1
    table = lake[name]
    table.append(rows(20, 21))
    table.append(rows(30, 31), stage=True)
    table.delete("id = 20 or id = 3")
    table.update({"v": "v + 1"}, "id = 30 or id = 5 or id = 9")
    rest = [(one, v + (one in (5, 9))) for one, v in wanted if one != 3]
    assert both(lake, name) == [*rest, (21, 0), (30, 1), (31, 0)]
    opened(lake, name).insert(rows(40))
    assert both(lake, name) == [*rest, (21, 0), (30, 1), (31, 0), (40, 0)]


def test_many_writers_in_turn(lake: Lake) -> None:
    """A client and the lake, one after the other, on one table."""
    wanted = dict(held(lake["k"]))
    for turn in range(6):
        merge(opened(lake, "k"), rows(1, 100 + turn, v=turn))
        lake["k"].upsert(rows(3, 200 + turn, v=turn), stage=turn % 2 == 0)
        wanted |= dict.fromkeys((1, 3, 100 + turn, 200 + turn), turn)
        assert dict(held(lake["k"])) == wanted
    assert dict(both(lake, "k")) == wanted


@pytest.mark.parametrize(
    ("given", "match"),
    [(rows(1), "two rows would have the key 1"), (rows(7, 7), "two rows would have the key 7")],
    ids=["a key that is there", "a key twice"],
)
def test_a_keyed_table_refuses_a_key_twice(lake: Lake, given: pa.Table, match: str) -> None:
    """Named to whoever asks the namespace; a client hears of it from Lance, as an unknown outcome."""
    before = everything(lake)
    request = stage(lake, "k", lambda table: table.insert(given))
    with pytest.raises(spec.InvalidInputError, match=match):
        PhalanxNamespace(lake).create_table_version(request)
    with pytest.raises(OSError, match="is unknown"):
        opened(lake, "k").insert(given)
    assert everything(lake) == before
    merge(opened(lake, "k"), rows(1, 7, v=9))
    assert both(lake, "k") == [(1, 9), (3, 0), (4, 0), (5, 0), (7, 9)]
    opened(lake, "k").insert(rows(2))
    assert ids(lake["k"]) == [1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize(
    ("write", "match"),
    [
        (lambda table: table.update({"id": "1"}, "id = 3"), "two rows would have the key 1"),
        (lambda table: table.insert(pa.table({"id": pa.array([None], pa.int64()), "v": [1]})), "cannot be null"),
        (lambda table: table.drop_columns(["id"]), "the key names 'id'"),
        (lambda table: table.alter_columns({"path": "id", "name": "other"}), "the key names 'id'"),
        (lambda table: table.insert(pa.table({"x": [1]}), mode="overwrite"), "the key names 'id'"),
        (lambda table: table.insert(rows(8, 8), mode="overwrite"), "two rows would have the key 8"),
    ],
    ids=["update", "null", "drop", "rename", "overwrite without it", "overwrite twice"],
)
def test_a_client_cannot_break_a_key(lake: Lake, write: Callable[[LanceDataset], Any], match: str) -> None:
    request = stage(lake, "k", write)
    before = everything(lake)
    with pytest.raises(spec.InvalidInputError, match=match):
        PhalanxNamespace(lake).create_table_version(request)
    assert everything(lake) == before


def test_a_column_that_the_lake_cannot_have_is_refused(lake: Lake) -> None:
    request = stage(lake, "t", lambda table: table.add_columns({"_score": "id"}))
    before = everything(lake)
    with pytest.raises(spec.InvalidInputError, match="'_score' cannot be the name of a column"):
        PhalanxNamespace(lake).create_table_version(request)
    assert everything(lake) == before


@pytest.mark.parametrize("name", ["t", "k"], ids=["unkeyed", "keyed"])
def test_a_client_adds_and_drops_columns(lake: Lake, name: str) -> None:
    opened(lake, name).add_columns({"w": "id * 10"})
    assert lake[name].schema.names == ["id", "v", "w"]
    lake[name].append([{"id": 6, "v": 1, "w": 2}])
    lake.flush(name)
    assert held(lake[name]) == held(opened(lake, name)) == [(1, 0, 10), (3, 0, 30), (4, 0, 40), (5, 0, 50), (6, 1, 2)]
    opened(lake, name).drop_columns(["v"])
    assert lake[name].schema.names == ["id", "w"]
    lake[name].append([{"id": 7, "w": 3}])
    lake.optimize(name)
    assert held(lake[name]) == held(opened(lake, name)) == [(1, 10), (3, 30), (4, 40), (5, 50), (6, 2), (7, 3)]
    assert lake.check().whole


def test_the_feed_goes_through_columns_that_a_client_added(lake: Lake) -> None:
    opened(lake, "t").add_columns({"w": "id * 10"})
    assert followed(lake, "t") == [(1, 0, 10), (3, 0, 30), (4, 0, 40), (5, 0, 50)]


def test_nothing_cleans_up_by_itself(lake: Lake) -> None:
    """Settings that would make Lance delete old versions are taken out of what clients are given."""
    table = opened(lake, "t")
    table.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s", "own": "kept"})
    assert opened(lake, "t").config() == {"own": "kept"}
    made = lake.core.datasets.open(lake["t"].id, lake.refresh().found("t").contents.head.manifest)
    assert made.dataset.config() == {"own": "kept"}
    for number in range(10, 14):
        opened(lake, "t").insert(rows(number))
    assert all(opened(lake, "t", version).config() in ({}, {"own": "kept"}) for version in range(1, 9))
    assert [len(ids(opened(lake, "t", version))) for version in range(1, lake["t"].version + 1)] == [
        3,
        5,
        4,
        4,
        5,
        6,
        7,
        8,
    ]
    created = lance.write_dataset(
        rows(1),
        namespace_client=PhalanxNamespace(lake),
        table_id=["cleaning"],
        mode="create",
        auto_cleanup_options={"interval": 1, "older_than_seconds": 0},
    )
    assert created.count_rows() == 1
    assert opened(lake, "cleaning").config() == {}


@pytest.mark.parametrize("stable", [False, True], ids=["without lasting row ids", "with lasting row ids"])
def test_a_table_that_a_client_creates_is_like_any_other(lake: Lake, stable: bool) -> None:
    """It is written anew in the form that tables have, and works with everything there is."""
    data = pa.table({"id": range(1000), "v": [0] * 1000})
    lance.write_dataset(
        data, namespace_client=PhalanxNamespace(lake), table_id=["new"], mode="create", enable_stable_row_ids=stable
    )
    assert lake["new"].version == 1
    assert opened(lake, "new").has_stable_row_ids
    lake["new"].append(rows(1000))
    lake["new"].delete("id < 990")
    lake["new"].update({"v": "id"}, "id = 995")
    wanted = [(one, one if one == 995 else 0) for one in range(990, 1001)]
    assert both(lake, "new") == wanted
    opened(lake, "new").delete("id < 999")
    lake["new"].create_index("id", name="by_id")
    assert both(lake, "new") == [(999, 0), (1000, 0)]
    assert opened(lake, "new").to_table(filter="id = 999").num_rows == 1


def test_a_client_whose_table_was_taken_creates_nothing(lake: Lake) -> None:
    with pytest.raises((OSError, ValueError, spec.LanceNamespaceError), match="exist"):
        lance.write_dataset(rows(1), namespace_client=PhalanxNamespace(lake), table_id=["t"], mode="create")
    assert ids(lake["t"]) == [1, 3, 4, 5]


def commit(lake: Lake, *operations: Request) -> Any:
    return PhalanxNamespace(lake).batch_commit_tables({"operations": list(operations)})


def five(lake: Lake) -> list[Request]:
    """One operation on each of five tables; `old` has three versions."""
    lake.create_table("old", rows(1))
    lake["old"].append(rows(2))
    lake["old"].append(rows(3))
    lake.create_table("bye", rows(1))
    ranges = [{"start_version": 0, "end_version": 3}]
    return [
        {"declare_table": {"id": ["new"], "properties": {"a": "b"}}},
        {"create_table_version": appended(lake, "t", 9)},
        {"create_table_version": appended(lake, "k", 9)},
        {"delete_table_versions": {"id": ["old"], "ranges": ranges}},
        {"deregister_table": {"id": ["bye"]}},
    ]


@pytest.mark.parametrize("models", [False, True], ids=["dictionaries", "models"])
def test_operations_on_five_tables_are_one_commit(lake: Lake, models: bool) -> None:
    operations: list[Any] = five(lake)
    if models:
        operations = [spec.CommitTableOperation(**one) for one in operations]
    before = lake.version
    told = commit(lake, *operations)
    assert lake.version == before + 1
    assert told.transaction_id == str(lake.version)
    declared, first, second, deleted, gone = told.results
    assert declared.declare_table.location == str(folder(lake, "new"))
    assert [one.create_table_version.version.version for one in (first, second)] == [
        lake["t"].version,
        lake["k"].version,
    ]
    assert deleted.delete_table_versions.deleted_count == 2
    assert gone.deregister_table.id == ["bye"]
    assert lake.tables() == ["k", "new", "old", "t"]
    assert ids(lake["t"]) == ids(lake["k"]) == [1, 3, 4, 5, 9]
    assert both(lake, "k") == both(lake, "t")


CONFLICTS: dict[str, tuple[Request, Any]] = {
    "a name that is taken": ({"declare_table": {"id": ["k"]}}, spec.ConcurrentModificationError),
    "a name that the batch takes": ({"declare_table": {"id": ["new"]}}, spec.ConcurrentModificationError),
    "a namespace that is not there": ({"declare_table": {"id": ["x", "y"]}}, spec.NamespaceNotFoundError),
    "a table that is not there": ({"deregister_table": {"id": ["x"]}}, spec.TableNotFoundError),
    "a table that the batch takes away": ({"deregister_table": {"id": ["bye"]}}, spec.TableNotFoundError),
    "the newest version": (
        {"delete_table_versions": {"id": ["k"], "ranges": [{"start_version": 0, "end_version": -1}]}},
        spec.InvalidTableStateError,
    ),
    "a version that is taken": (
        {"create_table_version": {"id": ["old"], "version": 2, "manifest_path": "x"}},
        spec.ConcurrentModificationError,
    ),
    "two things at once": (
        {"declare_table": {"id": ["a"]}, "deregister_table": {"id": ["bye"]}},
        spec.InvalidInputError,
    ),
    "nothing": ({}, spec.InvalidInputError),
}


@pytest.mark.parametrize("kind", CONFLICTS)
def test_one_conflict_in_a_batch_changes_nothing(lake: Lake, kind: str) -> None:
    """Wherever in the batch it is."""
    operations, (conflict, error) = five(lake), CONFLICTS[kind]
    before = everything(lake)
    managed = {path: path.read_bytes() for path in folder(lake, "t").rglob("_managed/*")}
    for place in (len(operations),) if "the batch" in kind else (0, 2, len(operations)):
        with pytest.raises(error):
            commit(lake, *operations[:place], conflict, *operations[place:])
        assert everything(lake) == before
        assert {path: path.read_bytes() for path in folder(lake, "t").rglob("_managed/*")} == managed
    commit(lake, *operations)
    assert ids(lake["t"]) == ids(lake["k"]) == [1, 3, 4, 5, 9]
    assert lake.check().whole


def test_an_operation_sees_what_the_ones_before_it_did(lake: Lake) -> None:
    """The version before a new one may go; a name that was freed may be taken."""
    version = lake["t"].version
    told = commit(
        lake,
        {"create_table_version": appended(lake, "t", 9)},
        {"delete_table_versions": {"id": ["t"], "ranges": [{"start_version": 1, "end_version": version + 1}]}},
        {"deregister_table": {"id": ["k"]}},
        {"declare_table": {"id": ["k"]}},
    )
    assert told.results[1].delete_table_versions.deleted_count == version
    listed = PhalanxNamespace(lake).list_table_versions({"id": ["t"]})["versions"]
    assert [one["version"] for one in listed] == [version + 1]
    assert ids(opened(lake, "t")) == ids(lake["t"]) == [1, 3, 4, 5, 9]
    assert PhalanxNamespace(lake).describe_table({"id": ["k"]}).is_only_declared


def test_a_first_version_whose_rows_are_not_there_is_refused(lake: Lake) -> None:
    namespace = Held(lake)
    with contextlib.suppress(OSError):
        lance.write_dataset(rows(1), mode="create", namespace_client=namespace, table_id=["new"])
    before = everything(lake)
    for path in (folder(lake, "new") / "data").iterdir():
        path.unlink()
    with pytest.raises(spec.LanceNamespaceError, match="reading what a client staged"):
        PhalanxNamespace(lake).create_table_version(namespace.asked[0])
    assert everything(lake) == before


def test_a_client_goes_on_from_a_table_that_it_created(lake: Lake) -> None:
    """It keeps what it wrote in mind, not what was written anew of it: everything works, compaction too."""
    namespace = PhalanxNamespace(lake)
    table = lance.write_dataset(rows(1, 2), mode="create", namespace_client=namespace, table_id=["new"])
    table.insert(rows(3))
    table.delete("id = 1")
    table.update({"v": "7"}, "id = 2")
    table.create_scalar_index("id", "BTREE")
    table.optimize.compact_files()
    table.insert(rows(4))
    wanted = [(2, 7), (3, 0), (4, 0)]
    assert held(table) == both(lake, "new") == wanted
    lake["new"].append(rows(5))
    assert both(lake, "new") == [*wanted, (5, 0)]
