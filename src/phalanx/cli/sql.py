"""The verb `sql`: the answer to a statement over all tables of the lake, now or as they were."""

from typing import Annotated

import typer

from phalanx.cli.forms import (
    SHOWN,
    AsOfOption,
    FormatOption,
    LimitOption,
    OutputOption,
    chosen_shape,
    first_rows,
    hand_over,
    print_rows,
    snapshot_at,
)
from phalanx.cli.output import JsonOption, LakeArgument, StorageOption, TagOption, VersionOption, opened

StatementArgument = Annotated[
    str, typer.Argument(help="One statement that reads, as DuckDB speaks SQL.", metavar="STATEMENT")
]


def sql(
    lake: LakeArgument,
    statement: StatementArgument,
    *,
    limit: LimitOption = None,
    version: VersionOption = None,
    tag: TagOption = None,
    as_of: AsOfOption = None,
    form: FormatOption = None,
    output: OutputOption = None,
    option: StorageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask all tables at once, in SQL."""
    shape = chosen_shape(form, output, as_json)
    with opened(lake, option) as found:
        rows = snapshot_at(found, version, tag, as_of).sql(statement).scan()
        if shape == "table":
            most = SHOWN if limit is None else limit
            print_rows(first_rows(rows, most + 1).read_all(), most, "--limit shows them")
        else:
            hand_over(rows if limit is None else first_rows(rows, limit), shape, output, as_json)
