"""How Java and its Python workers talk: quickly, quietly, and with nothing left behind; of functions and of data sources."""

import gc
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from phalanx.clock import environment
from phalanx.spark.session import chosen
from pyspark_phalanx import daemon
from tests.spark.rows import run_program

SOCKETS = "spark.python.unix.domain.socket"

SOURCE = """
import os
from pyspark.sql.datasource import DataSource, DataSourceReader


class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "told"

    def schema(self):
        return "planner string, worker string"

    def reader(self, schema):
        return Told(os.environ.get("MALLOC_TRIM_THRESHOLD_", ""))


class Told(DataSourceReader):
    def __init__(self, planner):
        self.planner = planner

    def read(self, partition):
        yield self.planner, os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
"""

FOUND = """
import phalanx.spark
spark = phalanx.spark.session("local[1]", memory="512m")
print(*spark.read.format("told").load().collect()[0])
spark.stop()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets, which that of a test need not be."""
    with tempfile.TemporaryDirectory(prefix="phalanx-") as made:
        yield Path(made)


@pytest.mark.parametrize("module", ["pyspark_phalanx.daemon", "pyspark.daemon"])
def test_workers_that_are_let_go_say_nothing(folder: Path, module: str) -> None:
    """Java closes the connections of those that were idle for a minute. Spark's own program says it with a traceback."""
    settings = {"PYTHON_UNIX_DOMAIN_ENABLED": "true", "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder)}
    settings |= {"PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1", "SPARK_REUSE_WORKER": "1"}
    command = [sys.executable, "-m", module, "pyspark.worker"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env={**environment(), **settings}, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        (size,) = struct.unpack("!i", process.stdout.read(4))
        address = process.stdout.read(size).decode()
        assert Path(address).parent == folder
        with socket.socket(socket.AF_UNIX) as java:
            java.connect(address)
            (worker,) = struct.unpack("!i", java.recv(4, socket.MSG_WAITALL))
        deadline = time.monotonic() + 60
        while Path(f"/proc/{worker}").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.stdin.close()
        process.stdin = None
        _, said = process.communicate(timeout=60)
    assert (b"BrokenPipeError" in said) == (module == "pyspark.daemon"), said
    assert list(folder.iterdir()) == []


def test_sockets_go_with_the_process(tmp_path: Path) -> None:
    program = """
import os, phalanx.spark
spark = phalanx.spark.session("local[2]", memory="512m")
print("counted", spark.range(0, 9, 1, 2).mapInArrow(lambda batches: batches, "id long").count())
folder = spark.conf.get("spark.python.unix.domain.socket.dir")
print("sockets", len(os.listdir(folder)) > 0, folder)
"""
    done = run_program(program, cwd=tmp_path)
    *said, folder = done.stdout.split()
    assert said == ["counted", "9", "sockets", "True"], done.stderr
    assert not Path(folder).exists()


def test_workers_of_a_data_source_that_spark_finds_keep_their_memory_too(tmp_path: Path) -> None:
    """Spark hands the environment that it was told of to workers of functions only."""
    (tmp_path / "pyspark_told.py").write_text(SOURCE)
    done = run_program(FOUND, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.stdout.split() == [str(256 << 20)] * 2, done.stderr


def test_tasks_find_garbage_but_do_not_look_for_it_in_modules(spark: SparkSession) -> None:
    def told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            made: list[object] = []
            made.append(made)
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()], "module": [sys.argv[0]]})

    rows = [spark.range(0, 1, 1, 1).mapInArrow(told, "frozen long, module string").collect()[0] for _ in range(4)]
    assert rows[-1].module.endswith("pyspark_phalanx/daemon.py")
    assert rows[-1].frozen > 10_000, "what was imported"
    assert rows[-1].frozen - rows[-2].frozen < 100, "and no more than that"


def test_what_is_made_after_modules_were_imported_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    gone: list[str] = []

    class Ring:
        def __init__(self) -> None:
            self.own = self

        def __del__(self) -> None:
            gone.append("gone")

    monkeypatch.setattr(daemon, "_modules", 0)
    try:
        daemon._collect()
        assert gc.get_freeze_count() > 0
        Ring()
        daemon._collect()
        assert gone == ["gone"]
    finally:
        gc.unfreeze()


def test_sockets_are_for_this_user_and_for_local_mode() -> None:
    local, cluster = chosen("local[2]", None, "FATAL", {}), chosen("spark://there:7077", None, "FATAL", {})
    assert local[f"{SOCKETS}.enabled"] == "true"
    assert stat.S_IMODE(Path(local[f"{SOCKETS}.dir"]).stat().st_mode) == 0o700
    assert chosen("local", None, "FATAL", {})[f"{SOCKETS}.dir"] == local[f"{SOCKETS}.dir"]
    assert f"{SOCKETS}.enabled" not in cluster
    assert chosen("local", None, "FATAL", {f"{SOCKETS}.enabled": "false"})[f"{SOCKETS}.enabled"] == "false"


def test_where_paths_are_too_long_for_sockets_there_are_none(tmp_path: Path) -> None:
    """Linux takes 107 bytes."""
    long = tmp_path / ("long" * 20)
    long.mkdir()
    program = """
import phalanx.spark
spark = phalanx.spark.session("local[1]", memory="512m")
print(spark.conf.get("spark.python.unix.domain.socket.enabled", "none"))
print(spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
"""
    done = run_program(program, cwd=tmp_path, TMPDIR=str(long))
    assert done.stdout.split() == ["none", "3"], done.stderr
    assert environment().get("TMPDIR") != str(long)
