"""Files to load with Spark. Nothing is guessed away: a column too many, a value that does not parse, a file that is none, all stop the load."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from indextables.errors import IndexTablesError, SchemaMismatch, SourceUnreadable
from indextables.spark.failures import source_error

FORMATS = ("parquet", "csv", "json")
_SUFFIXES = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):")


def format_of(source: str, given: str | None) -> str:
    """By the name's ending where it is not given; parquet by default."""
    if given is not None:
        return given
    name = PurePosixPath(source.rstrip("/"))
    bare = name.with_suffix("") if name.suffix in _COMPRESSED else name
    return _SUFFIXES.get(bare.suffix.lower(), "parquet")


def check_source(source: str) -> str:
    """The source as Spark is to read it, checked as far as that goes without Spark: a local path is there and is readable."""
    scheme = _SCHEME.match(source)
    if scheme is not None and scheme[1].lower() != "file":
        return source
    path = os.path.abspath(os.path.expanduser(source if scheme is None else "/" + source[5:].lstrip("/")))
    if not source or (not os.path.exists(path) and not glob.glob(path)):
        raise SourceUnreadable(f"there is no file or folder {source!r}")
    if os.path.exists(path) and not os.access(path, os.R_OK):
        raise SourceUnreadable(f"{source!r} may not be read by this user")
    return path


@contextmanager
def readable(source: str) -> Iterator[None]:
    """What Spark says of a bad source becomes one sentence that names it."""
    try:
        yield
    except IndexTablesError:
        raise
    except Exception as error:
        ours = source_error(error, source)
        if ours is None:
            raise
        raise ours from error


def open_frame(session: Any, source: str, form: str, table: pa.Schema | None) -> Any:
    """The rows as a DataFrame; a table's schema types the text formats."""
    with readable(source):
        frame = {"parquet": _parquet, "csv": _csv, "json": _json}[form](session, source, table)
        if not frame.columns:
            raise SourceUnreadable(f"{source!r} cannot be read: it has no columns")
        return frame


def _parquet(session: Any, source: str, table: pa.Schema | None) -> Any:
    # Without merging, Spark takes one file's schema and drops what other files have besides.
    return session.read.option("mergeSchema", True).parquet(source)


def _csv(session: Any, source: str, table: pa.Schema | None) -> Any:
    """With a header; quotes are doubled inside of quotes (RFC 4180); an empty field is null unless quoted."""
    reader = session.read.options(header=True, escape='"', mode="FAILFAST", enforceSchema=False)
    if table is None:
        return reader.option("inferSchema", True).csv(source)
    return reader.schema(_chosen(reader.csv(source).columns, table)).csv(source)


def _json(session: Any, source: str, table: pa.Schema | None) -> Any:
    """An object a line; a key that is missing is null, one that the table does not have is refused."""
    reader = session.read.options(mode="FAILFAST", inferTimestamp=True)
    if table is None:
        return reader.json(source)
    found = session.read.options(mode="FAILFAST", primitivesAsString=True).json(source).columns
    _chosen(found, table)
    return reader.schema(_chosen(table.names, table)).json(source)


def _chosen(names: list[str], table: pa.Schema) -> Any:
    """The table's columns of these names, in their order, as Spark's schema."""
    from indextables.spark.schema import nullable, struct_type

    unknown = [name for name in names if name not in table.names]
    if unknown:
        raise SchemaMismatch(f"the data has a column {unknown[0]!r}, which the table does not have")
    return struct_type(nullable(pa.schema([table.field(name) for name in names])))
