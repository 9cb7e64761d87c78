"""A batch of operations of the namespace dies at any step, or fails at any request: all of it is there, or nothing.

The batch is over six tables: one is declared, three get versions that stock clients staged (one of them is written anew,
one is of a keyed table), one loses versions, one is deregistered.
"""

import contextlib
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import lance_namespace as spec
import pytest

import phalanx
from phalanx.clock import SYSTEM
from phalanx.lake import Lake, join
from phalanx.namespace import PhalanxNamespace
from phalanx.objects import layout, open_store
from phalanx.testing import Fault, FaultyStore, nth
from phalanx.testing.faults import PUT_FAULTS, Plan
from tests.crash.steps import AFTER, Death, Steps, dying, stepping
from tests.unit.stock import Held, Request, appended, held, ids, opened, rows

Seen = dict[str, tuple[int, list[int], Any]]
"""For each table its version, the versions that are listed, and its rows."""


class Source:
    """A lake to be copied, and the batch for it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with phalanx.open(path, create=True, durability="os") as lake:
            lake.set_property("flush.background", "off")
            for name, key in (("t", ()), ("k", "id"), ("old", ()), ("bye", ())):
                lake.create_table(name, rows(1, 2), key=key)
                lake.flush(name)
                lake[name].append(rows(3))
                lake[name].delete("id = 1")
            for version in (1, 2, 3):
                opened(lake, "old", version)
            self.operations: list[Request] = [
                {"declare_table": {"id": ["new"]}},
                {"create_table_version": appended(lake, "t", 9)},
                {"create_table_version": appended(lake, "k", 9)},
                {"create_table_version": first(lake, "fresh")},
                {"delete_table_versions": {"id": ["old"], "ranges": [{"start_version": 1, "end_version": 3}]}},
                {"deregister_table": {"id": ["bye"]}},
            ]
            self.before = seen(lake)
        left = (2, [1, 2, 3], [(2, 0), (3, 0)])
        assert self.before == {"bye": (3, *left[1:]), "fresh": (0, [], None), "k": (3, *left[1:]), "old": (3, *left[1:]), "t": (3, *left[1:])}  # fmt: skip
        more = (4, [1, 2, 3, 4], [(2, 0), (3, 0), (9, 0)])
        self.after: Seen = {"fresh": (1, [1], [(5, 0)]), "k": more, "new": (0, [], None), "old": (3, [3], left[2]), "t": more}  # fmt: skip

    def copy(self, to: Path) -> Path:
        """A lake of one's own."""
        return shutil.copytree(self.path, to)

    def run(self, lake: Lake) -> spec.BatchCommitTablesResponse:
        """The batch, on a copy."""
        was, now = str(self.path).lstrip("/"), str(lake.uri).lstrip("/")
        asked = [{kind: _moved(one, was, now) for kind, one in each.items()} for each in self.operations]
        return PhalanxNamespace(lake).batch_commit_tables({"operations": asked})


def _moved(request: Request, was: str, now: str) -> Request:
    if "manifest_path" not in request:
        return request
    return request | {"manifest_path": request["manifest_path"].replace(was, now)}


def first(lake: Lake, name: str) -> Request:
    """The first version of a table, in a form that the lake does not have, as a client staged it."""
    namespace = Held(lake)
    with contextlib.suppress(OSError):
        lance.write_dataset(rows(5), mode="create", namespace_client=namespace, table_id=[name])
    return namespace.asked[0]


def seen(lake: Lake) -> Seen:
    """What there is to be seen of a lake."""
    snapshot = lake.refresh()
    found: Seen = {}
    for name in snapshot.tables():
        listed = PhalanxNamespace(lake).list_table_versions({"id": [name]})["versions"]
        assert not any("damaged" in one["metadata"] for one in listed)
        version = snapshot.found(name).contents.version
        found[name] = (version, [one["version"] for one in listed], held(lake[name]) if version else None)
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    made = Source(tmp_path_factory.mktemp("source") / "lake")
    yield made
    shutil.rmtree(made.path)


def recover(source: Source, path: Path, *, done: bool | None) -> bool:
    """Open what is left; do the batch if it is not done; go on. Whether it was done."""
    with phalanx.open(path) as lake:
        found = seen(lake)
        assert found in (source.before, source.after), "neither all nor nothing"
        was = found == source.after
        assert done is None or was == done
        assert lake.check().whole
        if not was:
            position = lake.version
            source.run(lake)
            assert lake.version == position + 1
        assert seen(lake) == source.after
        for name in ("t", "k", "fresh"):
            wanted = [*ids(lake[name]), 20, 21]
            opened(lake, name).insert(rows(20))
            lake[name].append(rows(21))
            assert ids(opened(lake, name)) == ids(lake[name]) == wanted
        lake.flush()
        assert [ids(opened(lake, "t", version)) for version in (1, 2, 3, 4)] == [[1, 2], [1, 2, 3], [2, 3], [2, 3, 9]]
        lake.create_table("bye", rows(7))
        assert ids(opened(lake, "bye")) == [7]
        assert lake.check().whole
    return was


