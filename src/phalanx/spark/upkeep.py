"""Maintenance in tasks: groups rewritten, indexes built, keys of a bulk upsert found, each where there is room for it.

What decides stays in the driver, and is the same as without Spark: claims, what a group is placed on, the commit. A task
is given a version and a piece of work, writes files, syncs them, and tells what they are; if it is run twice, files of one
of them are never named.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from phalanx.log import item as it
from phalanx.objects import Sum
from phalanx.runs import NO_IDS, Ids, decode_ids, encode_ids
from phalanx.spark.reach import Reach
from phalanx.spark.read import numbered, numbers, parallelism
from phalanx.spark.shares import balanced, sizes
from phalanx.spark.telling import told
from phalanx.tables import index as indexes
from phalanx.tables import rewrite
from phalanx.tables.dataset import Version
from phalanx.tables.stage import Written, heard
from phalanx.tail.lookup import answers
from phalanx.tail.overlay import Segment
from phalanx.tail.payload import decode_rows, encode_rows
from phalanx.tail.writeout import written_here
from phalanx.txn.bulk import Large, replaced, with_keys
from phalanx.upkeep.groups import rewritten_here

MANY_ROWS = 5_000_000
"""Rows of a head whose keys are looked through by tasks rather than by the driver."""

FLUSHED_ROWS = 200_000
"""Rows of a tail that are written out by tasks rather than by the driver."""

INDEXED_ROWS = 1_000_000
"""Rows from which on several tasks build an index, each of some fragments, if it is of a kind that can be put together."""

_ANSWER = pa.schema({"answer": pa.binary()})


class Runner:
    """Does pieces of maintenance in tasks of Spark. Safe to use from many threads."""

    def __init__(self, spark: SparkSession, where: Reach) -> None:
        self._spark = spark
        self._reach = where
        self.many_rows = MANY_ROWS
        self.flushed_rows = FLUSHED_ROWS
        self.indexed_rows = INDEXED_ROWS

    def matcher(self, head: Version, large: Large, key: tuple[str, ...]) -> Ids:
        """The rows of a head whose keys staged rows have: by tasks, where many are looked for among very many."""
        few = head.rows < self.many_rows or answers(head, Segment(head.manifest), large.count)
        return (replaced if few else self.replaced)(head, large, key)

    def rewrite(self, bare: Version, group: rewrite.Group) -> rewrite.Rewritten:
        """Write the rows of a group of fragments anew."""
        reach, table, manifest = self._reach, bare.table, bare.manifest

        def work(_: int) -> bytes:
            datasets = reach.datasets()
            made = rewritten_here(datasets.own(table, manifest), group)
            written = Written(made.new, 0)
            reach.sync(table, written.files)
            return pickle.dumps(written.told())

        fragments = pickle.loads(self._run("rewriting fragments", 1, work)[0])  # noqa: S301 - of our own task
        return rewrite.Rewritten(group.fragments, heard(fragments).fragments, bare)

    def build(self, head: Version, spec: it.Index, fragments: Sequence[int]) -> indexes.Built | None:
        """Build a segment of an index: several tasks parts of it, if the rows are many."""
        weights = {one: weight for one, weight in sizes(head).items() if one in set(fragments)}
        if spec.kind in indexes.APART and len(weights) > 1 and sum(weights.values()) >= self.indexed_rows:
            return self._build_apart(head, spec, weights)
        reach, table, manifest, chosen = self._reach, head.table, head.manifest, list(fragments)

        def work(_: int) -> bytes:
            datasets = reach.datasets()
            made = indexes.build(datasets.own(table, manifest), spec, chosen)
            if made is not None:
                reach.sync(table, made.files)
            return pickle.dumps(made)

        return _segment(self._run(f"building index {spec.name!r}", 1, work)[0])

    def _build_apart(self, head: Version, spec: it.Index, weights: dict[int, int]) -> indexes.Built | None:
        reach, table, manifest = self._reach, head.table, head.manifest
        groups = balanced(weights, parallelism(self._spark))

        def work(number: int) -> bytes:
            return pickle.dumps(indexes.part(reach.datasets().own(table, manifest), spec, groups[number]))

        parts = [pickle.loads(one) for one in self._run(f"building index {spec.name!r}", len(groups), work)]  # noqa: S301

        def together(_: int) -> bytes:
            made = indexes.merged(reach.datasets().own(table, manifest), spec, sorted(weights), parts)
            if made is not None:
                reach.sync(table, made.files)
            return pickle.dumps(made)

        return _segment(self._run(f"putting index {spec.name!r} together", 1, together)[0])

    def write(self, head: Version, rows: pa.Table) -> Written:
        """Write the rows of a tail as fragments: each task some of them, if they are many."""
        if rows.num_rows < self.flushed_rows:
            return written_here(head, rows)
        reach, table, manifest = self._reach, head.table, head.manifest
        count = parallelism(self._spark)
        size = -(-rows.num_rows // count)
        parts = [encode_rows(rows.slice(first, size).combine_chunks()) for first in range(0, rows.num_rows, size)]

        def work(number: int) -> bytes:
            written = written_here(reach.datasets().own(table, manifest), decode_rows(parts[number]))
            reach.sync(table, written.files)
            return pickle.dumps(written.told())

        answers = self._run("writing rows out", len(parts), work)
        return heard([one for answer in answers for one in pickle.loads(answer)])  # noqa: S301 - of our own task

    def replaced(self, head: Version, large: Large, key: tuple[str, ...]) -> Ids:
        """The rows of a head whose keys staged rows have: each task looks through some fragments."""
        reach, table, manifest, staged = self._reach, head.table, head.manifest, large.version.manifest
        groups = balanced(sizes(head), parallelism(self._spark))
        fragments = range(large.first, large.first + large.fragments)

        def work(number: int) -> bytes:
            datasets = reach.datasets()
            there, new = datasets.open(table, manifest), datasets.open(table, staged)
            return encode_ids(with_keys(there, groups[number], new, fragments, key))

        found = self._run("finding the rows that are replaced", len(groups), work)
        return np.sort(np.concatenate([NO_IDS, *map(decode_ids, found)]))

    def digests(self, names: Sequence[str]) -> Iterator[tuple[int, Sum | None]]:
        """The sums of files, each with its place: every task reads some of them."""
        reach, count = self._reach, min(len(names), 4 * parallelism(self._spark))
        asked = list(enumerate(names))

        def work(number: int) -> bytes:
            store = reach.datasets().files.store
            return pickle.dumps([(at, store.digest(name)) for at, name in asked[number::count]])

        for answer in self._run("comparing files", count, work) if count else ():
            yield from pickle.loads(answer)  # noqa: S301 - of our own task

    def _run(self, what: str, count: int, work: Callable[[int], bytes]) -> list[bytes]:
        def phalanx_upkeep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in numbers(batches):
                yield pa.RecordBatch.from_pydict({"answer": [work(number)]}, schema=_ANSWER)

        with told(what):
            rows = numbered(self._spark, count).mapInArrow(phalanx_upkeep, "answer binary").collect()
        return [bytes(row[0]) for row in rows]


def _segment(answer: bytes) -> indexes.Built | None:
    made: Any = pickle.loads(answer)  # noqa: S301 - of our own task
    return made if isinstance(made, indexes.Built) else None
