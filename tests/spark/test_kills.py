"""Drivers killed before, during and after a commit, on real Spark: acknowledged is there once, and nothing is half there."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import phalanx
from phalanx.clock import SYSTEM, environment
from phalanx.spark import SparkLake, run_pipeline
from tests.spark import shop
from tests.spark.rows import EVENTS, events, multiset, run_program
from tests.spark.test_stream import followed, into

DRIVER = """
import os, signal, sys
import phalanx.spark
from phalanx.spark import source, stream
uri, mark, when = sys.argv[1:]
spark = phalanx.spark.session("local[2]", memory="1g")
driver, jvm = os.getpid(), spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()

def die():
    os.kill(jvm, signal.SIGKILL)
    os.kill(driver, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

def die_with_the_entry():
    link = os.link
    def linked(source, target, **how):
        link(source, target, **how)
        if "/log/" in target:
            die()
    os.link = linked

class Dying(stream.FeedWriter):
    def commit(self, messages, batchId):
        if when == "before":
            die()
        if when == "within":
            die_with_the_entry()
        super().commit(messages, batchId)
        die()

class Source(source.PhalanxSource):
    @classmethod
    def name(cls):
        return "dying"
    def streamWriter(self, schema, overwrite):
        made = super().streamWriter(schema, overwrite)
        return Dying(made._place, made._mode, made._asked)

spark.dataSource.register(Source)
rows = spark.readStream.format("phalanx").options(lake=uri, table="events").load()
query = rows.writeStream.format("dying").options(lake=uri, table="copy", checkpointLocation=mark)
query.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_a_driver_killed_at_the_commit_of_a_batch_loses_and_doubles_nothing(
    spark: SparkSession, lake: phalanx.Lake, tmp_path: Path, when: str
) -> None:
    """Known bug 27: driver and JVM are killed, before the entry, once it has its name but nobody was told, or before Spark knows."""
    source = lake.create_table("events", EVENTS)
    copy = lake.create_table("copy", EVENTS)
    source.append(events(0, 3_000))
    done = run_program(DRIVER, lake.uri, str(tmp_path / "mark"), when, cwd=tmp_path)
    assert done.returncode == -9, done.stderr
    assert copy.count() == (0 if when == "before" else 3_000)
    source.append(events(3_000, 50))
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    assert multiset(copy) == multiset(source)


def test_two_drivers_with_one_query_take_effect_once(spark: SparkSession, lake: phalanx.Lake, tmp_path: Path) -> None:
    """Both have the same checkpoint, and believe that the next batch is theirs: the log has it once."""
    source = lake.create_table("events", EVENTS)
    copy = lake.create_table("copy", EVENTS)
    source.append(events(0, 40))
    into(followed(spark, lake), lake, tmp_path / "one", "copy", query="the same")
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    source.append(events(40, 40))
    for folder in ("one", "other"):
        into(followed(spark, lake), lake, tmp_path / folder, "copy", query="the same")
    assert multiset(copy) == multiset(source)


FOLLOWER = """
import sys, time
from pathlib import Path
import phalanx.spark
uri, since, mark, go = sys.argv[1:]
spark = phalanx.spark.session("local[1]", memory="512m")
rows = spark.readStream.format("phalanx").options(lake=uri, table="events", start=since, max_versions=1).load()
query = rows.writeStream.format("phalanx").options(lake=uri, table="copy", checkpointLocation=mark, query="the same")
Path(mark + ".ready").touch()
while not Path(go).exists():
    time.sleep(0.01)
query.trigger(availableNow=True).start().awaitTermination()
"""


def test_two_drivers_at_the_same_time_take_effect_once(spark: SparkSession, lake: phalanx.Lake, tmp_path: Path) -> None:
    """Two processes race for every batch of one query: both end well, and each batch is there once."""
    source = lake.create_table("events", EVENTS)
    copy = lake.create_table("copy", EVENTS)
    since = lake.version
    marks, go = [tmp_path / "one", tmp_path / "other"], tmp_path / "go"
    source.append(events(1_000, 40))
    into(followed(spark, lake, start=since, max_versions=1), lake, marks[0], "copy", query="the same")
    shutil.copytree(*marks)
    for number in range(4):
        source.append(events(number * 40, 40))
    with ThreadPoolExecutor(2) as pool:
        drivers = [
            pool.submit(run_program, FOLLOWER, lake.uri, str(since), str(mark), str(go), cwd=tmp_path) for mark in marks
        ]
        while not all(
            mark.with_suffix(".ready").exists() or driver.done() for mark, driver in zip(marks, drivers, strict=True)
        ):
            SYSTEM.sleep(0.05)
        go.touch()
    assert [driver.result().returncode for driver in drivers] == [0, 0], [
        one.result().stderr[-2000:] for one in drivers
    ]
    assert multiset(copy) == multiset(source)


def killed_driver(uri: str, where: str) -> int:
    """Run the pipeline of `shop.py` in a driver that dies there; its exit code."""
    command = [sys.executable, "-m", "tests.spark.shop", uri, where]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=dict(environment()), capture_output=True, check=False, timeout=240)
    print(done.stderr.decode()[-3000:])  # shown if it ends in another way
    return done.returncode


@contextmanager
def watched(uri: str) -> Iterator[list[int]]:
    """A reader that looks at whole runs all the while; how many orders it found each time. What it finds wrong is raised."""
    found: list[int] = []
    done = threading.Event()

    def look() -> None:
        with phalanx.open(uri) as lake:
            while not done.wait(0.05):
                found.append(shop.whole_runs(lake))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            yield found
        finally:
            done.set()
            looking.result()


@pytest.mark.parametrize("where", shop.KILLED_AT)
def test_a_pipeline_killed_at_a_step_leaves_whole_runs_only(lake: phalanx.Lake, there: SparkLake, where: str) -> None:
    """Five tables: killed in a step, before the commit, after it; readers see all of a run or nothing; the next goes on."""
    count = 20_000 if where == "task" else 30  # so many that tasks write files
    shop.prepare(lake, count)
    orders = count + 1
    with watched(lake.uri) as found:
        assert killed_driver(lake.uri, where) == -9
        landed = orders if where == "landed" else 0
        assert shop.whole_runs(lake) == landed
        shop.prepare(lake, 9)
        done = run_pipeline(there, shop.pipeline())
        assert done.number == (2 if where == "landed" else 1)
        assert shop.whole_runs(lake) == orders + 9
    assert found == sorted(found)
    assert set(found) <= {0, landed, orders + 9}
    assert found.count(0) > 10, "the reader did not look while the driver ran"
