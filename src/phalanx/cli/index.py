"""The verb `index`: which indexes a table has, one more, or one less."""

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.table import Table as Grid

from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    TableArgument,
    grid,
    opened,
    pairs,
    plain,
    show,
)
from phalanx.cli.tasks import SparkOption, tasks_of
from phalanx.errors import InvalidInputError
from phalanx.indexing import IndexInfo
from phalanx.lake import Lake


def index(
    lake: LakeArgument,
    table: TableArgument,
    *,
    create: Annotated[str | None, typer.Option(metavar="COLUMN", help="Index this column, and keep it so.")] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="btree, bitmap, inverted (full text), "
            "ivf_flat, ivf_pq, ivf_sq, ivf_rq, ivf_hnsw_flat, ivf_hnsw_pq, ivf_hnsw_sq."
        ),
    ] = "btree",
    name: Annotated[str | None, typer.Option(help="Name of the new index; COLUMN_KIND without one.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="As Lance calls it: num_partitions=64; may be repeated."),
    ] = None,
    spark: SparkOption = None,
    drop: Annotated[str | None, typer.Option(metavar="NAME", help="Remove this index.")] = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the indexes of a table and what they cover; or create one, or drop one."""
    if create is not None and drop is not None:
        raise InvalidInputError("--create and --drop are two steps: give one of them")
    if create is None and (name is not None or setting or kind != "btree" or spark is not None):
        raise InvalidInputError("--kind, --name, --set and --spark belong to a new index: give --create COLUMN too")
    with opened(lake, option) as found:
        target = found[table]
        if create is not None:
            at = _create(found, table, spark, create, kind, name, settings(setting, target.create_index))
            made = next(one for one in target.indexes() if one.name == (name or f"{create}_{kind}"))
            said = f"created index {made.name} on {table} (version {at}): {coverage(made)}"
            show({"created": made, "committed": at}, as_json, lambda: plain(said))
        elif drop is not None:
            at = target.drop_index(drop)
            show({"dropped": drop, "committed": at}, as_json, lambda: plain(f"dropped index {drop} (version {at})"))
        else:
            listed = target.indexes()
            show(listed, as_json, lambda: index_grid(listed))


def _create(
    lake: Lake,
    table: str,
    spark: str | None,
    column: str,
    kind: str,
    name: str | None,
    chosen: dict[str, int | float | str | bool],
) -> int:
    with _quietly():
        if spark is None:
            return lake[table].create_index(column, kind, name=name, **chosen)
        with tasks_of(lake, spark) as there:
            return there.create_index(table, column, kind, name=name, **chosen)


def index_grid(indexes: Sequence[IndexInfo]) -> Grid | str:
    """Indexes, one on a line."""
    rows = [(one.name, one.kind, one.column, coverage(one), _settings(one)) for one in indexes]
    return grid(["index", "kind", "column", "coverage", "settings"], rows, "no indexes: --create COLUMN makes one")


def coverage(index: IndexInfo) -> str:
    """How much of what is written out it covers."""
    if not index.of:
        return "nothing is written out yet"
    return "covers all" if index.fragments == index.of else f"covers {index.fragments:,} of {index.of:,} fragments"


def settings(given: Sequence[str] | None, of: Callable[..., object]) -> dict[str, int | float | str | bool]:
    """`--set key=value` for a call, with numbers and truth values as such."""
    found = {key: _value(text) for key, text in pairs(given, "--set", "num_partitions=64").items()}
    known = next((key for key in found if key in inspect.signature(of).parameters), None)
    if known is not None:
        raise InvalidInputError(f"{known!r} is nothing to --set: there is an option or argument for it")
    return found


@contextmanager
def _quietly() -> Iterator[None]:
    """Whoever asks for an index is told why it cannot be built; there is no need to log it too."""
    log = logging.getLogger("phalanx.upkeep")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def _value(text: str) -> int | float | str | bool:
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _settings(index: IndexInfo) -> str:
    return ", ".join(f"{key}={value}" for key, value in index.options.items())
