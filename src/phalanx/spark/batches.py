"""Batches of a stream that change several tables, each in one transaction that takes effect once: for `foreachBatch`.

The number of the batch is compared and set with the rows, as in the sink (`stream.py`): a batch that is run again, by this
driver or by another one that has the same query, finds that it was done and does nothing (I12, rule B7).
"""

from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from phalanx.errors import InvalidInputError
from phalanx.lake import Lake
from phalanx.spark.queries import QUERY, checked, source_of
from phalanx.spark.transaction import SparkTransaction
from phalanx.txn.transaction import again

Batch = Callable[[DataFrame, SparkTransaction], object]


def each_batch(lake: Lake, work: Batch, query: str | None, timeout: float) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` calls: `work(frame, txn)` for each batch, in a transaction, once."""

    def phalanx_batch(frame: DataFrame, number: int) -> None:
        checkpoint = _checkpoint_of(frame)
        if query is None and checkpoint is None:
            raise InvalidInputError("this batch is of no query that Spark knows: give it a name with query=")
        name = source_of(query or str(checkpoint))

        def attempt() -> None:
            now = lake.refresh()
            own, held = checked(now.state.progress, query, checkpoint), now.progress(name)
            if held is not None and held >= number:
                return
            with SparkTransaction(lake, frame.sparkSession, f"{name} batch {number}", timeout=timeout) as txn:
                txn.record_progress(name, number, expected=held)
                for one in own:
                    txn.record_progress(one.source, one.new, expected=one.expected)
                work(frame, txn)

        again(lake.core, lake.core.deadline(timeout), attempt)

    return phalanx_batch


def _checkpoint_of(frame: DataFrame) -> str | None:
    """The id of the query that a batch is of, which its checkpoint keeps; None if Spark does not say."""
    try:
        return frame.sparkSession.sparkContext.getLocalProperty(QUERY) or None
    except PySparkException:  # a session of Spark Connect has no context
        return None
