"""Batches of a stream that change several tables, each in one transaction that takes effect once: for `foreachBatch`.

The number of the batch is compared and set with the rows, as in the sink (`stream.py`): a batch that is run again, by this
driver or by another one that has the same query, finds that it was done and does nothing (I12, rule B7).
"""

from collections.abc import Callable

from pyspark.sql import DataFrame

from phalanx.errors import InvalidInputError
from phalanx.lake import Lake
from phalanx.spark.stream import QUERY, source_of
from phalanx.spark.transaction import SparkTransaction
from phalanx.txn.transaction import again

Batch = Callable[[DataFrame, SparkTransaction], object]


def each_batch(lake: Lake, work: Batch, query: str | None, timeout: float) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` calls: `work(frame, txn)` for each batch, in a transaction, once."""

    def phalanx_batch(frame: DataFrame, number: int) -> None:
        name = source_of(query or _query_of(frame))

        def attempt() -> None:
            held = lake.refresh().progress(name)
            if held is not None and held >= number:
                return
            with SparkTransaction(lake, frame.sparkSession, f"{name} batch {number}", timeout=timeout) as txn:
                txn.record_progress(name, number, expected=held)
                work(frame, txn)

        again(lake.core, lake.core.deadline(timeout), attempt)

    return phalanx_batch


def _query_of(frame: DataFrame) -> str:
    """The id of the query that a batch is of, which its checkpoint keeps."""
    found = frame.sparkSession.sparkContext.getLocalProperty(QUERY)
    if not found:
        raise InvalidInputError("this batch is of no query that Spark knows: give it a name with query=")
    return str(found)
