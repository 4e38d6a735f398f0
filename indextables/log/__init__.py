"""The transaction log: names, version files, commits."""
