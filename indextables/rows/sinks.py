"""Writes rows batch by batch to a file or pipe as csv, Arrow or Parquet; the counterpart of sources.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import pyarrow as pa

from indextables.atomic_file import replacing
from indextables.errors import InvalidArgument


@contextmanager
def atomic_file(path: str, text: bool) -> Iterator[IO[Any]]:
    """Opens a file for writing that appears at `path` only once it is complete."""
    try:
        with replacing(Path(path)) as temporary, temporary.open("x" if text else "xb", encoding="utf-8" if text else None) as out:
            yield out
    except OSError as cause:
        raise InvalidArgument(f"{path!r} cannot be written: {cause.strerror or cause}") from cause


def write_batches(batches: pa.RecordBatchReader, form: str, out: BinaryIO, stream: bool) -> None:
    """Writes csv, parquet or arrow; with `stream`, arrow is the stream format, which can be read from a pipe."""
    if form == "csv":
        from pyarrow import csv

        for field in batches.schema:
            if pa.types.is_nested(field.type):
                raise InvalidArgument(f"csv cannot represent column {field.name!r} of type {field.type}; exclude it with --columns")
        batches = _with_hex(batches)
        writer: Any = csv.CSVWriter(out, batches.schema)
    elif form == "parquet":
        from pyarrow import parquet

        writer = parquet.ParquetWriter(out, batches.schema, compression="zstd")
    else:
        writer = (pa.ipc.new_stream if stream else pa.ipc.new_file)(out, batches.schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)


def _with_hex(batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Encodes binary columns as hex strings, as in JSON."""
    binaries = [at for at, field in enumerate(batches.schema) if pa.types.is_binary(field.type)]
    if not binaries:
        return batches
    schema = pa.schema([pa.field(f.name, pa.string()) if pa.types.is_binary(f.type) else f for f in batches.schema])

    def encoded() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = list(batch.columns)
            for at in binaries:
                columns[at] = pa.array([None if value is None else value.hex() for value in columns[at].to_pylist()], pa.string())
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, encoded())
