"""The cost moved to readers: what was quick to write has to be put together by whoever reads it first.

A reader is a process of its own: one that wrote the changes would have planned their conditions already.
"""

import random
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from bench.frame import Bench
from bench.mixed.contest import PREFILLED, Mix
from bench.mixed.verify import verify
from bench.mixed.work import APPENDED, Operation, Outcome, operations, perform
from bench.report import Section, Target, Value, median
from bench.systems import of_phalanx
from bench.systems.port import DISK, LEFT_OUT, SYSTEMS, Address, caveat, numbered, peers, prefilled
from bench.workers import Crew, Work

SOON = Target("<=", 0.4)
MORE = 3
"""Changes that come one by one, each followed by a read."""
_SCRATCH = 100

Times = dict[str, list[float]]


@contextmanager
def reading(address: Address, scratch: Address) -> Iterator[Work[Times]]:
    """The order for a process: read something else first, then open the lake and read it again and again."""
    of_phalanx.fill(scratch, prefilled(_SCRATCH))
    with closing(of_phalanx.connect(scratch)) as warm:
        perform(warm, Operation("update", 1))
    of_phalanx.read(scratch)
    yield lambda _: _read(address)


def _read(address: Address) -> Times:
    times: Times = {}

    def timed(name: str, began: float) -> None:
        times.setdefault(name, []).append(time.perf_counter() - began)

    began = time.perf_counter()
    with of_phalanx.opened(address) as lake, closing(of_phalanx.connect(address)) as other:
        table = lake[of_phalanx.TABLE]
        timed("open the lake", began)
        for name in ("first read", "read again"):
            began = time.perf_counter()
            table.to_arrow()
            timed(name, began)
        for number in range(MORE):
            other.append(numbered(2 * APPENDED + number, 1))
            began = time.perf_counter()
            table.to_arrow()
            timed("read after one more append", began)
        for number in range(MORE):
            other.delete(PREFILLED - 1 - number)
            began = time.perf_counter()
            table.to_arrow()
            timed("read after one more delete", began)
        began = time.perf_counter()
        lake.flush(of_phalanx.TABLE)
        timed("flush", began)
        for _ in range(MORE):
            began = time.perf_counter()
            table.to_arrow()
            timed("read after the flush", began)
    return times


def measure(bench: Bench) -> Section:
    """The section."""
    changes = shuffled(bench.pick(5, 1))
    note = (
        f"{PREFILLED:,} rows and {len(changes)} pending changes: a half adds 10 rows, a quarter deletes and a quarter "
        "updates one row. All columns are read, into memory, by a process that wrote nothing. The others have nothing "
        f"pending, but many small files; they are opened anew for each read. {caveat(local=bench.place.local)}"
    )
    with bench.section("readers", "The cost moved to readers", note) as section:
        for number in range(bench.pick(5, 1)):
            bench.step("Phalanx", number)
            _round(bench, section, changes)
        for name, values in section.samples.items():
            section.row(f"Phalanx: {name}", _figures(values))
        for peer in peers():
            _peer(bench, section, peer.name, changes)
        section.time("first read of everything pending", median(section.samples["first read"]), SOON)
    return section


def shuffled(each: int) -> list[Operation]:
    """Changes as forty processes would have made them, in an order that is the same in every run."""
    found = [one for work in operations(Mix(20, 10, 10).kinds(), each, PREFILLED) for one in work]
    random.Random(7).shuffle(found)
    return found


def _round(bench: Bench, section: Section, changes: list[Operation]) -> None:
    address = Address(bench.place.new("readers"), bench.place.options, SYSTEMS[DISK].durability)
    scratch = Address(bench.place.new("readers"), bench.place.options, SYSTEMS[DISK].durability)
    of_phalanx.fill(address, prefilled(PREFILLED))
    _change(address, DISK, changes)
    with Crew(1) as crew:
        _, (times,) = crew.together(reading, [(address, scratch)])
    for name, values in times.items():
        section.series(name).extend(values)


def _change(address: Address, name: str, changes: list[Operation]) -> None:
    with closing(SYSTEMS[name].load().connect(address)) as client:
        for change in changes:
            perform(client, change)
    found = SYSTEMS[name].load().read(address)
    assert not verify(found, PREFILLED, [Outcome(change, 1, 0, 0) for change in changes]).wrong


def _peer(bench: Bench, section: Section, name: str, changes: list[Operation]) -> None:
    if not bench.place.local:
        section.row(name, LEFT_OUT)
        return
    bench.step(name)
    module = SYSTEMS[name].load()
    address = Address(bench.place.new("readers"), {})
    module.fill(address, prefilled(PREFILLED))
    _change(address, name, changes)
    times = section.series(f"{name}: open and read")
    for _ in range(bench.pick(10, 2)):
        began = time.perf_counter()
        module.read(address)
        times.append(time.perf_counter() - began)
    section.row(f"{name}: open and read", _figures(times))


def _figures(values: list[float]) -> dict[str, Value]:
    return {"p50 ms": median(values) * 1e3, "most ms": max(values) * 1e3, "samples": len(values)}
