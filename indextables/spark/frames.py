"""Tables and the results of SQL commands as Spark DataFrames."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from indextables.commands import Runner, is_command
from indextables.errors import InvalidArgument
from indextables.spark.failures import spark_errors_as_ours
from indextables.spark.session import SparkExecutor
from indextables.spark.source import NAME, IndexTablesSource


def register(spark: SparkSession) -> None:
    """Registers the format `indextables` in this session; needed only where the package is not installed, for example with --py-files."""
    spark.dataSource.register(IndexTablesSource)


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    where: str | None = None,
    query: str | None = None,
    version: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """The rows of a table as a DataFrame; with `query`, only the matching ones, with their `_score`.

    The table and `columns` are checked immediately, `where` and `query` when the frame is first used.
    """
    if isinstance(columns, str):
        raise InvalidArgument(f"columns {columns!r} is not a list of column names")
    arguments = {"columns": None if columns is None else json.dumps(list(columns)), "where": where, "query": query, "version": version}
    given = {key: value for key, value in arguments.items() if value is not None}
    register(spark)
    with spark_errors_as_ours():
        return spark.read.format(NAME).options(**{**(options or {}), **given}).load(os.fspath(path))


def sql(spark: SparkSession, text: str, options: Mapping[str, Any] | None = None) -> DataFrame:
    """Runs an IndexTables command, its heavy part on executors; any other text goes to `spark.sql` unchanged, without `options`."""
    if not is_command(text):
        return spark.sql(text)
    result = Runner(options or {}, lambda workload: SparkExecutor(lambda: spark, workload)).run(text)
    with spark_errors_as_ours():
        return spark.createDataFrame(result)
