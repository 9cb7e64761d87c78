"""The tables: what agents write, all of one step in one transaction, and what the pipeline derives of it."""

import pyarrow as pa

import phalanx

SIZE = 16
"""Numbers of an embedding; those of a real model have some hundreds."""

TURNS = pa.schema(
    {
        "agent": pa.string(),
        "step": pa.int64(),
        "role": pa.string(),
        "text": pa.string(),
        "at": pa.timestamp("us", "UTC"),
    }
)
CALLS = pa.schema({"agent": pa.string(), "step": pa.int64(), "tool": pa.string(), "ok": pa.bool_()})
MEMORIES = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("agent", pa.string()),
        ("text", pa.string()),
        ("step", pa.int64()),
        ("embedding", pa.list_(pa.float32(), SIZE)),
    ]
)
AGENTS = pa.schema([pa.field("agent", pa.string(), nullable=False), ("turns", pa.int64()), ("calls", pa.int64())])
ACTIVITY = pa.schema([pa.field("agent", pa.string(), nullable=False), ("turns", pa.int64()), ("last", pa.int64())])
TOOLS = pa.schema([pa.field("tool", pa.string(), nullable=False), ("calls", pa.int64()), ("failed", pa.int64())])
WORDS = pa.schema({"agent": pa.string(), "step": pa.int64(), "word": pa.string()})


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
