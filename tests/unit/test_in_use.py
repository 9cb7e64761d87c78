"""What somebody uses is held for as long as that takes: by busy handles, long statements, and answers that are read later."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from phalanx.tail import cache
from tests.unit.pruning import SCHEMA, Ground, bulk, few


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.close()


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Ground]:
    """Pins live for three seconds."""
    made = Ground(tmp_path, life=3.0)
    yield made
    made.close()


def test_a_handle_that_is_busy_renews_its_pins(hasty: Ground) -> None:
    """It lets go of pins all the time, which wakes what renews them: what it still holds is renewed all the same."""
    lake = hasty.lake
    lake.create_table("t", SCHEMA).append(few(1))
    old = lake.version
    lake["t"].append(few(2))
    held = lake.snapshot(version=lake.version)
    until = time.monotonic() + 4.5
    while time.monotonic() < until:
        lake.snapshot(version=old)  # a short look: its pin is let go at once
        time.sleep(0.1)
    assert not lake.core.pins.lapsed(held._held.pin)


def test_pins_are_renewed_while_a_tail_is_written_out(hasty: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = hasty.lake
    table = lake.create_table("t", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    table.append([{"id": 1, "s": "x"}])
    table.create_index("s", "inverted")
    table.append([{"id": 2, "s": "x"}])
    held = lake.snapshot(version=lake.version)
    real = cache.write_out

    def slowly(*given: object) -> object:
        time.sleep(4.5)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(cache, "write_out", slowly)
    assert table.search(text="x", k=2).num_rows == 2
    assert not lake.core.pins.lapsed(held._held.pin)


@pytest.mark.parametrize("key", ["", "id"])
def test_a_bulk_statement_holds_the_head_that_it_began_on(ground: Ground, key: str) -> None:
    """While its rows are staged, the head is rewritten and what was there before is pruned."""
    table = ground.lake.create_table("t", SCHEMA, key=key or ())
    for number in range(3):
        table.append(bulk(10_000 * number), stage=True)
    other = ground.process()

    def rows() -> Iterator[pa.RecordBatch]:
        yield from pa.Table.from_pylist(few(1, 2, 3), SCHEMA).to_batches()
        other["t"].append(few(100_000))
        assert other.optimize("t")["t"].rewritten
        other["t"].append(few(100_001))
        ground.lake.refresh()
        for lake in (ground.lake, other):
            lake.core.pins.renew()
        other.prune(keep=1, unconditional=True)
        yield from pa.Table.from_pylist(few(4), SCHEMA).to_batches()

    before = table.count()
    time.sleep(2.1)  # what is this much older than a pin is not taken for something that was staged under it
    table.append(pa.RecordBatchReader.from_batches(SCHEMA, rows()), stage=True)
    assert table.count() == before + 2 + (0 if key else 4)
    assert ground.lake.check().whole


def test_an_answer_can_be_read_later(ground: Ground) -> None:
    """A statement is bound to a version, all of it is replaced and pruned, and the rows are asked for then; and again."""
    lake, other = ground.lake, ground.process()
    table = lake.create_table("t", SCHEMA)
    table.append(bulk(0, v=1), stage=True)
    answer = lake.sql("select sum(v) as n, count(*) as m from t")
    stream = lake.sql("select id from t").scan(batch_size=100)
    first = stream.read_next_batch().num_rows
    other["t"].overwrite(few(1))
    other.flush()
    other["t"].append(few(2))
    lake.refresh()
    for one in (lake, other):
        one.core.pins.renew()
    assert other.prune(keep=1, unconditional=True).versions["t"]
    count = bulk(0).num_rows
    for _ in range(2):
        assert answer.to_arrow().to_pylist() == [{"n": count, "m": count}]
    assert first + sum(batch.num_rows for batch in stream) == count
    del answer, stream
    lake.core.pins.renew()
    assert other.prune(keep=1, unconditional=True).files
