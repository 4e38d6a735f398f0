"""Programs for spark-submit: arguments in, one call, one JSON report out."""
