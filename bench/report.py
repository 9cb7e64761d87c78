"""What was measured: sections with figures and comparisons, as tables for people and as JSON for programs.

A comparison is a ratio of two figures of the same run, a count, or a time that people wait for; it may have a target, and
is then `met` or `MISSED`.
A section that was interrupted is kept with what was measured until then (`complete` is false).
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.machine import Facts

Value = float | int | str | None
Kind = Literal["ratio", "count", "seconds"]

_UNITS: Mapping[Kind, str] = {"ratio": " x", "count": "", "seconds": " s"}
_ALL_VALUES = 64
"""Up to so many samples are kept one by one; of more, only their summary."""


class Target(msgspec.Struct, frozen=True):
    """What a figure should be."""

    relation: Literal["<=", ">=", "=="]
    limit: float

    def admits(self, value: float) -> bool:
        """Whether the target is met."""
        relations = {"<=": value <= self.limit, ">=": value >= self.limit, "==": value == self.limit}
        return relations[self.relation]

    def __str__(self) -> str:
        return f"{self.relation} {self.limit:g}"


class Comparison(msgspec.Struct, frozen=True):
    """A figure that means something on any machine; `met` is None where nothing is asked of it."""

    name: str
    kind: Kind
    value: float
    target: str | None = None
    met: bool | None = None


class Row(msgspec.Struct, frozen=True):
    """One line of a section's table."""

    name: str
    figures: dict[str, Value]


class Samples(msgspec.Struct, frozen=True):
    """Repeated measurements of one thing, summed up."""

    count: int
    p50: float
    p99: float
    mean: float
    least: float
    most: float
    values: list[float] | None = None


class Section:
    """One question, and its answer in figures."""

    def __init__(self, key: str, title: str, note: str) -> None:
        self.key = key
        self.title = title
        self.note = note
        self.rows: list[Row] = []
        self.comparisons: list[Comparison] = []
        self.samples: dict[str, list[float]] = {}
        self.seconds = 0.0
        self.complete = False

    def series(self, name: str) -> list[float]:
        """The samples of this name, to append to: what is in it survives an interruption."""
        return self.samples.setdefault(name, [])

    def row(self, name: str, figures: Mapping[str, Value]) -> None:
        """Add a line to the table."""
        self.rows.append(Row(name, dict(figures)))

    def ratio(self, name: str, value: float, target: Target | None = None) -> None:
        """Add a ratio of two figures."""
        self._compare(name, "ratio", value, target)

    def count(self, name: str, value: float, target: Target | None = None) -> None:
        """Add a count, which does not depend on the machine."""
        self._compare(name, "count", value, target)

    def time(self, name: str, value: float, target: Target | None = None) -> None:
        """Add a time in seconds: a promise to people, which a slow machine may break."""
        self._compare(name, "seconds", value, target)

    def as_json(self) -> dict[str, object]:
        """All of it, for the file."""
        return {
            "key": self.key,
            "title": self.title,
            "note": self.note,
            "complete": self.complete,
            "seconds": round(self.seconds, 2),
            "rows": self.rows,
            "comparisons": self.comparisons,
            "samples": {name: _samples(values) for name, values in self.samples.items() if values},
        }

    def _compare(self, name: str, kind: Kind, value: float, target: Target | None) -> None:
        met = None if target is None else target.admits(value)
        self.comparisons.append(Comparison(name, kind, value, None if target is None else str(target), met))


class Report:
    """All sections of a suite, written again whenever one is finished."""

    def __init__(self, suite: str, path: Path, facts: Facts, *, quick: bool) -> None:
        self.path = path
        self.sections: list[Section] = []
        self._head = {"suite": suite, "quick": quick, "machine": facts}

    def write(self, *, complete: bool, more: Mapping[str, object] | None = None) -> None:
        """Write the file whole, or leave the one that was there."""
        sections = [section.as_json() for section in self.sections]
        body = {**self._head, **(more or {}), "complete": complete, "sections": sections}
        partial = self.path.with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n")
        partial.replace(self.path)


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that so many of the values do not exceed; NaN if there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle one; the lower of two."""
    return quantile(values, 0.5)


def milliseconds(values: Sequence[float]) -> dict[str, Value]:
    """A row's figures for times that were taken in seconds."""
    return {"p50 ms": _ms(values, 0.5), "p99 ms": _ms(values, 0.99), "samples": len(values)}


def show(console: Console, section: Section) -> None:
    """Print a section."""
    console.print(f"\n[bold]{escape(section.title)}[/bold]" + ("" if section.complete else " [red](interrupted)[/red]"))
    console.print(f"[dim]{escape(section.note)}[/dim]")
    if section.rows:
        console.print(_figures(section.rows))
    if section.comparisons:
        console.print(_comparisons(section.comparisons))


def verdict(console: Console, sections: Sequence[Section]) -> None:
    """Print which targets were met, all suites' in one line, and those that were not one by one."""
    asked = [(section, one) for section in sections for one in section.comparisons if one.met is not None]
    missed = [(section, one) for section, one in asked if not one.met]
    style = "red" if missed else "green"
    console.print(f"\n[bold {style}]{len(asked) - len(missed)} of {len(asked)} targets met[/]")
    for section, one in missed:
        text = f"MISSED  {section.key}: {one.name} = {_text(one.value)}, target {one.target}"
        console.print(f"  [red]{escape(text)}[/red]")


def _figures(rows: Sequence[Row]) -> Table:
    columns = list(dict.fromkeys(column for row in rows for column in row.figures))
    table = Table(pad_edge=False)
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(escape(row.name), *(_text(row.figures.get(column)) for column in columns))
    return table


def _comparisons(comparisons: Sequence[Comparison]) -> Table:
    table = Table(pad_edge=False, box=None)
    for column in ("compared", "value", "target", ""):
        table.add_column(column, justify="right" if column == "value" else "left")
    words = {True: "[green]met[/green]", False: "[bold red]MISSED[/bold red]", None: ""}
    for one in comparisons:
        value = _text(one.value) + _UNITS[one.kind]
        table.add_row(escape(one.name), value, escape(one.target or ""), words[one.met])
    return table


def _samples(values: Sequence[float]) -> Samples:
    return Samples(
        len(values),
        median(values),
        quantile(values, 0.99),
        sum(values) / len(values),
        min(values),
        max(values),
        list(values) if len(values) <= _ALL_VALUES else None,
    )


def _ms(values: Sequence[float], part: float) -> float:
    return quantile(values, part) * 1e3


def _text(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, int) or value == int(value) if math.isfinite(value) else False:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
