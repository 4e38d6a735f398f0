"""Files to load: parquet, csv, jsonl. What cannot be read is refused by name before anything is written."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from indextables.errors import InvalidArgument, SourceUnreadable
from indextables.operations.formats import FORMATS
from indextables.schema import LOCAL_TIMESTAMP, UTC_TIMESTAMP, from_spark_json

LARGE_INTEGER = pa.decimal128(38, 0)
BLOCK = 16 << 20  # Arrow refuses a row that is longer, and by default one of 1 MiB


def open_source(source: str, form: str | None = None, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """The rows of a file, or of standard input (`-`), as a stream; `schema` guides the text formats, which have no types of their own."""
    kind = form or ("jsonl" if source == "-" else FORMATS.get(Path(source).suffix.lower()))
    if kind not in ("parquet", "csv", "jsonl"):
        raise InvalidArgument(f"{source!r} is neither .parquet, .csv nor .jsonl; say which with --format")
    if source != "-" and not Path(source).is_file():
        raise SourceUnreadable(f"there is no file {source!r}")
    with readable(source):
        return _READERS[kind](_stream(source), schema)


def schema_file(path: str) -> pa.Schema:
    """A Spark schema in JSON, as the log and `df.schema.json()` have it."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceUnreadable(f"schema {path!r} cannot be read: {error}") from error
    try:
        json.loads(text)
    except ValueError as error:
        raise SourceUnreadable(f"schema {path!r} is not JSON: {error}") from error
    return from_spark_json(text)


@contextmanager
def readable(source: str) -> Iterator[None]:
    """Whatever Arrow says of a bad file becomes one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines() or ["it cannot be read"]
        raise SourceUnreadable(f"{source!r} cannot be read: {first[0]}") from error


def _stream(source: str) -> IO[bytes] | str:
    return io.BytesIO(sys.stdin.buffer.read()) if source == "-" else source


def _guarded(schema: pa.Schema, batches: Iterator[pa.RecordBatch], source: Any) -> pa.RecordBatchReader:
    def safe() -> Iterator[pa.RecordBatch]:
        with readable(source if isinstance(source, str) else "-"):
            yield from batches

    return pa.RecordBatchReader.from_batches(schema, safe())


def _parquet(source: IO[bytes] | str, schema: pa.Schema | None) -> pa.RecordBatchReader:
    from pyarrow import parquet

    file = parquet.ParquetFile(source)
    return _guarded(file.schema_arrow, file.iter_batches(), source)


def _csv(source: IO[bytes] | str, schema: pa.Schema | None) -> pa.RecordBatchReader:
    from pyarrow import csv

    types = {field.name: field.type for field in schema} if schema else None
    # Nothing written is null, as in Spark; Arrow's own list would also take NA, nan and null, which are words.
    convert = csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    parse = csv.ParseOptions(newlines_in_values=True)  # stack traces
    reader = csv.open_csv(source, csv.ReadOptions(block_size=BLOCK), parse, convert)
    if schema is None:
        first = next(iter(reader), None)
        convert.column_types = dict.fromkeys(_large_integers(first), LARGE_INTEGER) if first is not None else {}
        reader = csv.open_csv(_rewound(source), csv.ReadOptions(block_size=BLOCK), parse, convert)
    return _guarded(reader.schema, iter(reader), source)


def _jsonl(source: IO[bytes] | str, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Times are read as text first: Arrow's JSON reader knows no dates and drops zones."""
    from pyarrow import json

    blocks = json.ReadOptions(block_size=BLOCK)
    known = schema or _inferred(json.read_json(source, blocks))
    source = _rewound(source)
    as_text = pa.schema([pa.field(f.name, pa.string() if pa.types.is_temporal(f.type) else f.type) for f in known])
    table = json.read_json(source, blocks, parse_options=json.ParseOptions(explicit_schema=as_text))
    for field in known:
        if pa.types.is_temporal(field.type):
            at = table.schema.names.index(field.name)
            texts = table.column(at)
            table = table.set_column(at, field.name, texts.cast(field.type if schema else _temporal_type(texts)))
    return _guarded(table.schema, iter(table.to_batches(10_000)), source)


def _inferred(table: pa.Table) -> pa.Schema:
    large = _large_integers(table)
    return pa.schema([pa.field(f.name, LARGE_INTEGER) if f.name in large else f for f in table.schema])


def _large_integers(rows: pa.Table | pa.RecordBatch) -> list[str]:
    """Columns that Arrow took for doubles, which would round them: all are integers, and not all fit 64 bits."""
    import pyarrow.compute as pc

    def is_one(column: Any) -> bool:
        whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 1e38))
        return bool(pc.any(pc.greater_equal(pc.abs(column), 2.0**63)).as_py() and pc.all(whole).as_py())

    columns = zip(rows.schema.names, rows.columns, strict=True)
    return [name for name, column in columns if pa.types.is_float64(column.type) and is_one(column)]


def _rewound(source: IO[bytes] | str) -> IO[bytes] | str:
    if not isinstance(source, str):
        source.seek(0)
    return source


def _temporal_type(texts: pa.ChunkedArray) -> pa.DataType:
    """What a column of times is, by how all of them are written."""
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(texts, r"^\d{4}-\d{2}-\d{2}$")).as_py():
        return pa.date32()
    zoned = pc.all(pc.match_substring_regex(texts, r"(Z|[+-]\d{2}:?\d{2})$")).as_py()
    return UTC_TIMESTAMP if zoned else LOCAL_TIMESTAMP


_READERS = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl}
