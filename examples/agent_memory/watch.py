"""What must hold at every version, whoever writes, is killed, rewrites or prunes; and the verdict in the end."""

import json
from collections import Counter
from pathlib import Path

import msgspec

import phalanx
from phalanx.spark.run import source_of


class Verdict(msgspec.Struct):
    """What was acknowledged and what was found; `wrong` should be empty."""

    acknowledged: int
    found: int
    wrong: list[str]


def violations(lake: phalanx.Lake) -> list[str]:
    """What does not hold at the newest version: tables that agents change together, and those that are derived."""
    snapshot = lake.snapshot()
    turns = Counter(snapshot["turns"].to_arrow(["agent"])["agent"].to_pylist())
    calls = Counter(snapshot["tool_calls"].to_arrow(["agent"])["agent"].to_pylist())
    agents = {row["agent"]: row for row in snapshot["agents"].to_arrow().to_pylist()}
    wrong = [
        f"version {snapshot.version}: agent {name} says {row['turns']} turns and {row['calls']} calls, there are "
        f"{turns[name]} and {calls[name]}"
        for name, row in agents.items()
        if (row["turns"], row["calls"]) != (turns[name], calls[name])
    ]
    latest = snapshot["memories"].to_arrow(["agent", "step"]).to_pylist()
    wrong += [f"memory of {row['agent']} is ahead" for row in latest if row["step"] > agents[row["agent"]]["turns"]]
    read = snapshot.progress(source_of("memory", "turns"))
    if read is not None:
        derived = sum(row["turns"] for row in snapshot["activity"].to_arrow().to_pylist())
        steps = snapshot["words"].to_arrow(["agent", "step"]).group_by(["agent", "step"]).aggregate([]).num_rows
        if steps > derived:
            wrong.append(f"version {snapshot.version}: words of {steps} turns, and activity of {derived}")
    return wrong


def judge(lake: phalanx.Lake, acks: Path) -> Verdict:
    """Compare what agents were told with what is there: each turn once, and the derived tables as the turns say."""
    found = Counter((row["agent"], row["step"]) for row in lake["turns"].to_arrow(["agent", "step"]).to_pylist())
    told = [(path.name, note["step"]) for path in sorted(acks.iterdir()) for note in notes(path)]
    wrong = [f"acknowledged and lost: {one}" for one in told if not found[one]]
    wrong += [f"there {many} times: {one}" for one, many in found.items() if many > 1]
    activity = {row["agent"]: row["turns"] for row in lake["activity"].to_arrow().to_pylist()}
    counted = Counter(agent for agent, _ in found)
    if activity != dict(counted):
        wrong.append(f"the pipeline says {activity}, and there are {dict(counted)}")
    return Verdict(len(told), sum(found.values()), wrong + violations(lake))


def notes(path: Path) -> list[dict[str, float]]:
    """What an agent noted; its last line may be cut off, because it was killed."""
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]
