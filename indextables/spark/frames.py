"""Tables as DataFrames."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from indextables.errors import InvalidArgument
from indextables.spark.failures import translated
from indextables.spark.source import NAME, IndexTablesSource


def register(spark: SparkSession) -> None:
    """Makes the format `indextables` known to this session; needed only where the package was not installed but shipped."""
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
    """The rows of a table; a `query` leaves those that match and adds `_score`.

    The table and its columns are looked up when this is called, predicate and query when the frame is first used.
    """
    if isinstance(columns, str):
        raise InvalidArgument(f"columns {columns!r} is not a list of column names")
    given = {"columns": None if columns is None else json.dumps(list(columns)), "where": where, "query": query, "version": version}
    chosen = {key: value for key, value in given.items() if value is not None}
    register(spark)
    with translated():
        return spark.read.format(NAME).options(**{**(options or {}), **chosen}).load(os.fspath(path))
