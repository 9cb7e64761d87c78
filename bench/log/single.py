"""One client: a small commit beside the bare put-if-absent of the same bytes, in turns, commit by commit."""

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from bench.frame import Bench, timed
from bench.log.work import small_commit
from bench.raw import RawFiles, nameless_works
from bench.report import Section, Target, median, milliseconds
from phalanx import Lake
from phalanx.objects import layout

TARGET = Target("<=", 1.5)


def measure(bench: Bench) -> Section:
    """The section."""
    note = "Raw: the same bytes in a temporary file, fsync, link, fsync of the folder; nothing else."
    if not bench.place.local:
        note = "Raw: the same bytes by the bare conditional put, from the same client."
    with bench.section("single", "One client: a commit beside the raw put-if-absent", note) as section:
        if bench.place.local:
            _on_disk(bench, section)
        else:
            _remote(bench, section)
    return section


def _on_disk(bench: Bench, section: Section) -> None:
    # In one folder: ext4 puts them close together, so that whatever it finds there slows them alike.
    folder = Path(bench.place.new("single"))
    durable, relaxed, raw = str(folder / "disk"), str(folder / "os"), folder / "raw"
    rounds = bench.pick(2000, 50)
    with bench.place.lake(durable) as lake, bench.place.lake(relaxed, durability="os") as loose:
        data = _entry(bench, durable, lake)
        ways = {"raw, named temporary file": RawFiles(raw / "named", "named")}
        if nameless_works(bench.place.folder):
            ways = {"raw, O_TMPFILE": RawFiles(raw / "nameless"), **ways}
        unsynced = RawFiles(raw / "unsynced", "nameless" if len(ways) == 2 else "named", sync=False)
        work = {"commit": small_commit(lake), **{name: _putting(files, data) for name, files in ways.items()}}
        _compete(bench, section, rounds, work)
        for name in ways:
            ratio = median(section.samples["commit"]) / median(section.samples[name])
            section.ratio(f"commit / {name}, medians", ratio, TARGET)
        # Apart from the others: what it leaves unsynced would be written by the next one's fsync.
        work = {'commit, durability "os"': small_commit(loose), "raw without fsync": _putting(unsynced, data)}
        _compete(bench, section, rounds, work)
        for files in (*ways.values(), unsynced):
            files.close()
    section.count("bytes of the entry", len(data))


def _remote(bench: Bench, section: Section) -> None:
    uri, raw = bench.place.new("single"), bench.place.new("raw")
    store = bench.place.store(raw)
    numbers = count(1)
    with bench.place.lake(uri) as lake:
        data = _entry(bench, uri, lake)

        def put() -> None:
            with store.prepare([data]) as blob:
                blob.put(layout.entry(next(numbers)))

        _compete(bench, section, bench.pick(200, 10), {"commit": small_commit(lake), "raw put": put})
        ratio = median(section.samples["commit"]) / median(section.samples["raw put"])
        section.ratio("commit / raw put, medians", ratio, TARGET)


def _compete(bench: Bench, section: Section, rounds: int, work: Mapping[str, Callable[[], object]]) -> None:
    for one in work.values():
        one()  # the first makes folders, and opens connections
    bench.in_turns("in turns", rounds, {name: timed(section.series(name), one) for name, one in work.items()})
    for name in work:
        section.row(name, milliseconds(section.samples[name]))


def _entry(bench: Bench, uri: str, lake: Lake) -> bytes:
    """The bytes of such a commit."""
    position = small_commit(lake)()
    data = bench.place.store(uri).get(layout.entry(position), limit=1 << 20)
    assert data is not None
    return data


def _putting(files: RawFiles, data: bytes) -> Callable[[], None]:
    return lambda: files.put(data)
