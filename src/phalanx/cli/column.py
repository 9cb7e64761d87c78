"""The verb `column`: a table gets other columns. Each is one commit; rows that are there are converted."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pyarrow as pa
import typer

from phalanx.cli.columns import parse_type
from phalanx.cli.forms import parse_time
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, TableArgument, opened, plain, show
from phalanx.errors import InvalidInputError
from phalanx.table import Table

NameArgument = Annotated[str, typer.Argument(help="Name of the column.", metavar="COLUMN")]
TypeArgument = Annotated[str, typer.Argument(help="As Arrow writes it: int64, list<string>, …", metavar="TYPE")]

column = typer.Typer(
    name="column",
    help="Change the columns of a table. Earlier versions keep theirs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@column.command()
def add(
    lake: LakeArgument,
    table: TableArgument,
    name: NameArgument,
    kind: TypeArgument,
    *,
    default: Annotated[
        str | None, typer.Option(metavar="VALUE", help="What rows get that are there; null without it.")
    ] = None,
    expression: Annotated[
        str | None, typer.Option(metavar="SQL", help="What rows get that are there, computed from their columns.")
    ] = None,
    not_null: Annotated[bool, typer.Option("--not-null", help="It may not be null.")] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a column, the last one."""
    field = parse_type(kind)
    value = None if default is None else _parsed(default, field.type)
    nullable = field.nullable and not not_null

    def change(target: Table) -> int | None:
        return target.add_column(name, field.type, default=value, expression=expression, nullable=nullable)

    done = {"added": name, "type": str(field.type), "nullable": nullable}
    _alter(lake, table, option, as_json, change, done, f"added column {name} to {table}")


@column.command()
def drop(
    lake: LakeArgument,
    table: TableArgument,
    name: NameArgument,
    *,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop a column; earlier versions of the lake still have it."""
    said = f"dropped column {name} of {table}"
    _alter(lake, table, option, as_json, lambda target: target.drop_column(name), {"dropped": name}, said)


@column.command()
def rename(
    lake: LakeArgument,
    table: TableArgument,
    name: NameArgument,
    to: Annotated[str, typer.Argument(help="The new name.", metavar="NEW")],
    *,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a column another name."""
    done = {"renamed": name, "to": to}
    said = f"renamed column {name} of {table} to {to}"
    _alter(lake, table, option, as_json, lambda target: target.rename_column(name, to), done, said)


@column.command()
def widen(
    lake: LakeArgument,
    table: TableArgument,
    name: NameArgument,
    kind: TypeArgument,
    *,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a column a type that holds every value it can have now: int32 to int64, float to double."""
    field = parse_type(kind)
    if not field.nullable:
        raise InvalidInputError(f'a type has no "not null": `phalanx column nullable LAKE TABLE {name} --no` says that')
    done = {"widened": name, "type": str(field.type)}
    said = f"column {name} of {table} is of type {field.type} now"
    _alter(lake, table, option, as_json, lambda target: target.widen_column(name, field.type), done, said)


@column.command()
def order(
    lake: LakeArgument,
    table: TableArgument,
    names: Annotated[list[str], typer.Argument(help="All columns, in the order that is wanted.", metavar="COLUMN")],
    *,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put the columns in another order."""
    said = f"the columns of {table} are now {', '.join(names)}"
    _alter(lake, table, option, as_json, lambda target: target.order_columns(names), {"ordered": names}, said)


@column.command()
def nullable(
    lake: LakeArgument,
    table: TableArgument,
    name: NameArgument,
    *,
    no: Annotated[bool, typer.Option("--no", help="It may no longer be null; then no row may be null there.")] = False,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a column be null, or no longer."""
    done = {"column": name, "nullable": not no}
    said = f"column {name} of {table} {'may no longer' if no else 'may'} be null"
    _alter(lake, table, option, as_json, lambda target: target.set_nullable(name, not no), done, said)


def _alter(
    lake: str,
    table: str,
    option: list[str] | None,
    as_json: bool,
    change: Callable[[Table], int | None],
    done: Mapping[str, object],
    said: str,
) -> None:
    with opened(lake, option) as found:
        at = change(found[table])
        show({**done, "table": table, "committed": at}, as_json, lambda: plain(f"{said} (version {at})"))


def _parsed(text: str, kind: pa.DataType) -> Any:  # noqa: ANN401 - a value of that type
    try:
        if getattr(kind, "tz", None):
            return parse_time(text, "--default")
        return pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInputError(
            f"--default {text!r} is no value of type {kind}: give another one, or an --expression"
        ) from error
