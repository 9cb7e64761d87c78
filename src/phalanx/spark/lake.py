"""A lake with Spark: `phalanx.spark.on(lake, spark)`, and what it gives.

The lake is the one that is open in the driver; tasks reach it by its address. Nothing here keeps state: frames are plain
data frames of Spark, and every write is one commit.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, SparkSession

from phalanx.errors import InvalidInputError
from phalanx.indexing import create
from phalanx.lake import Lake, open_lake
from phalanx.snapshot import Snapshot
from phalanx.spark.batches import Batch, each_batch
from phalanx.spark.land import land, stage_frame
from phalanx.spark.reach import reach
from phalanx.spark.read import changes_frame, make_view, parallelism, table_frame
from phalanx.spark.session import session
from phalanx.spark.transaction import SparkTransaction
from phalanx.spark.upkeep import Runner
from phalanx.tables.stage import ROWS_PER_FILE
from phalanx.txn.transaction import Isolation
from phalanx.upkeep.check import Report, check
from phalanx.upkeep.flush import Flushed, flush
from phalanx.upkeep.folder import Progress
from phalanx.upkeep.optimize import Done, Optimized, Options, optimize, optimize_all

if TYPE_CHECKING:
    from phalanx.upkeep.background import Background


class SparkSnapshot:
    """All tables of a lake at one version, as data frames."""

    def __init__(self, lake: Lake, spark: SparkSession, snapshot: Snapshot) -> None:
        self._lake = lake
        self._spark = spark
        self._snapshot = snapshot

    @property
    def version(self) -> int:
        """The version of the lake."""
        return self._snapshot.version

    def table(self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """A table, or some of its columns and rows; what is left out here is not read at all."""
        return table_frame(self._lake, self._spark, self._snapshot, name, columns, where)

    def views(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Make all tables, or some, temporary views, so that Spark SQL joins them at one version.

        A table in a namespace is called with `_` for the dots. The names of the views, by table.
        """
        made = {name: name.replace(".", "_") for name in (self._snapshot.tables() if names is None else names)}
        called: dict[str, str] = {}
        for name, view in made.items():
            other = called.setdefault(view.casefold(), name)  # Spark's names of views are the same in any case
            if other != name:
                raise InvalidInputError(
                    f"tables {other!r} and {name!r} would be one view, {view!r}: make views of the tables that are needed, "
                    "views([…]), and of others by table(…).createTempView(…)"
                )
        for name, view in made.items():
            make_view(self.table(name), view)
        return made


class SparkLake:
    """A lake with Spark: read, write, follow. Made by `on`."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        self.lake = lake
        self.spark = spark
        self._runner = Runner(spark, reach(lake))  # a lake that tasks cannot reach is refused now

    def snapshot(
        self, *, version: int | None = None, tag: str | None = None, as_of: datetime | None = None
    ) -> SparkSnapshot:
        """All tables at one version, tag or time; the newest without any."""
        return SparkSnapshot(self.lake, self.spark, self.lake.snapshot(version=version, tag=tag, as_of=as_of))

    def table(self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """A table as it is now; `columns` and `where` (as in `Table.scan`) are read from it, and nothing else."""
        return self.snapshot().table(name, columns=columns, where=where)

    def views(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Make all tables, or some, temporary views, all at the version that is the newest now."""
        return self.snapshot().views(names)

    def changes(self, name: str, since: int, until: int | None = None) -> DataFrame:
        """The rows of a table that changed after version `since` of the lake, up to `until`, as `Lake.changes` has them."""
        return changes_frame(self.lake, self.spark, name, since, until)

    def write(
        self,
        frame: DataFrame,
        table: str,
        mode: str = "append",
        *,
        rows_per_file: int = ROWS_PER_FILE,
        note: str = "",
        timeout: float | None = None,
    ) -> int:
        """Write the rows of a data frame to a table, in one commit; the version that it landed on.

        `mode` is append, overwrite or upsert; on a table with a key, append replaces rows of the same key as well. Rows
        that do not fit are refused, those of another schema before the job begins, and nothing is visible then.
        """
        found = self.lake.refresh().found(table)
        staged = stage_frame(self.lake, frame, found, mode, rows_per_file=rows_per_file)
        return land(self.lake.core, [staged], note=note, timeout=timeout, matcher=self._runner.matcher)

    def transaction(
        self,
        note: str = "",
        *,
        token: str | None = None,
        timeout: float | None = None,
        isolation: Isolation = "snapshot",
    ) -> SparkTransaction:
        """A transaction that also takes data frames, for any number of tables: `txn.write("orders", frame)`."""
        return SparkTransaction(self.lake, self.spark, note, token=token, timeout=timeout, isolation=isolation)

    def flush(self, name: str | None = None, *, timeout: float = 3600.0) -> dict[str, Flushed]:
        """As `Lake.flush`, with the rows of a large tail written by tasks, and then indexed by them."""
        core, runner = self.lake.core, self._runner
        background = cast("Background", core.committer.upkeep)
        deadline = core.deadline(timeout)
        done: dict[str, Flushed] = {}
        for one in [name] if name else self.lake.tables():
            table = self.lake[one].id
            done[one] = flush(core, table, deadline, runner.write)
            background.flushed(table, done[one], runner.build)
        return done

    def optimize(
        self,
        name: str | None = None,
        *,
        budget: int = 5,
        max_bytes: int | None = None,
        max_time: float | None = None,
        cluster_by: Sequence[str] = (),
        progress: Callable[[Done], None] | None = None,
        tasks: int | None = None,
        timeout: float = 3600.0,
    ) -> dict[str, Optimized]:
        """As `Lake.optimize`, with groups of fragments rewritten and indexes built by tasks, so many at once."""
        runner = self._runner
        how = Options(
            budget, max_bytes, max_time, False, tuple(cluster_by), progress,  # noqa: FBT003 - no dry run
            tasks or parallelism(self.spark), runner.rewrite, runner.build,
        ).checked()  # fmt: skip
        core = self.lake.core
        if name is not None:
            return {name: optimize(core, self.lake[name].id, core.deadline(timeout), how)}
        return optimize_all(core, core.deadline(timeout), how)

    def create_index(
        self,
        table: str,
        column: str,
        kind: str = "btree",
        *,
        name: str | None = None,
        **options: Any,  # noqa: ANN401 - Lance's own
    ) -> int:
        """As `Table.create_index`, built by tasks: by several if the rows are many and the kind is not one of vectors."""
        runner, core = self._runner, self.lake.core
        known = self.lake[table].id
        return create(core, known, column, kind, name, options, writer=runner.write, builder=runner.build)

    def check(self, *, deep: bool = True, progress: Progress | None = None) -> Report:
        """As `Lake.check`, with the bytes of files compared by tasks."""
        return check(self.lake.core, deep=deep, progress=progress, digester=self._runner.digests)

    def each_batch(
        self, work: Batch, *, query: str | None = None, timeout: float = 600.0
    ) -> Callable[[DataFrame, int], None]:
        """For `foreachBatch` of a stream: `work(frame, txn)` changes any tables, in one commit for each batch, once.

        The query is the one of Spark's checkpoint, and may have a name of its own: `query`. A name has one checkpoint.
        """
        return each_batch(self.lake, work, query, timeout)


def on(lake: Lake | str | Path, spark: SparkSession | None = None) -> SparkLake:
    """A lake with Spark: the session that is given, or the active one, or a new one in local mode."""
    found = lake if isinstance(lake, Lake) else open_lake(lake)
    return SparkLake(found, spark or session())
