"""The namespace for stock Lance clients: names, tables and errors, asked with models and with dictionaries."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import pytest

import phalanx
from phalanx import Lake, StateError
from phalanx.namespace import PhalanxNamespace
from phalanx.tables.guard import intruders
from tests.unit.stock import folder, ids, opened, rows

Ask = Callable[..., Any]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """Two tables, one of them in a namespace."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.create_namespace("agents", {"owner": "us"})
        lake.create_table("t", rows(1, 2))
        lake.create_table("agents.turns", rows(1), key="id", properties={"kind": "log"})
        yield lake


@pytest.fixture(params=["models", "dictionaries"])
def ask(request: pytest.FixtureRequest, lake: Lake) -> Ask:
    """Ask the namespace, in both of the ways that clients have."""
    namespace = PhalanxNamespace(lake)

    def call(method: str, **fields: Any) -> Any:
        if request.param == "dictionaries":
            return getattr(namespace, method)(fields)
        model = getattr(spec, "".join(word.title() for word in method.split("_")) + "Request")
        return getattr(namespace, method)(model(**fields))

    return call


def test_namespaces_are_listed_created_described_and_dropped(ask: Ask, lake: Lake) -> None:
    assert ask("list_namespaces", id=[]).namespaces == ["agents"]
    assert ask("describe_namespace", id=["agents"]).properties == {"owner": "us"}
    ask("create_namespace", id=["agents", "inner"], properties={"a": "b"})
    assert ask("list_namespaces", id=["agents"]).namespaces == ["inner"]
    assert lake.refresh().namespace("agents.inner").properties == {"a": "b"}
    ask("namespace_exists", id=["agents", "inner"])
    assert ask("create_namespace", id=["agents", "inner"], mode="exist_ok").properties == {"a": "b"}
    ask("drop_namespace", id=["agents", "inner"])
    assert ask("list_namespaces", id=["agents"]).namespaces == []


@pytest.mark.parametrize(
    ("error", "method", "fields"),
    [
        (spec.NamespaceNotFoundError, "describe_namespace", {"id": ["none"]}),
        (spec.NamespaceNotFoundError, "namespace_exists", {"id": ["none"]}),
        (spec.NamespaceNotFoundError, "drop_namespace", {"id": ["none"]}),
        (spec.NamespaceNotFoundError, "create_namespace", {"id": ["none", "inner"]}),
        (spec.NamespaceNotFoundError, "list_namespaces", {"id": ["none"]}),
        (spec.NamespaceNotFoundError, "list_tables", {"id": ["none"]}),
        (spec.NamespaceNotFoundError, "declare_table", {"id": ["none", "t"]}),
        (spec.NamespaceAlreadyExistsError, "create_namespace", {"id": ["agents"]}),
        (spec.NamespaceNotEmptyError, "drop_namespace", {"id": ["agents"]}),
        (spec.UnsupportedOperationError, "create_namespace", {"id": ["agents"], "mode": "overwrite"}),
        (spec.TableNotFoundError, "describe_table", {"id": ["none"]}),
        (spec.TableNotFoundError, "table_exists", {"id": ["none"]}),
        (spec.TableNotFoundError, "drop_table", {"id": ["none"]}),
        (spec.TableNotFoundError, "deregister_table", {"id": ["none"]}),
        (spec.TableNotFoundError, "rename_table", {"id": ["none"], "new_table_name": "x"}),
        (spec.TableNotFoundError, "list_table_versions", {"id": ["none"]}),
        (spec.TableNotFoundError, "describe_table_version", {"id": ["none"], "version": 1}),
        (spec.TableNotFoundError, "create_table_version", {"id": ["none"], "version": 1, "manifest_path": "x"}),
        (spec.TableAlreadyExistsError, "declare_table", {"id": ["t"]}),
        (spec.TableAlreadyExistsError, "rename_table", {"id": ["agents", "turns"], "new_namespace_id": [], "new_table_name": "t"}),
        (spec.TableVersionNotFoundError, "describe_table", {"id": ["t"], "version": 9}),
        (spec.TableVersionNotFoundError, "describe_table_version", {"id": ["t"], "version": 9}),
        (spec.InvalidInputError, "describe_table", {"id": []}),
        (spec.InvalidInputError, "declare_table", {"id": []}),
        (spec.InvalidInputError, "describe_table", {"id": ["with.dot"]}),
        (spec.InvalidInputError, "declare_table", {"id": ["x"], "location": "/tmp/x"}),
        (spec.InvalidInputError, "list_tables", {"id": [], "limit": 0}),
        (spec.InvalidInputError, "list_table_versions", {"id": ["t"], "page_token": "x"}),
        (spec.UnsupportedOperationError, "describe_table", {"id": ["t"], "branch": "side"}),
        (spec.UnsupportedOperationError, "describe_table", {"id": ["t"], "tag": "v1"}),
        (spec.UnsupportedOperationError, "list_table_versions", {"id": ["t"], "branch": "side"}),
        (spec.UnsupportedOperationError, "describe_table_version", {"id": ["t"], "branch": "side"}),
    ],
)  # fmt: skip
def test_errors_are_those_of_the_specification(ask: Ask, lake: Lake, error: Any, method: str, fields: Any) -> None:
    """And nothing was changed."""
    before = lake.version
    with pytest.raises(error):
        ask(method, **fields)
    assert lake.version == before


def test_a_closed_lake_is_said_to_be_closed(lake: Lake) -> None:
    namespace = PhalanxNamespace(lake)
    lake.close()
    for method in ("drop_namespace", "describe_table", "list_tables"):
        with pytest.raises(spec.LanceNamespaceError, match="closed"):
            getattr(namespace, method)({"id": ["agents"]})


