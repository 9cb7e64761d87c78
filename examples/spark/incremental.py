"""An incremental pipeline: each run reads the orders that are new, and publishes two tables in one commit."""

import sys

import phalanx
import phalanx.spark
from phalanx.spark import Pipeline, SparkLake, added, expect, made, run_pipeline, whole

sales = Pipeline("sales")
sales.sql(
    "clean",
    "select id, lower(trim(customer)) as customer, amount from orders where amount > 0",
    reads=[added("orders")],
    writes="clean_orders",
    create=True,
    expect=[expect.not_null("customer"), expect.unique("id")],
)
sales.sql(
    "totals",
    """
    select customer, sum(amount) as amount from (
        select customer, amount from so_far union all select customer, amount from new
    ) group by customer
    """,
    reads={"new": made("clean"), "so_far": whole("totals")},
    writes="totals",
    mode="upsert",
)


def prepare(lake: phalanx.Lake) -> None:
    """The tables that must be there: what comes in, and the one that is read before it is written."""
    if "orders" not in lake.tables():
        lake.create_table(
            "orders", [{"id": 1, "customer": " Ann", "amount": 20}, {"id": 2, "customer": "Bob", "amount": 0}]
        )
        lake.create_table("totals", [{"customer": "ann", "amount": 0}], key="customer")


def run(there: SparkLake) -> dict[str, int]:
    """One run; what each customer has bought so far."""
    run_pipeline(there, sales)
    return {row["customer"]: row["amount"] for row in there.lake["totals"].to_arrow().to_pylist()}


def main(lake: str) -> None:
    """`python -m examples.spark.incremental LAKE`."""
    with phalanx.open(lake, create=True) as found:
        prepare(found)
        there = phalanx.spark.on(found)
        print(run(there))
        found["orders"].append([{"id": 3 + found["orders"].count(), "customer": "BOB ", "amount": 5}])
        print(run(there))


if __name__ == "__main__":
    main(*sys.argv[1:])
