"""A lake to be judged on, and verdicts as letters: what the tests of the judge begin with."""

import pyarrow as pa

from phalanx.catalog import State, step
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.schema import encode_schema
from phalanx.txn.conflict import judge
from phalanx.txn.verdict import Already, Go, Kind, Verdict

A, B, C, D, E, F = (letter * 32 for letter in "abcdef")
MADE, BASE_END, LANDED, JUDGED = 8, 9, 10, 11
PAYLOADS = (b"rows", b"more")
SOME = it.Inline(0, 2)


def schema(*names: str) -> bytes:
    return encode_schema(pa.schema([(name, pa.int64()) for name in names]))


FIRST = it.Layout(0, schema("c", "d"), ())


def transaction(*actions: do.Action) -> Transaction:
    return Transaction(b"1" * 16, "", actions)


def at(position: int) -> Landing:
    return Landing(position, 0, PAYLOADS)


def verdict(state: State, *actions: do.Action) -> Verdict:
    return judge(transaction(*actions), state, at(JUDGED))[0]


def staged(base: int = BASE_END) -> it.Staged:
    """Rows that were staged when their table had last moved at `base`, as a version that may be its next head."""
    return it.Staged(5, 0, 1, 2, base, 0, 0, 2, True)


def alter(layout: int, *steps: it.Step, of: str = A, on: int = 0) -> it.Alter:
    """Other columns than c and d, by these steps; one that is added is called "new"."""
    names = ["c", "d"]
    for step_ in steps:
        if isinstance(step_, it.AddColumn):
            names.append("new")
        elif isinstance(step_, it.DropColumn):
            names.remove(step_.name)
        elif isinstance(step_, it.RenameColumn):
            names[names.index(step_.name)] = step_.to
    return it.Alter(of, on, it.Layout(layout, schema(*names), (), steps))


def base() -> State:
    """A namespace n, a table t of columns c and d with two items and one e without any, a tag old, and a source that has come to 4.

    Table t is at version 2; its first one is that of position 8.
    """
    state = step(State(), at(1), transaction(do.Found(do.Settings())))
    made = do.CreateNamespace(("n",), {}), do.CreateTable(("t",), A, {}, FIRST.schema, (), 1), it.Put(A, SOME)
    state = step(state, at(MADE), transaction(*made))
    held = (
        it.Put(A, SOME),
        it.DeclareIndex(A, "old", "c", "btree", {}),
        do.CreateTable(("e",), E, {}, b"", (), 1),
        do.PutTag("old", 1, False),
        do.Progress("feed", None, 4),
    )
    return step(state, at(BASE_END), transaction(*held))


LETTERS = {
    "E": Kind.EXISTS,
    "M": Kind.MISSING,
    "N": Kind.NOT_EMPTY,
    "C": Kind.CHANGED,
    "B": Kind.BEHIND,
    "V": Kind.VOID,
    "R": Kind.REPLAN,
    "U": Kind.IN_USE,
}


def letter(found: Verdict) -> str:
    if isinstance(found, Go | Already):
        return "." if isinstance(found, Go) else "="
    return next(letter for letter, kind in LETTERS.items() if kind is found.kind)
