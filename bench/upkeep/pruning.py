"""Ten thousand old versions go: prune beside `cleanup_old_versions` of Lance."""

import time
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa

from bench.frame import Bench
from bench.report import Section, Target
from bench.tails import quiet_lake

OURS, LANCE = "Phalanx prune", "Lance cleanup_old_versions"
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def section(bench: Bench) -> Section:
    """One run of each: what it removes can be removed once."""
    versions = bench.pick(10_000, 60, "versions")
    note = (
        f"A table that was overwritten {versions:,} times by staged rows, so each version has files of its own: a manifest, "
        "the rows, and Lance's note of how it was made. Prune keeps the newest version; it also trims the log, which Lance "
        "has none of, and looks at pins and tags. Both delete from the same disk."
    )
    with bench.section("prune", "Pruning many versions beside Lance's own", note) as found:
        bench.step("overwriting")
        rows = pa.table({"id": range(10), "v": range(10)}, schema=SCHEMA)
        uri, plain = bench.place.new("lake"), Path(bench.place.new("plain"))
        with quiet_lake(bench, uri, "os") as lake:
            table = lake.create_table("t", SCHEMA)
            for number in range(versions):
                table.overwrite(rows, stage=True)
                if number % 100 == 0:
                    bench.step("overwriting", number, versions)
            began = time.perf_counter()
            done = lake.prune(keep=1, unconditional=True)
            ours = time.perf_counter() - began
            again = lake.prune(keep=1, unconditional=True)
            found.count("files that a second prune finds", again.files, Target("==", 0))
            found.count("rows lost", 10 - table.count(), Target("==", 0))
        bench.step("overwriting a plain dataset")
        dataset = lance.write_dataset(rows, plain)
        for _ in range(versions):
            dataset = lance.write_dataset(rows, plain, mode="overwrite")
        before = sum(path.is_file() for path in plain.rglob("*"))
        began = time.perf_counter()
        dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
        theirs = time.perf_counter() - began
        gone = before - sum(path.is_file() for path in plain.rglob("*"))
        for name, seconds, files in ((OURS, ours, done.files + done.entries), (LANCE, theirs, gone)):
            found.row(name, {"s": seconds, "files": files, "files/s": files / seconds})
        found.ratio("files a second, Phalanx / Lance", ((done.files + done.entries) / ours) / (gone / theirs))
        found.ratio("Lance's time / Phalanx's", theirs / ours)
    return found
