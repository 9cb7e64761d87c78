"""Statements on their own: logged as what they mean, so that they never conflict (rule D1).

A small one needs no look at the table at all. A large one is staged first and lands as an item. Only what may fail on a
row, changes keys or checks them is resolved on a snapshot, like a transaction, and run again if somebody came first.
"""

from collections.abc import Callable, Mapping

from phalanx.data import conform, source
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
        self._shape = shape
        self._note = note
        self._timeout = timeout
        self._deadline = core.deadline(timeout)

    def put(self, data: object, progress: Progress | None, stage_it: Force, what: str, *, replace: bool = False) -> int:
        """Add rows; with `replace`, instead of all there are."""
        shape = self._shape
        rows = take_in(conform(source(data, shape.schema), shape.schema), shape.key, stage=stage_it)
        if isinstance(rows, Small):
            if not replace:
                require_rows(rows.rows.num_rows, what)
            return self._land(rows, replace=replace)
        large = stage(self._found(), rows, self._core.datasets, progress)
        if not replace:
            require_rows(large.count, what)
        return self._land(matched(large, self._core.datasets, replace=replace), replace=replace)

    def insert(self, data: object) -> int:
        """Add rows whose keys must be new."""
        rows = conform(source(data, self._shape.schema), self._shape.schema).table()
        return self._resolved(lambda draft: draft.insert(rows))

    def delete(self, where: str) -> int:
        """Remove the rows that match."""
        if plan_predicate(where, self._shape.schema).loggable:
            return self._commit([it.DeleteWhere(self._shape.table, where)])
        return self._resolved(lambda draft: draft.delete(where))

    def update(self, changes: Mapping[str, object], where: str | None) -> int:
        """Set columns of the rows that match."""
        planned = plan_assignments(changes, self._shape.schema)
        predicate = None if where is None else plan_predicate(where, self._shape.schema)
        keeps_keys = not set(planned.targets) & set(self._shape.key)
        if planned.loggable and keeps_keys and (predicate is None or predicate.loggable):
            return self._commit([it.UpdateWhere(self._shape.table, tuple(planned.sql.items()), where)])
        return self._resolved(lambda draft: draft.update(changes, where))

    def _land(self, rows: Small | Large, *, replace: bool) -> int:
        cargo = Cargo()
        table = self._shape.table
        item: do.Action
        if replace:
            item = it.Overwrite(table, cargo.rows(rows))
        else:
            item = cargo.upsert(table, rows) if self._shape.key else it.Put(table, cargo.rows(rows))
        return self._commit([item], cargo)

    def _commit(self, actions: list[do.Action], cargo: Cargo | None = None) -> int:
        payloads = () if cargo is None else cargo.payloads
        return self._core.committer.commit(
            self._core.intent(actions, self._core.deadline(self._timeout), note=self._note, payloads=payloads)
        )

    def _resolved(self, run: Callable[[Draft], int]) -> int:
        def attempt() -> int:
            work = Work(self._core, self._timeout, self._note)
            run(work.draft_of(locate(work.view, self._shape.table)))
            return work.commit()

        return again(self._core, self._deadline, attempt)

    def _found(self) -> Found:
        return locate(self._core.refresh(), self._shape.table)
