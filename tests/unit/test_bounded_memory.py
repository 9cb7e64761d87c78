"""A stream of rows takes memory for what is under way, not for what there is."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from phalanx.lake import Lake
from phalanx.testing import Process
from tests.unit.covering import opened

PART = 50_000
PARTS = 8
LENGTH = 1000
ALL_BYTES = PART * PARTS * LENGTH
MOST_BYTES = 176 << 20
"""40 to 110 MiB were seen, with more than twice the rows too; holding on to every batch took 384 to 448."""
TWO_CORES = {"OMP_NUM_THREADS": "2"}
"""How many batches are decoded at once depends on the cores, so that a large machine takes more."""

READER = """
import sys
from pathlib import Path

import phalanx


def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


with phalanx.open(sys.argv[1]) as lake:
    table = lake["t"]
    table.count()
    before = memory("VmRSS")
    rows = size = 0
    for batch in table.scan(where=sys.argv[2] or None):
        rows += batch.num_rows
        size += batch.nbytes
    print(rows, size, memory("VmHWM") - before)
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A large table in parts, whose tail hides some of its rows and has some in memory."""
    with opened(tmp_path_factory.mktemp("large")) as lake:
        table = lake.create_table("t", rows(0, 1).schema, key="id")
        for part in range(PARTS):
            table.append(rows(part * PART, PART), stage=True)
        lake.flush("t")
        table.delete("id % 1000 = 3")
        table.upsert(rows(PARTS * PART - 500, 1000), stage=False)
        yield lake


def rows(first: int, count: int) -> pa.Table:
    """Long texts that are small on disk: what Lance reads ahead of its files is its own affair, and is next to nothing here."""
    numbers = np.arange(first, first + count)
    texts = pa.array([letter * LENGTH for letter in "abcdefg"])
    return pa.table({"id": numbers, "text": texts.take(pa.array(numbers % len(texts)))})


CONDITIONS = {
    "all rows": "",
    "filtered by Lance": "id >= 0",
    "filtered here": "substr(text, 1, 1) <> 'z'",  # not one that Lance's scanner takes
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_scan_takes_no_more_memory_for_a_large_table(lake: Lake, condition: str) -> None:
    """In a process of its own, batch by batch, with hidden rows and rows in memory: a fraction of all bytes at once."""
    with Process(READER, lake.uri, CONDITIONS[condition], environment=TWO_CORES) as reader:
        count, size, grown = map(int, reader.finish().split())
    assert count == lake["t"].count() == PART * PARTS - PART * PARTS // 1000 + 500
    assert size > 0.95 * ALL_BYTES > 2 * MOST_BYTES
    assert grown < MOST_BYTES, f"{grown >> 20} MiB for {size >> 20} MiB of rows"
