"""Versions through the namespace: created from what a client staged, listed, described, and deleted."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance_namespace as spec
import pytest

import phalanx
from phalanx import Lake, VersionDeletedError
from phalanx.clock import SYSTEM
from phalanx.lake import join
from phalanx.namespace import PhalanxNamespace
from phalanx.objects import layout, open_store
from phalanx.tables.dataset import manifest_name
from phalanx.testing import CountingStore
from tests.unit.stock import appended, everything, folder, ids, opened, rows, stage


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        lake.create_table("t", rows(1, 2))
        lake.create_table("u", rows(1))
        yield lake


@pytest.fixture
def namespace(lake: Lake) -> PhalanxNamespace:
    return PhalanxNamespace(lake)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A table of 300 versions, and more of another."""
    path = tmp_path_factory.mktemp("long")
    with phalanx.open(path / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        lake.create_table("t", rows())
        for number in range(299):
            lake["t"].append(rows(number))
        yield lake


def ranges(*given: tuple[int, int]) -> list[dict[str, int]]:
    return [{"start_version": first, "end_version": end} for first, end in given]


def refused(lake: Lake, error: Any, match: str, ask: Any, *arguments: Any) -> None:
    """With this error, and without any effect."""
    before = everything(lake)
    with pytest.raises(error, match=match):
        ask(*arguments)
    assert everything(lake) == before
    assert lake.check().whole


@pytest.mark.parametrize("descending", [False, True], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("limit", [1, 7, 100, 1000, None])
def test_versions_come_in_pages(long: Lake, limit: int | None, descending: bool) -> None:
    """Every one once, in order, whatever the size of a page."""
    found: list[int] = []
    token = None
    for _ in range(400):
        request = {"id": ["t"], "limit": limit, "page_token": token, "descending": descending}
        answer = PhalanxNamespace(long).list_table_versions(request)
        assert len(answer["versions"]) <= (limit or 1000)
        found += [one["version"] for one in answer["versions"]]
        token = answer["page_token"]
        if not token or (limit == 1 and len(found) == 20):
            break
    wanted = list(range(300, 0, -1)) if descending else list(range(1, 301))
    assert found == (wanted[:20] if limit == 1 else wanted)


def test_a_listed_version_says_where_and_when_it_was_made(long: Lake) -> None:
    newest = PhalanxNamespace(long).list_table_versions(
        spec.ListTableVersionsRequest(id=["t"], limit=1, descending=True)
    )
    [told] = newest["versions"]
    [change] = long.history("t", limit=1)
    assert told["metadata"] == {"lake_version": str(change.lake_version)}
    assert abs(told["timestamp_millis"] - change.time.timestamp() * 1000) < 1
    assert Path("/", told["manifest_path"]).stat().st_size == told["manifest_size"]
    spec.ListTableVersionsResponse(**newest)


def test_a_page_of_versions_reads_no_more_of_the_log_than_it_shows(long: Lake) -> None:
    """A page of ten reads ten entries, wherever it is; the newest version is found without reading the others."""
    store = CountingStore(open_store(Path(long.uri)))
    counting = join(store, SYSTEM, None, timeout=30)
    namespace = PhalanxNamespace(counting)
    namespace.list_table_versions({"id": ["t"], "limit": 1, "descending": True})
    for token, descending in ((None, True), (None, False), ("150", True), ("150", False)):
        first = len(store.calls)
        request = {"id": ["t"], "limit": 10, "page_token": token, "descending": descending}
        assert len(namespace.list_table_versions(request)["versions"]) == 10
        read = {name for call, name in store.calls[first:] if call == "get" and name.startswith(layout.LOG)}
        assert len(read) <= 12, read
        assert len(store.calls) - first < 60
    counting.close()


def test_a_version_is_described_without_opening_anything_once_it_was_written_out(
    lake: Lake, namespace: PhalanxNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake["t"].append(rows(3))
    lake["t"].delete("id = 1")
    opened(lake, "t").insert(rows(4))
    wanted = {number: namespace.describe_table_version({"id": ["t"], "version": number}) for number in (1, 2, 3, 4)}
    assert [ids(opened(lake, "t", number)) for number in wanted] == [[1, 2], [1, 2, 3], [2, 3], [2, 3, 4]]

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a dataset was opened")

    with phalanx.open(lake.uri) as another:
        monkeypatch.setattr(another.core.datasets, "open", never)
        monkeypatch.setattr(another.core.overlays, "at", never)
        asked = PhalanxNamespace(another)
        for number, told in wanted.items():
            assert asked.describe_table_version(spec.DescribeTableVersionRequest(id=["t"], version=number)) == told
            assert asked.describe_table({"id": ["t"], "version": number}).version == number
            assert Path("/", told["version"]["manifest_path"]).stat().st_size == told["version"]["manifest_size"]
        assert asked.describe_table_version({"id": ["t"]}) == wanted[4]


def test_what_was_written_out_for_clients_is_made_again_when_it_is_lost(lake: Lake) -> None:
    opened(lake, "t").insert(rows(3))
    lake["t"].append(rows(4))
    assert ids(opened(lake, "t")) == [1, 2, 3, 4]
    shutil.rmtree(folder(lake, "t") / "_managed")
    for number, wanted in ((3, [1, 2, 3, 4]), (1, [1, 2]), (2, [1, 2, 3])):
        assert ids(opened(lake, "t", number)) == wanted
    opened(lake, "t").insert(rows(5))
    assert ids(lake["t"]) == [1, 2, 3, 4, 5]


def test_two_who_write_a_version_out_are_told_of_the_same_file(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes second is told of the file that is there, not of its own, which may have another size."""
    lake["t"].append(rows(3))
    with phalanx.open(lake.uri) as another:
        there = lake.core.store.get
        late = []

        def get(name: str, *, limit: int) -> bytes | None:
            found = there(name, limit=limit)
            if name.endswith("_managed/2.manifest") and not late:
                told = PhalanxNamespace(another).describe_table_version({"id": ["t"], "version": 2})
                path = Path("/", told["version"]["manifest_path"])
                late.append(path)
            return found

        monkeypatch.setattr(lake.core.store, "get", get)
        told = PhalanxNamespace(lake).describe_table_version({"id": ["t"], "version": 2})
    assert told["version"]["manifest_size"] == late[0].stat().st_size
    assert ids(opened(lake, "t")) == [1, 2, 3]


def test_a_version_that_a_client_staged_is_created(lake: Lake, namespace: PhalanxNamespace) -> None:
    lake["t"].append(rows(3))
    request = appended(lake, "t", 4)
    assert ids(lake["t"]) == [1, 2, 3]
    told = namespace.create_table_version(spec.CreateTableVersionRequest(**request))
    assert told["version"]["version"] == 3
    assert told["transaction_id"] == str(lake.version)
    assert namespace.describe_table_version({"id": ["t"], "version": 3})["version"] == told["version"]
    assert ids(lake["t"]) == ids(opened(lake, "t")) == [1, 2, 3, 4]
    assert lake["t"].version == 3
    refused(lake, spec.ConcurrentModificationError, "is at version 3 already", namespace.create_table_version, request)


def test_what_cannot_be_created_is_refused_by_name(lake: Lake, namespace: PhalanxNamespace) -> None:
    """Wrong places, missing and damaged files, numbers that are not the next."""
    create = namespace.create_table_version
    request = appended(lake, "t", 3)
    place = folder(lake, "t")
    staged = Path("/", request["manifest_path"])
    data = staged.read_bytes()

    def given(content: bytes) -> dict[str, Any]:
        staged.with_name(f"{staged.name}-bad").write_bytes(content)
        return request | {"manifest_path": f"{request['manifest_path']}-bad"}

    outside = "is not in the folder of table 't'"
    (place.parent.parent / "stray.manifest").write_bytes(data)
    for path in (
        "/etc/passwd",
        "",
        "x",
        str(folder(lake, "u") / staged.name),
        f"{place}/../../stray.manifest",
        str(place),
    ):
        refused(lake, spec.InvalidInputError, outside, create, request | {"manifest_path": path})
    gone = request | {"manifest_path": f"{place}/_versions/none"}
    refused(lake, spec.InvalidInputError, "there is no manifest at", create, gone)
    for content in (
        b"",
        b"garbage",
        b"\xff" * 99 + b"LANC",
        data[:-1],
        data[1:],
        data[:-40] + data[-16:],
        data + data[:3],
    ):
        bad = given(content)
        before = everything(lake)
        with pytest.raises(spec.InvalidInputError, match="is no manifest"):
            create(bad)
        assert everything(lake) == before
        staged.with_name(f"{staged.name}-bad").unlink()
    refused(lake, spec.ConcurrentModificationError, "at version 1 already", create, request | {"version": 1})
    refused(lake, spec.ConcurrentModificationError, "at version 1 already", create, request | {"version": 0})
    refused(lake, spec.InvalidInputError, "cannot come after 1", create, request | {"version": 3})
    refused(lake, spec.InvalidInputError, "version is a number", create, request | {"version": "two"})
    refused(lake, spec.UnsupportedOperationError, "no branches", create, request | {"branch": "side"})
    create(request)
    assert ids(lake["t"]) == [1, 2, 3]


def test_a_version_whose_rows_are_not_there_is_refused(lake: Lake, namespace: PhalanxNamespace) -> None:
    """A client says that it wrote files that it did not write."""
    data = folder(lake, "t") / "data"
    lake.flush()
    opened(lake, "t")
    before = set(data.iterdir())
    request = appended(lake, "t", 3)
    for path in set(data.iterdir()) - before:
        path.unlink()
    refused(lake, spec.InvalidInputError, "is missing", namespace.create_table_version, request)


def test_versions_of_several_tables_are_created_together_or_not_at_all(lake: Lake, namespace: PhalanxNamespace) -> None:
    first, second = appended(lake, "t", 3), appended(lake, "u", 2)
    create = namespace.batch_create_table_versions
    taken = {"entries": [first, second | {"version": 1}]}
    refused(lake, spec.ConcurrentModificationError, "table 'u' is at version 1 already", create, taken)
    refused(lake, spec.TableNotFoundError, "no table 'x'", create, {"entries": [first, second | {"id": ["x"]}]})
    twice = {"entries": [first, first | {"version": 3}]}
    refused(lake, spec.InvalidInputError, "'t' is given two versions", create, twice)
    refused(lake, spec.InvalidInputError, "nothing to do", create, {"entries": []})
    before = lake.version
    entries = [spec.CreateTableVersionEntry(**one) for one in (second, first)]
    told = create(spec.BatchCreateTableVersionsRequest(entries=entries))
    assert lake.version == before + 1
    assert told.transaction_id == str(lake.version)
    assert [one.version for one in told.versions] == [2, 2]
    assert "/".join(Path(told.versions[0].manifest_path).parts[-3:]) == f"{lake['u'].id}/_managed/2.manifest"
    assert (ids(lake["t"]), ids(lake["u"])) == ([1, 2, 3], [1, 2])


def test_a_thousand_versions_are_deleted_in_one_entry(tmp_path: Path) -> None:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        lake.create_table("t", rows())
        writer = lake["t"]
        for number in range(1001):
            writer.append(rows(number))
        namespace = PhalanxNamespace(lake)
        namespace.describe_table_version({"id": ["t"], "version": 500})
        namespace.describe_table_version({"id": ["t"], "version": 1002})
        before = lake.version
        told = namespace.batch_delete_table_versions({"id": ["t"], "ranges": ranges((2, 1002))})
        assert told.deleted_count == 1000
        assert lake.version == before + 1
        assert told.transaction_id == str(lake.version)
        listed = namespace.list_table_versions({"id": ["t"]})["versions"]
        assert [one["version"] for one in listed] == [1, 1002]
        assert sorted(path.name for path in (folder(lake, "t") / "_managed").iterdir()) == ["1002.manifest"]
        assert ids(lake["t"]) == list(range(1001))


def test_a_deleted_version_is_not_read_and_its_snapshot_opens(lake: Lake, namespace: PhalanxNamespace) -> None:
    lake["t"].append(rows(3))
    position = lake.version
    lake["u"].append(rows(2))
    lake["t"].append(rows(4))
    assert ids(opened(lake, "t", 2)) == [1, 2, 3]
    namespace.batch_delete_table_versions({"id": ["t"], "ranges": ranges((2, 3))})
    snapshot = lake.snapshot(version=position)
    assert snapshot.tables() == ["t", "u"]
    assert ids(snapshot["u"]) == [1]
    with pytest.raises(VersionDeletedError, match="version 2 of table 't' was deleted"):
        snapshot["t"].to_arrow()
    for ask in (namespace.describe_table_version, namespace.describe_table):
        with pytest.raises(spec.TableVersionNotFoundError, match="version 2 of table 't' was deleted"):
            ask({"id": ["t"], "version": 2})
    with pytest.raises(ValueError, match="version 2 of table 't' was deleted"):
        opened(lake, "t", 2)
    assert [ids(opened(lake, "t", number)) for number in (1, 3)] == [[1, 2], [1, 2, 3, 4]]
    opened(lake, "t").insert(rows(5))
    assert ids(lake["t"]) == [1, 2, 3, 4, 5]
    with phalanx.open(lake.uri) as again, pytest.raises(VersionDeletedError):
        again.snapshot(version=position)["t"].to_arrow()


def test_one_version_that_must_stay_rejects_the_whole_deletion(lake: Lake, namespace: PhalanxNamespace) -> None:
    """The newest one, and one that a tag names; each is named, and so is what is in the way."""
    for number in range(3, 7):
        lake["t"].append(rows(number))
        if number == 4:
            lake.tag("release")
        lake["u"].append(rows(number))
    delete = namespace.batch_delete_table_versions

    def asked(name: str, *given: tuple[int, int]) -> dict[str, Any]:
        return {"id": [name], "ranges": ranges(*given)}

    state, tagged = spec.InvalidTableStateError, "version 3 of table 't' is named by tag 'release'"
    refused(lake, state, "version 5 of table 't' is its newest", delete, asked("t", (0, -1)))
    refused(lake, state, "version 5 of table 't' is its newest", delete, asked("t", (1, 2), (5, 6)))
    refused(lake, state, tagged, delete, asked("t", (1, 5)))
    refused(lake, state, tagged, delete, {"entries": [asked("u", (1, 2)), asked("t", (3, 4))]})
    refused(lake, spec.TableVersionNotFoundError, "has no versions 4 to 8", delete, asked("t", (4, 9)))
    refused(lake, spec.TableVersionNotFoundError, "no versions", delete, asked("t", (1, 1 << 60)))
    refused(lake, spec.InvalidInputError, "no version is in the range from 0 to 0", delete, asked("t", (0, 0)))
    refused(lake, spec.InvalidInputError, "no version is in the range from 3 to 3", delete, asked("t", (3, 3)))
    refused(lake, spec.InvalidInputError, "no versions are named", delete, asked("t"))
    refused(
        lake, spec.TableNotFoundError, "no table 'x'", delete, {"entries": [asked("u", (1, 2)), asked("x", (1, 2))]}
    )
    before = lake.version
    told = delete({"entries": [asked("t", (0, 3), (2, 3)), asked("u", (1, 2), (3, 5))]})
    assert told.deleted_count == 5
    assert lake.version == before + 1
    again = delete(spec.BatchDeleteTableVersionsRequest(id=["t"], ranges=ranges((0, 3))))  # type: ignore[arg-type]
    assert again.deleted_count == 0
    lake.untag("release")
    assert delete(asked("t", (0, 5))).deleted_count == 2
    assert [one["version"] for one in namespace.list_table_versions({"id": ["t"]})["versions"]] == [5]
    assert [one["version"] for one in namespace.list_table_versions({"id": ["u"]})["versions"]] == [2, 5]


def test_a_damaged_version_is_listed_as_damaged(
    lake: Lake, namespace: PhalanxNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """Never left out, whoever made it: a client, a bulk write, a restore."""
    opened(lake, "t").insert(rows(3))
    lake["t"].append(rows(4), stage=True)
    lake["t"].append(rows(5))
    opened(lake, "t").insert(rows(6))
    position = lake.version
    lake["t"].append(rows(7))
    lake.restore(version=position)
    whole = namespace.list_table_versions({"id": ["t"]})["versions"]
    assert not any("damaged" in one["metadata"] for one in whole)
    actions = {
        number: [
            action
            for one in lake.core.log.read(int(told["metadata"]["lake_version"])).transactions
            for action in one.actions
        ]
        for number, told in enumerate(whole, 1)
    }
    for number in (2, 3, 5, 7):
        [action] = [one for one in actions[number] if getattr(one, "table", None) == lake["t"].id]
        manifest = getattr(action, "head", None) or action.rows.manifest
        (folder(lake, "t") / manifest_name(manifest)).unlink(missing_ok=True)
    caplog.clear()
    with caplog.at_level("WARNING", "phalanx.namespace"):
        listed = namespace.list_table_versions({"id": ["t"], "descending": True})["versions"]
    assert [one["version"] for one in listed] == list(range(7, 0, -1))
    damaged = sorted(one["version"] for one in listed if "damaged" in one["metadata"])
    assert damaged == [2, 3, 5, 7]
    assert sorted(int(record.args[0]) for record in caplog.records) == damaged  # type: ignore[index,arg-type]
    assert "is missing" in caplog.text
    spec.ListTableVersionsResponse(versions=listed)


def test_a_client_that_only_kept_numbers_for_itself_made_no_version(lake: Lake, namespace: PhalanxNamespace) -> None:
    """Compaction asks for a version that changes nothing first; it is answered, and the lake does not move."""
    for number in range(3, 7):
        opened(lake, "t").insert(rows(number))
    request = stage(lake, "t", lambda table: table.optimize.compact_files())
    before = everything(lake)
    assert namespace.create_table_version(request)["version"]["version"] == 6
    assert everything(lake) == before
    opened(lake, "t").optimize.compact_files()
    assert ids(lake["t"]) == ids(opened(lake, "t")) == [1, 2, 3, 4, 5, 6]
