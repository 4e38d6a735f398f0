"""IndexTables in Spark: what needs pyspark lives here, and nowhere lower.

    from indextables.spark import read, register, sql, write

    read(spark, "/data/logs", where="level = 'ERROR'").show()
    write(frame, "/data/logs", partition_by=["date"])
    sql(spark, "MERGE SPLITS '/data/logs' TARGET SIZE 100M").show()
    spark.read.format("indextables").load("/data/logs")       # where the package is installed; else register(spark) first

Names are loaded when first used: a job checks its arguments before it pays for pyspark.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as type checkers understand it; typing takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from indextables.spark.distributed import write
    from indextables.spark.frames import read, register
    from indextables.spark.statements import sql

_HOMES = {"read": "frames", "register": "frames", "sql": "statements", "write": "distributed"}

__all__ = ["read", "register", "sql", "write"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"indextables.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'indextables.spark' has no attribute {name!r}")
