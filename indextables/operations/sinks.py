"""Rows into a file or a pipe, batch by batch: csv, Arrow, Parquet. The other way round than sources.py."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import pyarrow as pa

from indextables.errors import InvalidArgument


@contextmanager
def saved(path: str, text: bool) -> Iterator[IO[Any]]:
    """A file to write to, which appears under its name when it is complete, or not at all."""
    temporary = Path(path).parent / f".{Path(path).name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("x" if text else "xb", encoding="utf-8" if text else None) as out:
            yield out
        temporary.replace(path)
    except OSError as cause:
        raise InvalidArgument(f"{path!r} cannot be written: {cause.strerror or cause}") from cause
    finally:
        temporary.unlink(missing_ok=True)


def write_batches(batches: pa.RecordBatchReader, form: str, out: BinaryIO, stream: bool) -> None:
    """`arrow` is Arrow's file format, or its stream format, which other programs can read from a pipe."""
    if form == "csv":
        from pyarrow import csv

        _refuse_nested(batches.schema)
        writer: Any = csv.CSVWriter(out, batches.schema)
    elif form == "parquet":
        from pyarrow import parquet

        writer = parquet.ParquetWriter(out, batches.schema, compression="zstd")
    else:
        writer = (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, batches.schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)


def _refuse_nested(schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise InvalidArgument(f"csv has no room for column {field.name!r} of type {field.type}; leave it out with --columns")
