"""`make demo`: four processes commit on one lake, one is killed, and what was acknowledged is compared with what is found.

Each writer is a process of its own, with no server between them. It counts its own source up, one commit a step, and
writes down each acknowledgement. One writer is killed in the middle of its work. Then the lake is opened anew and read.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
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
    commits_per_second: float
    killed: str
    by_writer: dict[str, int]


def write(uri: str, acks: Path, name: str, seconds: float) -> None:
    """One writer: commit, note the acknowledgement, again."""
    record = Acks(acks / name)
    with phalanx.open(uri) as lake:
        reached = lake.progress(name)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            step = (reached or 0) + 1
            action = phalanx.actions.Progress(name, reached, step)
            record.committed(f"{name}-{step}", lake.commit([action], note=f"{name}-{step}"))
            reached = step


def run(folder: Path, seconds: float, *, show: bool) -> Outcome:
    """Start the writers, kill one, and compare."""
    uri, acks = str(folder / "lake"), folder / "acks"
    acks.mkdir(parents=True)
    phalanx.open(uri, create=True).close()
    names = [f"agent-{number}" for number in range(1, WRITERS + 1)]
    command = [sys.executable, "-m", "examples.demo", "--write", uri, str(acks), "--seconds", str(seconds)]
    writers = {name: subprocess.Popen([*command, "--name", name]) for name in names}
    killed = names[-1]
    began = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    try:
        with Progress(*columns, disable=not show, console=Console(stderr=True)) as progress, phalanx.open(uri) as lake:
            task = progress.add_task(f"{WRITERS} processes commit on one lake", total=seconds, count="")
            while any(process.poll() is None for process in writers.values()):
                time.sleep(0.1)
                gone = time.monotonic() - began
                progress.update(task, completed=min(gone, seconds), count=f"{lake.version} commits")
                if gone > seconds / 2 and writers[killed].poll() is None:
                    writers[killed].kill()
                    progress.console.print(f"killed {killed} (SIGKILL) in the middle of its work")
    finally:
        for process in writers.values():
            process.kill()
    with phalanx.open(uri) as lake:
        found = verdict(lake, acks)
        by_writer = {name: len((acks / name).read_text().splitlines()) for name in names}
        return Outcome(uri, found, lake.version, found.acknowledged / seconds, killed, by_writer)


def report(outcome: Outcome, console: Console) -> None:
    """The verdict, for people."""
    most = max(outcome.by_writer.values())
    for name, count in outcome.by_writer.items():
        mark = "  killed" if name == outcome.killed else ""
        console.print(f"  {name}  {'█' * round(30 * count / most):<30} {count:>6} acknowledged{mark}")
    found = outcome.verdict
    untold = found.found - found.acknowledged
    lines = [
        f"acknowledged {found.acknowledged}, found {found.found} ({untold} landed as their writer died)",
        f"lost 0, doubled 0, positions dense up to {outcome.version}" if found else f"VIOLATIONS: {found.wrong[:5]}",
        f"{outcome.commits_per_second:.0f} commits/s, each synced to disk",
    ]
    for line in lines:
        console.print(f"  {line}")
    console.print(f"  verdict: {'[bold green]nothing lost[/]' if found else '[bold red]BROKEN[/]'}\n")
    console.print("look around:")
    for verb in ("show", "log", "tables"):
        console.print(f"  .venv/bin/phalanx {verb} {outcome.lake}", soft_wrap=True)


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
    return 0 if outcome.verdict else 1


if __name__ == "__main__":
    sys.exit(main())
