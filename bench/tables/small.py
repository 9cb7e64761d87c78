"""One client appends a few rows again and again: beside the raw put-if-absent of the same bytes, and beside the others.

What syncs and what does not are measured apart: what one leaves unsynced would be written by the next one's fsync.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import partial
from itertools import count
from pathlib import Path

from bench.frame import Bench, timed
from bench.raw import RawFiles, Way, nameless_works
from bench.report import Section, median, milliseconds
from bench.systems.port import DISK, LEFT_OUT, OS, Address, Client, caveat, numbered, own, peers, prefilled
from phalanx.objects import layout

ROWS = 10
PREFILLED = 10_000
RAW = "raw put-if-absent of the same bytes, synced"


def measure(bench: Bench) -> Section:
    """The section."""
    local = bench.place.local
    note = (
        f"{ROWS} rows into a table of {PREFILLED:,} without a key. {caveat(local=local)} Those that sync nothing are "
        "measured apart from those that do."
    )
    with bench.section("small", "One client appends a few rows", note) as section, ExitStack() as stack:
        clients = {}
        for system in own(local=local) + (peers() if local else []):
            address = Address(bench.place.new("small"), bench.place.options, system.durability)
            system.load().fill(address, prefilled(PREFILLED))
            clients[system.name] = (address, stack.enter_context(closing(system.load().connect(address))))
        address, client = clients.pop(DISK)
        synced: dict[str, Callable[[], object]] = {DISK: _appending(client)}
        if local:
            synced[RAW] = _raw(bench, address, client, stack)
        _compete(bench, section, bench.pick(500, 10), synced)
        unsynced = {name: _appending(client) for name, (_, client) in clients.items()}
        if local:
            _compete(bench, section, bench.pick(100, 5), unsynced)
        else:
            for peer in peers():
                section.row(peer.name, LEFT_OUT)
        _conclude(section, list(unsynced))
    return section


def _appending(client: Client) -> Callable[[], object]:
    numbers = count(PREFILLED, ROWS)
    return lambda: client.append(numbered(next(numbers), ROWS))


def _raw(bench: Bench, address: Address, client: Client, stack: ExitStack) -> Callable[[], object]:
    client.append(numbered(0, ROWS))
    store = bench.place.store(address.uri)
    data = store.get(store.last(layout.bucket(1)) or "", limit=1 << 20)
    assert data is not None
    way: Way = "nameless" if nameless_works(bench.place.folder) else "named"
    files = stack.enter_context(RawFiles(Path(bench.place.new("small")), way))
    return partial(files.put, data)


def _compete(bench: Bench, section: Section, rounds: int, work: Mapping[str, Callable[[], object]]) -> None:
    os.sync()
    for one in work.values():
        one()
    bench.in_turns("in turns", rounds, {name: timed(section.series(name), one) for name, one in work.items()})
    for name in work:
        section.row(name, milliseconds(section.samples[name]))


def _conclude(section: Section, unsynced: list[str]) -> None:
    times = {name: median(values) for name, values in section.samples.items()}
    if RAW in times:
        section.ratio(f"{DISK} / {RAW}, medians", times[DISK] / times[RAW])
    for name in unsynced:
        if name != OS:
            section.ratio(f"{name} / {OS}, medians", times[name] / times[OS])
            section.ratio(f"{name} / {DISK}, medians", times[name] / times[DISK])
