"""Stock Lance clients as processes: they open a table by name, write, and when they lost, open it again and repeat.

After an unknown outcome a client looks whether its work is there before it repeats it, as any client has to.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
from lance.dataset import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from phalanx import Lake
from phalanx.namespace import PhalanxNamespace

TABLES = ("t", "k")
TRIES = 200
_LOST = ("Commit conflict", "is unknown", "commit conflict", "Too many concurrent writers", "retry_timeout")

Write = Callable[[LanceDataset], Any]
There = Callable[[LanceDataset], bool]


def rows(*ids: int, v: int = 0) -> pa.Table:
    """Rows with these ids."""
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids), pa.int64())})


def opened(namespace: PhalanxNamespace, name: str) -> LanceDataset:
    """A table as a stock client opens it."""
    return lance.dataset(namespace_client=namespace, table_id=[name])


def lost(error: Exception) -> bool:
    """Whether a client was told that it lost a race, or may have."""
    return any(word in str(error) for word in _LOST)


def insist(namespace: PhalanxNamespace, name: str, write: Write, there: There, tries: int = TRIES) -> int:
    """Write until it is there; how often it was lost."""
    for times in range(tries):
        table = opened(namespace, name)
        if times and there(table):
            return times
        try:
            write(table)
        except (OSError, ValueError, RuntimeError) as error:
            if not lost(error):
                raise
        else:
            return times
    raise AssertionError(f"lost {tries} times on {name}")


def quickly(table: LanceDataset, data: pa.Table) -> None:
    """Append without the 20 tries that a stale client makes over several seconds."""
    LanceDataset.commit(table, LanceOperation.Append(write_fragments(data, table)), table.version, max_retries=1)


def appends(lake: Lake, number: int, each: int) -> str:
    """Rows of its own, to both tables; one of these processes does it in the plainest way."""
    namespace, times = PhalanxNamespace(uri=lake.uri), 0
    begun = time.monotonic()

    def plainly(table: LanceDataset, data: pa.Table) -> None:
        table.insert(data)

    for turn in range(each):
        one, write = 1000 * (number + 1) + turn, plainly if number + turn == 0 else quickly
        for name in TABLES:
            times += insist(
                namespace,
                name,
                lambda table: write(table, rows(one)),  # noqa: B023 - it is called before the next turn
                lambda table: table.count_rows(f"id = {one}") == 1,  # noqa: B023
            )
    return closed(namespace, f"append, lost {times}", begun)


def closed(namespace: PhalanxNamespace, done: str, begun: float) -> str:
    """What a process says in the end."""
    namespace.lake.close()
    return f"{done}, {time.monotonic() - begun:.1f} s"


def deletes(lake: Lake, each: int) -> str:
    """The first rows go, one by one."""
    namespace, times = PhalanxNamespace(uri=lake.uri), 0
    begun = time.monotonic()
    for one in range(each):
        for name in TABLES:
            times += insist(
                namespace,
                name,
                lambda table: table.delete(f"id = {one}", conflict_retries=0, retry_timeout=timedelta(seconds=1)),  # noqa: B023
                lambda table: table.count_rows(f"id = {one}") == 0,  # noqa: B023
            )
    return closed(namespace, f"delete, lost {times}", begun)


def merges(lake: Lake, each: int) -> str:
    """Rows from 20 on get another value, and some are new."""
    namespace, times = PhalanxNamespace(uri=lake.uri), 0
    begun = time.monotonic()
    for turn in range(each):
        data = rows(20 + turn, 9000 + turn, v=1)

        def write(table: LanceDataset) -> None:
            builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            builder.conflict_retries(0).retry_timeout(timedelta(seconds=1)).execute(data)  # noqa: B023

        for name in TABLES:
            wanted = f"id in ({20 + turn}, {9000 + turn}) and v = 1"
            times += insist(namespace, name, write, lambda table: table.count_rows(wanted) == 2)  # noqa: B023
    return closed(namespace, f"merge, lost {times}", begun)


def maintains(lake: Lake, each: int) -> str:
    """Compacts and indexes; that it loses at times is no harm, and nothing is there to be looked for."""
    namespace, won = PhalanxNamespace(uri=lake.uri), 0
    begun = time.monotonic()
    for turn in range(each):
        for name in TABLES:
            table = opened(namespace, name)
            try:
                if turn % 2:
                    table.create_scalar_index("v", "BTREE", replace=True)
                else:
                    table.optimize.compact_files()
                won += 1
            except (OSError, ValueError, RuntimeError) as error:
                if not lost(error):
                    raise
    return closed(namespace, f"maintain, won {won}", begun)


def upserts(lake: Lake, number: int, each: int, pause: float) -> str:
    """The lake's own writers: small changes, which never lose."""
    begun = time.monotonic()
    for turn in range(each):
        lake["k"].upsert(rows(40 + 10 * number + turn % 10, 7000 + 100 * number + turn, v=2))
        lake["t"].append(rows(7000 + 100 * number + turn, v=2))
        lake._clock.sleep(pause)
    return f"write, {time.monotonic() - begun:.1f} s"


def stages(lake: Lake, each: int, pause: float) -> str:
    """Bulk writes and upkeep of the lake's own, whose files are staged while clients come in between."""
    begun = time.monotonic()
    for turn in range(each):
        lake["k"].upsert(rows(60 + turn, 6000 + turn, v=3), stage=True)
        lake["t"].append(rows(6000 + turn, v=3), stage=True)
        lake.optimize(TABLES[turn % 2])
        lake._clock.sleep(pause)
    return f"stage, {time.monotonic() - begun:.1f} s"


def expected(appenders: int, writers: int, each: int, written: int) -> tuple[dict[int, int], dict[int, int]]:
    """The rows of t and k when all of them are done; both began with 100."""
    both = dict.fromkeys(range(100), 0)
    both |= {1000 * (number + 1) + turn: 0 for number in range(appenders) for turn in range(each)}
    for one in range(each):
        del both[one]
        both |= {20 + one: 1, 9000 + one: 1}
    both |= {7000 + 100 * number + turn: 2 for number in range(writers) for turn in range(written)}
    keyed = both | {40 + 10 * number + turn % 10: 2 for number in range(writers) for turn in range(written)}
    return both, keyed
