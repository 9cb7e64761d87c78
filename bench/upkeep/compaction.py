"""Many small fragments become few: Phalanx's optimize beside `compact_files` of Lance, on the same rows."""

import os
import shutil
import time
from pathlib import Path

import lance
import pyarrow as pa

from bench.frame import Bench
from bench.report import Section, Target, median
from bench.tables.rows import SCHEMA, batches
from bench.tails import quiet_lake

OURS, LANCE = "Phalanx optimize", "Lance compact_files"


def section(bench: Bench) -> Section:
    """Bytes read for each second, in turns, each time on a fresh copy."""
    count, parts = bench.pick(5_000_000, 100_000, "rows"), bench.pick(100, 10, "fragments")
    note = (
        f"{count:,} rows of 6 columns in {parts} fragments, no key and no index. Phalanx syncs what it writes and commits it "
        "through the log, in groups; Lance never syncs. Each run has a copy of its own, which is on disk before the clock "
        "starts, as is what the run before has written; in turns, the best is compared."
    )
    with bench.section("compaction", "Compaction beside Lance's own", note) as found:
        bench.step("loading")
        ours, theirs = _load(bench, count, parts)
        size = sum(path.stat().st_size for path in theirs.rglob("*.lance"))
        times: dict[str, list[float]] = {OURS: [], LANCE: []}

        def phalanx_run() -> None:
            path = _copy(bench, ours)
            with bench.place.lake(str(path)) as lake:
                began = time.perf_counter()
                lake.optimize("t", timeout=3600)
                times[OURS].append(time.perf_counter() - began)
                found.count("rows lost", count - lake["t"].count(), Target("==", 0)) if len(times[OURS]) == 1 else None

        def lance_run() -> None:
            path = _copy(bench, theirs)
            dataset = lance.dataset(path)
            began = time.perf_counter()
            dataset.optimize.compact_files(num_threads=2)
            times[LANCE].append(time.perf_counter() - began)

        bench.in_turns("rewriting", bench.pick(8, 2), {OURS: phalanx_run, LANCE: lance_run})
        for name, taken in times.items():
            rate = size / 1e6 / min(taken)
            found.row(name, {"best s": min(taken), "p50 s": median(taken), "MB/s": rate, "samples": len(taken)})
        found.ratio("Phalanx's throughput / Lance's, best", min(times[LANCE]) / min(times[OURS]), Target(">=", 0.9))
        found.ratio("Phalanx's throughput / Lance's, medians", median(times[LANCE]) / median(times[OURS]))
    return found


def _copy(bench: Bench, source: Path) -> Path:
    """A copy that is on disk. Otherwise whoever syncs would wait for bytes that others have written."""
    path = Path(shutil.copytree(source, bench.place.new("copy")))
    os.sync()
    bench.settle()
    return path


def _load(bench: Bench, count: int, parts: int) -> tuple[Path, Path]:
    size = count // parts
    uri, plain = bench.place.new("lake"), Path(bench.place.new("plain"))
    with quiet_lake(bench, uri) as lake:
        table = lake.create_table("t", SCHEMA)
        for part in range(parts):
            rows = pa.Table.from_batches(batches(size, part * size), SCHEMA)
            table.append(rows, stage=True)
            lance.write_dataset(
                rows, plain, mode="append" if part else "create", enable_stable_row_ids=True, data_storage_version="2.2"
            )
        lake.flush()
    return Path(uri), plain
