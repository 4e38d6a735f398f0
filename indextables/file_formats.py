"""What the names of files say of their format."""

from __future__ import annotations

FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
BINARY = ("arrow", "parquet")  # what a terminal cannot show
RESULTS = ("table", "json", "jsonl", "csv", *BINARY)  # how rows can be shown or saved
