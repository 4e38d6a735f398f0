"""A small Spark job that loads the classes our jobs load; `python -m indextables.environment prepare` runs it to record them.

It is submitted as a file and uses every mechanism of the jobs: parquet, a plan with a filter and an aggregate, mapInArrow, an RDD.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    session = SparkSession.builder.appName("indextables-warmup").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows")
        session.range(100).selectExpr("id", "cast(id as string) as word", "current_timestamp() as seen").write.parquet(path)
        rows = session.read.parquet(path)
        rows.where("id > 10").groupBy("word").count().collect()
        rows.repartition(2).mapInArrow(lambda batches: batches, rows.schema).collect()
        session.sparkContext.parallelize([1, 2], 2).map(str).collect()
    session.stop()


if __name__ == "__main__":
    main()
