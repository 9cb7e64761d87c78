"""Stock Lance clients of a lake, and versions that they stage and do not create yet."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.dataset import LanceDataset

from phalanx import Lake
from phalanx.namespace import PhalanxNamespace

Request = dict[str, Any]
Rows = list[tuple[Any, ...]]


class Held(PhalanxNamespace):
    """A namespace that keeps what clients ask to be created, and does not create it."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake)
        self.asked: list[Request] = []

    def create_table_version(self, request: Any) -> Any:
        self.asked.append(dict(request))
        raise RuntimeError("not now")


def rows(*ids: int, v: int = 0) -> pa.Table:
    """Rows with these ids."""
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids), pa.int64())})


def opened(lake: Lake, name: str, version: int | None = None) -> LanceDataset:
    """A table as a stock client opens it."""
    return lance.dataset(namespace_client=PhalanxNamespace(lake), table_id=name.split("."), version=version)


def stage(lake: Lake, name: str, write: Callable[[LanceDataset], Any]) -> Request:
    """A version that a real client staged: the request with which it would have been created."""
    namespace = Held(lake)
    table = lance.dataset(namespace_client=namespace, table_id=name.split("."))
    with contextlib.suppress(OSError):
        write(table)
    return namespace.asked[0]


def appended(lake: Lake, name: str, *ids: int) -> Request:
    """A staged version with more rows."""
    return stage(lake, name, lambda table: table.insert(rows(*ids)))


def folder(lake: Lake, name: str) -> Path:
    """Where a table is."""
    return Path(lake.core.datasets.uri(lake[name].id))


def held(table: Any) -> Rows:
    """Rows of a table of the lake, or of a dataset, sorted."""
    found = table.to_arrow() if hasattr(table, "to_arrow") else table.to_table()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def ids(table: Any) -> list[int]:
    """The ids of a table's rows, sorted."""
    return [row[0] for row in held(table)]


def everything(lake: Lake) -> dict[str, Any]:
    """Whatever can be seen of a lake: its version, its tables, their versions, rows and what was deleted."""
    snapshot = lake.refresh()
    namespace = PhalanxNamespace(lake)
    tables = {}
    for name in snapshot.tables():
        found = snapshot.found(name)
        listed = namespace.list_table_versions({"id": name.split(".")})["versions"]
        seen = [(one["version"], one.get("metadata")) for one in listed]
        tables[name] = (found.table, found.contents, seen, held(lake[name]) if found.contents.version else None)
    return {"version": snapshot.version, "state": snapshot.view.state, "tables": tables}
