"""The namespace beside upkeep: versions that were kept, versions that are read, clients that stand on what was rewritten."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import phalanx
from phalanx import Lake
from phalanx.namespace import PhalanxNamespace, materialise
from phalanx.txn.core import Core
from phalanx.upkeep import prune as pruning
from phalanx.upkeep.garbage import File
from tests.unit.stock import everything, ids, opened, rows


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


def refused(lake: Lake, namespace: PhalanxNamespace, asked: dict[str, Any]) -> None:
    """Versions are not deleted while somebody reads them, and nothing else happens either."""
    before = everything(lake)
    with pytest.raises(Exception, match="is pinned by a running reader"):
        namespace.batch_delete_table_versions(asked)
    assert everything(lake) == before


def test_versions_below_the_floor_are_not_damaged(lake: Lake, namespace: PhalanxNamespace) -> None:
    """When they were made is not known any more: that is all."""
    for number in range(3):
        lake["t"].append(rows(10 + number))
    for number in range(20):
        lake["u"].append(rows(number))
    lake.core.pins.renew()
    lake.prune(keep=4, protect=0)
    told = namespace.list_table_versions({"id": ["t"]})["versions"]
    assert [one["version"] for one in told] == [1, 2, 3, 4]
    assert not [one for one in told if "damaged" in one["metadata"]]
    assert len(ids(opened(lake, "t"))) == 5


def test_what_anybody_reads_from_is_not_deleted(lake: Lake, namespace: PhalanxNamespace) -> None:
    """By the same handle, and by one that began before the table was there."""
    with phalanx.open(lake.uri) as other:
        since = other.version
        lake.create_table("late", rows(1))
        for number in range(3):
            lake["late"].append(rows(number + 2))
        feed = other.changes("late", since)
        asked = {"id": ["late"], "ranges": [{"start_version": 1, "end_version": 3}]}
        refused(lake, namespace, asked)
        assert feed.read_all().num_rows == 4
        del feed
        other.core.pins.renew()
        with lake.transaction() as txn:
            assert txn["late"].count() == 4
            snapshot = lake.snapshot(version=lake.version)
            lake["late"].append(rows(50))
            lake["late"].append(rows(51))
            asked = {"id": ["late"], "ranges": [{"start_version": 4, "end_version": 5}]}
            refused(lake, namespace, asked)
            assert snapshot["late"].count() == 4


@pytest.mark.parametrize("how", ["optimize", "tail"])
def test_a_client_goes_on_after_upkeep(lake: Lake, namespace: PhalanxNamespace, how: str) -> None:
    """What it stands on was rewritten, or written out for it, and something newer was pruned: it can add rows all the same."""
    table = lake.create_table("late", pa.table({"id": pa.array([0])}))
    for number in range(3):
        lance.dataset(namespace_client=namespace, table_id=["late"]).insert(pa.table({"id": pa.array([number + 1])}))
    if how == "tail":
        table.append([{"id": 10}])
        assert lance.dataset(namespace_client=namespace, table_id=["late"]).count_rows() == 5
        lake.flush("late")
    else:
        assert lake.optimize("late")["late"].rewritten
    before = table.count()
    garbage = lake.create_table("garbage", pa.table({"id": pa.array([0])}))
    for number in range(2):
        garbage.overwrite(pa.table({"id": pa.array([number])}), stage=True)
    time.sleep(2.1)  # files this much older than a pin are not taken for its own
    gc.collect()
    lake.core.overlays._written.clear()  # as after five minutes
    lake.core.pins.renew()
    assert lake.prune(keep=1, unconditional=True).files
    lance.dataset(namespace_client=namespace, table_id=["late"]).insert(pa.table({"id": pa.array([99])}))
    assert table.count() == before + 1
    assert lake.check().whole


def test_a_version_for_clients_that_is_put_while_prune_looks_loses_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is made of is listed before it is there itself, and whoever put it is gone when pins are listed."""
    lake["t"].overwrite(rows(1, 2, 3), stage=True)
    lake["t"].append(rows(10))
    keep, listed = materialise.keep, pruning._Run._listed
    pruned: list[pruning.Pruned] = []

    def prune_first(core: Core, name: str, data: bytes) -> bytes:
        def put_then(run: pruning._Run) -> Iterator[File]:
            yield from listed(run)
            keep(core, name, data)
            other.close()

        with monkeypatch.context() as patch:
            patch.setattr(pruning._Run, "_listed", put_then)
            pruned.append(lake.prune(keep=1, unconditional=True))
        return data

    monkeypatch.setattr(materialise, "keep", prune_first)
    with phalanx.open(lake.uri) as other:
        PhalanxNamespace(other).describe_table_version({"id": ["t"], "version": lake["t"].version})
    assert pruned[0].files
    assert lake.check(deep=True).problems == ()
    assert ids(opened(lake, "t")) == [1, 2, 3, 10]
