"""The verb `query`: rows of a table, now or as it was, as a table, a list, or a file."""

from typing import Annotated

import typer

from phalanx.cli.forms import (
    SHOWN,
    AsOfOption,
    FormatOption,
    LimitOption,
    OutputOption,
    chosen_shape,
    hand_over,
    print_rows,
    snapshot_at,
)
from phalanx.cli.output import (
    JsonOption,
    LakeArgument,
    StorageOption,
    TableArgument,
    TagOption,
    VersionOption,
    opened,
    show,
)
from phalanx.errors import InvalidInputError


def query(
    lake: LakeArgument,
    table: TableArgument,
    *,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", "-c", help="Only these, as a,b; in this order.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", "-w", help="Only rows that match, as in SQL.")] = None,
    limit: LimitOption = None,
    version: VersionOption = None,
    tag: TagOption = None,
    as_of: AsOfOption = None,
    count: Annotated[bool, typer.Option("--count", help="Only say how many rows match.")] = False,
    form: FormatOption = None,
    output: OutputOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read rows of a table."""
    if count and (columns or limit is not None or form or output):
        raise InvalidInputError(
            "--count counts all rows that match: leave --columns, --limit, --format and --output out"
        )
    shape = chosen_shape(form, output, as_json)
    names = None if columns is None else [name.strip() for one in columns for name in one.split(",")]
    with opened(lake, option) as found:
        target = snapshot_at(found, version, tag, as_of)[table]
        if count:
            number = target.count(where)
            show({"count": number}, as_json, lambda: str(number))
        elif shape == "table":
            most = SHOWN if limit is None else limit
            print_rows(target.to_arrow(names, where, most + 1), most, "--limit shows them, --count counts them")
        else:
            hand_over(target.scan(names, where, limit), shape, output, as_json)
