"""Parquet checkpoints: `_checkpoints/<version>.checkpoint.parquet`, or its parts, and `<version>.checkpoint.json`.

The JSON file is CheckpointMetadata, `{version, size, parts, createdTime}`, and is written last. Ours also has the SHA-256 of each part,
what has no column (protocol, the complete metadata, txn, mergeskip) and a digest. Other writers' files have none of these. See "Parquet
checkpoint" in docs/protocol.md.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indextables import limits
from indextables.actions import STRINGS, Add, Count, FileFormat, Int64, Metadata, Normalise, Protocol, Replay, Skip, Txn, columns, nulls
from indextables.errors import CheckpointValidationError, LogCorrupted
from indextables.log import names, packing
from indextables.state.checkpoints.checked_columns import replay_of_rows
from indextables.state.checkpoints.contents import CheckpointOptions, Contents, Format, WrittenCheckpoint
from indextables.state.checkpoints.json import write_head
from indextables.state.checkpoints.seal import check_seal, decoding, read_part, sealed
from indextables.storage import Store

GROUP_ROWS = 32_768
_FEW_ROWS, _SOME_ROWS = 64, 512
_FOOTER_BYTES, _GROUP_BYTES = 5_000, 4_000  # upper bounds of the overhead of a file and of each row group

_WIRE = {field.name: field.encode_name for field in msgspec.structs.fields(Add)}
_OF_ADD = ("path", "partition_values", "size", "num_records", "min_values", "max_values")
_OF_METADATA = {"metadataId": pa.string(), "schemaString": pa.string(), "partitionColumns": pa.list_(pa.string()), "format": STRINGS}
ACTION_TYPE = "actionType"
# A column is cast only if one of these accepts both its type and the expected type.
_ALIKE = (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), pa.types.is_integer, pa.types.is_list, pa.types.is_map)


def _field(name: str) -> pa.Field:
    kind = columns.SCHEMA.field(name).type
    return pa.field(_WIRE[name], pa.string() if pa.types.is_large_string(kind) else kind)


# The columns that all writers have (docs/protocol.md, "Parquet checkpoint"), then a nullable one for every other field of an add.
SCHEMA = pa.schema(
    [
        *map(_field, _OF_ADD),
        *(pa.field(name, kind) for name, kind in _OF_METADATA.items()),
        pa.field(ACTION_TYPE, pa.string(), nullable=False),
        *(_field(name) for name in columns.SCHEMA.names if name not in _OF_ADD),
    ]
)
# Columns with repeated values, which are dictionary-encoded; paths are unique.
_KEYS = ("partitionValues", "minValues", "maxValues", "tags")
REPEATED = [ACTION_TYPE, "docMappingRef", "docMappingJson", "partitionValues.key_value.value", *(f"{name}.key_value.key" for name in _KEYS)]


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
_ROW_METADATA = msgspec.json.Decoder(Metadata)


def write_parquet(store: Store, contents: Contents, options: CheckpointOptions, now_ms: int) -> WrittenCheckpoint:
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
    return contents.written(Format.PARQUET, size + len(text), size + len(text), parts=parts, unpacked_size=unpacked + len(text))


def _paths(version: int, parts: int | None) -> list[str]:
    return [names.parquet_path(version)] if parts is None else [names.parquet_path(version, part) for part in range(1, parts + 1)]


def _write_files(contents: Contents, options: CheckpointOptions, folder: Path) -> Iterator[Path]:
    """The local files. A new file is begun when another row group might make it larger than `checkpoint.maxFileSize`."""
    most = min(options.parquet_file_size, limits.OBJECT_BYTES // 2)
    groups = _groups(contents, most)
    group = next(groups, None)
    number = largest = 0
    while group is not None:
        number += 1
        path = folder / f"{number}.parquet"
        with open(path, "wb") as file:
            settings = {"compression": options.parquet_compression, "use_dictionary": REPEATED, "write_statistics": False}
            with pq.ParquetWriter(file, SCHEMA, **settings) as writer:
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
    yield _row_of_metadata(contents.metadata)
    for start in range(0, table.num_rows, rows):
        yield _rows_of_adds(table.slice(start, rows))


def _bytes_saved(path: Path) -> int:
    """The number of bytes that compression saved."""
    footer = pq.read_metadata(path)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(chunk.total_uncompressed_size - chunk.total_compressed_size for chunk in chunks)


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
    found = _files_of_rows(rows, checkpoint.created_time or 0, source)
    if checkpoint.size not in (found.num_rows, rows.num_rows) or (checkpoint.sha256 is not None and checkpoint.size != found.num_rows):
        raise LogCorrupted(f"{source} has {found.num_rows} files, but declares {checkpoint.size}")
    metadata = _metadata_of_rows(rows, source)
    replay = replay_of_rows(found, normalise, checkpoint.protocol, checkpoint.meta_data or metadata, source)
    replay.put_txns_and_skips(checkpoint.txn or (), checkpoint.mergeskip or ())
    return replay


def parts_of(store: Store, version: int) -> int | None:
    """The number of parts of the checkpoint of a version; None if it is a single file."""
    return _read_metadata(store, version, f"parquet checkpoint {version}").parts


def _read_metadata(store: Store, version: int, source: str) -> CheckpointMetadata:
    try:
        text = packing.unpack(store.read(names.parquet_metadata_path(version)), source)
    except FileNotFoundError:
        raise LogCorrupted(f"{source} no longer exists") from None
    with decoding(f"{source} has damaged metadata"):
        checkpoint = nulls.decode(_METADATA, text)
    check_seal(text, checkpoint.sha256, source)
    if checkpoint.version != version:
        raise LogCorrupted(f"{source} declares version {checkpoint.version}")
    if checkpoint.parts is not None and not 1 <= checkpoint.parts <= limits.CHECKPOINT_PARTS:
        raise LogCorrupted(f"{source} has {checkpoint.parts} parts")
    return checkpoint


def _read_parts(store: Store, checkpoint: CheckpointMetadata, source: str) -> Iterator[bytes]:
    """The bytes of each part, checked against its digest if the checkpoint has digests."""
    paths, digests = _paths(checkpoint.version, checkpoint.parts), checkpoint.sha256
    if digests is not None and len(digests) != len(paths):
        raise LogCorrupted(f"{source} has {len(paths)} parts and {len(digests)} digests")
    if digests is None:  # Spark writes a folder of files instead of a single file
        found = [entry.path for entry in store.list(names.parquet_path(checkpoint.version))]
        paths = sorted(p for p in found if p.endswith(".parquet") and not p.rpartition("/")[2].startswith((".", "_"))) or paths
    for number, path in enumerate(paths):
        yield read_part(store, path, digests[number] if digests else None, f"part {number + 1} of {source}")


def _open(data: bytes, source: str) -> pq.ParquetFile:
    """The opened file; LogCorrupted if its footer declares more columns, rows or bytes than the limits allow."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise LogCorrupted(f"{source} is damaged: {error}") from error
    footer = file.metadata
    if footer.num_columns > limits.AVRO_FIELDS or footer.num_rows > max(limits.PARQUET_ROWS_FLOOR, len(data)):
        raise LogCorrupted(f"{source} has {footer.num_columns} columns and {footer.num_rows} rows in {len(data)} bytes")
    if sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups)) > packing.expanded_limit(len(data)):
        raise LogCorrupted(f"{source} expands to more than {packing.expanded_limit(len(data))} bytes")
    return file


