"""A transaction that takes data frames, too: tables written by Spark and ordinary changes land in one entry.

Tasks stage while the block runs; nothing is committed before it ends, and if it raises, what was staged is files that
nobody sees. A data frame of one of its tables has the changes made so far, like everything that is read in it.
"""

from collections.abc import Sequence
from typing import cast

from pyspark.sql import DataFrame, SparkSession

from phalanx.lake import Lake
from phalanx.log import action as do
from phalanx.names import parse_word
from phalanx.spark.land import Staged, check_mode, stage_frame
from phalanx.spark.parts import plan_scan_of
from phalanx.spark.reach import reach
from phalanx.spark.read import parallelism, pieces_frame
from phalanx.spark.upkeep import Runner
from phalanx.tables.stage import ROWS_PER_FILE
from phalanx.transaction import Transaction
from phalanx.txn.transaction import Isolation, Work
from phalanx.upkeep.background import Background


class SparkTransaction(Transaction):
    """Changes of any number of tables that land together, by data frames and as usual. Belongs to one thread at a time."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkSession,
        note: str = "",
        *,
        token: str | None = None,
        timeout: float | None = None,
        isolation: Isolation = "snapshot",
    ) -> None:
        work = Work(lake.core, timeout, note, token, isolation)
        super().__init__(work, cast("Background", lake.core.committer.upkeep))
        self._lake = lake
        self._spark = spark
        self._runner = Runner(spark, reach(lake))

    def write(self, table: str, frame: DataFrame, mode: str = "append", *, rows_per_file: int = ROWS_PER_FILE) -> int:
        """Stage the rows of a data frame for a table; how many there were. They land with everything else."""
        return self.stage(table, frame, mode, rows_per_file=rows_per_file).rows

    def stage(
        self, table: str, frame: DataFrame, mode: str = "append", *, rows_per_file: int = ROWS_PER_FILE
    ) -> Staged:
        """As `write`; what was staged."""
        draft = self._work.draft(table)
        self._work.look()
        check_mode(mode, draft.found)
        draft.matcher = self._runner.matcher
        staged = stage_frame(self._lake, frame, draft.found, mode, rows_per_file=rows_per_file, fixed=True)
        if mode == "overwrite":
            draft.overwrite(staged.ready, None, None)
        elif staged.rows:
            draft.put(staged.ready, None, None, mode)
        return staged

    def tag(self, name: str, version: int) -> None:
        """Name a version of the lake, whatever the name meant until now, together with everything else in here."""
        self._work.change(do.PutTag(parse_word(name, "tag"), version, move=True))

    def annotate(self, note: str) -> None:
        """A word for the history, instead of the one it began with."""
        self._work.note = note

    def table(self, name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """A table at the transaction's snapshot, with its own changes so far."""
        draft = self._work.draft(name)
        draft.read_rows(where)
        planned = plan_scan_of(
            self._lake.core, reach(self._lake), draft.found, draft.reading, columns, where, parallelism(self._spark)
        )
        return pieces_frame(self._spark, planned.scan, planned.held)
