"""Programs for spark-submit, one per verb: each parses its arguments, runs the verb and prints a JSON report."""
