"""File formats and the suffixes by which they are detected."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from indextables.errors import InvalidArgument

FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
SOURCES = ("parquet", "csv", "jsonl")  # which rows can be loaded from
BINARY = ("arrow", "parquet")  # not shown on a terminal
RESULTS = ("table", "json", "jsonl", "csv", *BINARY)  # in which rows can be shown or saved
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")  # suffixes that may follow that of a format


def suffix_format(name: str) -> str | None:
    """The format that the suffix of a name implies; None if it implies none."""
    path = PurePath(name)
    bare = path.with_suffix("") if path.suffix in COMPRESSED else path
    return FORMATS.get(bare.suffix.lower())


def file_format(source: str, given: str | None) -> str:
    """The format given for a file, else that of its name; InvalidArgument if there is none."""
    form = "jsonl" if given == "json" else given or suffix_format(source)
    if form not in SOURCES:
        raise InvalidArgument(f"{source!r} is neither .parquet, .csv nor .jsonl; give its format with --format")
    return form


def folder_format(source: str, files: Iterable[str]) -> str:
    """The format of the files of a folder or pattern, else that of its name, else parquet: programs write that without a suffix, too."""
    found = {form for name in files if (form := suffix_format(name)) is not None}
    if len(found) > 1:
        raise InvalidArgument(f"{source!r} has files of the formats {', '.join(sorted(found))}; load them one by one, or give --format")
    return found.pop() if found else suffix_format(source) or "parquet"
