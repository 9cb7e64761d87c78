"""Sizes and checksums of staged files: noted before an entry names them, kept as long as one of the files is."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.clock import SYSTEM
from phalanx.errors import CorruptionError, InvalidInputError
from phalanx.lake import join
from phalanx.objects import Blob, Put, Sum, open_store
from phalanx.tables import sums
from phalanx.tables.files import Kind, kind_of
from phalanx.testing import CountingStore
from phalanx.testing.wrapping import WrappedStore
from phalanx.upkeep.garbage import Why
from tests.unit.pruning import BULK, SETTINGS, Ground, bulk, few, grown

STAGED = {Kind.DATA, Kind.DELETIONS, Kind.INDEX, Kind.MANIFEST}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


def noted(folder: Path) -> dict[str, Sum]:
    """All that is noted of the files of one table."""
    found: dict[str, Sum] = {}
    for path in sorted((folder / sums.FOLDER).glob("d*")):
        found |= sums.decode(path.read_bytes(), folder.name, f"{sums.FOLDER}/{path.name}").files
    return found


def staged(folder: Path) -> set[str]:
    """The files of one table whose kind is staged."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if kind_of(name) in STAGED}


def everything(ground: Ground) -> Path:
    """A table that has had each kind of staged file, by each way to stage one."""
    table = grown(ground, 3)
    table.create_index("v", kind="btree")
    table.delete("id % 3 = 0")
    ground.lake.flush()
    table.add_column("w", "int64")
    table.upsert(few(1, 2))
    ground.lake.flush()
    table.upsert(bulk(0, 9), stage=True)
    ground.lake.optimize(cluster_by="v")
    return ground.folder / "tables" / table.id


def test_every_file_that_is_staged_is_noted_as_it_is(ground: Ground) -> None:
    folder = everything(ground)
    found, there = noted(folder), staged(folder)
    ground.lake.prune(keep=1, unconditional=True)
    for name in staged(folder):
        data = (folder / name).read_bytes()
        assert found[name] == Sum(len(data), hashlib.sha256(data).digest())
    assert {kind_of(name) for name in there & set(found)} == STAGED
    assert set(noted(folder)) >= staged(folder), "prune keeps what is still of use"


class Watching(WrappedStore):
    """Notes what an entry needed that nobody had noted by the time it was put."""

    def __init__(self, folder: Path) -> None:
        super().__init__(open_store(folder))
        self.folder = folder
        self.entries = 0

    def _create(self, blob: Blob, name: str, data: bytes) -> Put:
        if name.startswith("log/"):
            self.entries += 1
            for manifest in self.folder.glob("tables/*/_versions/d*.manifest"):
                if manifest.stem[1:] in str(data):
                    assert (manifest.parents[1] / "_sums" / manifest.stem).exists()
        return super()._create(blob, name, data)


def test_it_is_noted_before_the_entry_that_names_it(tmp_path: Path) -> None:
    store = Watching(tmp_path / "lake")
    with join(store, SYSTEM, SETTINGS, timeout=20.0, carry=False) as lake:
        table = lake.create_table("t", few(1, 2))
        table.append(bulk(10))
        lake.flush()
    assert store.entries >= 3
    assert len(list(tmp_path.glob("lake/tables/*/_sums/d*"))) == len(list(tmp_path.glob("lake/tables/*/_versions/d*")))


def test_a_property_turns_it_off_and_where_it_costs_requests_on(tmp_path: Path) -> None:
    for remote, says, expected in [(False, None, True), (False, "off", False), (True, None, False), (True, "on", True)]:
        folder = tmp_path / f"{remote}-{says}"
        store = CountingStore(open_store(folder), remote=remote)
        with join(store, SYSTEM, SETTINGS, timeout=20.0, carry=False) as lake:
            lake.set_property(sums.PROPERTY, says)
            lake.create_table("t", bulk(0))
        assert bool(list(folder.glob("tables/*/_sums/*"))) == expected
    with pytest.raises(InvalidInputError, match="checksums is on or off"):
        Ground(tmp_path / "other").lake.set_property(sums.PROPERTY, "maybe")


def test_notes_stay_while_one_of_their_files_does_and_go_with_the_last(ground: Ground) -> None:
    table = grown(ground, 3)
    folder = ground.folder / "tables" / table.id
    ground.lake.flush()
    table.append(few(1))
    ground.lake.prune(keep=1, unconditional=True)
    assert len(list(folder.glob("_versions/d*"))) == 1, "the manifests of the appends are gone, their rows are not"
    assert {name for name in noted(folder) if name.startswith("data/")} == {
        name for name in staged(folder) if name.startswith("data/")
    }
    assert len(list(folder.glob("_sums/*"))) > 1
    assert not ground.lake.prune(keep=1, unconditional=True).files
    before = set(folder.glob("_sums/*"))
    table.overwrite(bulk(0))
    ground.lake.flush()
    table.append(few(1))
    ground.lake.prune(keep=1, unconditional=True)
    assert not before & set(folder.glob("_sums/*"))
    assert table.count() == BULK


def test_prune_leaves_notes_that_cannot_be_read_and_says_so(ground: Ground) -> None:
    """Doubt deletes nothing (I9)."""
    table = grown(ground, 3)
    for path in (ground.folder / "tables" / table.id / "_sums").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = ground.lake.prune(keep=1, unconditional=True)
    left = {one.why for one in done.kept_files if one.name.startswith("_sums/")}
    assert left == {Why.DAMAGED, Why.REACHED}


def test_whatever_is_wrong_with_notes_is_found(ground: Ground) -> None:
    name = sums.sums_name(1 << 63)
    good = sums.encode(sums.Sums("a" * 32, 1 << 63, {"data/x.lance": Sum(7, bytes(32))}))
    assert sums.decode(good, "a" * 32, name).files["data/x.lance"].size == 7
    for at in range(len(good)):
        flipped = bytearray(good)
        flipped[at] ^= 4
        with pytest.raises(CorruptionError):
            sums.decode(bytes(flipped), "a" * 32, name)
    for data, table, told in (
        (b"", "a" * 32, name),
        (bytes(len(good)), "a" * 32, name),
        (good[:-3], "a" * 32, name),
        (good, "b" * 32, name),
        (good, "a" * 32, sums.sums_name((1 << 63) + 1)),
    ):
        with pytest.raises(CorruptionError):
            sums.decode(data, table, told)
