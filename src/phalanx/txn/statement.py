"""Statements on their own: logged as what they mean, so that they never conflict (rule D1).

A small one needs no look at the table at all. A large one is staged first and lands as an item. Only what may fail on a
row, changes keys or checks them is resolved on a snapshot, like a transaction, and run again if somebody came first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from phalanx.data import Source, conform, source
from phalanx.errors import SchemaChangedError, StagingExpiredError
from phalanx.expr import plan_assignments, plan_predicate
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.tables.stage import Progress
from phalanx.tail.overlay import Shape
from phalanx.txn.bulk import Cargo, Large, Small, matched, require_rows, stage, take_in
from phalanx.txn.core import Core, Found, locate
from phalanx.txn.draft import Draft, Force
from phalanx.txn.transaction import Work, again


class Statements:
    """The statements of one table, which is known by its incarnation."""

    def __init__(self, core: Core, shape: Shape, timeout: float | None, note: str = "") -> None:
        self._core = core
        self._known = shape
        core.require_columns(self._shape)
        self._note = note
        self._timeout = timeout
        self._deadline = core.deadline(timeout)

    @property
    def _shape(self) -> Shape:
        """The table's columns, as far as they are known here."""
        return self._core.shape(self._known)

    def put(self, data: object, progress: Progress | None, stage_it: Force, what: str, *, replace: bool = False) -> int:
        """Add rows; with `replace`, instead of all there are."""
        shape = self._shape
        rows = take_in(conform(source(data, shape.schema), shape.schema), shape.key, stage=stage_it)
        if isinstance(rows, Small):
            if not replace:
                require_rows(rows.rows.num_rows, what)
            return self._planned_again(
                lambda: self._land(rows, shape, replace=replace),
                lambda: self.put(rows.rows, progress, stage_it=False, what=what, replace=replace),
            )
        try:
            return self._put_large(rows, shape, progress, what, replace=replace)
        except (SchemaChangedError, StagingExpiredError):
            # They were made ready for other columns, or a prune has let go of them: written again, if they still can be.
            if not _repeatable(data):
                raise
            self._core.refresh()
        return self.put(data, progress, stage_it, what, replace=replace)

    def _put_large(self, rows: Source, shape: Shape, progress: Progress | None, what: str, *, replace: bool) -> int:
        """Stage rows that were made ready for these columns, and commit them."""
        found = self._found()
        if found.shape.layout != shape.layout:
            raise SchemaChangedError("the columns of the table have changed since this was begun: run it again")
        held = self._core.hold(found.position, of=found)  # its keys are looked up when all rows are staged
        large = stage(found, rows, self._core.datasets, progress)
        if not replace:
            require_rows(large.count, what)
        with self._core.needing([large.pin]):
            ready = matched(large, self._core.datasets, replace=replace)
        landed = self._land(ready, found.shape, replace=replace)
        del held
        return landed

    def insert(self, data: object) -> int:
        """Add rows whose keys must be new."""
        rows = conform(source(data, self._shape.schema), self._shape.schema).table()
        return self._resolved(lambda draft: draft.insert(rows))

    def delete(self, where: str) -> int:
        """Remove the rows that match."""
        shape = self._shape
        if plan_predicate(where, shape.schema).loggable:
            item = it.DeleteWhere(shape.table, where, shape.layout)
            return self._planned_again(lambda: self._commit([item]), lambda: self.delete(where))
        return self._resolved(lambda draft: draft.delete(where))

    def update(self, changes: Mapping[str, object], where: str | None) -> int:
        """Set columns of the rows that match."""
        shape = self._shape
        planned = plan_assignments(changes, shape.schema)
        predicate = None if where is None else plan_predicate(where, shape.schema)
        keeps_keys = not set(planned.targets) & set(shape.key)
        if planned.loggable and keeps_keys and (predicate is None or predicate.loggable):
            item = it.UpdateWhere(shape.table, tuple(planned.sql.items()), where, shape.layout)
            return self._planned_again(lambda: self._commit([item]), lambda: self.update(changes, where))
        return self._resolved(lambda draft: draft.update(changes, where))

    def alter(self, steps: Sequence[it.Step]) -> int:
        """Change the columns."""
        return self._resolved(lambda draft: draft.alter(steps))

    def _planned_again(self, commit: Callable[[], int], anew: Callable[[], int]) -> int:
        """Commit what was planned, or plan it anew if the table has other columns by now."""
        try:
            return commit()
        except SchemaChangedError:
            if self._deadline.passed():
                raise
            self._core.refresh()
        return anew()

    def _land(self, rows: Small | Large, shape: Shape, *, replace: bool) -> int:
        """Commit rows that were made ready for these columns; the table may have others by now, and be known to."""
        cargo = Cargo()
        item: do.Action
        if replace:
            item = cargo.overwrite(shape, rows)
        else:
            item = cargo.upsert(shape, rows) if shape.key else cargo.put(shape, rows)
        return self._commit([item], cargo)

    def _commit(self, actions: list[do.Action], cargo: Cargo | None = None) -> int:
        said = Cargo() if cargo is None else cargo
        return self._core.commit(actions, self._timeout, note=self._note, payloads=said.payloads, pins=said.pins)

    def _resolved(self, run: Callable[[Draft], object]) -> int:
        def attempt() -> int:
            work = Work(self._core, self._timeout, self._note)
            run(work.draft_of(locate(work.view, self._shape.table)))
            return work.commit()

        return again(self._core, self._deadline, attempt)

    def _found(self) -> Found:
        return locate(self._core.refresh(), self._shape.table)


def _repeatable(data: object) -> bool:
    """Whether rows that were read once can be read again: what is not known to be so may be empty by then."""
    if isinstance(data, Mapping):
        return not any(isinstance(column, Iterator) for column in data.values())
    frame = type(data).__module__.partition(".")[0] in {"pandas", "polars"} and hasattr(data, "columns")
    return frame or isinstance(data, pa.Table | pa.RecordBatch | list | tuple)
