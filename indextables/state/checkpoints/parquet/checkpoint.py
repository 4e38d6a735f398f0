"""Parquet checkpoints (seed 000): `_checkpoints/<version>.checkpoint.parquet`, or its parts, and `<version>.checkpoint.json`.

The JSON file is CheckpointMetadata, `{version, size, parts, createdTime}`, and is written last. Ours also has the SHA-256 of each part,
what has no column (protocol, the complete metadata, txn, mergeskip) and a digest. Other writers' files have none of these.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from indextables import limits
from indextables.actions import Count, Int64, Metadata, Normalise, Protocol, Replay, Skip, Txn, nulls
from indextables.errors import CheckpointValidationError, LogCorrupted
from indextables.log import files, names
from indextables.state.checkpoints.checked_columns import replay_of_rows
from indextables.state.checkpoints.contents import Contents, Format, StateOptions, Written
from indextables.state.checkpoints.json import put_txns_and_skips, write_head
from indextables.state.checkpoints.parquet import rows as parquet_rows
from indextables.state.checkpoints.seal import has_seal, is_sealed, sealed
from indextables.storage import Store

GROUP_ROWS = 32_768
_FEW_ROWS, _SOME_ROWS = 64, 512
_FOOTER_BYTES, _GROUP_BYTES = 5_000, 4_000  # upper bounds of the overhead of a file and of each row group


class CheckpointMetadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    version: Int64
    size: Count  # number of files; other writers store the number of rows
    parts: Count | None = None
    created_time: Int64 | None = None
    # Our extensions
    sha256: list[str] | None = None  # of each part
    protocol: Protocol | None = None
    meta_data: Metadata | None = None
    txn: list[Txn] | None = None
    mergeskip: list[Skip] | None = None


# Created at import, for the reason in splits/format/bundle.py.
_METADATA = msgspec.json.Decoder(CheckpointMetadata)


def write_parquet(store: Store, contents: Contents, options: StateOptions, now_ms: int) -> Written:
    """Writes Parquet files to a local folder, uploads and verifies them, and then writes the metadata."""
    with tempfile.TemporaryDirectory(prefix="indextables-checkpoint-") as folder:
        local_files = list(_write_files(contents, options, Path(folder)))
        digests = [_digest(file) for file in local_files]
        size = sum(file.stat().st_size for file in local_files)
        unpacked = size + sum(map(_bytes_saved, local_files))
        parts = len(local_files) if len(local_files) > 1 else None
        for file, path in zip(local_files, _paths(contents.version, parts), strict=True):
            store.upload(file, path)
    checkpoint = CheckpointMetadata(
        version=contents.version,
        size=contents.num_files,
        parts=parts,
        created_time=now_ms,
        sha256=digests,
        protocol=contents.protocol,
        meta_data=contents.metadata,
        txn=list(contents.txns) or None,
        mergeskip=list(contents.skips) or None,
    )
    _validate(store, contents, checkpoint)
    text = sealed(msgspec.json.encode(checkpoint))
    write_head(store, names.parquet_metadata_path(contents.version), text, contents.version)
    size += len(text)
    unpacked += len(text)
    return Written(
        contents.version, Format.PARQUET, contents.num_files, contents.num_actions, size, size, parts=parts, unpacked_size=unpacked
    )


def _paths(version: int, parts: int | None) -> list[str]:
    return [names.parquet_path(version)] if parts is None else [names.parquet_path(version, part) for part in range(1, parts + 1)]


def _write_files(contents: Contents, options: StateOptions, folder: Path) -> Iterator[Path]:
    """The local files. A new file is begun when another row group might make it larger than `checkpoint.maxFileSize`."""
    most = min(options.parquet_file_size, limits.OBJECT_BYTES // 2)
    groups = _groups(contents, most)
    group = next(groups, None)
    number = largest = 0
    while group is not None:
        number += 1
        path = folder / f"{number}.parquet"
        with open(path, "wb") as file:
            with pq.ParquetWriter(
                file,
                parquet_rows.SCHEMA,
                compression=options.parquet_compression,
                use_dictionary=parquet_rows.REPEATED,
                write_statistics=False,
            ) as writer:
                rest = most - _FOOTER_BYTES
                while group is not None:
                    begin = file.tell()
                    writer.write_table(group)
                    largest = max(largest, file.tell() - begin)
                    rest -= _GROUP_BYTES
                    group = next(groups, None)
                    if file.tell() + largest > rest - _GROUP_BYTES:
                        break
            file.flush()
            os.fsync(file.fileno())  # the upload of a local store is a rename, which does not sync the data
        yield path


def _groups(contents: Contents, most: int) -> Iterator[pa.Table]:
    """The row groups; the first contains the metadata."""
    table = contents.files.complete.table()
    each = max(1, table.nbytes // max(1, table.num_rows))  # an upper bound, because compression makes rows smaller
    half = (most - _FOOTER_BYTES - _GROUP_BYTES) // 2
    rows = max(1, min(GROUP_ROWS, half // each), -(-table.num_rows // (limits.CHECKPOINT_PARTS - 1)))
    yield parquet_rows.row_of_metadata(contents.metadata)
    for start in range(0, table.num_rows, rows):
        yield parquet_rows.rows_of_files(table.slice(start, rows))


def _bytes_saved(path: Path) -> int:
    """The number of bytes that compression saved."""
    with open(path, "rb") as file:
        footer = pq.ParquetFile(file).metadata
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(column.total_uncompressed_size - column.total_compressed_size for column in columns)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _validate(store: Store, contents: Contents, checkpoint: CheckpointMetadata) -> None:
    """Reads the files back and checks digests and number of rows."""
    source, rows = f"checkpoint {contents.version}", 0
    try:
        for data in _read_parts(store, checkpoint, source):
            rows += _open(data, source).metadata.num_rows
    except LogCorrupted as error:
        raise CheckpointValidationError(contents.version, str(error)) from error
    if rows != contents.num_files + 1:
        raise CheckpointValidationError(contents.version, f"it has {rows} rows instead of {contents.num_files + 1}")


def read_parquet(store: Store, version: int, normalise: Normalise) -> Replay:
    """Reads the checkpoint of a version; LogCorrupted if one of its files is missing, damaged or of another version."""
    source = f"parquet checkpoint {version}"
    checkpoint = _read_metadata(store, version, source)
    rows = pa.concat_tables([_rows(data, source) for data in _read_parts(store, checkpoint, source)], promote_options="default")
    found = parquet_rows.files_of_rows(rows, checkpoint.created_time or 0, source)
    if checkpoint.size not in (found.num_rows, rows.num_rows) or (checkpoint.sha256 is not None and checkpoint.size != found.num_rows):
        raise LogCorrupted(f"{source} has {found.num_rows} files, but declares {checkpoint.size}")
    metadata = parquet_rows.metadata_of_rows(rows, source)
    replay = replay_of_rows(found, normalise, checkpoint.protocol, checkpoint.meta_data or metadata, source)
    put_txns_and_skips(replay, checkpoint.txn or (), checkpoint.mergeskip or ())
    return replay


def parts_of(store: Store, version: int) -> int | None:
    """The number of parts of the checkpoint of a version; None if it is a single file."""
    return _read_metadata(store, version, f"parquet checkpoint {version}").parts


def _read_metadata(store: Store, version: int, source: str) -> CheckpointMetadata:
    try:
        text = files.unpack(store.read(names.parquet_metadata_path(version)), source)
        checkpoint = nulls.decode(_METADATA, text)
    except FileNotFoundError:
        raise LogCorrupted(f"{source} does not exist any more") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise LogCorrupted(f"{source} has damaged metadata: {error}") from error
    is_ours = checkpoint.sha256 is not None or has_seal(text)
    if is_ours and (checkpoint.sha256 is None or not is_sealed(text)):
        raise LogCorrupted(f"{source} does not match its digest")
    if checkpoint.version != version:
        raise LogCorrupted(f"{source} declares version {checkpoint.version}")
    if checkpoint.parts is not None and not 1 <= checkpoint.parts <= limits.CHECKPOINT_PARTS:
        raise LogCorrupted(f"{source} has {checkpoint.parts} parts")
    return checkpoint


def _read_parts(store: Store, checkpoint: CheckpointMetadata, source: str) -> Iterator[bytes]:
    """The bytes of each part, checked against its digest if the checkpoint has digests."""
    paths = _paths(checkpoint.version, checkpoint.parts)
    if checkpoint.sha256 is not None and len(checkpoint.sha256) != len(paths):
        raise LogCorrupted(f"{source} has {len(paths)} parts and {len(checkpoint.sha256)} digests")
    if checkpoint.sha256 is None:
        paths = _spark_parts(store, checkpoint.version) or paths
    for number, path in enumerate(paths):
        try:
            data = store.read(path)
        except FileNotFoundError:
            raise LogCorrupted(f"part {number + 1} of {source} is missing") from None
        if checkpoint.sha256 is not None and hashlib.sha256(data).hexdigest() != checkpoint.sha256[number]:
            raise LogCorrupted(f"part {number + 1} of {source} does not match its digest")
        yield data


def _spark_parts(store: Store, version: int) -> list[str]:
    """The files in the folder that Spark writes instead of a single file."""
    paths = [entry.path for entry in store.list(names.parquet_path(version))]
    return sorted(path for path in paths if path.endswith(".parquet") and not path.rpartition("/")[2].startswith((".", "_")))


def _open(data: bytes, source: str) -> pq.ParquetFile:
    """The opened file; LogCorrupted if its footer declares more columns, rows or bytes than the limits allow."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error
    footer = file.metadata
    if footer.num_columns > limits.AVRO_FIELDS or footer.num_rows > max(limits.PARQUET_ROWS_FLOOR, len(data)):
        raise LogCorrupted(f"{source} has {footer.num_columns} columns and {footer.num_rows} rows in {len(data)} bytes")
    if sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups)) > files.expanded_limit(len(data)):
        raise LogCorrupted(f"{source} expands to more than {files.expanded_limit(len(data))} bytes")
    return file


def _rows(data: bytes, source: str) -> pa.Table:
    """The known columns, read in batches, so that a file that expands to more than its footer declares is refused in time."""
    file = _open(data, source)
    most = files.expanded_limit(len(data))
    # One bit can repeat a long dictionary value, so few rows are decoded at a time. (Checking the dictionary sizes in the footer is not an
    # option: Arrow aborts the process if they are malformed.)
    step = _FEW_ROWS if len(data) < limits.MIB else _SOME_ROWS
    known_columns = [name for name in file.schema_arrow.names if name in parquet_rows.SCHEMA.names]
    if parquet_rows.ACTION_TYPE not in known_columns:
        raise LogCorrupted(f"{source} has no column {parquet_rows.ACTION_TYPE}")
    found, size = [file.schema_arrow.empty_table().select(known_columns)], 0
    try:
        for number in range(file.num_row_groups):
            for batch in file.iter_batches(step, row_groups=[number], columns=known_columns):
                batch.validate(full=True)  # includes UTF-8, because a file without a digest may contain anything
                found.append(pa.Table.from_batches([batch]))
                size += batch.nbytes
                if size > most:
                    raise LogCorrupted(f"{source} expands to more than {most} bytes")
        return pa.concat_tables(found)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error
