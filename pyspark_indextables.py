"""Found by Spark, which looks for `pyspark_*`: with it `format("indextables")` works in every session, without registration."""

from indextables.spark.source import IndexTablesSource as DefaultSource

__all__ = ["DefaultSource"]
