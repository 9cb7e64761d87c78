"""The verb `sql`: the answer to a statement over all tables of the lake, now or as they were."""

from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
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
            print_rows(_first(rows, most + 1).read_all(), most, "--limit shows them")
        else:
            hand_over(rows if limit is None else _first(rows, limit), shape, output, as_json)


def _first(rows: pa.RecordBatchReader, count: int) -> pa.RecordBatchReader:
    """The first rows; those behind them are not waited for."""

    def batches() -> Iterator[pa.RecordBatch]:
        left = count
        while left > 0:
            batch = next(rows, None)
            if batch is None:
                return
            yield batch.slice(0, left)
            left -= batch.num_rows

    return pa.RecordBatchReader.from_batches(rows.schema, batches())