def _rows(data: bytes, source: str) -> pa.Table:
    """The known columns, read in batches, so that a file that expands to more than its footer declares is refused in time."""
    file = _open(data, source)
    most = packing.expanded_limit(len(data))
    # One bit can repeat a long dictionary value, so few rows are decoded at a time. (Checking the dictionary sizes in the footer is not an
    # option: Arrow aborts the process if they are malformed.)
    step = _FEW_ROWS if len(data) < limits.MIB else _SOME_ROWS
    known_columns = [name for name in file.schema_arrow.names if name in SCHEMA.names]
    if ACTION_TYPE not in known_columns:
        raise LogCorrupted(f"{source} has no column {ACTION_TYPE}")
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


def _rows_of_adds(adds: pa.Table) -> pa.Table:
    """Converts rows of `columns.SCHEMA` to rows of a checkpoint."""
    known = {_WIRE[name]: adds.column(name) for name in adds.column_names}
    known[ACTION_TYPE] = pa.repeat("add", adds.num_rows)
    return _table(known, adds.num_rows)


def _row_of_metadata(metadata: Metadata) -> pa.Table:
    values = {
        "metadataId": metadata.id,
        "schemaString": metadata.schema_string,
        "partitionColumns": metadata.partition_columns,
        "format": [*{"provider": metadata.format.provider, **metadata.format.options}.items()],
        ACTION_TYPE: "metadata",
    }
    return _table({name: pa.array([value], SCHEMA.field(name).type) for name, value in values.items()}, 1)


