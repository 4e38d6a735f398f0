"""IndexTables in Spark: what needs pyspark lives here, and nowhere lower."""
