"""A lake in an object store: tasks reach it by its address and its options, which nobody sees."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import phalanx
import phalanx.spark
from phalanx.spark import Pipeline, added, run_pipeline
from tests.servers import Server
from tests.spark.rows import EVENTS, events


@pytest.fixture
def remote(s3_server: Server) -> Iterator[phalanx.Lake]:
    """A lake on the server."""
    with phalanx.open(s3_server.uri("spark"), create=True, storage_options=s3_server.options) as lake:
        yield lake


def test_a_lake_in_an_object_store_is_read_written_and_run(
    spark: SparkSession, remote: phalanx.Lake, s3_server: Server
) -> None:
    """By the helper, by the data source with options, and by a pipeline; the secret is in no plan and in no error."""
    there = phalanx.spark.on(remote, spark)
    remote.create_table("events", EVENTS, key="id").append(events(0, 10))
    rows = spark.range(5, 20_005).selectExpr("id", "'s' as kind", "id / 2 as x")
    there.write(rows, "events", "upsert")
    options = {"lake": remote.uri, "table": "events"} | {
        f"storage.{key}": value for key, value in s3_server.options.items()
    }
    frame = spark.read.format("phalanx").options(**options).load()
    assert frame.count() == there.table("events").count() == 20_005
    rows.limit(3).write.format("phalanx").options(**options).mode("append").save()
    copy = Pipeline("copy")
    copy.step(reads={"rows": added("events")}, writes="copy", create=True, key="id", name="it")(lambda rows: rows)
    assert run_pipeline(there, copy).steps[0].rows == 20_005
    assert remote["copy"].count() == 20_005
    secret = s3_server.credentials["secret_access_key"]
    plans = [one._jdf.queryExecution().toString() for one in (frame, there.table("events"))]
    assert not [plan for plan in plans if secret in plan]
    with pytest.raises(Exception, match="there is no column 'y'") as caught:
        spark.read.format("phalanx").options(**options, columns="y").load()
    assert secret not in str(caught.value)
