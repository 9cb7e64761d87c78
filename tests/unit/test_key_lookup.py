"""Keys that are looked up through their index: of every kind, few and many, and whatever Lance thinks of the question."""

import datetime as dt
import tempfile
from collections.abc import Hashable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import phalanx
from phalanx.errors import AlreadyExistsError
from phalanx.expr import spelled
from phalanx.lake import Lake
from phalanx.table import Table
from phalanx.tables.dataset import Version
from phalanx.tail import lookup
from tests.unit.covering import covered, head, opened
from tests.unit.test_key_index import lake, numbers, table

__all__ = ["lake", "table"]

NOON = dt.datetime(2026, 11, 15, 12)  # noqa: DTZ001 - without a zone on purpose
TEXTS = [
    "",
    "'",
    "''",
    "\\",
    "\\'",
    "a\0b",
    "\0",
    "a\nb\t",
    "%_",
    "grüße",
    "🐘",
    "`",
    '"',
    "--",
    "/*",
    "$1",
    "x' or 'y",
]
KINDS: dict[str, tuple[list[pa.DataType], list[Any]]] = {
    "int": ([pa.int64()], [-(1 << 63), -1, 0, 1, 7, (1 << 63) - 1]),
    "unsigned": ([pa.uint64()], [0, 1, 1 << 63, (1 << 64) - 1]),
    "text": ([pa.string()], TEXTS),
    "large text": ([pa.large_string()], TEXTS[:6]),
    "date": ([pa.date32()], [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2026, 11, 16), dt.date(9999, 12, 31)]),
    "moment": ([pa.timestamp("us", "UTC")], [NOON.replace(year=year, tzinfo=dt.UTC) for year in (1, 1969, 2026)]),
    "moment in a zone": ([pa.timestamp("us", "Asia/Tokyo")], [NOON.replace(tzinfo=dt.UTC, day=day) for day in (1, 2)]),
    "decimal": ([pa.decimal128(20, 4)], [Decimal(text) for text in ("0.0000", "-1.2345", "1.2345", "9999999.0001")]),
    "small decimal": ([pa.decimal128(18, 8)], [Decimal(text) for text in ("0E-8", "1E-8", "-1E-7", "12345.6789")]),
    "bytes": ([pa.binary()], [b"", b"\0", b"'", b"\xff\0", b"\\"]),
    "fixed bytes": ([pa.binary(2)], [b"\0\0", b"ab", b"\xff'"]),
    "several": ([pa.string(), pa.int32()], [(text, number) for text in TEXTS[:5] for number in (-1, 0, 1)]),
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["upsert", "bulk", "delete", "where", "update", "flush", "flush", "cover", "cover", "optimize"]
        ),
        st.lists(st.integers(0, 19), min_size=1, max_size=4),
    ),
    max_size=12,
)


def act(lake: Lake, table: Table, what: str, keys: list[Any], value: int) -> None:
    """One step, on the rows of these keys."""
    names = table.key

    def row(key: Any) -> dict[str, Any]:
        return {**dict(zip(names, key if len(names) > 1 else [key], strict=True)), "v": value}

    if what in {"upsert", "bulk"}:
        rows = pa.Table.from_pylist([row(key) for key in keys], schema=table.schema)
        table.upsert(rows, stage=what == "bulk")
    elif what == "delete":
        with lake.writer(table.name) as writer:
            for ack in [writer.delete(key) for key in keys]:
                ack.result(30)
    elif what == "where":
        table.delete(f"v % 5 = {value % 5}")
    elif what == "update":
        table.update({"v": "v + 1000"}, "v % 2 = 0")
    elif what == "flush":
        lake.flush(table.name)
    elif what == "cover":
        covered(lake, table.name)
    else:
        lake.optimize(table.name)


def expect(model: dict[Hashable, int], what: str, keys: list[Any], value: int) -> None:
    """The same step, on a dictionary."""
    if what in {"upsert", "bulk"}:
        model.update(dict.fromkeys(keys, value))
    elif what == "delete":
        for key in keys:
            model.pop(key, None)
    elif what == "where":
        for key in [key for key, held in model.items() if held % 5 == value % 5]:
            del model[key]
    elif what == "update":
        model.update({key: held + 1000 for key, held in model.items() if held % 2 == 0})


