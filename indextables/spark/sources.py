"""Source files read with Spark, strictly: an unknown column, a value that does not parse or a file in another format stops the load."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from indextables.errors import SchemaMismatch, SourceUnreadable
from indextables.file_formats import file_format, folder_format, suffix_format
from indextables.logs import logger
from indextables.paths import SCHEME, check_no_user
from indextables.rows import HEAD_BYTES, HEAD_LINES, check_header
from indextables.spark.failures import spark_errors_as_ours

_NULL_MARKER = "\ufdd0"  # a non-character that stands for null in CSV, so that a quoted empty field remains an empty text
_DATE, _TIME, _ZONE = r"\d{4}-\d{2}-\d{2}", r"[ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?", r"(Z|[+-]\d{2}:?\d{2})"
_IGNORED = ("_", ".")  # first characters of names that Spark ignores


def format_of(source: str, given: str | None) -> str | None:
    """The format given, else that of the file, or of the files of a folder or pattern. None if it is in a store, which Spark must list."""
    if given is not None or os.path.isfile(source):
        return file_format(source, given)
    if SCHEME.match(source):
        return suffix_format(source)
    return folder_format(source, _local_files(source))


def _local_files(source: str) -> Iterator[str]:
    """The names of the files that Spark would read."""
    places = [place for place in glob.glob(source) if not os.path.basename(place).startswith(_IGNORED)]
    for place in [source] if os.path.exists(source) else places:
        if not os.path.isdir(place):
            yield place
        for _, folders, names in os.walk(place):
            folders[:] = [name for name in folders if not name.startswith(_IGNORED)]
            yield from (name for name in names if not name.startswith(_IGNORED))


def listed_format(session: Any, source: str) -> str:
    """The format of a source whose name implies none, from the names of the files that Spark finds there."""
    files = [unquote(file) for file in session.read.option("recursiveFileLookup", True).text(source).inputFiles()]
    if [file.partition(":")[2].lstrip("/") for file in files] == [source.partition(":")[2].lstrip("/")]:
        return file_format(source, None)
    return folder_format(source, files)


def check_source(source: str) -> str:
    """The source as passed to Spark; SourceUnreadable if a local path does not exist or may not be read.

    ConfigError if an address contains a user or a password, since errors and Spark's logs name the source.
    """
    scheme = SCHEME.match(source)
    if scheme is not None and scheme[1].lower() != "file":
        check_no_user(source)
        return source
    path = os.path.abspath(os.path.expanduser(source if scheme is None else "/" + source[5:].lstrip("/")))
    if not source or (not os.path.exists(path) and not glob.glob(path)):
        raise SourceUnreadable(f"there is no file or folder {source!r}")
    if os.path.exists(path) and not os.access(path, os.R_OK):
        raise SourceUnreadable(f"{source!r} may not be read by this user")
    return path


def open_frame(session: Any, source: str, form: str | None, table: pa.Schema | None, warn: Callable[[str], None] = logger.warning) -> Any:
    """The rows as a DataFrame; text formats take their types from the schema of the table, if given."""
    with spark_errors_as_ours(source):
        frame = {"parquet": _parquet, "csv": _csv, "jsonl": _json}[form or listed_format(session, source)](session, source, table, warn)
        if not frame.columns:
            raise SourceUnreadable(f"{source!r} cannot be read: it has no columns")
        return frame


def _parquet(session: Any, source: str, table: pa.Schema | None, warn: Callable[[str], None]) -> Any:
    # Without mergeSchema, Spark takes the schema of one file and drops additional columns of the others.
    return session.read.option("mergeSchema", True).parquet(source)


def _csv(session: Any, source: str, table: pa.Schema | None, warn: Callable[[str], None]) -> Any:
    """CSV in UTF-8 with a header; quotes are doubled inside quotes (RFC 4180); an empty field is null unless quoted."""
    check_header("".join(f"{line}\n" for line in _first_lines(session, source)), source, None if table is None else table.names, warn)
    _refuse_other_encodings(session, source)
    # In each line of a record that spans lines, or in the line after it, a quote has no partner.
    spans_lines = not session.read.text(source).where("length(replace(value, '\"', '')) % 2 <> length(value) % 2").isEmpty()
    lines = {"multiLine": True, "lineSep": _line_end(session, source)} if spans_lines else {}  # multiLine reads a file in one task
    reader = session.read.options(mode="FAILFAST", header=True, escape='"', enforceSchema=False, nullValue=_NULL_MARKER, **lines)
    if table is None:
        return reader.schema(_integers_as_longs(reader.option("inferSchema", True).csv(source).schema)).csv(source)
    return reader.schema(_selected(reader.csv(source).columns, table)).csv(source)


def _first_lines(session: Any, source: str, **options: str) -> list[str]:
    """The first lines of the file from which Spark takes the header, found in the way Spark does."""
    from pyspark.sql import functions

    text = session.read.options(**options).text(source)
    lines = text.where("trim(value) <> ''").select(functions.substring("value", 1, HEAD_BYTES), "_metadata.file_path")
    rows = lines.take(HEAD_LINES)
    return [row[0].removeprefix("\ufeff") for row in rows if row[1] == rows[0][1]]


def _line_end(session: Any, source: str) -> str:
    """The end of the lines of a file with quoted line breaks, at which Spark splits it; SourceUnreadable if records end differently.

    Left to itself, Spark would replace line breaks in quotes, and join records or append a carriage return if some end differently.
    """
    first = next(iter(_first_lines(session, source, lineSep="\n")), "")
    end = "\r\n" if first.endswith("\r") else "\n"
    by_feed, by_end = (session.read.options(multiLine=True, escape='"', lineSep=sep).csv(source) for sep in ("\n", end))
    if "\r" in first.removesuffix("\r"):
        is_mixed = True
    elif end == "\n":
        is_mixed = not by_end.where(by_end[by_end.columns[-1]].endswith("\r")).isEmpty()
    else:
        records = (rows.where("_c0 IS NULL OR _c0 <> '\r'") for rows in (by_feed, by_end))  # without the empty lines of by_feed
        is_mixed = len({rows.count() for rows in records}) > 1
    if is_mixed:
        raise SourceUnreadable(f"{source!r} cannot be read: it has quoted line breaks, and not all lines end with {end!r}; convert them")
    return end


def _refuse_other_encodings(session: Any, source: str) -> None:
    """SourceUnreadable if a line is not UTF-8: Spark's CSV reader would replace its characters. Reads the file once more."""
    for row in session.read.text(source).where("NOT is_valid_utf8(value)").selectExpr("make_valid_utf8(value)").take(1):
        raise SourceUnreadable(f"{source!r} cannot be read: the line {row[0][:80]!r} is not UTF-8")


