"""Reads parquet, csv and jsonl files to load. An unreadable file is refused, with its name, before anything is written."""

from __future__ import annotations

import csv as text_csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from indextables.errors import SchemaMismatch, SourceUnreadable
from indextables.file_formats import COMPRESSED, file_format
from indextables.logs import logger
from indextables.paths import check_no_user
from indextables.rows.csv_header import HEAD_BYTES, check_header
from indextables.rows.jsonl import check_lines, read_jsonl
from indextables.rows.offending_rows import cast_column, from_hex
from indextables.schema import LOCAL_TIMESTAMP, UTC_TIMESTAMP, from_spark_json

_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
LARGE_INTEGER = pa.decimal128(38, 0)
_BAD_VALUE = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to (.+?): invalid (?:value '(.*)'|UTF8 data)$", re.DOTALL)
BLOCK = 16 << 20  # maximum size of a row; Arrow's default is 1 MiB


def open_source(
    source: str, form: str | None = None, schema: pa.Schema | None = None, warn: Callable[[str], None] = logger.warning
) -> pa.RecordBatchReader:
    """The rows of a file, or of standard input (`-`), as a stream; text formats are read with the types of `schema`."""
    if "://" in source:
        check_no_user(source)  # errors name the source
    if source != "-" and os.path.isdir(source):  # pathlib raises if a name is too long
        raise SourceUnreadable(f"{source!r} is a folder, not a file; the Spark job jobs/write.py takes folders")
    stdin = io.BufferedReader(cast("io.RawIOBase", sys.stdin.buffer), HEAD_BYTES) if source == "-" else None
    kind = file_format(source, form or (_detected(stdin) if stdin else None))
    if source != "-" and not os.path.isfile(source):
        raise SourceUnreadable(f"there is no file {source!r}")
    with readable(source):
        if stdin is None:
            return _READERS[kind](source, schema, warn)
        read_twice = schema is None or kind == "parquet"  # or from its end
        return _READERS[kind](io.BytesIO(stdin.read()) if read_twice else stdin, schema, warn)


def schema_file(path: str) -> pa.Schema:
    """Reads a Spark schema in JSON, as in the log and from `df.schema.json()`."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:  # not text, or a path with a null byte
        why = error.strerror if isinstance(error, OSError) else error
        raise SourceUnreadable(f"{path!r} cannot be read: {why}; --schema takes a file with Spark's JSON (df.schema.json())") from error
    try:
        json.loads(text)
    except ValueError as error:
        raise SourceUnreadable(f"schema {path!r} is not JSON: {error}") from error
    return from_spark_json(text)


@contextmanager
def readable(source: str) -> Iterator[None]:
    """Converts Arrow's errors about a file to SourceUnreadable with one line."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = str(error).strip().splitlines() or ["it cannot be read"]
        raise SourceUnreadable(f"{source!r} cannot be read: {first[0]}") from error


def _detected(stdin: io.BufferedReader[Any]) -> str:
    """The format according to the first bytes. An array of objects counts as jsonl, which refuses it with a helpful message."""
    head = stdin.peek(64)
    if not head:
        raise SourceUnreadable("standard input is empty")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return "parquet" if head[:4] == b"PAR1" else "jsonl" if text.removeprefix(b"[").lstrip()[:1] == b"{" else "csv"


def _guarded(schema: pa.Schema, batches: Iterator[pa.RecordBatch], source: Any) -> pa.RecordBatchReader:
    def safe() -> Iterator[pa.RecordBatch]:
        with readable(_name(source)):
            yield from batches

    return pa.RecordBatchReader.from_batches(schema, safe())


def _parquet(source: IO[bytes] | str, schema: pa.Schema | None, warn: Callable[[str], None]) -> pa.RecordBatchReader:
    from pyarrow import parquet

    file = parquet.ParquetFile(source)
    unnamed = unnamed_index(file.schema_arrow)
    kept = pa.schema([field for field in file.schema_arrow if field.name not in unnamed])
    return _guarded(kept, (batch.drop_columns(unnamed) for batch in file.iter_batches()) if unnamed else file.iter_batches(), source)


