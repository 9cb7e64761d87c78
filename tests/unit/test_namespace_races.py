"""A client's version and a change of the lake that cross: whichever lands second stands on the other."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, LanceOperation
from lance.fragment import write_fragments

import phalanx
from phalanx import ConflictError, Lake
from tests.unit.stock import held, ids, opened, rows


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        for name, key in (("t", ()), ("k", "id")):
            lake.create_table(name, rows(100, 1), key=key)
            lake.flush(name)
        yield lake


def first(lake: Lake, work: Callable[[], Any], then: Callable[[], Any]) -> Any:
    """Something that happens after `then` was planned, right before it is committed."""
    commit, done = lake.core.committer.commit, []

    def late(intent: Any) -> int:
        if not done:
            done.append(True)
            work()
        return commit(intent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake.core.committer, "commit", late)
        answer = then()
    assert done
    return answer


def renumbered(lake: Lake, name: str) -> LanceDataset:
    """A client's dataset in which rows have other row ids than in the head, although both are the same version.

    It was written out with a tail of which a flush under way has only seen a part.
    """
    lake[name].append(rows(2, 3, 4))
    client = []

    def between() -> None:
        lake[name].delete("id = 2")
        client.append(opened(lake, name))

    first(lake, between, lambda: lake.flush(name))
    lake.flush(name)
    return client[0]


STATEMENTS: dict[str, tuple[str, Callable[[Lake], Any], list[tuple[int, int]]]] = {
    "a small upsert": ("k", lambda lake: lake["k"].upsert(rows(3, v=33)), [(1, 0), (3, 33), (4, 0), (7, 0), (8, 0), (100, 0)]),
    "a delete": ("t", lambda lake: lake["t"].delete("id = 3"), [(1, 0), (4, 0), (7, 0), (8, 0), (100, 0)]),
    "an update": (
        "t",
        lambda lake: lake["t"].update({"v": "10 / id"}, "id = 3"),
        [(1, 0), (3, 3), (4, 0), (7, 0), (8, 0), (100, 0)],
    ),
    "a staged append": (
        "t",
        lambda lake: lake["t"].append(rows(9), stage=True),
        [(1, 0), (3, 0), (4, 0), (7, 0), (8, 0), (9, 0), (100, 0)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", STATEMENTS)
def test_a_change_that_lands_behind_a_clients_version_keeps_both(lake: Lake, kind: str) -> None:
    name, change, wanted = STATEMENTS[kind]
    client = renumbered(lake, name)
    first(lake, lambda: client.insert(rows(7, 8)), lambda: change(lake))
    assert held(lake[name]) == held(opened(lake, name)) == wanted
    lake.flush(name)
    assert held(lake[name]) == wanted
    assert lake.check().whole


@pytest.mark.parametrize("kind", ["a staged upsert", "an optimize"])
def test_what_was_staged_on_other_row_ids_lands_behind_a_clients_version(lake: Lake, kind: str) -> None:
    """Row ids and numbers of fragments mean other rows in the client's version (rule C6)."""
    client = renumbered(lake, "k")
    upsert = kind == "a staged upsert"
    first(
        lake,
        lambda: client.insert(rows(7, 8)),
        lambda: lake["k"].upsert(rows(3, v=33), stage=True) if upsert else lake.optimize("k"),
    )
    assert held(lake["k"]) == [(1, 0), (3, 33 if upsert else 0), (4, 0), (7, 0), (8, 0), (100, 0)]


@pytest.mark.parametrize("name", ["t", "k"], ids=["unkeyed", "keyed"])
def test_a_transaction_conflicts_with_a_clients_version(lake: Lake, name: str) -> None:
    """The table was replaced as a whole; run again, it stands on the client's rows."""
    client = renumbered(lake, name)
    txn = lake.transaction()
    txn[name].update({"v": "v + 1"}, "id = 3")
    client.insert(rows(7))
    with pytest.raises(ConflictError):
        txn.commit()
    lake.run(lambda txn: txn[name].update({"v": "v + 1"}, "id = 3"))
    assert held(lake[name]) == [(1, 0), (3, 1), (4, 0), (7, 0), (100, 0)]


@pytest.mark.parametrize("name", ["t", "k"], ids=["unkeyed", "keyed"])
def test_a_stale_client_is_refused(lake: Lake, name: str) -> None:
    """Whatever it does: the lake has changed the table since."""
    stale = opened(lake, name)
    lake[name].append(rows(2))
    append = LanceOperation.Append(write_fragments(rows(9), stale))
    with pytest.raises(OSError, match="Commit conflict for version 2"):
        LanceDataset.commit(stale, append, read_version=1, max_retries=1)
    assert ids(lake[name]) == ids(opened(lake, name)) == [1, 2, 100]


def test_upkeep_is_no_change_to_a_client(lake: Lake) -> None:
    """A client that opened the table before it was flushed, rewritten and indexed writes on."""
    for name in ("t", "k"):
        for number in range(2, 6):
            lake[name].append(rows(number))
            lake.flush(name)
        lake[name].append(rows(6))
        client = opened(lake, name)
        lake.flush(name)
        lake.optimize(name)
        lake[name].create_index("v", name="by_v")
        client.insert(rows(7))
        assert ids(lake[name]) == ids(opened(lake, name)) == [1, 2, 3, 4, 5, 6, 7, 100]
        lake[name].append(rows(8))
        lake.optimize(name)
        assert ids(lake[name]) == ids(opened(lake, name)) == [1, 2, 3, 4, 5, 6, 7, 8, 100]
        assert lake[name].to_arrow(where="v = 0").num_rows == 9
        assert lake.check().whole


def test_a_clients_overwrite_begins_row_ids_anew_and_harms_nobody(lake: Lake) -> None:
    client = renumbered(lake, "k")
    first(
        lake,
        lambda: client.insert(pa.table({"id": [7, 8, 9], "v": [0, 0, 0]}), mode="overwrite"),
        lambda: lake["k"].upsert(rows(1, 3, v=33), stage=True),
    )
    assert held(lake["k"]) == held(opened(lake, "k")) == [(1, 33), (3, 33), (7, 0), (8, 0), (9, 0)]