def _integers_as_longs(inferred: Any) -> Any:
    """Integers of a text file are longs, since the numbers of the next file may be larger."""
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    fields = [(field.name, LongType() if isinstance(field.dataType, IntegerType) else field.dataType) for field in inferred]
    return StructType([StructField(name, kind) for name, kind in fields])


def _json(session: Any, source: str, table: pa.Schema | None, warn: Callable[[str], None]) -> Any:
    """One object per line; a missing key is null, a key that the table does not have is refused."""
    reader = session.read.options(mode="FAILFAST")
    if table is None:
        plain = reader.json(source)
        return reader.schema(_with_times(plain)).json(source)
    _selected(reader.option("primitivesAsString", True).json(source).columns, table)
    return session.read.options(mode="FAILFAST").schema(_selected(table.names, table)).json(source)


def _with_times(plain: Any) -> Any:
    """The frame's schema, with date or timestamp types for text columns whose values all have that form: JSON has no such types."""
    from pyspark.sql import functions
    from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampNTZType, TimestampType

    texts = [field.name for field in plain.schema if isinstance(field.dataType, StringType)]
    if not texts:
        return plain.schema
    patterns = {DateType: _DATE, TimestampNTZType: _DATE + _TIME, TimestampType: _DATE + _TIME + _ZONE}

    def all_match(name: str, pattern: str) -> Any:
        return functions.bool_and(plain[f"`{name.replace('`', '``')}`"].rlike(f"^{pattern}$"))

    row = plain.agg(*[all_match(name, pattern) for name in texts for pattern in patterns.values()]).first()
    matches = {name: row[len(patterns) * at : len(patterns) * (at + 1)] for at, name in enumerate(texts)}
    types = {name: next((kind() for kind, fits in zip(patterns, fit, strict=True) if fits), StringType()) for name, fit in matches.items()}
    return StructType([StructField(field.name, types.get(field.name, field.dataType)) for field in plain.schema])


def _selected(names: list[str], table: pa.Schema) -> Any:
    """The table's columns with these names, in this order, as a Spark schema."""
    from indextables.spark.schema import nullable, struct_type

    unknown = [name for name in names if name not in table.names]
    if unknown:
        raise SchemaMismatch(f"the data has a column {unknown[0]!r}, which the table does not have")
    return struct_type(nullable(pa.schema([table.field(name) for name in names])))