@pytest.mark.parametrize("kind", KINDS)
def test_get_finds_what_a_dictionary_would(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any mix of changes and upkeep, for keys of every kind, in the tail, flushed, hidden, updated and deleted."""
    types, keys = KINDS[kind]
    names = [f"k{number}" for number in range(len(types))]
    schema = pa.schema([*zip(names, types, strict=True), ("v", pa.int64())])
    monkeypatch.setattr(lookup, "_SCANNED", 0)  # the index is asked however small the table is
    tables = iter(range(1 << 20))

    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as lake:

        @settings(max_examples=8, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
        @given(STEPS)
        def run(steps: list[tuple[str, list[int]]]) -> None:
            table = lake.create_table(f"t{next(tables)}", schema, key=names)
            model: dict[Hashable, int] = {}
            for value, (what, chosen) in enumerate(steps):
                some = [keys[one % len(keys)] for one in chosen]
                act(lake, table, what, some, value)
                expect(model, what, some, value)
                found = {key: table.get(key) for key in {keys[one % len(keys)] for one in (*chosen, 0, 1)}}
                assert {key: row and row["v"] for key, row in found.items()} == {key: model.get(key) for key in found}
            assert {key: (table.get(key) or {}).get("v") for key in keys} == {key: model.get(key) for key in keys}
            many = table.get_many([*keys, *keys])
            assert sorted(many["v"].to_pylist()) == sorted(model.values())
            assert table.count() == len(model)
            taken = next(iter(model), None)
            if taken is not None:
                with pytest.raises(AlreadyExistsError):
                    table.insert([{**dict(zip(names, taken if len(names) > 1 else [taken], strict=True)), "v": 0}])  # type: ignore[arg-type]

        run()


def test_many_keys_are_looked_up_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By several threads, or by this one if Python is ending; the same rows, hidden ones left out."""
    with phalanx.open(tmp_path / "lake", create=True, durability="os") as lake:
        lake.set_property("flush.background", "off")
        table = lake.create_table("t", pa.table({"id": range(50_000), "v": [0] * 50_000}), key="id")
        lake.optimize("t")
        monkeypatch.setattr(lookup, "_MANY", 7)
        monkeypatch.setattr(lookup, "_SCANNED", 1)
        wanted = [*range(0, 50_000, 997), *range(60_000, 60_050)]
        table.upsert([{"id": one, "v": 1} for one in wanted])
        assert table.count("v = 1") == len(wanted)
        table.upsert([{"id": one, "v": 2} for one in wanted])
        monkeypatch.setattr(lookup, "ThreadPoolExecutor", _ending)
        table.upsert([{"id": one + 1, "v": 3} for one in wanted])
        assert (table.count("v = 2"), table.count("v = 3"), table.count()) == (len(wanted) - 49, len(wanted), 50_051)
        lake.flush()
        assert (table.count("v = 2"), table.count("v = 3"), table.count()) == (len(wanted) - 49, len(wanted), 50_051)


@pytest.mark.parametrize("text", ["0E-8", "1E-8", "-1E-7", "1E+3", "12345.6789"])
def test_decimals_are_spelled_without_an_exponent(text: str) -> None:
    """Lance does not read one."""
    words = spelled(pa.scalar(Decimal(text), pa.decimal128(18, 8)))
    assert words is not None
    assert "E" not in words


def test_the_least_number_is_found_among_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no words for it but a cast of its text: without them, every read of the table failed."""
    least = -(1 << 63)
    with opened(tmp_path) as lake:
        table = lake.create_table("t", pa.table({"id": [least, *range(5000)], "v": [0] * 5001}), key="id")
        lake.optimize("t")
        monkeypatch.setattr(lookup, "_MANY", 7)
        monkeypatch.setattr(lookup, "_SCANNED", 1)
        table.upsert([{"id": one, "v": 1} for one in [least, *range(20)]])
        assert (table.count("v = 1"), table.count(), table.get(least)) == (21, 5001, {"id": least, "v": 1})


@pytest.mark.parametrize("many", [2500, 7])
def test_a_question_that_lance_does_not_take_is_answered_by_a_pass(
    table: Table, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """What was acknowledged is read, whatever an index is good for."""
    monkeypatch.setattr(lookup, "_MANY", many)
    monkeypatch.setattr(lookup, "_SCANNED", 1)
    monkeypatch.setattr(lookup, "_spelled_numbers", lambda numbers, _: [f"cast('{one}?' as bigint)" for one in numbers])
    table.upsert([{"id": one, "v": 1} for one in range(10)])
    assert (table.count("v = 1"), table.count(), table.get(3), table.get(2999)) == (
        10,
        3000,
        {"id": 3, "v": 1},
        {"id": 2999, "v": 0},
    )


def test_a_bulk_upsert_looks_its_keys_up(table: Table, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are staged because they are wide are few beside those of the table: its keys are not all read for them."""
    asked_ = list[object]()
    scan = Version.scan

    def noting(version: Version, columns: Any, **how: Any) -> Any:
        if version.manifest == before.manifest:
            asked_.append(how.get("where"))
        return scan(version, columns, **how)

    before = head(lake, "t")
    monkeypatch.setattr(Version, "scan", noting)
    table.upsert(numbers(5, 3, 1), stage=True)
    assert asked_
    assert all(asked_), "only rows that the index finds are read"
    assert (table.count("v = 1"), table.count()) == (3, 3000)


def _ending(*_: object) -> object:
    raise RuntimeError("cannot schedule new futures after interpreter shutdown")
