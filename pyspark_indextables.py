"""Registers `format("indextables")` in every Spark session: Spark imports modules named `pyspark_*` and uses their `DefaultSource`."""

from indextables.spark.source import IndexTablesSource as DefaultSource

__all__ = ["DefaultSource"]
