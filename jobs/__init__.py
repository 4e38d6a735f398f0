"""Programs for spark-submit, one for each verb that runs on a schedule or on Spark: each parses its arguments, runs the verb and
prints a JSON report."""
