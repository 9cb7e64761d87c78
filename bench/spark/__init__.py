"""Spark over a lake beside Spark over Parquet: reading, writing, and pipelines from table to table."""
