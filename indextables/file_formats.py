"""File formats and the suffixes by which they are detected."""

from __future__ import annotations

FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
BINARY = ("arrow", "parquet")  # not shown on a terminal
RESULTS = ("table", "json", "jsonl", "csv", *BINARY)  # in which rows can be shown or saved
