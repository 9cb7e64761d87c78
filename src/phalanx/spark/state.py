"""Where a pipeline stands, and what its runs did: read from the lake alone, no Spark is started for it."""

import re
from datetime import datetime

import msgspec

from phalanx.errors import NotFoundError
from phalanx.lake import Lake
from phalanx.spark.inputs import Changed, Input, Made
from phalanx.spark.pipeline import Pipeline, waits_for
from phalanx.spark.run import StepRan, source_of

_RUN = re.compile(
    r"pipeline (?P<name>.+), run (?P<number>\d+) on version (?P<on>\d+) in (?P<took>[\d.]+) s: (?P<steps>.*)"
)
_STEP = re.compile(r"(?P<name>.+?) > (?P<table>.+?) (?P<rows>\d+) rows (?P<size>\d+) bytes (?P<took>[\d.]+) s(?:; |$)")
_PAGE = 500


class Behind(msgspec.Struct, frozen=True):
    """A table whose changes a pipeline reads: up to which version it has, and how many commits are new since."""

    table: str
    version: int | None
    new: int


class Status(msgspec.Struct, frozen=True):
    """Where a pipeline stands: its last run, the version of the lake that this became, and what is new for it."""

    pipeline: str
    run: int | None
    version: int | None
    lake_version: int
    inputs: tuple[Behind, ...]


class PastRun(msgspec.Struct, frozen=True):
    """A run that landed."""

    number: int
    version: int
    snapshot: int
    time: datetime
    writer: str
    seconds: float
    steps: tuple[StepRan, ...]


def status(lake: Lake, pipeline: Pipeline) -> Status:
    """Where a pipeline stands."""
    snapshot = lake.refresh()
    mark = snapshot.state.progress.get(source_of(pipeline.name))
    inputs = tuple(_behind(lake, pipeline.name, table) for table in pipeline.incremental())
    run, version = (None, None) if mark is None else (mark.number, mark.made)
    return Status(pipeline.name, run, version, snapshot.version, inputs)


def _behind(lake: Lake, pipeline: str, table: str) -> Behind:
    snapshot = lake.refresh()
    held = snapshot.progress(source_of(pipeline, table))
    try:
        landed = snapshot.found(table).contents.versions
    except NotFoundError:
        return Behind(table, held, 0)
    new = 0
    for one in landed.newest_first():
        if held is not None and one.position <= held:
            break
        new += 1
    return Behind(table, held, new)


def history(lake: Lake, pipeline: str, limit: int = 20) -> list[PastRun]:
    """The newest runs of a pipeline that the log still has, newest first."""
    found: list[PastRun] = []
    mark = lake.refresh().state.progress.get(source_of(pipeline))
    if mark is None:
        return found
    page = lake.log(_PAGE, before=mark.made + 1)
    while page and len(found) < limit and not (found and found[-1].number == 1):  # nothing of it comes before that
        for commit in page:
            match = _RUN.fullmatch(commit.note)
            if match is not None and match["name"] == pipeline:
                steps = tuple(map(_step, _STEP.finditer(match["steps"])))
                took = float(match["took"])
                found.append(
                    PastRun(
                        int(match["number"]), commit.version, int(match["on"]), commit.time, commit.writer, took, steps
                    )
                )
        page = lake.log(_PAGE, before=page[-1])
    return found[:limit]


def _step(match: re.Match[str]) -> StepRan:
    return StepRan(match["name"], match["table"], "", int(match["rows"]), int(match["size"]), float(match["took"]))


class Source(msgspec.Struct, frozen=True):
    """An input of a step: a `whole` table, the `changes` or `added` rows of one, or what a step has `made`."""

    kind: str
    name: str
    columns: tuple[str, ...] | None = None
    where: str | None = None


class Planned(msgspec.Struct, frozen=True):
    """A step as it will run: its inputs, by the names that it has for them, and the steps that it comes after."""

    name: str
    writes: str
    mode: str
    reads: dict[str, Source]
    after: tuple[str, ...]


def planned(pipeline: Pipeline) -> list[Planned]:
    """The steps of a pipeline, in the order in which they run."""
    steps = pipeline.ordered()
    return [
        Planned(
            step.name,
            step.writes,
            step.mode,
            {name: _source(one) for name, one in step.reads.items()},
            tuple(other.name for other in steps if other is not step and waits_for(step, other)),
        )
        for step in steps
    ]


def _source(one: Input) -> Source:
    if isinstance(one, Made):
        return Source("made", one.step)
    kind = "whole" if not isinstance(one, Changed) else "added" if one.added else "changes"
    return Source(kind, one.table, one.columns, one.where)


def drawn(pipeline: Pipeline) -> list[str]:
    """The graph of a pipeline, in the order in which its steps run: inputs, step, output."""
    lines = [f"pipeline {pipeline.name}"]
    for step in pipeline.ordered():
        reads = list(step.reads.values())
        for at, one in enumerate(reads):
            mark = "──┐" if len(reads) > 1 and at == 0 else "──┤" if at < len(reads) - 1 else "──┴"
            mark = "───" if len(reads) == 1 else mark
            end = f"─► [{step.name}] ─► {step.writes} ({step.mode})" if at == len(reads) - 1 else ""
            lines.append(f"  {_said(one):<40} {mark}{end}")
        if not reads:
            lines.append(f"  {'':<40} ───► [{step.name}] ─► {step.writes} ({step.mode})")
    return lines


def _said(one: Input) -> str:
    if isinstance(one, Made):
        return f"[{one.step}]"
    if isinstance(one, Changed):
        return f"{one.table} ({'added' if one.added else 'changes'} since the last run)"
    return one.table
