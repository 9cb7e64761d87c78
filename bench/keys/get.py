"""A row by its key, and many of them, beside lookups that Lance does through the same kind of index."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import lance
import pyarrow as pa

from bench.frame import Bench, timed
from bench.keys.large import KEPT, KEY, OURS, PLAIN, SAME, TABLE, Large, chosen, large
from bench.report import Section, Target, median, milliseconds
from bench.systems.port import LEFT_OUT
from bench.tables.scan import direct_dataset
from phalanx import Lake

TARGET = Target("<=", 2)
MANY = "Phalanx: get_many"

K = TypeVar("K")


def one(bench: Bench) -> Section:
    """The section of single keys."""
    here = large(bench)
    note = (
        f"{here.rows:,} rows of 6 columns, written out, with an index on the key. Every contestant is asked for the same "
        "keys, each for the first time, and gives all columns. Lance's dataset is opened once, and never looks for a newer "
        "version, as every get does."
    )
    with (
        bench.section("get", "A row by its key, beside Lance's index", note) as section,
        bench.place.lake(here.uri) as lake,
    ):
        rounds = bench.pick(1000, 10)
        table = lake[TABLE]
        lookups = _direct(bench, lake, here)
        ask: dict[str, Callable[[int], object]] = {OURS: partial(_get, lake), KEPT: table.get}
        ask |= {name: _looking_up(dataset) for name, dataset in lookups.items()}
        _agree(ask)
        work = {name: _asking(get, chosen(here.rows, rounds, 1).tolist()) for name, get in ask.items()}
        bench.in_turns("in turns", rounds, {name: timed(section.series(name), get) for name, get in work.items()})
        _conclude(section, OURS, lookups, TARGET)
    return section


def many(bench: Bench) -> Section:
    """The section of many keys at once."""
    here, count = large(bench), bench.pick(1000, 20, "keys_at_once")
    note = f"{count:,} keys, spread over {here.rows:,} rows, in one call: Lance is given them as `{KEY} in (…)`."
    with (
        bench.section("get_many", "Many rows by their keys", note) as section,
        bench.place.lake(here.uri) as lake,
    ):
        rounds = bench.pick(20, 3)
        table = lake[TABLE]
        lookups = _direct(bench, lake, here)
        ask: dict[str, Callable[[list[int]], int]] = {MANY: lambda keys: table.get_many(keys).num_rows}
        ask |= {name: _looking_up_many(dataset) for name, dataset in lookups.items()}
        asked = [chosen(here.rows, count, seed).tolist() for seed in range(rounds + 1)]
        assert {get(asked[0]) for get in ask.values()} == {count}
        work = {name: _asking(get, asked[1:]) for name, get in ask.items()}
        bench.in_turns("in turns", rounds, {name: timed(section.series(name), get) for name, get in work.items()})
        _conclude(section, MANY, lookups, None)
    return section


def _direct(bench: Bench, lake: Lake, here: Large) -> Mapping[str, lance.LanceDataset]:
    """What Lance is asked itself."""
    found = {SAME: direct_dataset(bench, lake, lake[TABLE])}
    return found if here.plain is None else found | {PLAIN: lance.dataset(here.plain)}


def _get(lake: Lake, key: int) -> object:
    return lake[TABLE].get(key)


def _looking_up(dataset: lance.LanceDataset) -> Callable[[int], pa.Table]:
    return lambda key: dataset.scanner(filter=f"{KEY} = {key}").to_table()


def _looking_up_many(dataset: lance.LanceDataset) -> Callable[[list[int]], int]:
    return lambda keys: dataset.scanner(filter=f"{KEY} in ({', '.join(map(str, keys))})").to_table().num_rows


def _agree(ask: Mapping[str, Callable[[int], object]]) -> None:
    """All give the same row; and whatever is slow only the first time is done."""
    answers = [get(7) for get in ask.values()]
    rows = [one.to_pylist() if isinstance(one, pa.Table) else [one] for one in answers]
    assert rows == rows[:1] * len(rows)


def _asking(get: Callable[[K], object], keys: list[K]) -> Callable[[], object]:
    left = iter(keys)
    return lambda: get(next(left))


def _conclude(section: Section, ours: str, lookups: Mapping[str, lance.LanceDataset], target: Target | None) -> None:
    for name, values in section.samples.items():
        section.row(name, milliseconds(values))
    if PLAIN not in lookups:
        section.row(PLAIN, LEFT_OUT)
    for name in lookups:
        ratio = median(section.samples[ours]) / median(section.samples[name])
        section.ratio(f"{ours} / {name}, medians", ratio, target)