def unnamed_index(schema: pa.Schema) -> list[str]:
    """Columns that pandas adds for an unnamed index, such as the row numbers of a filtered frame; they are not loaded."""
    return [name for name in schema.names if _PANDAS_INDEX.fullmatch(name)] if b"pandas" in (schema.metadata or {}) else []


def _csv(source: IO[bytes] | str, schema: pa.Schema | None, warn: Callable[[str], None]) -> pa.RecordBatchReader:
    from pyarrow import csv

    # Binary values are hex, as in JSON. Decimals are read as strings because Arrow's errors do not contain the value.
    texts = [field for field in schema or () if pa.types.is_decimal(field.type) or pa.types.is_binary(field.type)]
    types = {field.name: pa.string() if field in texts else field.type for field in schema} if schema else None
    blocks = csv.ReadOptions(block_size=BLOCK, use_threads=False)  # with threads, errors do not contain the row
    # An empty unquoted cell is null, as in Spark; Arrow's default would also treat words such as NA, nan and null as null.
    convert = csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    parse = csv.ParseOptions(newlines_in_values=True)  # stack traces
    check_header(_head(source), _name(source), None if schema is None else schema.names, warn)
    with _csv_errors_as_ours(source):
        reader = csv.open_csv(source, blocks, parse, convert)
    try:
        names = list(reader.schema.names)
    except UnicodeDecodeError as error:
        raise SourceUnreadable(f"{_name(source)!r} cannot be read: the names of its columns are not UTF-8") from error
    if schema is None:
        first = next(iter(reader), None)
        # A column without values becomes a string; one that Arrow infers as binary is not UTF-8 and is refused as a string.
        texts_too = [field.name for field in reader.schema if pa.types.is_null(field.type) or pa.types.is_binary(field.type)]
        large = _large_integers(first) if first is not None else []
        convert.column_types = dict.fromkeys(texts_too, pa.string()) | dict.fromkeys(large, LARGE_INTEGER)
        with _csv_errors_as_ours(source, names):
            reader = csv.open_csv(_rewound(source), blocks, parse, convert)

    def batches() -> Iterator[pa.RecordBatch]:
        row = 0
        with _csv_errors_as_ours(source, names):
            for batch in reader:
                yield _from_texts(batch, texts, row)
                row += batch.num_rows

    known = _from_texts(reader.schema.empty_table(), texts, 0).schema
    return _guarded(known, batches(), source)


def _head(source: IO[bytes] | str) -> str:
    """The beginning of a csv file, which remains to be read."""
    if isinstance(source, str):
        with pa.input_stream(source) as file:  # decompresses like the reader
            head = file.read(HEAD_BYTES)
    else:
        head = source.getvalue()[:HEAD_BYTES] if isinstance(source, io.BytesIO) else cast("Any", source).peek()
    whole_lines = head[: head.rfind(b"\n") + 1] if len(head) == HEAD_BYTES else b""
    return (whole_lines or head).decode("utf-8-sig", "replace")


def _name(source: IO[bytes] | str) -> str:
    return source if isinstance(source, str) else "-"


def _from_texts(rows: Any, fields: Sequence[pa.Field], first_row: int) -> Any:
    """Converts these columns of a batch or table, if present, from strings to their types."""
    for field in fields:
        at = rows.schema.get_field_index(field.name)
        if at >= 0:
            convert = from_hex if pa.types.is_binary(field.type) else cast_column
            column = pc.utf8_trim(rows.column(at), " \t")  # as Arrow does with other numbers
            rows = rows.set_column(at, field.name, convert(column, field.type, field.name, first_row))
    return rows


