"""What surprised somebody once: settings that were not heard of, names that met, tables that were not the same any more."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import phalanx
from phalanx.errors import InvalidInputError, PhalanxError, StateError
from phalanx.spark import Pipeline, SparkLake, added, expect, load_pipeline, run_pipeline, whole
from phalanx.spark.telling import translated
from tests.spark.rows import EVENTS, events
from tests.spark.test_stream import followed, into

NUMBERS = pa.schema([("id", pa.int64()), ("a", pa.int64())])


def test_rows_of_a_time_when_a_column_could_be_null_are_not_taken_for_zeros(
    spark: SparkSession, lake: phalanx.Lake, tmp_path: Path
) -> None:
    """A stream that is behind begins with the columns of today."""
    table = lake.create_table("events", NUMBERS, key="id")
    copy = lake.create_table("copy", NUMBERS)
    since = lake.version
    table.append([{"id": 1, "a": None}, {"id": 2, "a": 5}])
    table.upsert([{"id": 1, "a": 7}])
    table.set_nullable("a", False)
    behind = followed(spark, lake, start=since, max_versions=1).selectExpr("id", "coalesce(a, -1) as a")
    with pytest.raises(StreamingQueryException) as refused:
        into(behind, lake, tmp_path / "mark", "copy")
    assert "may not be null by now, and was" in str(translated(str(refused.value), "following"))
    assert copy.count() == 0


def test_a_stream_does_not_go_on_with_another_table_of_the_same_name(
    spark: SparkSession, lake: phalanx.Lake, tmp_path: Path
) -> None:
    """What became of the first one would be left out."""
    lake.create_table("events", EVENTS).append(events(0, 5))
    copy = lake.create_table("copy", EVENTS)
    into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    lake["events"].append(events(5, 5))
    lake.drop_table("events")
    lake.create_table("events", EVENTS).append(events(100, 3))
    with pytest.raises(StreamingQueryException) as refused:
        into(followed(spark, lake), lake, tmp_path / "mark", "copy")
    assert "dropped and created anew" in str(translated(str(refused.value), "following"))
    assert copy.count() == 5


def test_a_pipeline_has_the_settings_and_functions_of_its_session_and_views_of_its_own(there: SparkLake) -> None:
    """And says so when a table is not the one of the last run any more."""
    spark, lake = there.spark, there.lake
    lake.create_table("t", pa.schema([("at", pa.timestamp("us", "UTC")), ("count", pa.int64())]))
    lake["t"].append([{"at": 0, "count": 1}, {"at": 1, "count": 2}])
    hours = Pipeline("hours")
    hours.sql(
        "out",
        "select hour(at) as hour, plus_one(count) as count from t",
        reads=[added("t")],
        writes="out",
        create=True,
        expect=[expect.unique("count")],
    )
    spark.udf.register("plus_one", lambda number: number + 1, "long")
    spark.range(1).createOrReplaceTempView("mine")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        run_pipeline(there, hours)
        assert lake["out"].to_arrow().sort_by("count").to_pylist() == [
            {"hour": 19, "count": 2},
            {"hour": 19, "count": 3},
        ]
        other = Pipeline("other")
        other.sql("out", "select * from mine", reads=[whole("t")], writes="out2", create=True)
        with pytest.raises(PhalanxError, match="`mine` cannot be found"):
            run_pipeline(there, other)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        spark.catalog.dropTempView("mine")
    lake.drop_table("t")
    lake.create_table("t", pa.schema([("at", pa.timestamp("us", "UTC")), ("count", pa.int64())]))
    with pytest.raises(StateError, match="dropped and created anew"):
        run_pipeline(there, hours)
    assert run_pipeline(there, hours, full=True).steps[0].rows == 0


def test_two_tables_do_not_become_one_view(there: SparkLake) -> None:
    lake = there.lake
    lake.create_namespace("a")
    for name in ("a.b", "A_B", "c"):
        lake.create_table(name, NUMBERS)
    with pytest.raises(InvalidInputError, match="would be one view"):
        there.views()
    assert there.views(["A_B", "c"]) == {"A_B": "A_B", "c": "c"}


def test_changes_have_the_columns_of_their_end(spark: SparkSession, lake: phalanx.Lake) -> None:
    """By the data source as well, though the table has others by now."""
    table = lake.create_table("t", NUMBERS)
    since = lake.version
    until = table.append([{"id": 1, "a": 2}])
    table.add_column("more", pa.string())
    asked = {"lake": lake.uri, "table": "t", "since": since, "until": until}
    found = spark.read.format("phalanx").options(**asked).load()
    assert found.columns == ["id", "a", "_change_type", "_commit_version", "_commit_timestamp", "_commit_order"]
    assert [row["a"] for row in found.collect()] == [2]
    with pytest.raises(Exception, match="give one of them"):
        spark.read.format("phalanx").options(**asked, version=until).load()


def test_a_null_struct_whose_fields_must_not_be_null(there: SparkLake) -> None:
    """Spark sends fields that are null with it."""
    inner = pa.struct([pa.field("k", pa.int64(), nullable=False), pa.field("s", pa.string())])
    table = there.lake.create_table("t", pa.schema([pa.field("id", pa.int64()), pa.field("st", inner)]))
    kind = "struct<k:long,s:string>"
    some = there.spark.sql(
        f"select 1L id, cast(null as {kind}) st union all select 2L, named_struct('k', 5L, 's', null)"
    )
    there.write(some, "t")
    none = there.spark.sql(f"select 3L id, cast(null as {kind}) st")
    there.write(none, "t")
    assert table.to_arrow().sort_by("id")["st"].to_pylist() == [None, {"k": 5, "s": None}, None]
    with pytest.raises(InvalidInputError, match="null"):
        there.write(there.spark.sql("select 4L id, named_struct('k', cast(null as long), 's', 'x') st"), "t")
    assert table.count() == 3


def test_small_mistakes_are_said_at_once(there: SparkLake) -> None:
    table = there.lake.create_table("t", NUMBERS)
    with pytest.raises(InvalidInputError, match="rows_per_file is 1"):
        there.write(there.spark.range(1).selectExpr("id", "id as a"), "t", rows_per_file=0)
    with pytest.raises(InvalidInputError, match=r"columns are a list of names: \['id'\]"):
        there.table("t", columns="id")
    assert table.count() == 0


def test_files_of_pipelines_are_python_like_any_other(tmp_path: Path) -> None:
    """Data classes with annotations that are text, and a pipeline with two names; who ends the program is named."""
    path = tmp_path / "daily.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nfrom phalanx.spark import Pipeline\n"
        "@dataclass\nclass Settings:\n    days: int = 3\np = Pipeline('daily')\nsame = p\n"
    )
    assert load_pipeline(path).name == "daily"
    path.write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(InvalidInputError, match="SystemExit: 3"):
        load_pipeline(path)
