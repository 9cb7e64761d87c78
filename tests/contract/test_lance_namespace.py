"""Stock clients that come through a namespace, with the guard in the folder: what reads, what writes, what to avoid.

The namespace here keeps a list of versions and nothing else. Versions that clients may write on are *materialised*: the
detached manifest under an ordinary number, outside `_versions/`, so that the guard stays the newest ordinary version.
"""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from lance.dataset import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance_namespace import (
    ConcurrentModificationError,
    DescribeTableResponse,
    InvalidInputError,
    LanceNamespace,
    TableVersionNotFoundError,
)

from phalanx.tables.guard import intruders
from tests.contract.lance_kit import add, begin, hide, numbers, renumbered, values

Request = dict[str, Any]


class Versions(LanceNamespace):
    """One table whose versions are managed; requests come from Lance as dictionaries."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: dict[int, Path] = {}
        self.created: list[Request] = []
        self.adopt: Callable[[int, Path], Path] = self.move

    def materialise(self, version: int, head: LanceDataset) -> None:
        """Give a detached version an ordinary number, in a place of its own."""
        manifest = (self.folder / f"_versions/d{head.version}.manifest").read_bytes()
        self.paths[version] = self.place(version)
        self.paths[version].write_bytes(renumbered(manifest, version))

    def place(self, version: int) -> Path:
        """Where materialised manifests live."""
        (self.folder / "_managed").mkdir(exist_ok=True)
        return self.folder / f"_managed/{version}.manifest"

    def move(self, version: int, staged: Path) -> Path:
        """What must be done with a staged manifest before its version is described to anybody."""
        shutil.copy(staged, self.place(version))
        return self.place(version)

    def namespace_id(self) -> str:
        return "versions"

    def describe_table(self, request: Any) -> DescribeTableResponse:
        return DescribeTableResponse(location=str(self.folder), managed_versioning=True)

    def list_table_versions(self, request: Any) -> Any:
        assert request["descending"]
        return {"versions": [self.described(version) for version in sorted(self.paths, reverse=True)]}

    def describe_table_version(self, request: Any) -> Any:
        if request["version"] not in self.paths:
            raise TableVersionNotFoundError(f"no version {request['version']}")
        return {"version": self.described(request["version"])}

    def create_table_version(self, request: Any) -> Any:
        self.created.append(dict(request))
        version = request["version"]
        if version in self.paths:
            raise ConcurrentModificationError(f"version {version} exists")
        self.paths[version] = self.adopt(version, Path("/", request["manifest_path"]))
        return {"version": self.described(version)}

    def described(self, version: int) -> Request:
        path = self.paths[version]
        return {"version": version, "manifest_path": str(path).lstrip("/"), "manifest_size": path.stat().st_size}


@pytest.fixture
def head(tmp_path: Path) -> LanceDataset:
    """A guarded table of three rows."""
    return hide(add(begin(tmp_path / "table"), numbers(1, 2), numbers(3, 4)), [3])


@pytest.fixture
def namespace(head: LanceDataset) -> Versions:
    """A namespace in which that table is at version 1."""
    made = Versions(Path(head.uri))
    made.materialise(1, head)
    return made


def opened(namespace: Versions, version: int | None = None) -> LanceDataset:
    return lance.dataset(namespace_client=namespace, table_id=["t"], version=version)


def refused(folder: Path) -> None:
    """A plain client still meets the guard, and left nothing."""
    for plain in (
        lambda: lance.dataset(str(folder)),
        lambda: lance.write_dataset(numbers(9), str(folder), mode="append"),
        lambda: lance.write_dataset(numbers(9), str(folder), mode="overwrite"),
    ):
        with pytest.raises((ValueError, OSError), match="cannot be read by this version of Lance"):
            plain()
    assert intruders(path.name for path in (folder / "_versions").iterdir()) == []


def test_a_detached_manifest_is_read_through_a_namespace(head: LanceDataset, namespace: Versions) -> None:
    """The client asks the namespace alone, so the guard is not in its way; but only as the newest version."""
    namespace.paths = {7: namespace.folder / f"_versions/d{head.version}.manifest"}
    assert values(opened(namespace)) == [1, 2, 3]
    assert opened(namespace).version == head.version
    assert opened(namespace).count_rows("a > 1") == 2
    with pytest.raises(ValueError, match="version 7 not found"):
        opened(namespace, 7)


def test_a_detached_manifest_is_not_written_on_through_a_namespace(head: LanceDataset, namespace: Versions) -> None:
    """It has no next number: that is why versions for writers are materialised."""
    namespace.paths = {7: namespace.folder / f"_versions/d{head.version}.manifest"}
    with pytest.raises(OSError, match="more than 2\\^65 versions"):
        opened(namespace).delete("a = 1")
    assert namespace.created == []


WRITES: dict[str, tuple[Callable[[LanceDataset], Any], list[int]]] = {
    "append": (lambda table: table.insert(numbers(9)), [1, 2, 3, 9]),
    "overwrite": (lambda table: table.insert(numbers(9), mode="overwrite"), [9]),
    "delete": (lambda table: table.delete("a = 1"), [2, 3]),
    "update": (lambda table: table.update({"a": "a + 10"}, where="a = 2"), [1, 3, 12]),
    "merge": (lambda table: table.merge_insert("a").when_not_matched_insert_all().execute(numbers(3, 9)), [1, 2, 3, 9]),
    "add a column": (lambda table: table.add_columns({"b": "a + 1"}), [1, 2, 3]),
    "index": (lambda table: table.create_scalar_index("a", "BTREE"), [1, 2, 3]),
}


@pytest.mark.parametrize("operation", WRITES)
def test_a_write_reaches_the_namespace_with_a_staged_manifest(namespace: Versions, operation: str) -> None:
    """The next number, a manifest beside the guard that no listing takes for a version, and plain clients kept off."""
    write, expected = WRITES[operation]
    write(opened(namespace))
    [request] = namespace.created
    assert request["version"] == 2
    assert Path(request["manifest_path"]).match("table/_versions/2.manifest-*")
    assert sorted(values(opened(namespace))) == expected
    assert values(opened(namespace, 1)) == [1, 2, 3]
    refused(namespace.folder)


def test_a_dataset_is_written_by_name(namespace: Versions) -> None:
    """The other way to write through a namespace."""
    for value in (8, 9):
        lance.write_dataset(numbers(value), mode="append", namespace_client=namespace, table_id=["t"])
    assert [request["version"] for request in namespace.created] == [2, 3]
    assert values(opened(namespace)) == [1, 2, 3, 8, 9]
    refused(namespace.folder)


def test_a_stale_writer_is_refused_and_never_rebased(namespace: Versions) -> None:
    """It looks for the winner in the folder, finds nothing, and asks for the same number until it gives up."""
    stale = opened(namespace)
    opened(namespace).delete("a = 1")
    append = LanceOperation.Append(write_fragments(numbers(9), stale))
    with pytest.raises(OSError, match="Commit conflict for version 2"):
        # The default is 20 tries, with pauses that add up to several seconds.
        LanceDataset.commit(stale, append, read_version=1, max_retries=3)
    assert [request["version"] for request in namespace.created] == [2, 2, 2, 2]
    assert values(opened(namespace)) == [2, 3]
    refused(namespace.folder)


def test_any_other_refusal_is_an_unknown_outcome_to_the_client(namespace: Versions) -> None:
    """So whatever can be checked is checked before a client stands on a version."""

    def refuse(version: int, staged: Path) -> Path:
        raise InvalidInputError("rows added to a keyed table")

    namespace.adopt = refuse
    with pytest.raises(OSError, match="Commit result for version 2 is unknown"):
        opened(namespace).insert(numbers(9))
    refused(namespace.folder)


def test_no_client_cleans_up_through_a_namespace(namespace: Versions) -> None:
    """Cleaning up lists the folder, and there is the guard."""
    with pytest.raises(OSError, match="cannot be read by this version of Lance"):
        opened(namespace).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert values(opened(namespace)) == [1, 2, 3]


def test_versions_may_be_missing_below_the_one_written_on(head: LanceDataset, namespace: Versions) -> None:
    """A pruned version is described to nobody, and nobody asks."""
    namespace.materialise(3, add(head, numbers(5)))
    del namespace.paths[1]
    opened(namespace).delete("a = 5")
    assert [request["version"] for request in namespace.created] == [4]
    assert values(opened(namespace)) == [1, 2, 3]


def test_a_staging_path_that_is_described_becomes_an_ordinary_version(namespace: Versions) -> None:
    """The trap: the next client to open it copies it to its public name, where it may outrank the guard."""
    namespace.adopt = lambda _, staged: staged
    opened(namespace).delete("a = 1")
    assert values(opened(namespace)) == [2, 3]
    found = intruders(path.name for path in (namespace.folder / "_versions").iterdir())
    assert found == ["2.manifest"]


def test_an_ordinary_version_under_its_public_name_outranks_the_guard(head: LanceDataset, namespace: Versions) -> None:
    """Which is why nothing is ever materialised there; it would be found as an intruder."""
    public = namespace.folder / "_versions/18446744073709551614.manifest"
    shutil.copy(namespace.paths[1], public)
    assert values(lance.dataset(head.uri)) == [1, 2, 3]
    assert intruders([public.name]) == [public.name]
