"""Rules D2 and D3 on a table without a key: transactions whose rows move under them, and who is told of a conflict.

In plain words:

- A transaction reads at its snapshot S. Its deletes and updates are resolved there to identities (table.py), so they
  never touch a row that it did not see.
- A flush gives rows other identities and says which. Before a transaction lands at N, its identities are translated by
  every flush in (S, N], in order.
- First committer wins: it conflicts if an item that landed in (S, N] touched one of its rows, or if the table was
  restored. Upkeep never conflicts. To know it, the predicate of each such item is tried on the transaction's rows *as
  they were at S*. That is exact. Take the first item that touches one of its rows: up to there that row is what it was
  at S, so the predicate says yes of its image. And if the predicate of some item says yes of an image, that row was
  either still as it was, so this item touched it, or an item before had touched it already. For rows that are named by
  identity (another transaction's), identities are compared, translated up to that item.

The truth knows rows by names that no rule looks at, and keeps count of who touched them. A verdict that differs from it,
in either direction, is a violation: no conflict is missed and none is invented.

The actors are those of rows.py, on a table without a key, and transactions that begin and commit at any time. Left out:
the read set of `serializable`, rows that a transaction adds (nobody else can see or touch them), incarnations (they
change like generations), a log that was trimmed below S (D4).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from specs import rows
from specs import table as at
from specs.changes import Change, Row, Truth
from specs.explore import model
from specs.rows import FLUSH, FLUSH_ONE, RESTORE, REWRITE, TAG, Entry, Renamed, Restored, Work, bulk, logged
from specs.upkeep import translated


def begun(kind: str, value: int) -> Work:
    """A transaction that deletes, or adds to, the rows it sees from this value on."""
    return Work("transaction", Change(kind, "", value))


class Case(NamedTuple):
    """A menu and the rules under which it is tried; flags plant mistakes of the judge."""

    menu: tuple[Work, ...]
    rules: at.Rules = at.Rules()
    not_translated: bool = False
    only_the_tail_translated: bool = False
    others_compared_at_the_end: bool = False
    logs_its_predicate: bool = False
    judged_on_present_rows: bool = False
    upkeep_conflicts: bool = False
    restore_is_upkeep: bool = False

    def lake(self) -> rows.Case:
        """What the other actors follow."""
        return rows.Case(self.menu, self.rules)


class Transaction(NamedTuple):
    """Its statement, its rows as they were at its snapshot, and the entries that landed since.

    `lost` is the truth about it: somebody touched one of its rows.
    """

    statement: Change
    rows: tuple[Row, ...]
    since: tuple[Entry, ...] = ()
    lost: bool = False

    def names(self) -> frozenset[str]:
        """Its rows, as the truth knows them."""
        return frozenset(row.key for row in self.rows)


class State(NamedTuple):
    """The table and its other actors, and transactions under way."""

    lake: rows.State
    open: tuple[Transaction, ...] = ()
    wrong: str | None = None


Step = tuple[str, State]


def initial(case: Case) -> State:
    """Two rows in one fragment."""
    return State(rows.initial(case.lake()))


def broken(case: Case, state: State) -> str | None:
    """What must never be seen."""
    return state.wrong or rows.broken(case.lake(), state.lake)


def steps(case: Case, state: State) -> Iterator[Step]:
    """Every step of every actor."""
    for move in rows.moves(case.lake(), state.lake):
        told = state if move.entry is None else _told(state, move.entry)
        yield move.label, told._replace(lake=move.state)
    left = state.lake.left
    for index, work in enumerate(left):
        if work.kind == "transaction" and (index == 0 or left[index - 1] != work):
            rest = state._replace(lake=state.lake._replace(left=left[:index] + left[index + 1 :]))
            yield from _begin(case, rest, work.change)
    for index, transaction in enumerate(state.open):
        rest = state._replace(open=state.open[:index] + state.open[index + 1 :])
        yield _end(case, rest, transaction)


def _begin(case: Case, state: State, statement: Change) -> Iterator[Step]:
    seen = tuple(row for row in at.rows(case.rules, state.lake.table) if statement.touches(row))
    if seen:
        label = f"a transaction begins: {statement}, which is {_shown(seen)}"
        yield label, state._replace(open=(*state.open, Transaction(statement, seen)))


def _end(case: Case, state: State, transaction: Transaction) -> Step:
    ids = judge(case, state.lake.table, transaction)
    label = f"the transaction of {_shown(transaction.rows)} "
    if ids is None:
        invented = not transaction.lost and Restored() not in transaction.since
        wrong = f"{label}conflicts, but nobody touched its rows" if invented else None
        return f"{label}conflicts", state._replace(wrong=wrong)
    if transaction.lost:
        return f"{label}lands", state._replace(wrong=f"{label}lands, but its rows were touched")
    change = transaction.statement if case.logs_its_predicate else transaction.statement._replace(ids=ids)
    told = _told(state, change, transaction.names())
    table, truth = at.log(state.lake.table, change), _after(state.lake.truth, transaction)
    return f"{label}lands: {change}", told._replace(lake=state.lake._replace(table=table, truth=truth))


def judge(case: Case, table: at.Table, transaction: Transaction) -> frozenset[int] | None:
    """The identities that its rows have by now; None: a conflict. Nothing but the log since S is looked at."""
    at_first = ids = frozenset(row.id for row in transaction.rows)
    images: tuple[Row, ...] = transaction.rows
    if case.judged_on_present_rows:
        images = tuple(row for row in at.rows(case.rules, table) if row.id in ids)
    for entry in transaction.since:
        match entry:
            case Restored():
                if not case.restore_is_upkeep:
                    return None
            case Renamed(fresh, moved):
                if case.upkeep_conflicts and ids & set(moved):
                    return None
                ids = _translated(case, ids, fresh, moved)
            case Change(ids=None):
                if any(entry.touches(row) for row in images):
                    return None
            case Change(ids=named):
                if named and named & (at_first if case.others_compared_at_the_end else ids):
                    return None
    return ids


def _translated(case: Case, ids: frozenset[int], fresh: int, moved: tuple[int, ...]) -> frozenset[int]:
    if case.not_translated:
        return ids
    if case.only_the_tail_translated:
        return translated((one for one in ids if one < 0), fresh, moved) | {one for one in ids if one >= 0}
    return translated(ids, fresh, moved)


def _told(state: State, entry: Entry, names: frozenset[str] = frozenset()) -> State:
    """An entry lands: every open transaction will read it, and the truth knows whose rows it touches."""
    touched = names
    if isinstance(entry, Change) and not names:
        touched = frozenset(key for key, value in state.lake.truth if entry.touches(Row(0, key, value)))
    return state._replace(
        open=tuple(
            one._replace(since=(*one.since, entry), lost=one.lost or bool(touched & one.names())) for one in state.open
        )
    )


def _after(truth: Truth, transaction: Transaction) -> Truth:
    mine = transaction.names()
    if transaction.statement.kind == "delete":
        return tuple((key, value) for key, value in truth if key not in mine)
    return tuple((key, value + 1 if key in mine else value) for key, value in truth)


def _shown(seen: tuple[Row, ...]) -> str:
    return " ".join(f"{row.key}={row.value}({row.id})" for row in seen)


_APPEND, _DELETE, _ADD = logged("append", "c", 4), logged("delete", "", 4), logged("add", "", 3)
_BULK_APPEND, _BULK_ADD, _BULK_DELETE = bulk("append", "d", 3), bulk("add", "", 3), bulk("delete", "", 4)
_OVERWRITE = bulk("overwrite", "e", 3)
_T_DELETE, _T_ADD, _T_HIGH = begun("delete", 3), begun("add", 3), begun("delete", 4)

_HOLDS = {
    "the rules: two transactions, appends, updates, flushes": Case(
        (_APPEND, _ADD, FLUSH, FLUSH_ONE, _T_DELETE, _T_ADD)
    ),
    "the rules: two transactions and bulk changes": Case((_BULK_APPEND, _BULK_ADD, FLUSH, FLUSH, _T_DELETE, _T_ADD)),
    "the rules: deletions of all kinds": Case((_APPEND, _DELETE, _BULK_DELETE, _OVERWRITE, FLUSH, _T_HIGH)),
    "the rules: rewrite and restore": Case((_APPEND, _BULK_ADD, FLUSH, REWRITE, TAG, RESTORE, _T_DELETE)),
    "relaxed: a restore rewinds the serial numbers": Case(
        (_APPEND, _ADD, FLUSH, FLUSH, TAG, RESTORE, _T_DELETE), at.Rules(restore_rewinds_serials=True)
    ),
}
_PLANTED = {
    "D2: identities are not translated by flushes": Case((_APPEND, FLUSH, _T_DELETE), not_translated=True),
    "D2: identities of updated rows of the head are not translated": Case(
        (_ADD, FLUSH, _T_DELETE), only_the_tail_translated=True
    ),
    "D2: identities in items behind a flush are not translated": Case(
        (_APPEND, FLUSH, _T_DELETE), at.Rules(items_behind_a_flush_not_translated=True)
    ),
    "D2: a transaction logs its predicate, not its rows": Case((_APPEND, _T_DELETE), logs_its_predicate=True),
    "D2: other transactions' rows are compared untranslated": Case(
        (_APPEND, FLUSH, _T_HIGH, begun("add", 4)), others_compared_at_the_end=True
    ),
    "D2: a restore is not a conflict": Case(
        (_APPEND, logged("append", "d", 2), FLUSH, FLUSH, TAG, RESTORE, _T_HIGH), restore_is_upkeep=True
    ),
    "D2: a flush is a conflict": Case((_APPEND, FLUSH, _T_DELETE), upkeep_conflicts=True),
    "D3: predicates are tried on the rows as they are by now": Case(
        (_APPEND, _DELETE, _T_DELETE), judged_on_present_rows=True
    ),
}
_GOALS: dict[str, Callable[[State], bool]] = {
    "a transaction whose rows moved twice is free to land": lambda state: any(
        sum(isinstance(entry, Renamed) for entry in one.since) == 2 and not one.lost for one in state.open
    ),
    "a transaction has lost": lambda state: any(one.lost for one in state.open),
    "two transactions have landed": lambda state: (
        sum(item.change.ids is not None for item in state.lake.table.items) == 2
    ),
}
_WALKS = {
    "long histories": Case(
        (
            *(logged("append", name, 2 + index % 3) for index, name in enumerate("fghijk")),
            *(bulk("append", name, 3) for name in "lmn"),
            *(_DELETE, _ADD, _ADD, _BULK_ADD, FLUSH_ONE, REWRITE) * 2,
            *(_BULK_DELETE, _OVERWRITE, TAG, RESTORE),
            *(_T_DELETE, _T_ADD, begun("add", 2), FLUSH) * 4,
        )
    )
}

MODEL = model("transactions", (initial, steps, broken), _HOLDS, _PLANTED, _GOALS, _WALKS)