def survives(source: Source, path: Path, steps: Steps) -> bool:
    with stepping(path, steps) as lake:
        try:
            source.run(lake)
        except Death:
            return False
    return True


def test_a_batch_that_dies_at_any_step_is_there_as_a_whole_or_not_at_all(source: Source, tmp_path: Path) -> None:
    for number in range(1, 100):
        path, steps = source.copy(tmp_path / f"{number}"), dying(number)
        through = survives(source, path, steps)
        recover(source, path, done=AFTER in steps.names)
        if through:
            break
    assert number > 12, steps.names
    assert {"commit", "persist", "put tables", "put log", AFTER, "delete tables"} == set(steps.names)
    assert steps.names.count("put log") == 1
    assert {"put tables", "delete tables"} == set(steps.names[steps.names.index(AFTER) + 1 :])


def faulty(path: Path, plan: Plan, timeout: float = 30) -> tuple[Lake, FaultyStore]:
    store = FaultyStore(open_store(path), plan)
    return join(store, SYSTEM, None, timeout=timeout), store


@pytest.mark.parametrize("fault", PUT_FAULTS)
def test_a_doubtful_put_of_the_entry_is_settled(source: Source, tmp_path: Path, fault: Fault) -> None:
    """Whatever the store says of it, the batch lands once."""
    path = source.copy(tmp_path / "lake")
    lake, store = faulty(path, nth("put", 1, fault, layout.LOG))
    position = lake.version
    told = source.run(lake)
    assert [struck for struck, _ in store.struck] == [fault]
    store.land_late_puts()
    assert told.transaction_id == str(position + 1) == str(lake.version)
    lake.close()
    recover(source, path, done=True)


@pytest.mark.parametrize("fault", [Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.LATE])
def test_an_outcome_that_stays_unknown_is_called_unknown(source: Source, tmp_path: Path, fault: Fault) -> None:
    """As an internal error, which Lance takes for what it is; whoever looks later finds all or nothing."""
    path = source.copy(tmp_path / "lake")
    struck = []

    def plan(call: str, name: str) -> Fault | None:
        if call == "put" and name.startswith(layout.LOG):
            struck.append(name)
            return fault
        return Fault.UNREADABLE if struck and call in ("get", "list") else None

    lake, store = faulty(path, plan, timeout=1)
    with pytest.raises(spec.InternalError, match="cannot say whether the change was committed"):
        source.run(lake)
    store.plan = lambda *_: None
    store.land_late_puts()
    lake.close()
    recover(source, path, done=fault is not Fault.ERROR_BEFORE)


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.ERROR_BEFORE, Fault.ERROR_AFTER])
def test_a_put_that_fails_leaves_all_or_nothing(
    source: Source, tmp_path: Path, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the entry the batch is refused; after it, what is left is made up for by whoever asks next."""
    caplog.set_level(logging.WARNING, "phalanx.namespace")
    refused = late = 0
    for number in range(1, 100):
        path = source.copy(tmp_path / f"{number}")
        lake, store = faulty(path, nth("put", number, fault, layout.TABLES))
        caplog.clear()
        try:
            source.run(lake)
        except spec.LanceNamespaceError:
            refused += 1
            recover(source, path, done=False)
        else:
            late += bool(caplog.records)
            recover(source, path, done=True)
        lake.close()
        if not store.struck:
            break
    assert refused >= 2
    assert late == 3, "versions of three tables are written out after the entry"


@pytest.mark.parametrize("call", ["get", "list", "delete"])
def test_a_request_that_fails_leaves_all_or_nothing(source: Source, tmp_path: Path, call: str) -> None:
    done = set()
    for number in range(1, 200):
        path = source.copy(tmp_path / f"{number}")
        lake, store = faulty(path, nth(call, number, Fault.UNREADABLE, layout.TABLES))
        try:
            source.run(lake)
        except spec.LanceNamespaceError:
            done.add(recover(source, path, done=False))
        else:
            done.add(recover(source, path, done=True))
        lake.close()
        if not store.struck:
            break
    assert number > 1
    assert done == ({True} if call == "delete" else {True, False})