def test_tables_are_listed_described_renamed_and_dropped(ask: Ask, lake: Lake) -> None:
    assert ask("list_tables", id=[]).tables == ["t"]
    assert ask("list_tables", id=["agents"]).tables == ["turns"]
    told = ask("describe_table", id=["agents", "turns"])
    assert (told.table, told.namespace, told.version) == ("turns", ["agents"], 1)
    assert Path(told.location) == folder(lake, "agents.turns")
    assert told.managed_versioning
    assert not told.is_only_declared
    assert told.properties == {"kind": "log"}
    ask("table_exists", id=["t"])
    ask("rename_table", id=["t"], new_namespace_id=["agents"], new_table_name="old")
    assert ask("list_tables", id=["agents"]).tables == ["old", "turns"]
    ask("rename_table", id=["agents", "old"], new_table_name="older")
    assert ids(lake["agents.older"]) == [1, 2]
    before = lake.version
    assert ask("drop_table", id=["agents", "older"]).id == ["agents", "older"]
    assert ask("list_tables", id=["agents"]).tables == ["turns"]
    assert ids(lake.snapshot(version=before)["agents.older"]) == [1, 2]


def test_names_come_in_pages(ask: Ask, lake: Lake) -> None:
    for number in range(7):
        lake.create_namespace(f"n{number}")
        lake.create_table(f"agents.a{number}", rows())
    for method, names, inside in (
        ("list_namespaces", ["agents", *(f"n{number}" for number in range(7))], []),
        ("list_tables", [*(f"a{number}" for number in range(7)), "turns"], ["agents"]),
    ):
        found, token = [], None
        while token != "":
            answer = ask(method, id=inside, limit=3, page_token=token)
            page = answer.namespaces if method == "list_namespaces" else answer.tables
            assert len(page) <= 3
            found += page
            token = answer.page_token or ""
        assert found == names


def test_a_declared_table_has_a_place_and_no_version(ask: Ask, lake: Lake) -> None:
    told = ask("declare_table", id=["agents", "new"], properties={"a": "b"})
    assert told.managed_versioning
    assert told.properties == {"a": "b"}
    found = ask("describe_table", id=["agents", "new"])
    assert found.location == told.location
    assert found.is_only_declared
    assert found.version is None
    assert ask("list_table_versions", id=["agents", "new"])["versions"] == []
    assert ask("list_tables", id=["agents"]).tables == ["new", "turns"]
    assert ask("list_tables", id=["agents"], include_declared=False).tables == ["turns"]
    with pytest.raises(spec.TableVersionNotFoundError):
        ask("describe_table_version", id=["agents", "new"])
    for read in (lake["agents.new"].to_arrow, lambda: lake.sql("select * from agents.new").to_arrow()):
        with pytest.raises(StateError, match="was only declared: nobody has written its first version"):
            read()
    lake.flush()
    assert lake.check().whole


def test_deregistering_leaves_the_files_and_frees_the_name(ask: Ask, lake: Lake) -> None:
    lake.flush()
    place = folder(lake, "t")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    position = lake.version
    told = ask("deregister_table", id=["t"])
    assert (told.id, told.location) == (["t"], str(place))
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    assert ask("list_tables", id=[]).tables == []
    assert ids(lake.snapshot(version=position)["t"]) == [1, 2]
    lake.create_table("t", rows(9))
    assert ids(lake["t"]) == [9]
    assert folder(lake, "t") != place
    assert lake.check().whole


def test_a_namespace_opens_a_lake_by_itself(tmp_path: Path, lake: Lake) -> None:
    """As `lance_namespace.connect` and LanceDB do."""
    namespace = spec.connect("phalanx.namespace.PhalanxNamespace", {"uri": str(tmp_path / "lake")})
    assert namespace.list_tables({"id": []}).tables == ["t"]
    assert namespace.namespace_id() == PhalanxNamespace(lake).namespace_id()
    made = PhalanxNamespace(uri=str(tmp_path / "another"))
    made.create_namespace({"id": ["a"]})
    assert made.lake.namespaces() == ["a"]
    made.lake.close()
    with pytest.raises(phalanx.InvalidInputError, match="give a lake, or the property 'uri'"):
        PhalanxNamespace()


def test_plain_clients_are_refused_after_clients_of_the_namespace_wrote(lake: Lake) -> None:
    """The guard: whoever comes past the namespace can neither read, write nor clean up."""
    opened(lake, "t").insert(rows(3))
    opened(lake, "t").delete("id = 1")
    place = folder(lake, "t")
    for plain in (
        lambda: lance.dataset(str(place)),
        lambda: lance.write_dataset(rows(9), str(place), mode="append"),
        lambda: lance.write_dataset(rows(9), str(place), mode="overwrite"),
        lambda: opened(lake, "t").cleanup_old_versions(timedelta(0), delete_unverified=True),
    ):
        with pytest.raises((ValueError, OSError), match="cannot be read by this version of Lance"):
            plain()
    assert intruders(path.name for path in (place / "_versions").iterdir()) == []
    assert ids(opened(lake, "t")) == ids(lake["t"]) == [2, 3]
    assert lake.check().whole


def test_a_lake_may_move_to_another_folder(tmp_path: Path, lake: Lake) -> None:
    """What is written for clients names no place."""
    opened(lake, "t").insert(rows(3))
    shutil.copytree(tmp_path / "lake", tmp_path / "a place with blanks")
    with phalanx.open(tmp_path / "a place with blanks") as moved:
        opened(moved, "t").insert(rows(4))
        assert ids(opened(moved, "t")) == ids(moved["t"]) == [1, 2, 3, 4]
    assert ids(lake["t"]) == [1, 2, 3]
