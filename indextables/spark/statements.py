"""SQL in a Spark session: IndexTables commands, with their heavy parts on executors; any other statement goes to Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from indextables.commands import Runner, is_command
from indextables.spark.failures import translated
from indextables.spark.session import SparkExecutor


def sql(spark: SparkSession, text: str, options: Mapping[str, Any] | None = None) -> DataFrame:
    """The result of the command; a text that is not an IndexTables command goes to `spark.sql` unchanged, without `options`."""
    if not is_command(text):
        return spark.sql(text)
    result = Runner(options or {}, lambda workload: SparkExecutor(lambda: spark, workload)).run(text)
    with translated():
        return spark.createDataFrame(result)
