"""The guard keeps stock Lance off a table's folder, and is in nobody's way who goes through the log."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest
from lance.dataset import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from phalanx.objects import open_store
from phalanx.tables.guard import genesis, guard, intruders
from tests.contract.lance_kit import SCHEMA, add, begin, hide, numbers, place, put_guard, reopened, rewritten, values

UNKNOWN_FEATURES = "cannot be read by this version of Lance"
NOT_IN_THE_ORDER_OF_VERSIONS = "more than 2\\^65 versions"

BY_PATH: dict[str, Callable[[str], Any]] = {
    "read": lance.dataset,
    "read its version": lambda uri: lance.dataset(uri, version=0),
    "append": lambda uri: lance.write_dataset(numbers(9), uri, mode="append"),
    "overwrite": lambda uri: lance.write_dataset(numbers(9), uri, mode="overwrite"),
    "create": lambda uri: lance.write_dataset(numbers(9), uri, mode="create"),
    "stage": lambda uri: write_fragments(numbers(9), uri),
    "commit": lambda uri: LanceDataset.commit(uri, LanceOperation.Overwrite(SCHEMA, [])),
    "commit detached": lambda uri: LanceDataset.commit(uri, LanceOperation.Overwrite(SCHEMA, []), detached=True),
}

ON_A_DETACHED_VERSION: dict[str, Callable[[LanceDataset], Any]] = {
    "clean up": lambda head: head.cleanup_old_versions(timedelta(0), delete_unverified=True),
    "restore": lambda head: head.restore(),
    "checkout latest": lambda head: head.checkout_latest(),
    "migrate": lambda head: head.migrate_manifest_paths_v2(),
}

CHANGES_OF_A_DETACHED_VERSION: dict[str, Callable[[LanceDataset], Any]] = {
    "append": lambda head: head.insert(numbers(9)),
    "overwrite": lambda head: lance.write_dataset(numbers(9), head, mode="overwrite"),
    "delete": lambda head: head.delete("a = 1"),
    "truncate": lambda head: head.truncate_table(),
    "update": lambda head: head.update({"a": "a + 1"}),
    "merge": lambda head: head.merge_insert("a").when_not_matched_insert_all().execute(numbers(3, 9)),
    "compact": lambda head: head.optimize.compact_files(),
    "add a column": lambda head: head.add_columns({"b": "a + 1"}),
    "index": lambda head: head.create_scalar_index("a", "BTREE"),
    "configure": lambda head: head.update_config({"lance.auto_cleanup.interval": "1"}),
    "commit": lambda head: LanceDataset.commit(head, LanceOperation.Append([]), read_version=head.version),
}


@pytest.fixture
def head(tmp_path: Path) -> LanceDataset:
    """A guarded table of two fragments."""
    return add(begin(tmp_path / "table"), numbers(1, 2), numbers(3))


def foreign(head: LanceDataset) -> list[str]:
    """What somebody put past the log."""
    return intruders(path.name for path in Path(head.uri, "_versions").iterdir())


@pytest.mark.parametrize("operation", BY_PATH)
def test_a_plain_client_is_refused_on_the_path(head: LanceDataset, operation: str) -> None:
    """Known bug 40: without the guard it would make a version of its own."""
    with pytest.raises((ValueError, OSError, NotImplementedError), match=UNKNOWN_FEATURES):
        BY_PATH[operation](head.uri)
    assert foreign(head) == []
    assert values(reopened(head)) == [1, 2, 3]


@pytest.mark.parametrize("operation", ON_A_DETACHED_VERSION)
def test_nothing_gets_from_a_detached_version_to_an_ordinary_one(head: LanceDataset, operation: str) -> None:
    """The way there leads past the guard; above all nothing is cleaned up."""
    with pytest.raises(OSError, match=UNKNOWN_FEATURES):
        ON_A_DETACHED_VERSION[operation](reopened(head))
    assert foreign(head) == []
    assert values(reopened(head)) == [1, 2, 3]


@pytest.mark.parametrize("operation", CHANGES_OF_A_DETACHED_VERSION)
def test_a_detached_version_cannot_be_changed_in_place(head: LanceDataset, operation: str) -> None:
    """Lance's own verbs would need the next number, and there is none: all of them fail."""
    with pytest.raises((OSError, RuntimeError), match=NOT_IN_THE_ORDER_OF_VERSIONS):
        CHANGES_OF_A_DETACHED_VERSION[operation](reopened(head))
    assert foreign(head) == []
    assert values(reopened(head)) == [1, 2, 3]


