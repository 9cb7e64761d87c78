"""A small lake with every kind of object and file in it, and ways to damage each: what the tests of damage share."""

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from lance.dataset import LanceDataset
from lance_namespace import DescribeTableVersionRequest

import phalanx
from phalanx.catalog import State
from phalanx.clock import SYSTEM
from phalanx.contents import is_deleted
from phalanx.lake import Lake, join
from phalanx.log.action import Settings
from phalanx.namespace import PhalanxNamespace
from phalanx.objects import layout, open_store
from phalanx.tables.files import kind_of
from phalanx.tables.manifest import Manifest

SETTINGS = Settings(durability="os", checkpoint_every=4, remembered=500, grace=0.0)
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
WAYS = ("flipped", "cut", "zeroed", "swapped", "removed")

Rows = list[tuple[Any, ...]]
Held = dict[tuple[str, str], Rows]


@dataclass(frozen=True)
class Damage:
    """What is done to which object, and with which other one it is swapped."""

    kind: str
    name: str
    way: str
    seed: int
    other: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.way} (seed {self.seed}): {self.name}{' and ' + self.other if self.other else ''}"


def rows(first: int, count: int, chance: random.Random) -> pa.Table:
    """Rows whose every byte matters."""
    numbers = range(first, first + count)
    values = [chance.getrandbits(62) for _ in numbers]
    return pa.table({"id": numbers, "v": values, "s": [f"{value:x}" for value in values]}, schema=SCHEMA)


def build(folder: Path, *, checksums: str = "on") -> None:
    """Make the lake."""
    chance = random.Random(7)
    with join(open_store(folder), SYSTEM, SETTINGS, timeout=60.0, carry=False) as lake:
        lake.set_property("flush.background", "off")
        lake.set_property("checksums", checksums)
        keyed, quiet = lake.create_table("keyed", SCHEMA, key="id"), lake.create_table("quiet", SCHEMA)
        for number in range(2):
            quiet.append(rows(number * 10, 10, chance))
        keyed.append(rows(0, 400, chance), stage=True)
        lake.tag("old")
        keyed.create_index("v", kind="btree")
        keyed.upsert(rows(300, 200, chance), stage=True)
        lake.flush()
        keyed.delete("id < 20")
        lake.flush()
        lake.tag("older")
        keyed.append(rows(900, 50, chance))
        lake.prune(keep=3, protect=0)
        quiet.append(rows(100, 300, chance), stage=True)
        keyed.upsert(rows(0, 5, chance))
        lake.flush()
        keyed.delete("id % 50 = 1")
        quiet.delete("id = 3")
        lake.flush("quiet")
        keyed.upsert(rows(2000, 60, chance), stage=True)
        keyed.append(rows(5000, 3, chance))
        _materialise(lake)
    pins = folder / layout.PINS
    pins.mkdir(exist_ok=True)
    for number in range(2):
        name = str(layout.PinName("from", lake._log.view.position, f"{number:032x}", 600, 0))
        (folder / name).touch()


def _materialise(lake: Lake) -> Held:
    """What clients of the namespace are given of the newest versions."""
    found: Held = {}
    space = PhalanxNamespace(lake)
    for name in ("keyed", "quiet"):
        for version in (lake[name].version, lake[name].version - 1):
            told: Any = space.describe_table_version(DescribeTableVersionRequest(id=[name], version=version))
            manifest = Manifest.read(Path("/" + told["version"]["manifest_path"]).read_bytes(), name)
            uri = lake._core.datasets.uri(lake[name].id)
            found[name, f"for clients {version}"] = _sorted(
                LanceDataset(uri, serialized_manifest=manifest.message).to_table()
            )
    return found


def kinds(folder: Path) -> dict[str, list[str]]:
    """All objects of a lake by their kind."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        parts = name.split("/")
        kind = parts[0]
        if kind == layout.TABLES:
            kind = kind_of("/".join(parts[2:])).value
        elif layout.version_kept(name) is not None:
            kind = "kept version"
        found.setdefault(kind, []).append(name)
    return found


def planned(folder: Path, seed: int, count: int) -> list[Damage]:
    """Damages of every kind of object in every way, drawn by the seed."""
    chance = random.Random(seed)
    there = kinds(folder)
    last = there["log"][-1]  # whether the newest entry was ever there, nobody can say if it is gone as a whole
    made: list[Damage] = []
    while len(made) < count:
        for kind, names in there.items():
            for way in WAYS:
                name = chance.choice(names)
                empty = (folder / name).stat().st_size == 0
                if (way == "removed" and name == last) or (empty and way != "removed"):
                    continue
                other = chance.choice(names) if way == "swapped" else ""
                if way == "swapped" and (folder / name).read_bytes() == (folder / other).read_bytes():
                    continue
                made.append(Damage(kind, name, way, chance.getrandbits(32), other))
    return made


def damaged(source: Path, folder: Path, damage: Damage) -> Path:
    """A copy of a lake with one damage in it; what is whole is shared with the original."""
    shutil.copytree(source, folder, copy_function=os.link)
    chance = random.Random(damage.seed)
    data = bytearray((source / damage.name).read_bytes())
    if damage.way == "flipped":
        at = chance.randrange(len(data))
        data[at] ^= 1 << chance.randrange(8)
    elif damage.way == "cut":
        del data[chance.randrange(len(data)) :]
    elif damage.way == "zeroed":
        begin = chance.randrange(len(data))
        end = len(data) if chance.random() < 0.5 else min(len(data), begin + 64)
        data[begin:end] = bytes(end - begin)
    elif damage.way == "swapped":
        _replace(folder / damage.other, bytes(data))
        data = bytearray((source / damage.other).read_bytes())
    _replace(folder / damage.name, None if damage.way == "removed" else bytes(data))
    return folder


def _replace(path: Path, data: bytes | None) -> None:
    path.unlink()
    if data is not None:
        path.write_bytes(data)


def held(folder: Path) -> Held:
    """The rows of every table at every version that can be read, and as clients of the namespace are given it."""
    found: Held = {}
    with phalanx.open(folder) as lake:
        newest = lake.refresh()
        seen: dict[tuple[object, ...], Rows] = {}
        retained = newest.state.retained
        positions = [*retained.kept, *range(max(1, lake._log.oldest() - 1), newest.version + 1)]
        for position in positions:
            snapshot = lake.snapshot(version=position)
            for name, point in _points(snapshot.state):
                if point not in seen:
                    seen[point] = _sorted(snapshot[name].to_arrow())
                found[name, f"at {position}"] = seen[point]
        for name in newest.tables():
            contents = newest.state.contents[lake[name].id]
            for one in contents.versions.oldest_first():
                if not is_deleted(contents, one.version):
                    found[name, f"version {one.version}"] = _sorted(lake[name].at(one.version).to_arrow())
        return found | _materialise(lake)


def _points(state: State) -> Iterator[tuple[str, tuple[object, ...]]]:
    for name, table in state.tables.items():
        one = state.contents[table.id]
        yield ".".join(name), (table.id, one.version, one.generation, one.head.manifest, one.first, one.until)


def _sorted(found: pa.Table) -> Rows:
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
