"""The verb `search`: the rows nearest to a vector, or to that of another row, or whose text matches best."""

from typing import Annotated, Any

import msgspec
import pyarrow as pa
import typer
from pyarrow import types
from rich.text import Text

from phalanx.cli.answer import rows_table, write_list
from phalanx.cli.index import settings
from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    TableArgument,
    TagOption,
    VersionOption,
    console,
    counted,
    opened,
)
from phalanx.cli.textual import plain_error
from phalanx.errors import InvalidInputError, NotFoundError
from phalanx.table import SnapshotTable

TextOption = Annotated[
    str | None, typer.Option("--text", help="Words to look for; the column needs an index of --kind inverted.")
]
VectorOption = Annotated[str | None, typer.Option("--vector", help='Nearest to this, as "[0.1, 0.2]".')]
VectorOfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--vector-of", metavar="KEY", help="Nearest to the row of this key; repeated if the key has several columns."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="As Lance calls it: nprobes=20; may be repeated."),
]


def search(
    lake: LakeArgument,
    table: TableArgument,
    *,
    text: TextOption = None,
    vector: VectorOption = None,
    vector_of: VectorOfOption = None,
    k: Annotated[int, typer.Option("--k", "-n", min=1, max=1_000_000, help="So many rows.")] = 10,
    where: Annotated[str | None, typer.Option("--where", "-w", help="Only rows that match, as in SQL.")] = None,
    columns: Annotated[list[str] | None, typer.Option("--columns", "-c", help="Only these, as a,b.")] = None,
    metric: Annotated[str | None, typer.Option(help="l2, cosine or dot; by default the index's, or l2.")] = None,
    vector_column: Annotated[str | None, typer.Option(help="If there are several of vectors.")] = None,
    text_column: Annotated[str | None, typer.Option(help="If several have a full-text index.")] = None,
    setting: SetOption = None,
    version: VersionOption = None,
    tag: TagOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search by text, by vector, or by both; best rows first."""
    if vector is not None and vector_of:
        raise InvalidInputError("--vector and --vector-of say the same: give one of them")
    if text is None and vector is None and not vector_of:
        raise InvalidInputError('say what to search for: --text "…", --vector "[…]" or --vector-of KEY')
    names = None if columns is None else [name.strip() for one in columns for name in one.split(",")]
    asked = {"text": text, "k": k, "where": where, "columns": names, "metric": metric}
    chosen = {"vector_column": vector_column, "text_column": text_column}
    with opened(lake, option) as found:
        target = found.snapshot(version=version, tag=tag)[table]
        query = _held(target, vector_of, vector_column) if vector_of else _numbers(vector)
        rows = target.search(query, **asked, **chosen, **settings(setting, target.search))  # type: ignore[arg-type]
    _print(rows, as_json)


def _print(rows: pa.Table, as_json: bool) -> None:
    if as_json:
        write_list(rows.to_reader())
        return
    if rows.num_rows:
        best, others = rows.schema.names[-1], rows.schema.names[:-1]
        console.print(rows_table(rows.select([best, *others])))  # in front, where a narrow terminal shows it
    console.print(Text(counted(rows.num_rows, "row") if rows.num_rows else "no rows", style="dim"))


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=list[float])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f'--vector takes numbers, as "[0.1, 0.2]": {error}') from error


def _held(table: SnapshotTable, given: list[str], column: str | None) -> list[float]:
    """The vector of the row that has this key."""
    if not table.key:
        raise InvalidInputError(f"table {table.name} has no key, so that --vector-of finds no row: give --vector")
    if len(given) != len(table.key):
        raise InvalidInputError(f"the key is {', '.join(table.key)}: give --vector-of once for each")
    fitting = [one.name for one in table.schema if types.is_fixed_size_list(one.type)]
    name = column or (fitting[0] if len(fitting) == 1 else None)
    if name not in fitting:
        raise InvalidInputError(f"name the --vector-column; columns of vectors are {', '.join(fitting) or 'none'}")
    key = tuple(_value(text, table.schema.field(part)) for text, part in zip(given, table.key, strict=True))
    row = table.get(key if len(key) > 1 else key[0])
    if row is None:
        raise NotFoundError(f"there is no row of the key {', '.join(given)}")
    if row[name] is None:
        raise InvalidInputError(f"the row of the key {', '.join(given)} has no vector in column {name!r}")
    return list(row[name])


def _value(text: str, field: "pa.Field[Any]") -> Any:  # noqa: ANN401 - of any type
    try:
        return pa.array([text], pa.string()).cast(field.type)[0].as_py()
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInputError(
            f"{text!r} is no {field.type}, as column {field.name!r} is: {plain_error(error)}"
        ) from error