def test_without_the_guard_a_plain_client_destroys_the_table(tmp_path: Path) -> None:
    """Known bug 40, as Lance behaves: it finds nothing, makes version 1, and cleans up what it does not know."""
    head = add(begin(tmp_path / "table", guarded=False), numbers(1, 2))
    stranger = lance.write_dataset(numbers(9), head.uri, mode="append")
    assert (stranger.version, values(stranger)) == (1, [9])
    assert foreign(head) == ["18446744073709551614.manifest"]
    stranger.cleanup_old_versions(timedelta(0), delete_unverified=True)
    with pytest.raises((OSError, ValueError), match="Not found"):
        values(reopened(head))


@pytest.mark.parametrize("kind", ["local", "s3", "azure"])
def test_detached_versions_work_beside_the_guard(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """On every kind of storage: begin, append, delete, rewrite, open again; and plain clients are refused."""
    uri, options = str(tmp_path / "table"), None
    if kind != "local":
        server = request.getfixturevalue(f"{kind}_server")
        uri, options = server.uri(f"{tmp_path.name}/table"), server.options
    head = hide(add(begin(uri, options=options), numbers(1, 2), numbers(3, 4)), [1])
    head = place(head, rewritten(head))
    assert values(lance.dataset(uri, version=head.version, storage_options=options)) == [1, 3, 4]
    for mode in ("append", "overwrite"):
        with pytest.raises(OSError, match=UNKNOWN_FEATURES):
            lance.write_dataset(numbers(9), uri, mode=mode, storage_options=options)
    with pytest.raises(OSError, match=UNKNOWN_FEATURES):
        head.cleanup_old_versions(timedelta(0), delete_unverified=True)
    listed = [one.name.removeprefix("_versions/") for one in open_store(uri, options, timeout=10).list("_versions")]
    assert len(listed) == 6
    assert intruders(listed) == []


def test_the_guard_may_come_before_or_after_the_first_version(tmp_path: Path) -> None:
    """Genesis needs nothing on storage, so a crash between the two leaves nothing that cannot be gone on with."""
    head = begin(tmp_path / "table", guarded=False)
    put_guard(head.uri)
    put_guard(head.uri)
    assert values(add(head, numbers(1))) == [1]
    with pytest.raises(ValueError, match=UNKNOWN_FEATURES):
        lance.dataset(head.uri)


def test_the_guard_is_the_same_in_every_process() -> None:
    """So that it does not matter who of several puts it."""
    script = (
        "import hashlib; from phalanx.tables.guard import genesis, guard; name, content = guard();"
        "print(hashlib.sha256(name.encode() + content + genesis()).hexdigest())"
    )
    name, content = guard()
    ours = hashlib.sha256(name.encode() + content + genesis()).hexdigest()
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == ours


def test_a_table_begins_with_stable_row_ids_the_stable_format_and_no_configuration(tmp_path: Path) -> None:
    """Whatever genesis says is inherited; nothing cleans up by itself, and 2.2 is what Lance itself would choose."""
    head = hide(add(begin(tmp_path / "table"), numbers(1, 2)), [0])
    assert head.has_stable_row_ids
    assert head.config() == {}
    assert head.data_storage_version == "2.2"
    assert lance.write_dataset(numbers(1), str(tmp_path / "plain")).data_storage_version == "2.2"


def test_intruders_are_what_neither_the_log_nor_a_namespace_puts_there() -> None:
    """Ordinary versions in both of Lance's naming schemes, and whatever is not known."""
    ours = [
        "18446744073709551615.manifest",
        "d9223372036854775808.manifest",
        "d18446744073709551615.manifest",
        "d13442686161957460351.manifest#1",
        "8.manifest-9e5a6b41-c8d6-40fc-bf41-2d26aac9a01d",
        "18446744073709551607.manifest-9e5a6b41-c8d6-40fc-bf41-2d26aac9a01d",
        "latest_version_hint.json",
    ]
    theirs = [
        "18446744073709551614.manifest",
        "09223372036854775808.manifest",
        "1.manifest",
        "_latest.manifest",
        "d9223372036854775807.manifest",
        "d18446744073709551616.manifest",
        "notes.txt",
    ]
    assert intruders([*ours, *theirs]) == sorted(theirs)
