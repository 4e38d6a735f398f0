"""IndexTables in Spark: the data source, writes and SQL commands on executors. Only this package and the jobs import pyspark.

    from indextables.spark import read, register, sql, write

    read(spark, "/data/logs", where="level = 'ERROR'").show()
    write(frame, "/data/logs", partition_by=["date"])
    sql(spark, "MERGE SPLITS '/data/logs' TARGET SIZE 100M").show()
    spark.read.format("indextables").load("/data/logs")       # where the package is installed; else register(spark) first

Start with these four functions; `jobs` has what the scripts for spark-submit run. Names are loaded on first use, so that a job checks its
arguments before it imports pyspark.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers take this for True; importing `typing` would take longer than the rest of this module
if TYPE_CHECKING:
    from typing import Any

    from indextables.spark.distributed import write
    from indextables.spark.frames import read, register, sql

_HOMES = {"read": "frames", "register": "frames", "sql": "frames", "write": "distributed"}

__all__ = ["read", "register", "sql", "write"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"indextables.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'indextables.spark' has no attribute {name!r}")
