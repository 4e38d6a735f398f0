"""Describe log: the actions of the transaction log as one table, with a row for each action and columns for the fields of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa
from msgspec import UNSET

from indextables.actions import STRINGS, Action, Add, Metadata, Protocol, Remove, Skip
from indextables.actions import columns as adds
from indextables.log import LogListing, names
from indextables.paths import LOG_FOLDER
from indextables.state import state_path
from indextables.table import Snapshot, TableContext

_LIST = pa.list_(pa.string())
_TIME = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("log_file_path", pa.string()),
        ("action_type", pa.string()),  # add, remove, skip, protocol or metadata
        ("path", pa.string()),
        ("partition_values", STRINGS),
        ("size", pa.int64()),
        ("data_change", pa.bool_()),
        ("tags", STRINGS),
        ("modification_time", _TIME),
        ("stats", pa.large_string()),
        ("min_values", STRINGS),
        ("max_values", STRINGS),
        ("num_records", pa.int64()),
        ("footer_start_offset", pa.int64()),
        ("footer_end_offset", pa.int64()),
        ("hotcache_start_offset", pa.int64()),
        ("hotcache_length", pa.int64()),
        ("has_footer_offsets", pa.bool_()),
        ("time_range_start", pa.string()),
        ("time_range_end", pa.string()),
        ("split_tags", _LIST),
        ("delete_opstamp", pa.int64()),
        ("num_merge_ops", pa.int64()),
        ("doc_mapping_json", pa.large_string()),
        ("doc_mapping_ref", pa.string()),
        ("uncompressed_size_bytes", pa.int64()),
        ("deletion_timestamp", _TIME),
        ("extended_file_metadata", pa.bool_()),
        ("skip_timestamp", _TIME),
        ("skip_reason", pa.string()),
        ("skip_operation", pa.string()),
        ("skip_retry_after", _TIME),
        ("skip_count", pa.int64()),
        ("protocol_min_reader_version", pa.int64()),
        ("protocol_min_writer_version", pa.int64()),
        ("protocol_reader_features", _LIST),
        ("protocol_writer_features", _LIST),
        ("metadata_id", pa.string()),
        ("metadata_name", pa.string()),
        ("metadata_description", pa.string()),
        ("metadata_format_provider", pa.string()),
        ("metadata_format_options", STRINGS),
        ("metadata_schema_string", pa.string()),
        ("metadata_partition_columns", _LIST),
        ("metadata_configuration", STRINGS),
        ("metadata_created_time", _TIME),
        ("is_checkpoint", pa.bool_()),
    ]
)


def describe_log(context: TableContext, *, include_all: bool = False) -> pa.Table:
    """The actions of the newest checkpoint and of the versions after it, in the order of the log.

    With `include_all`, those of all retained versions, and of a checkpoint only where versions before it have expired. commitInfo and txn
    actions are not listed; `history` shows them.
    """
    context.log.invalidate_cache()
    newest = context.snapshot()
    listing = context.log.uncached_listing()
    versions = [version for version in listing.versions if version <= newest.version]
    bases = [newest.checkpoint] if newest.checkpoint is not None and newest.checkpoint in listing.bases else []
    if include_all:
        bases = list(_after_gaps(listing, newest.version))
    elif bases:
        versions = [version for version in versions if version > bases[0]]
    parts = [(base, _checkpoint(context, listing, base)) for base in bases] + list(_versions(context, versions))
    parts.sort(key=lambda part: part[0])  # a checkpoint before the file of its version
    return pa.concat_tables([SCHEMA.empty_table(), *(table for _, table in parts)])


def _after_gaps(listing: LogListing, newest: int) -> Iterator[int]:
    """The checkpoints that replace missing versions: for each gap, the last one before the next version file."""
    ends = [version for version in listing.versions if version <= newest]
    following = [*ends[1:], newest + 1] if ends else [newest + 1]
    for last, upcoming in zip(ends or [-1], following, strict=True):
        if upcoming > last + 1:
            yield from [base for base in listing.bases if last < base <= upcoming and base <= newest][-1:]


def _checkpoint(context: TableContext, listing: LogListing, version: int) -> pa.Table:
    snapshot = context.snapshot(version)
    files = _adds(context.load(snapshot).files_table())
    rows = pa.concat_tables([_rows([snapshot.protocol, snapshot.metadata]), files, _rows(snapshot.skips.values())])
    return _with_location(rows, version, f"{context.root}/{_head(listing, snapshot)}", is_checkpoint=True)


def _head(listing: LogListing, snapshot: Snapshot) -> str:
    version = snapshot.version
    states = [state_path(version, form) for form in ("avro", "json")]
    paths = [*states, names.checkpoint_path(version), names.parquet_metadata_path(version)]
    return next((path for path in paths if listing.stamp(path) is not None), LOG_FOLDER)


def _versions(context: TableContext, versions: Sequence[int]) -> Iterator[tuple[int, pa.Table]]:
    for file in context.log.read_present(versions):
        path = f"{context.root}/{names.version_path(file.version)}"
        yield file.version, _with_location(_rows(file.actions), file.version, path, is_checkpoint=False)


def _with_location(rows: pa.Table, version: int, path: str, *, is_checkpoint: bool) -> pa.Table:
    for name, value in (("version", version), ("log_file_path", path), ("is_checkpoint", is_checkpoint)):
        at = SCHEMA.get_field_index(name)
        rows = rows.set_column(at, SCHEMA.field(at), pa.repeat(pa.scalar(value, SCHEMA.field(at).type), rows.num_rows))
    return rows


def _rows(actions: Iterable[Action]) -> pa.Table:
    """The actions as rows, in order: encodes them by kind, then restores the order."""
    ordered = list(actions)
    parts: list[pa.Table] = []
    order: list[int] = []
    for kind, encode in _KINDS.items():
        positions = [position for position, action in enumerate(ordered) if isinstance(action, kind)]
        if positions:
            parts.append(encode([ordered[position] for position in positions]))
            order += positions
    if len(parts) < 2:
        return parts[0] if parts else SCHEMA.empty_table()
    return pa.concat_tables(parts).take(pa.array(sorted(range(len(order)), key=order.__getitem__), pa.int64()))


def _table(kind: str, length: int, given: dict[str, Any]) -> pa.Table:
    """A table of one kind of action; columns that are not given are null."""
    columns = {"action_type": pa.repeat(pa.scalar(kind), length), **given}
    return pa.Table.from_arrays([_column(field, columns.get(field.name), length) for field in SCHEMA], schema=SCHEMA)


def _column(field: pa.Field, values: Any, length: int) -> Any:
    if values is None:
        return pa.nulls(length, field.type)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(field.type)
    if field.type == STRINGS:
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, field.type)


def _adds(rows: pa.Table) -> pa.Table:
    return _table("add", rows.num_rows, {name: rows.column(name) for name in SCHEMA.names if name in rows.schema.names})


def _encoder_of(kind: str, prefix: str, fields: str) -> Callable[[Sequence[Any]], pa.Table]:
    """A function that encodes actions of this kind as rows of `SCHEMA`, with a column for each of `fields`.

    Column names are those of the fields, with the prefix unless there is such a column without it.
    """
    columns = {name if name in SCHEMA.names else prefix + name.replace(".", "_"): attrgetter(name) for name in fields.split()}

    def encode(actions: Sequence[Any]) -> pa.Table:
        found = {column: [get(action) for action in actions] for column, get in columns.items()}
        known = {column: [None if value is UNSET else value for value in values] for column, values in found.items()}
        return _table(kind, len(actions), known)

    return encode


_KINDS: dict[type, Callable[[Sequence[Any]], pa.Table]] = {
    Protocol: _encoder_of("protocol", "protocol_", "min_reader_version min_writer_version reader_features writer_features"),
    Metadata: _encoder_of(
        "metadata",
        "metadata_",
        "id name description format.provider format.options schema_string partition_columns configuration created_time",
    ),
    Add: lambda actions: _adds(adds.encode(actions)),
    Remove: _encoder_of("remove", "", "path partition_values size data_change tags deletion_timestamp extended_file_metadata"),
    Skip: _encoder_of("skip", "skip_", "path partition_values size skip_timestamp reason operation retry_after count"),
}
