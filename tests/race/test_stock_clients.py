"""Stock pylance and LanceDB processes beside processes that write through the lake: the rows are exactly right."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

import phalanx
from phalanx import Lake
from phalanx.namespace import PhalanxNamespace
from tests.race import clients
from tests.race.crew import together

NAMESPACE = "phalanx.namespace.PhalanxNamespace"


def made(path: Path) -> str:
    """A lake with an unkeyed and a keyed table of 100 rows, which is flushed every few changes."""
    with phalanx.open(path, create=True, durability="os") as lake:
        lake.set_property("flush.rows", "20")
        for name, key in (("t", ()), ("k", "id")):
            lake.create_table(name, clients.rows(*range(100)), key=key)
    return str(path)


def pairs(found: pa.Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["v"]) for row in found.to_pylist())


def seen(uri: str, name: str) -> list[tuple[int, int]]:
    """The rows of a table, which are the same by whatever door."""
    with phalanx.open(uri) as lake:
        found = pairs(lake[name].to_arrow())
        namespace = PhalanxNamespace(lake)
        assert pairs(clients.opened(namespace, name).to_table()) == found, "as stock Lance reads it"
        other = lancedb.connect_namespace(NAMESPACE, {"uri": uri})
        assert pairs(other.open_table(name).to_arrow()) == found, "as LanceDB reads it"
        lake.flush(name)
        assert pairs(lake[name].to_arrow()) == found, "after a flush"
        assert pairs(clients.opened(namespace, name).to_table()) == found, "as stock Lance reads it after a flush"
        assert lake.check().whole
    return found


def test_stock_clients_of_all_kinds_beside_the_lake(tmp_path: Path) -> None:
    """Four append, one deletes, one merges, one compacts and indexes; two write through the lake, one in bulk."""
    appenders, writers, each, written = 4, 2, 2, 12
    uri = made(tmp_path / "lake")
    jobs: list[Any] = [(clients.appends, (number, each)) for number in range(appenders)]
    jobs += [(clients.deletes, (each,)), (clients.merges, (each,)), (clients.maintains, (each,))]
    jobs += [(clients.upserts, (number, written, 0.15)) for number in range(writers)]
    jobs += [(clients.stages, (2 * each, 0.3))]
    begun = time.monotonic()
    told = together(uri, jobs)
    print(f"{time.monotonic() - begun:.1f} s: {'; '.join(sorted(told))}")
    unkeyed, keyed = clients.expected(appenders, writers, each, written)
    bulk = {6000 + turn: 3 for turn in range(2 * each)}
    assert seen(uri, "t") == sorted((unkeyed | bulk).items())
    assert seen(uri, "k") == sorted((keyed | bulk | {60 + turn: 3 for turn in range(2 * each)}).items())


def insists(write: Callable[[], Any], again: Callable[[], Any]) -> None:
    """A LanceDB program that lost looks at the newest version and repeats what it did."""
    for _ in range(clients.TRIES):
        try:
            write()
        except (OSError, ValueError, RuntimeError) as error:
            if not clients.lost(error):
                raise
            again()
        else:
            return
    raise AssertionError("it never got through")


def program(lake: Lake, each: int) -> int:
    """What a LanceDB program does, on a table of its own first, then on those that others write to."""
    db = lancedb.connect_namespace(NAMESPACE, {"uri": lake.uri})
    vectors = [[float(one), 1.0] for one in range(8)]
    data = clients.rows(*range(8)).append_column("e", pa.array(vectors, pa.list_(pa.float32(), 2)))
    own = db.create_table("own", data)
    own.add(data.slice(0, 1).set_column(0, "id", pa.array([8], pa.int64())))
    own.delete("id = 0")
    own.update(where="id = 1", values={"v": 5})
    own.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data.slice(2, 1))
    assert pairs(own.search([7.0, 1.0]).limit(1).to_arrow()) == [(7, 0)]
    assert pairs(own.search().where("id < 3").to_arrow()) == [(1, 5), (2, 0)]
    own.create_scalar_index("id")
    own.optimize()
    assert pairs(db.open_table("own").to_arrow()) == pairs(lake["own"].to_arrow())
    assert db.open_table("own").count_rows() == 8
    for name in clients.TABLES:
        table = db.open_table(name)
        for turn in range(each):
            merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            insists(lambda: merge.execute(clients.rows(20 + turn, 9000 + turn, v=1)), table.checkout_latest)  # noqa: B023
            insists(lambda: table.delete(f"id = {turn}"), table.checkout_latest)  # noqa: B023
            insists(lambda: table.update(where=f"id = {10 + turn}", values={"v": 6}), table.checkout_latest)  # noqa: B023
    db.drop_table("own")
    return 0


def test_a_lancedb_program_beside_the_lake(tmp_path: Path) -> None:
    """Everything that such a program does is in the lake, and what the lake's writers do is not lost."""
    uri, each, written = made(tmp_path / "lake"), 2, 12
    begun = time.monotonic()
    together(uri, [(program, (each,)), *((clients.upserts, (number, written, 0.3)) for number in range(2))])
    print(f"{time.monotonic() - begun:.1f} s")
    unkeyed, keyed = clients.expected(0, 2, each, written)
    updated = dict.fromkeys(range(10, 10 + each), 6)
    assert seen(uri, "t") == sorted((unkeyed | updated).items())
    assert seen(uri, "k") == sorted((keyed | updated).items())
    with phalanx.open(uri) as lake:
        assert lake.tables() == ["k", "t"]


@pytest.mark.parametrize("threads", [4])
def test_clients_of_one_namespace_in_threads(tmp_path: Path, threads: int) -> None:
    """A namespace may be used from many threads; clients that lose try again, and nobody waits for another for ever."""
    uri = made(tmp_path / "lake")
    with phalanx.open(uri) as lake, ThreadPoolExecutor(threads) as pool:
        namespace = PhalanxNamespace(lake)

        def work(number: int) -> None:
            for turn in range(3):
                one = 1000 + 10 * number + turn
                clients.insist(
                    namespace,
                    "k",
                    lambda table: clients.quickly(table, clients.rows(one)),  # noqa: B023
                    lambda table: table.count_rows(f"id = {one}") == 1,  # noqa: B023
                )

        list(pool.map(work, range(threads)))
    wanted = [*range(100), *(1000 + 10 * number + turn for number in range(threads) for turn in range(3))]
    assert seen(uri, "k") == [(one, 0) for one in wanted]
