"""The demo as a program: a minute of work, the verdict, a plot, and how to look around."""

import argparse
import sys
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from examples.agent_memory.picture import blocks, write_plot
from examples.agent_memory.world import AGENTS, Outcome, Say, World

SECONDS = 60.0


def report(outcome: Outcome, picture: Path, console: Console) -> bool:
    """The verdict, for people; whether it is a good one."""
    found = outcome.verdict
    fine = not found.wrong and not outcome.violations
    rate = found.acknowledged / outcome.seconds
    console.print(
        f"\n  transactions/s  {blocks(outcome.rates)}  {rate:.0f} on average, each over 4 tables, synced to disk"
    )
    console.print(f"  slowest, ms     {blocks(outcome.latencies)}  p50 {outcome.p50:.0f}, p99 {outcome.p99:.0f}")
    mean = sum(outcome.run_seconds) / len(outcome.run_seconds)
    lines = [
        (
            f"{AGENTS} agents, {len(outcome.killed)} killed; {len(outcome.runs)} runs of the pipeline, {mean:.1f} s each; "
            f"{outcome.optimized} groups rewritten, pruned {outcome.pruned} times; version {outcome.version}"
        ),
        f"acknowledged {found.acknowledged}, found {found.found} ({found.found - found.acknowledged} landed as their agent died)",
        f"cross-table invariants were checked {outcome.checked} times, violations {len(outcome.violations) + len(found.wrong)}",
    ]
    for line in lines:
        console.print(f"  {line}")
    for wrong in [*found.wrong, *outcome.violations][:5]:
        console.print(f"  [red]{wrong}[/]")
    console.print(f"  verdict: {'[bold green]nothing lost[/]' if fine else '[bold red]BROKEN[/]'}\n")
    console.print(f"plot: {picture}", soft_wrap=True)
    console.print("look around:")
    for words in (
        "show LAKE",
        "log LAKE",
        "query LAKE activity",
        "history LAKE turns",
        "sql LAKE 'select * from tools'",
    ):
        console.print(f"  .venv/bin/phalanx {words.replace('LAKE', outcome.lake)}", soft_wrap=True)
    file = "examples/agent_memory/pipeline.py"
    for verb in ("plan", "status", "history"):
        where = "" if verb == "plan" else f" --lake {outcome.lake}"
        console.print(f"  .venv/bin/phalanx pipeline {verb} {file}{where}", soft_wrap=True)
    return fine


def fresh_folder() -> Path:
    """A folder for one demo: another one may be running beside it."""
    return Path(tempfile.mkdtemp(prefix="phalanx-demo-"))


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.agent_memory", description="A memory for agents, at work."
    )
    parser.add_argument("--folder", type=Path, help="where to put the lake; a new temporary folder by default")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    console = Console(highlight=False)
    folder = given.folder or fresh_folder()
    if folder.exists() and any(folder.iterdir()):
        console.print(f"{folder} is not empty: choose another folder")
        return 2
    say: Say = (lambda _: None) if given.json else (lambda text: console.print(f"  {text}"))
    say(f"the lake is in {folder}")
    try:
        outcome = World(folder, given.seconds, say).run()
    except KeyboardInterrupt:
        console.print("stopped: the lake is whole, as far as it got")
        return 130
    picture = folder / "demo.png"
    write_plot(picture, outcome.rates, outcome.latencies, outcome.killed, outcome.runs)
    if given.json:
        sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")
        return 0 if not outcome.verdict.wrong and not outcome.violations else 1
    return 0 if report(outcome, picture, console) else 1


if __name__ == "__main__":
    sys.exit(main())
