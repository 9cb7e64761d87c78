"""`make demo`: four agents write to two tables of one lake, one is killed; acknowledged is compared with found.

Each agent is a process of its own, with no server between them. A step is one transaction: a turn is appended to `turns`,
and the agent's row in `agents` says how many there are. A reader checks all the while that the two tables agree, and the
tables are flushed under everybody's feet. One agent is killed in the middle of its work. Then the lake is opened anew.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import phalanx
from phalanx.testing import Acks, Verdict, verdict

WRITERS = 4
SECONDS = 6.0


class Outcome(msgspec.Struct):
    """What the demo found."""

    lake: str
    verdict: Verdict
    version: int
    turns: int
    checked: int
    disagreed: int
    commits_per_second: float
    killed: str
    by_writer: dict[str, int]


def create(uri: str) -> None:
    """A lake with the two tables, created in one step."""
    text: pa.DataType = pa.string()
    number: pa.DataType = pa.int64()
    turns = pa.schema({"agent": text, "step": number, "text": text, "at": pa.timestamp("us")})
    agents = pa.schema({"agent": text, "turns": number})
    with phalanx.open(uri, create=True) as lake, lake.transaction() as txn:
        txn.create_table("turns", turns)
        txn.create_table("agents", agents, key="agent")


def write(uri: str, acks: Path, name: str, seconds: float) -> None:
    """One agent: change both tables in one transaction, note the acknowledgement, again."""
    record = Acks(acks / name)
    with phalanx.open(uri) as lake:
        (acks / name).touch()  # ready: everybody begins together
        step = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step += 1
            with lake.transaction(f"{name}-{step}") as txn:
                txn["turns"].append(
                    [{"agent": name, "step": step, "text": f"turn {step} of {name}", "at": time.time_ns() // 1000}]
                )
                txn["agents"].upsert([{"agent": name, "turns": step}])
            record.committed(f"{name}-{step}", txn.version or 0)


def agrees(lake: phalanx.Lake) -> bool:
    """Whether both tables say the same, at one version of the lake."""
    snapshot = lake.snapshot()
    counted = Counter(snapshot["turns"].to_arrow(["agent"])["agent"].to_pylist())
    said = {row["agent"]: row["turns"] for row in snapshot["agents"].to_arrow().to_pylist()}
    return dict(counted) == said


def run(folder: Path, seconds: float, *, show: bool) -> Outcome:
    """Start the writers, kill one, and compare."""
    uri, acks = str(folder / "lake"), folder / "acks"
    acks.mkdir(parents=True)
    create(uri)
    names = [f"agent-{number}" for number in range(1, WRITERS + 1)]
    command = [sys.executable, "-m", "examples.demo", "--write", uri, str(acks), "--seconds", str(seconds)]
    writers = {name: subprocess.Popen([*command, "--name", name]) for name in names}
    killed = names[-1]
    checked = disagreed = 0
    while not all((acks / name).exists() for name in names) and all(one.poll() is None for one in writers.values()):
        time.sleep(0.05)
    began = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    try:
        with Progress(*columns, disable=not show, console=Console(stderr=True)) as progress, phalanx.open(uri) as lake:
            task = progress.add_task(f"{WRITERS} agents write to two tables", total=seconds, count="")
            while any(process.poll() is None for process in writers.values()):
                time.sleep(0.1)
                gone = time.monotonic() - began
                checked += 1
                disagreed += not agrees(lake)
                if checked % 10 == 0:
                    lake.flush()
                progress.update(task, completed=min(gone, seconds), count=f"{lake.version} commits")
                if gone > seconds / 2 and writers[killed].poll() is None:
                    writers[killed].kill()
                    progress.console.print(f"killed {killed} (SIGKILL) in the middle of its work")
    finally:
        for process in writers.values():
            process.kill()
    with phalanx.open(uri) as lake:
        found = verdict(lake, acks)
        checked += 1
        disagreed += not agrees(lake)
        by_writer = {name: len((acks / name).read_text().splitlines()) for name in names}
        rate = found.acknowledged / seconds
        return Outcome(uri, found, lake.version, lake["turns"].count(), checked, disagreed, rate, killed, by_writer)


def report(outcome: Outcome, console: Console) -> None:
    """The verdict, for people."""
    most = max(outcome.by_writer.values())
    for name, count in outcome.by_writer.items():
        mark = "  killed" if name == outcome.killed else ""
        console.print(f"  {name}  {'█' * round(30 * count / most):<30} {count:>6} acknowledged{mark}")
    found = outcome.verdict
    untold = found.found - found.acknowledged
    fine = bool(found) and not outcome.disagreed
    lines = [
        f"acknowledged {found.acknowledged}, found {found.found} ({untold} landed as their writer died), rows {outcome.turns}",
        f"the two tables were compared {outcome.checked} times, and disagreed {outcome.disagreed} times",
        f"lost 0, doubled 0, positions dense up to {outcome.version}" if found else f"VIOLATIONS: {found.wrong[:5]}",
        f"{outcome.commits_per_second:.0f} transactions/s over both tables, each synced to disk",
    ]
    for line in lines:
        console.print(f"  {line}")
    console.print(f"  verdict: {'[bold green]nothing lost[/]' if fine else '[bold red]BROKEN[/]'}\n")
    console.print("look around:")
    for verb, more in (("show", ""), ("log", ""), ("query", " agents"), ("history", " turns")):
        console.print(f"  .venv/bin/phalanx {verb} {outcome.lake}{more}", soft_wrap=True)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where to put the lake; a temporary folder by default")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(given.write[0], Path(given.write[1]), given.name, given.seconds)
        return 0
    console = Console(highlight=False)
    folder = given.folder or Path(tempfile.gettempdir()) / "phalanx-demo"
    if given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)  # what the last demo left
    elif folder.exists() and any(folder.iterdir()):
        console.print(f"{folder} is not empty: choose another folder")
        return 2
    try:
        outcome = run(folder, given.seconds, show=not given.json and console.is_terminal)
    except KeyboardInterrupt:
        console.print("stopped: the lake is whole, as far as it got")
        return 130
    if given.json:
        sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")
    else:
        report(outcome, console)
    return 0 if outcome.verdict and not outcome.disagreed else 1


if __name__ == "__main__":
    sys.exit(main())
