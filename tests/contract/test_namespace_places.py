"""Stock clients of a lake on object storage: places, credentials and manifests are told as Lance wants them."""

import lance
import lancedb
import pytest

import phalanx
from phalanx.namespace import PhalanxNamespace
from tests.unit.stock import appended, ids, opened, rows


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_stock_clients_write_on_object_storage(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(f"{kind}_server")
    uri = server.uri(f"deep/er/clients of {kind}")
    with phalanx.open(uri, create=True, storage_options=server.options) as lake:
        lake.create_table("t", rows(1, 2))
        lake.create_table("k", rows(1, 2), key="id")
        lake["t"].append(rows(3))
        namespace = PhalanxNamespace(lake)
        assert ids(opened(lake, "t")) == [1, 2, 3]
        opened(lake, "t").insert(rows(4))
        opened(lake, "t").delete("id = 1")
        merge = opened(lake, "k").merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows(2, 3, v=5))
        opened(lake, "t").optimize.compact_files()
        lance.write_dataset(rows(1), mode="create", namespace_client=namespace, table_id=["new"])
        lake["new"].append(rows(2))
        batch = [{"create_table_version": appended(lake, name, 9)} for name in ("t", "k")]
        namespace.batch_commit_tables({"operations": batch})
        namespace.batch_delete_table_versions({"id": ["t"], "ranges": [{"start_version": 1, "end_version": 4}]})
        listed = namespace.list_table_versions({"id": ["t"]})["versions"]
        assert [one["version"] for one in listed] == [4, 5, 6]
        wanted = {"t": [2, 3, 4, 9], "k": [1, 2, 3, 9], "new": [1, 2]}
        assert {name: ids(lake[name]) for name in wanted} == wanted
        assert {name: ids(opened(lake, name)) for name in wanted} == wanted
        lake.flush()
        assert lake.check().whole
    other = lancedb.connect_namespace("phalanx.namespace.PhalanxNamespace", {"uri": uri, **server.options})
    assert {name: ids(other.open_table(name)) for name in wanted} == wanted
