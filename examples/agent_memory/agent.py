"""One agent: a process that takes turns, calls tools and remembers, each step one transaction over four tables.

Run as a program: `python -m examples.agent_memory.agent LAKE ACKS NAME SECONDS`. It goes on where an agent of its name was
killed: how many turns it has taken is in the lake.
"""

import json
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import phalanx
from examples.agent_memory.tables import SIZE

TOOLS = ("search", "browse", "calculate", "write file")
WORDS = [
    "lance",
    "phalanx",
    "lake",
    "table",
    "row",
    "column",
    "key",
    "index",
    "vector",
    "memory",
    "agent",
    "turn",
    "tool",
    "call",
    "spark",
    "pipeline",
    "commit",
]


def step(lake: phalanx.Lake, name: str, number: int, calls: int, chance: random.Random) -> tuple[int, int]:
    """One step of an agent; the version that it landed on, and how many calls there are by now."""
    now = datetime.now(UTC)  # noqa: TID251 - a program of its own
    said = " ".join(chance.choices(WORDS, k=12))
    used = [
        {"agent": name, "step": number, "tool": tool, "ok": chance.random() < 0.9}
        for tool in chance.sample(TOOLS, number % 3)
    ]
    topic = chance.choice(WORDS)
    with lake.transaction(f"{name}-{number}") as txn:
        txn["turns"].append(
            [{"agent": name, "step": number, "role": ("user", "assistant")[number % 2], "text": said, "at": now}]
        )
        if used:
            txn["tool_calls"].append(used)
        embedding = [chance.random() for _ in range(SIZE)]
        txn["memories"].upsert(
            [
                {
                    "id": f"{name}/{topic}",
                    "agent": name,
                    "text": f"{topic}: {said}",
                    "step": number,
                    "embedding": embedding,
                }
            ]
        )
        txn["agents"].upsert([{"agent": name, "turns": number, "calls": calls + len(used)}])
    return txn.version or 0, calls + len(used)


def main(uri: str, acks: str, name: str, seconds: str) -> None:
    """Take turns until the time is over; every acknowledgement is noted, with how long it took."""
    chance = random.Random(f"{name} {time.time_ns()}")
    with phalanx.open(uri) as lake, Path(acks, name).open("a") as notes:
        before = lake["agents"].get(name) or {"turns": 0, "calls": 0}
        number, calls = before["turns"], before["calls"]
        end = time.monotonic() + float(seconds)
        while time.monotonic() < end:
            number += 1
            began = time.monotonic()
            version, calls = step(lake, name, number, calls, chance)
            took = time.monotonic() - began
            notes.write(
                json.dumps({"step": number, "version": version, "at": time.time_ns() / 1e9, "took": took}) + "\n"
            )
            notes.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
