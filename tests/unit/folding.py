"""States and transactions to fold: what the tests of the catalog begin with."""

import pyarrow as pa

from phalanx import catalog
from phalanx.catalog import Catalog, State
from phalanx.ids import LakeId
from phalanx.log import action as do
from phalanx.log import item as it
from phalanx.log.entry import Landing, Transaction
from phalanx.schema import encode_schema

A, B = "a" * 32, "b" * 32
LAKE = LakeId(b"L" * 16)
FOLD = Catalog()
SCHEMA = encode_schema(pa.schema([("c", pa.int64()), ("d", pa.int64())]))
PAYLOADS = (b"rows", b"more")


def fold(*actions: do.Action, state: State | None = None, position: int = 1) -> State:
    """The state after these actions, each at a position of its own."""
    state = State() if state is None else state
    for at, action in enumerate(actions, start=position):
        state = catalog.step(state, Landing(at, 0, PAYLOADS), transaction(at, action))
    return state


def alter(table: str, base: int, layout: int, *steps: it.Step) -> it.Alter:
    return it.Alter(table, base, it.Layout(layout, SCHEMA, ("c",), steps))


def transaction(number: int, *actions: do.Action) -> Transaction:
    return Transaction(number.to_bytes(16, "big"), "", actions)


BEFORE = (do.CreateNamespace(("n",), {"k": "1", "l": "2"}), do.CreateTable(("t",), A, {"p": "q"}, SCHEMA, (), 7))
FIRST = it.Layout(0, SCHEMA, ())
ROWS = it.Inline(0, 2)


def prepared() -> State:
    tagged = (do.PutTag("old", 1, False), do.SetProperty("key", "value"), do.Progress("feed", None, 4))
    return fold(*BEFORE, *tagged, it.Put(A, ROWS), it.DeclareIndex(A, "i", "c", "btree", {}))
