"""Writers of small rows, alone and with `phalanx optimize` at work beside them, as a process of its own."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from bench.frame import Bench
from bench.report import Section, Target, median, milliseconds
from bench.tables.rows import SCHEMA, batches
from bench.workers import Crew
from phalanx import open as open_lake

WRITERS = 2
BESIDE = "beside optimize"


class Round(NamedTuple):
    """One run of the command: whether it failed, and how many groups it has rewritten."""

    failed: bool
    rewritten: int


@contextmanager
def writing(uri: str, turn: int, number: int) -> Iterator[Callable[[], object]]:
    """Upserts of one row, each acknowledged before the next."""
    with open_lake(uri) as lake:
        table = lake["t"]
        at = 0

        def step() -> None:
            nonlocal at
            at += 1
            table.upsert(
                [{"id": -((10 * turn + number) * 10**9 + at), "x": 0.5, "name": "new", "at": 0, "flag": True, "n": 7}]
            )

        yield step


def section(bench: Bench) -> Section:
    """The same writers, in turns without and with an optimizer, which begins again when it is done."""
    count, parts = bench.pick(4_000_000, 40_000, "rows"), bench.pick(80, 8, "fragments")
    seconds = bench.seconds(60.0, 2.0)
    note = (
        f"{WRITERS} processes upsert one row at a time into a table of {count:,} rows in {parts} fragments, synced; every "
        f"{seconds / 2:g} seconds by turns alone, and with `phalanx optimize` running, again and again; each turn has a lake "
        "of its own. Steps are single upserts, from call to acknowledgement. On two cores the optimizer takes some of the processor from the writers, whatever it does."
    )
    with bench.section("writers", "Writers beside optimize", note) as found, Crew(WRITERS) as crew:
        rates: dict[str, list[float]] = {"alone": [], BESIDE: []}
        steps: dict[str, list[float]] = {"alone": [], BESIDE: []}
        rounds: list[Round] = []
        for turn in range(bench.pick(4, 2)):
            for name in rates if turn % 2 == 0 else reversed(list(rates)):
                uri = bench.place.new("lake")  # what one turn has rewritten would be nothing to do for the next
                _load(bench, uri, count, parts)
                with _optimizing(uri) if name == BESIDE else _nothing() as done:
                    taken = crew.run(writing, (uri, turn), WRITERS, seconds / 2)
                rates[name].append(sum(len(one) for one in taken) / (seconds / 2))
                steps[name] += [step for one in taken for step in one]
                rounds += done
        for name, some in rates.items():
            worst = {"worst rows/s": min(some), "turns": len(some)}
            found.row(
                name, {"rows/s": median(some), **worst, **milliseconds(steps[name]), "max ms": max(steps[name]) * 1e3}
            )
        rewritten = sum(one.rewritten for one in rounds)
        found.row("optimize", {"rounds": len(rounds), "groups rewritten": rewritten})
        found.count("rounds of optimize that failed", sum(one.failed for one in rounds), Target("==", 0))
        found.count("groups that optimize has rewritten", rewritten, Target(">=", 1))
        beside, alone = (median(rates[name]) for name in (BESIDE, "alone"))
        found.ratio("rows a second beside optimize / alone", beside / alone, Target(">=", 0.8))
    return found


def _load(bench: Bench, uri: str, count: int, parts: int) -> None:
    bench.step("loading")
    with bench.place.lake(uri) as lake:
        table = lake.create_table("t", SCHEMA, key="id")
        for part in range(parts):
            size = count // parts
            table.append(pa.Table.from_batches(batches(size, part * size), SCHEMA), stage=True)
        lake.flush()


@contextmanager
def _nothing() -> Iterator[list[Round]]:
    yield []


@contextmanager
def _optimizing(uri: str) -> Iterator[list[Round]]:
    """Rounds of the command, one after the other, until the block ends."""
    done: list[Round] = []
    stop = threading.Event()
    command = [sys.executable, "-m", "phalanx", "optimize", uri, "t", "--json"]

    def rounds() -> None:
        while not stop.is_set():
            ended = subprocess.run(command, capture_output=True, check=False)
            failed = ended.returncode != 0
            done.append(Round(failed, 0 if failed else json.loads(ended.stdout)["t"]["rewritten"]))

    thread = threading.Thread(target=rounds)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()
