"""The columns of a table that a step of a pipeline creates.

Spark has no vectors, no unsigned integers and no dictionaries, and what it makes of them is not what a table of Lance should
have. So a step that returns an input as it is creates a table of the same columns; otherwise a column that has the name and,
in Spark, the type of one of an input has the type that it has there. Whoever wants another one gives a schema.
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from phalanx.spark.columns import ZONE, spark_schema
from phalanx.spark.read import pieces_of


def columns_of(frame: DataFrame, inputs: Iterable[pa.Schema], wanted: pa.Schema | None) -> pa.Schema:
    """The columns of a table for the rows of a frame that was made of these inputs."""
    if wanted is not None:
        return wanted
    given = pieces_of(frame)
    if given is not None:
        return given.wanted
    known: dict[tuple[str, str], set[Any]] = {}
    for schema in inputs:
        for field, seen in zip(schema, spark_schema(schema), strict=True):
            known.setdefault((field.name, seen.dataType.simpleString()), set()).add(field.type)
    made = to_arrow_schema(frame.schema, timezone=ZONE)
    kinds = [known.get((one.name, one.dataType.simpleString()), set()) for one in frame.schema]
    # Two inputs that hold it differently do not say which of them is meant.
    return pa.schema(
        [
            _field(field, kind.copy().pop() if len(kind) == 1 else field.type)
            for field, kind in zip(made, kinds, strict=True)
        ]
    )


def _field(field: "pa.Field[Any]", kind: Any) -> "pa.Field[Any]":  # noqa: ANN401 - any type of Arrow
    return field.with_type(kind).remove_metadata()
