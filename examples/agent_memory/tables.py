"""The tables: what agents write, all of one step in one transaction, and what the pipeline derives of it."""

import pyarrow as pa

import phalanx

SIZE = 16
"""Numbers of an embedding; those of a real model have some hundreds."""

_TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "number": pa.int64(),
    "truth": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "vector": pa.list_(pa.float32(), SIZE),
}


def _schema(key: str = "", **columns: str) -> pa.Schema:
    """Columns by the names of their types; a key is never null."""
    return pa.schema([pa.field(name, _TYPES[kind], nullable=name != key) for name, kind in columns.items()])


TURNS = _schema(agent="text", step="number", role="text", text="text", at="time")
CALLS = _schema(agent="text", step="number", tool="text", ok="truth")
MEMORIES = _schema("id", id="text", agent="text", text="text", step="number", embedding="vector")
AGENTS = _schema("agent", agent="text", turns="number", calls="number")
ACTIVITY = _schema("agent", agent="text", turns="number", last="number")
TOOLS = _schema("tool", tool="text", calls="number", failed="number")
WORDS = _schema(agent="text", step="number", word="text")


def create(uri: str) -> None:
    """A lake with all tables, created in one step."""
    with phalanx.open(uri, create=True) as lake, lake.transaction("tables of the demo") as txn:
        txn.create_table("turns", TURNS)
        txn.create_table("tool_calls", CALLS)
        txn.create_table("memories", MEMORIES, key="id")
        txn.create_table("agents", AGENTS, key="agent")
        txn.create_table("activity", ACTIVITY, key="agent")
        txn.create_table("tools", TOOLS, key="tool")
        txn.create_table("words", WORDS)
