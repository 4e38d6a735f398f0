"""The rows of a Parquet checkpoint: CheckpointEntry of seed 000, then a nullable column for every other field of an add (A-07)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import STRINGS, Add, FileFormat, Metadata, columns
from indextables.errors import LogCorrupted

_WIRE = {field.name: field.encode_name for field in msgspec.structs.fields(Add)}
_STRING_LIST = pa.list_(pa.string())
_OF_ADD = ("path", "partition_values", "size", "num_records", "min_values", "max_values")
_OF_METADATA = {"metadataId": pa.string(), "schemaString": pa.string(), "partitionColumns": _STRING_LIST, "format": STRINGS}
ACTION_TYPE = "actionType"


def _stored(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind


def _fields() -> Iterator[pa.Field]:
    yield from (pa.field(_WIRE[name], _stored(columns.SCHEMA.field(name).type)) for name in _OF_ADD)
    yield from (pa.field(name, kind) for name, kind in _OF_METADATA.items())
    yield pa.field(ACTION_TYPE, pa.string(), nullable=False)
    yield from (pa.field(_WIRE[field.name], _stored(field.type)) for field in columns.SCHEMA if field.name not in _OF_ADD)


SCHEMA = pa.schema(list(_fields()))
# Columns with repeated values, which are dictionary-encoded; paths are unique.
_KEYS = ("partitionValues", "minValues", "maxValues", "tags")
REPEATED = [ACTION_TYPE, "docMappingRef", "docMappingJson", "partitionValues.key_value.value", *(f"{name}.key_value.key" for name in _KEYS)]


def rows_of_files(files: pa.Table) -> pa.Table:
    """Converts rows of `columns.SCHEMA` to rows of a checkpoint."""
    known = {_WIRE[name]: files.column(name) for name in files.column_names}
    known[ACTION_TYPE] = pa.repeat("add", files.num_rows)
    return _table(known, files.num_rows)


def row_of_metadata(metadata: Metadata) -> pa.Table:
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


def files_of_rows(rows: pa.Table, modified_ms: int, source: str) -> pa.Table:
    """The adds among the rows, as rows of `columns.SCHEMA`. If the modification time has no column, it is `modified_ms`."""
    adds = _rows_of_type(rows, "add", source)
    found = [_column(adds, field, source) for field in columns.SCHEMA]
    found[1] = columns.without_nulls(found[1])
    table = pa.Table.from_arrays(found, schema=columns.SCHEMA)
    for name, default in (("modification_time", modified_ms), ("data_change", True)):
        if _WIRE[name] not in rows.column_names:
            place = table.schema.get_field_index(name)
            table = table.set_column(place, columns.SCHEMA.field(name), pa.array([default] * len(adds), columns.SCHEMA.field(name).type))
    return table


def metadata_of_rows(rows: pa.Table, source: str) -> Metadata:
    """The metadata of the only metadata row (PQC-04)."""
    found = _rows_of_type(rows, "metadata", source).to_pylist()
    if len(found) != 1:
        raise LogCorrupted(f"{source} has {len(found)} metadata rows")
    row = found[0]
    texts = {name: text for name, text in row.get("format") or () if text is not None}
    try:
        return msgspec.convert(
            {
                "id": row.get("metadataId"),
                "schemaString": row.get("schemaString"),
                "partitionColumns": row.get("partitionColumns") or [],
                "format": FileFormat(texts.pop("provider", "indextables"), texts),
            },
            Metadata,
        )
    except (msgspec.MsgspecError, TypeError) as error:
        raise LogCorrupted(f"{source} has damaged metadata: {error}") from error


def _rows_of_type(rows: pa.Table, kind: str, source: str) -> pa.Table:
    kinds = rows.column(ACTION_TYPE)
    unknown = set(pc.unique(kinds).to_pylist()) - {"add", "remove", "metadata"}
    if unknown:
        raise LogCorrupted(f"{source} has rows with the unknown {ACTION_TYPE} {str(min(map(str, unknown)))[:80]!r}")
    return rows.filter(pc.equal(kinds, kind))


def _column(rows: pa.Table, field: pa.Field, source: str) -> pa.ChunkedArray:
    name = _WIRE[field.name]
    if name not in rows.column_names:
        return pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    column = rows.column(name)
    if column.type == field.type:
        return column
    try:
        if any(alike(column.type) and alike(field.type) for alike in (_is_text, pa.types.is_integer, pa.types.is_list, pa.types.is_map)):
            return column.cast(field.type)
    except pa.ArrowException as error:
        raise LogCorrupted(f"{source} has {name} of type {str(column.type)[:80]}: {error}") from error
    raise LogCorrupted(f"{source} has {name} of type {str(column.type)[:80]}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