def _table(known: dict[str, pa.Array | pa.ChunkedArray], count: int) -> pa.Table:
    return pa.Table.from_arrays(
        [known[field.name].cast(field.type) if field.name in known else pa.nulls(count, field.type) for field in SCHEMA], schema=SCHEMA
    )


def _files_of_rows(rows: pa.Table, modified_ms: int, source: str) -> pa.Table:
    """The adds among the rows, as rows of `columns.SCHEMA`. If the modification time has no column, it is `modified_ms`."""
    adds = _rows_of_type(rows, "add", source)
    defaults = {"modification_time": modified_ms, "data_change": True}
    found = [_column(adds, field, source, defaults.get(field.name)) for field in columns.SCHEMA]
    found[1] = columns.without_nulls(found[1])
    return pa.Table.from_arrays(found, schema=columns.SCHEMA)


def _metadata_of_rows(rows: pa.Table, source: str) -> Metadata:
    """The metadata of the only metadata row (PQC-04)."""
    found = _rows_of_type(rows, "metadata", source).to_pylist()
    if len(found) != 1:
        raise LogCorrupted(f"{source} has {len(found)} metadata rows")
    row = found[0]
    texts = {name: text for name, text in row.get("format") or () if text is not None}
    values = {
        "id": row.get("metadataId"),
        "schemaString": row.get("schemaString"),
        "partitionColumns": row.get("partitionColumns") or [],
        "format": FileFormat(texts.pop("provider", "indextables"), texts),
    }
    try:
        return msgspec.convert(values, _ROW_METADATA.type)
    except (msgspec.MsgspecError, TypeError) as error:
        raise LogCorrupted(f"{source} has damaged metadata: {error}") from error


def _rows_of_type(rows: pa.Table, kind: str, source: str) -> pa.Table:
    kinds = rows.column(ACTION_TYPE)
    unknown = set(pc.unique(kinds).to_pylist()) - {"add", "remove", "metadata"}
    if unknown:
        raise LogCorrupted(f"{source} has rows with the unknown {ACTION_TYPE} {str(min(map(str, unknown)))[:80]!r}")
    return rows.filter(pc.equal(kinds, kind))


def _column(rows: pa.Table, field: pa.Field, source: str, default: int | None) -> pa.ChunkedArray:
    name = _WIRE[field.name]
    if name not in rows.column_names:
        missing = pa.nulls(rows.num_rows, field.type)
        return pa.chunked_array([missing if default is None else missing.fill_null(default)])
    column = rows.column(name)
    if column.type == field.type:
        return column
    try:
        if any(all(alike(kind) for kind in (column.type, field.type)) for alike in _ALIKE):
            return column.cast(field.type)
    except pa.ArrowException as error:
        raise LogCorrupted(f"{source} has {name} of type {str(column.type)[:80]}: {error}") from error
    raise LogCorrupted(f"{source} has {name} of type {str(column.type)[:80]}")
