"""SQL in a Spark session: our commands, their heavy parts on its executors, and everything else as Spark understands it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from indextables.commands import Runner, is_ours
from indextables.spark.failures import translated
from indextables.spark.session import SparkExecutor


def sql(spark: SparkSession, text: str, options: Mapping[str, Any] | None = None) -> DataFrame:
    """What the command shows. A text that is none of ours goes to `spark.sql` unchanged. `options` are ours, as everywhere."""
    if not is_ours(text):
        return spark.sql(text)
    found = Runner(options or {}, lambda workload: SparkExecutor(lambda: spark, workload)).run(text)
    with translated():
        return spark.createDataFrame(found)
