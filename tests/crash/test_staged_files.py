"""Nothing that an entry names may be lost with the power: files are synced before the entry is put (I3)."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from phalanx.clock import SYSTEM
from phalanx.lake import Lake, join
from phalanx.log import item as it
from phalanx.log.action import CreateTable, Settings
from phalanx.log.entry import decode
from phalanx.objects import Blob, Put, open_store
from phalanx.objects.local import LocalStore
from phalanx.tables.dataset import manifest_name
from phalanx.testing.wrapping import WrappedStore

ROWS = pa.table({"id": list(range(50)), "v": [0] * 50})


class Noting(WrappedStore):
    """Notes what was made durable, and what each entry needed that was not by the time it was put."""

    def __init__(self, inner: LocalStore) -> None:
        super().__init__(inner)
        self.durable: set[str] = set()
        self.missing: list[str] = []
        self.named = 0

    def persist(self, names: Iterable[str]) -> None:
        wanted = list(names)
        self.inner.persist(wanted)
        self.durable.update(wanted)

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        if name.startswith("log/"):
            for transaction in decode(data, name).transactions:
                for action in transaction.actions:
                    self._look(action)
        return super()._create(blob, name, data)

    def _look(self, action: object) -> None:
        rows = getattr(action, "rows", None)
        if isinstance(rows, it.Staged):
            self._need(action.table, rows.manifest)  # type: ignore[attr-defined]
        if isinstance(action, it.Flush | it.Rewrite):
            self._need(action.table, action.head)
        if isinstance(action, CreateTable):
            self._need(action.table, action.manifest)

    def _need(self, table: str, manifest: int) -> None:
        import lance

        folder = f"{self.uri}/tables/{table}"
        names = [manifest_name(manifest)]
        for fragment in lance.dataset(folder, version=manifest).get_fragments():
            names += [f"data/{file.path}" for file in fragment.metadata.files]
            gone = fragment.metadata.to_json().get("deletion_file")
            if gone is not None:
                suffix = "arrow" if gone["file_type"] == "array" else "bin"
                names.append(f"_deletions/{fragment.fragment_id}-{gone['read_version']}-{gone['id']}.{suffix}")
        self.named += len(names)
        self.missing += [name for name in names if f"tables/{table}/{name}" not in self.durable]
        assert all((Path(folder) / name).exists() for name in names)


def bulk_append(lake: Lake) -> None:
    lake["t"].append(ROWS, stage=True)


def bulk_upsert(lake: Lake) -> None:
    lake["k"].upsert(ROWS, stage=True)
    lake["k"].upsert(ROWS.slice(0, 7), stage=True)


def bulk_overwrite(lake: Lake) -> None:
    lake["t"].overwrite(ROWS, stage=True)


def transaction(lake: Lake) -> None:
    with lake.transaction() as txn:
        txn["t"].append(ROWS, stage=True)
        txn["t"].delete("id < 3")
        txn["k"].upsert(ROWS, stage=True)
        txn["k"].update({"v": "v + 1"}, "id < 9")


def flush(lake: Lake) -> None:
    lake["t"].append(ROWS, stage=True)
    lake["t"].append(ROWS)
    lake["t"].delete("id < 3")
    lake["k"].upsert(ROWS.slice(0, 4))
    lake.flush()


def optimize(lake: Lake) -> None:
    flush(lake)
    lake["t"].delete("id = 8")
    lake.optimize("t")


@pytest.mark.parametrize(
    "work", [bulk_append, bulk_upsert, bulk_overwrite, transaction, flush, optimize], ids=lambda one: one.__name__
)
def test_everything_an_entry_names_is_durable_before_it_is_put(tmp_path: Path, work: Callable[[Lake], None]) -> None:
    """Manifests, data files and deletion files, of every kind of staged work."""
    store = Noting(open_store(tmp_path / "lake"))  # type: ignore[arg-type]
    with join(store, SYSTEM, Settings(), timeout=30) as lake:
        lake.create_table("t", ROWS)
        lake.create_table("k", ROWS, key="id")
        lake.flush()
        before = store.named
        work(lake)
    assert store.named > before
    assert store.missing == []
