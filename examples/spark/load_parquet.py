"""Load a directory of Parquet files into several tables, in one commit: readers see all of them, or none.

Each folder inside the directory is a table; one that is not there yet is created with the columns of its files.
"""

import sys
from pathlib import Path

import phalanx
import phalanx.spark
from phalanx.spark import SparkLake


def load(there: SparkLake, directory: Path) -> dict[str, int]:
    """Load all folders of a directory; the rows of each table."""
    rows = {}
    with there.transaction(f"load {directory.name}") as txn:
        for folder in sorted(path for path in directory.iterdir() if path.is_dir()):
            frame = there.spark.read.parquet(str(folder))
            if folder.name not in txn.tables():
                txn.create_table(folder.name, frame.limit(0).toArrow().schema)
            rows[folder.name] = txn.write(folder.name, frame)
    return rows


def main(directory: str, lake: str) -> None:
    """`python -m examples.spark.load_parquet DIRECTORY LAKE`."""
    with phalanx.open(lake, create=True) as found:
        for name, count in load(phalanx.spark.on(found), Path(directory)).items():
            print(f"{name}: {count:,} rows")


if __name__ == "__main__":
    main(*sys.argv[1:])
