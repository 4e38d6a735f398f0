"""Programs for spark-submit, one for each verb that runs on a schedule or on Spark.

Start with `write`; the others differ only in the name of the verb. Each parses its arguments, runs the verb and prints a JSON report.
"""
