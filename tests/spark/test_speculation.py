"""Tasks that Spark runs twice at once because one is slow: each row is there once, whichever of the two comes first."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from pyspark.find_spark_home import _find_spark_home

import phalanx
from phalanx.clock import environment
from phalanx.spark.java import find_java
from tests.spark.rows import EVENTS, run_program

ROWS, SLOW = 160_000, 3
"""Rows of a write, and which of its four tasks is slow."""
WRITES = [f"{how}-{winner}" for how in ("helper", "source") for winner in ("copy", "first")]
"""How rows are written, and whether the slow task or its copy is done first."""

PROGRAM = """
import os, sys, time
from pathlib import Path
import phalanx, phalanx.spark
master, uri, marks, rows, slow, *writes = sys.argv[1:]
rows, slow = int(rows), int(slow)
spark = phalanx.spark.session(master, memory="512m", settings={
    "spark.executor.memory": "600m", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false", "spark.speculation": "true", "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1", "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms", "spark.sql.execution.arrow.maxRecordsPerBatch": "1000"})

def slowly(name, winner):
    def run(batches):
        from pyspark import TaskContext
        context = TaskContext.get()
        given = lambda: sorted(Path(marks).glob(f"{name}-{slow}-*"), key=lambda one: int(one.name.rpartition("-")[2]))
        mine, won = Path(marks, f"{name}-{context.partitionId()}-{context.taskAttemptId()}"), Path(marks, f"won-{name}")
        yield from batches
        mine.touch()
        end = time.monotonic() + 60
        while context.partitionId() == slow and time.monotonic() < end and not won.exists():
            time.sleep(0.01)
            both = given()
            if len(both) == 2 and (mine == both[0]) == (winner == "first"):
                won.touch()
                return
        if context.partitionId() == slow:
            time.sleep(0.2)  # it comes second, and may be killed before it has written all, or just after
    return run

with phalanx.open(uri) as lake:
    there = phalanx.spark.on(lake, spark)
    for number, write in enumerate(writes):
        how, winner = write.split("-")
        first = number * rows
        frame = spark.range(first, first + rows, 1, 4).selectExpr("id", "'a' as kind", "id / 2 as x")
        frame = frame.mapInArrow(slowly(write, winner), frame.schema)
        # Small batches and several files for each task: some are on the disk while it waits, and stay if it comes second.
        if how == "helper":
            there.write(frame, "events", rows_per_file=5_000)
        else:
            frame.write.format("phalanx").options(lake=uri, table="events", rows_per_file=5_000).mode("append").save()
        print("written", write, flush=True)
spark.stop()
"""


@contextmanager
def started(what: str, *words: str, host: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of a cluster of Spark's own."""
    java = find_java().home
    # They do little: a Java that compiles quickly starts in half the time.
    daemon = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1"}
    variables = {**environment(), **daemon, "SPARK_LOCAL_IP": host} | ({"JAVA_HOME": java} if java else {})
    program = [str(Path(_find_spark_home(), "bin", "spark-class")), f"org.apache.spark.deploy.{what}"]
    command = [*program, "--host", host, "--webui-port", "0", *words]
    with log.open("w") as out, subprocess.Popen(command, env=variables, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.terminate()


def heard(process: "subprocess.Popen[bytes]", log: Path, says: str) -> str:
    """What it says of itself when it is ready."""
    for _ in range(600):
        found = re.search(says, log.read_text())
        if found:
            return found[0]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
            break
    raise AssertionError(log.read_text()[-3000:])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A cluster of two machines, which are two addresses of this one: Spark runs no copy where the task itself runs."""
    log = tmp_path / "master"
    with ExitStack() as stack:
        first = stack.enter_context(started("master.Master", "--port", "0", host="127.0.0.1", log=log))
        where = heard(first, log, r"spark://127\.0\.0\.1:\d+")
        workers = {}
        for host in ("127.0.0.2", "127.0.0.3"):
            words = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work-{host}"), where)
            workers[host] = stack.enter_context(started("worker.Worker", *words, host=host, log=tmp_path / host))
        for host, worker in workers.items():
            heard(worker, tmp_path / host, "Successfully registered")
        yield where


@pytest.mark.torture  # six processes of Java
def test_a_slow_task_and_its_copy_write_each_row_once(lake: phalanx.Lake, master: str, tmp_path: Path) -> None:
    """By the helper and by Spark's own words, whether the copy is done first or the task itself; what the other wrote is pruned."""
    table = lake.create_table("events", EVENTS)
    marks = tmp_path / "marks"
    marks.mkdir()
    done = run_program(PROGRAM, master, lake.uri, str(marks), str(ROWS), str(SLOW), *WRITES, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"written {write}" for write in WRITES]
    for write in WRITES:
        assert len(list(marks.glob(f"{write}-{SLOW}-*"))) == 2, "no copy ran, or more than one did"
    assert np.array_equal(np.sort(table.to_arrow(["id"])["id"].to_numpy()), np.arange(len(WRITES) * ROWS))
    files = Path(lake.uri, "tables", table.id, "data")
    written = set(files.iterdir())
    lake.prune(keep=1, protect=0)
    assert written > set(files.iterdir()), "those who came second had written something, and it is gone"
    again = lake.prune(keep=1, protect=0)
    assert again.files == 0
    assert {one.why.value for one in again.kept_files} == {"a version that is kept is made of it"}
    assert table.count() == len(WRITES) * ROWS
    assert lake.check(deep=True).whole