@contextmanager
def _csv_errors_as_ours(source: IO[bytes] | str, names: Sequence[str] = ()) -> Iterator[None]:
    """Converts Arrow's csv errors: SchemaMismatch for a value of the wrong type, SourceUnreadable for a string that is not UTF-8."""
    try:
        yield
    except pa.ArrowInvalid as error:
        found = _BAD_VALUE.match(str(error))
        if found is None:
            raise
        column, row, kind, value = found.groups()
        if not names and isinstance(source, str):
            with _opened(source) as binary, io.TextIOWrapper(binary, "utf-8-sig", "replace", "") as file:
                names = next(iter(text_csv.reader(file)), [])
        name = repr(names[int(column)]) if int(column) < len(names) else f"{int(column) + 1}"
        if value is None:
            raise SourceUnreadable(f"{_name(source)!r} cannot be read: row {int(row) - 2}, column {name} is not UTF-8") from error
        raise SchemaMismatch(f"row {int(row) - 2}, column {name}: {value[:80]!r} is not of type {kind}") from error


def _jsonl(source: IO[bytes] | str, schema: pa.Schema | None, warn: Callable[[str], None]) -> pa.RecordBatchReader:
    if schema is None:
        schema = _inferred(source)
        source = _rewound(source)

    def batches(known: pa.Schema) -> Iterator[pa.RecordBatch]:
        with _opened(source) as file:
            yield from read_jsonl(file, _name(source), known)

    return _guarded(pa.schema([pa.field(f.name, f.type) for f in schema]), batches(schema), source)


def _inferred(source: IO[bytes] | str) -> pa.Schema:
    """The schema inferred from a jsonl file. Times are inferred from strings, since Arrow drops time zones; nested times stay strings."""
    from pyarrow import json

    blocks = json.ReadOptions(block_size=BLOCK)
    try:
        table = json.read_json(source, blocks)
    except pa.ArrowInvalid:
        with _opened(_rewound(source)) as file:
            check_lines(file, _name(source))
        raise
    known = {field.name: field.type if pa.types.is_temporal(field.type) else _inside_texts(field.type) for field in table.schema}
    known |= dict.fromkeys(_large_integers(table), LARGE_INTEGER)
    times = [name for name, kind in known.items() if pa.types.is_temporal(kind)]
    if times:
        texts = pa.schema([pa.field(name, pa.string()) for name in times])
        parse = json.ParseOptions(explicit_schema=texts, unexpected_field_behavior="ignore")
        table = json.read_json(_rewound(source), blocks, parse)
        known |= {name: _temporal_type(table.column(name)) for name in times}
    return pa.schema(known)


def _inside_texts(kind: pa.DataType) -> pa.DataType:
    """An inferred type with string in place of times, and of types without a value."""
    if pa.types.is_list(kind):
        return pa.list_(_inside_texts(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _inside_texts(field.type)) for field in kind])
    return pa.string() if pa.types.is_temporal(kind) or pa.types.is_null(kind) else kind


def _large_integers(rows: pa.Table | pa.RecordBatch) -> list[str]:
    """Columns of integers beyond 64 bits, which Arrow infers as doubles and would round."""

    def is_large(column: Any) -> bool:
        whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), 1e38))
        return bool(pc.any(pc.greater_equal(pc.abs(column), 2.0**63)).as_py() and pc.all(whole).as_py())

    columns = zip(rows.schema.names, rows.columns, strict=True)
    return [name for name, column in columns if pa.types.is_float64(column.type) and is_large(column)]


def _opened(source: IO[bytes] | str) -> AbstractContextManager[IO[bytes]]:
    if not isinstance(source, str):
        return nullcontext(source)
    return io.BufferedReader(pa.input_stream(source)) if source.endswith(COMPRESSED) else open(source, "rb")


def _rewound(source: IO[bytes] | str) -> IO[bytes] | str:
    if not isinstance(source, str):
        source.seek(0)
    return source


def _temporal_type(texts: pa.ChunkedArray) -> pa.DataType:
    """The type of a column of times: date if no value has a time, UTC timestamp if all have a time zone, else local timestamp."""
    if pc.all(pc.match_substring_regex(texts, r"^\d{4}-\d{2}-\d{2}$")).as_py():
        return pa.date32()
    zoned = pc.all(pc.match_substring_regex(texts, r"(Z|[+-]\d{2}:?\d{2})$")).as_py()
    return UTC_TIMESTAMP if zoned else LOCAL_TIMESTAMP


_READERS = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl}
