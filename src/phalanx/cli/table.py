"""Verbs on a table as such: create, drop, rename."""

from typing import Annotated

import pyarrow as pa
import typer

from phalanx.cli.columns import parse_columns
from phalanx.cli.files import find_files
from phalanx.cli.output import (
    JsonOption,
    KeyOption,
    LakeArgument,
    NoteOption,
    PropertyOption,
    StorageOption,
    TableArgument,
    opened,
    pairs,
    plain,
    show,
)
from phalanx.cli.reading import Ask
from phalanx.cli.stopping import Stopping
from phalanx.cli.stream import Stream
from phalanx.errors import InvalidInputError


def create(
    lake: LakeArgument,
    table: TableArgument,
    *,
    schema: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help='For example "id: int64 not null, name: string".')
    ] = None,
    like: Annotated[str | None, typer.Option(metavar="FILE", help="Take the columns of this file.")] = None,
    key: KeyOption = None,
    prop: PropertyOption = None,
    note: NoteOption = "",
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an empty table. With a key it never holds two rows of the same key."""
    if (schema is None) == (like is None):
        raise InvalidInputError('a table needs columns: give --schema "id: int64, name: string", or --like FILE')
    columns = parse_columns(schema) if schema is not None else _columns_of(like or "")
    with opened(lake, option) as found:
        made = found.create_table(table, columns, key=key or (), properties=pairs(prop, "--property"), note=note)
        value = found.describe(made.name)
        show(value, as_json, lambda: plain(f"created table {made.name} (version {value.lake_version})"))


def drop(
    lake: LakeArgument,
    table: TableArgument,
    *,
    note: NoteOption = "",
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop a table; earlier versions of the lake still have it."""
    with opened(lake, option) as found:
        at = found.drop_table(table, note=note)
        said = f"dropped table {table} (version {at}); `phalanx query --version {at - 1}` still reads it"
        show({"dropped": table, "committed": at}, as_json, lambda: plain(said))


def rename(
    lake: LakeArgument,
    table: TableArgument,
    to: Annotated[str, typer.Argument(help="The new name.", metavar="NEW")],
    *,
    note: NoteOption = "",
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a table another name, possibly in another namespace."""
    with opened(lake, option) as found:
        at = found.rename_table(table, to, note=note)
        value = {"renamed": table, "to": to, "committed": at}
        show(value, as_json, lambda: plain(f"renamed table {table} to {to} (version {at})"))


def _columns_of(name: str) -> pa.Schema:
    with Stream(find_files([name], None)[:1], Ask(Stopping())) as stream:
        return stream.schema()
