"""The verb `pipeline`: steps on Spark that run as one transaction; where they stand, and what they did."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx.amounts import shown_size
from phalanx.cli.output import JsonOption, StorageOption, console, counted, facts, grid, opened, plain, show
from phalanx.errors import UnsupportedError

if TYPE_CHECKING:
    from phalanx.spark.pipeline import Pipeline
    from phalanx.spark.run import Ran, StepRan
    from phalanx.spark.state import PastRun, Status

FileArgument = Annotated[Path, typer.Argument(help="Python file that declares the pipeline.", metavar="FILE")]
LakeOption = Annotated[str, typer.Option("--lake", "-l", metavar="LAKE", help="Path or URI of the lake.")]

pipeline = typer.Typer(
    name="pipeline",
    help="Steps on Spark that read tables and write others, all in one commit.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@pipeline.command()
def run(
    file: FileArgument,
    *,
    lake: LakeOption,
    number: Annotated[int | None, typer.Option("--run", help="The number of the run; the next one by default.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Read inputs as a whole, not what changed.")] = False,
    master: Annotated[str | None, typer.Option(help="Spark's master; local mode by default.")] = None,
    memory: Annotated[str, typer.Option(help="Memory of Spark's driver.")] = "2g",
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline; a run of a number that has landed before does nothing."""
    declared = _declared(file)
    from phalanx.spark import on, session  # noqa: PLC0415 - Spark takes time to load, and few ask
    from phalanx.spark.run import run_pipeline  # noqa: PLC0415

    with opened(lake, option) as found:
        spark = session(master, memory=memory)
        try:
            telling = None if as_json else _tell
            done = run_pipeline(on(found, spark), declared, number=number, full=full, progress=telling)
        finally:
            spark.stop()
    show(done, as_json, lambda: _said(done))


@pipeline.command()
def plan(file: FileArgument, *, as_json: JsonOption = False) -> None:
    """Draw the steps of a pipeline, in the order in which they run; nothing is read."""
    declared = _declared(file)
    from phalanx.spark.state import drawn, planned  # noqa: PLC0415 - as above

    show(planned(declared), as_json, lambda: "\n".join(plain(line) for line in drawn(declared)))


@pipeline.command()
def status(file: FileArgument, *, lake: LakeOption, option: StorageOption = None, as_json: JsonOption = False) -> None:
    """Say which run was the last, and what is new for the next one."""
    declared = _declared(file)
    from phalanx.spark.state import status as state  # noqa: PLC0415 - as above

    with opened(lake, option) as found:
        here = state(found, declared)
    show(here, as_json, lambda: _stands(here))


@pipeline.command()
def history(
    file: FileArgument,
    *,
    lake: LakeOption,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many runs.")] = 20,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs of a pipeline, newest first, with rows, bytes and time of each step."""
    declared = _declared(file)
    from phalanx.spark.state import history as past  # noqa: PLC0415 - as above

    with opened(lake, option) as found:
        runs = past(found, declared.name, limit)
    show(runs, as_json, lambda: _listed(runs))


def _declared(file: Path) -> "Pipeline":
    try:
        from phalanx.spark.pipeline import load_pipeline  # noqa: PLC0415 - as above
    except ImportError as error:
        raise UnsupportedError(str(error)) from None
    return load_pipeline(file)


def _tell(step: "StepRan") -> None:
    console.print(plain(f"  {_step(step)}"))


def _step(step: "StepRan") -> str:
    return f"{step.name} > {step.table}: {counted(step.rows, 'row')}, {shown_size(step.size)}, {step.seconds:.1f} s"


def _said(done: "Ran") -> str:
    if done.already and done.last != done.number:
        return plain(
            f"pipeline {done.pipeline} is at run {done.last}, which landed at version {done.version}: run {done.number} was "
            "before that or was left out, and nothing was done"
        )
    if done.already:
        return plain(f"run {done.number} of pipeline {done.pipeline} has landed before, at version {done.version}")
    return plain(
        f"run {done.number} of pipeline {done.pipeline}: read version {done.snapshot}, landed at version {done.version}, "
        f"{done.seconds:.1f} s"
    )


def _stands(here: "Status") -> object:
    last = "none yet" if here.run is None else f"{here.run}, at version {here.version} of {here.lake_version}"
    rows: list[tuple[str, object]] = [("pipeline", here.pipeline), ("last run", last)]
    for one in here.inputs:
        seen = "never read" if one.version is None else f"read up to version {one.version}"
        rows.append((f"changes of {one.table}", f"{seen}, {counted(one.new, 'commit')} new"))
    return facts(rows)


def _listed(runs: "list[PastRun]") -> object:
    rows = [
        (
            one.number,
            one.version,
            f"{one.time:%Y-%m-%d %H:%M:%S}",
            f"{one.seconds:.1f} s",
            "; ".join(map(_step, one.steps)),
        )
        for one in runs
    ]
    return grid(("run", "version", "time", "took", "steps"), rows, "it has not run yet: phalanx pipeline run FILE")
