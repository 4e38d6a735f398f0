"""Tables as a reader sees them: snapshots of the log, and which files a question needs."""
