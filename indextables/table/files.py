"""The live splits of a snapshot: pruned by a predicate, and as an Arrow table with the log's strings unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from indextables.actions import Add
from indextables.errors import LogCorrupted
from indextables.paths import is_our_split
from indextables.predicates import Predicate
from indextables.table.pruning import may_match
from indextables.table.snapshot import Snapshot
from indextables.values import Scalar, decode_value

_STRINGS = pa.map_(pa.string(), pa.string())
SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("num_records", pa.int64()),
        ("modification_time", pa.timestamp("ms", tz="UTC")),
        ("partition_values", _STRINGS),
        ("min_values", _STRINGS),
        ("max_values", _STRINGS),
        ("added_at_version", pa.int64()),
        ("num_merge_ops", pa.int32()),
    ]
)


@dataclass(frozen=True, slots=True)
class _Stats:
    partition_values: Mapping[str, str]
    min_values: Mapping[str, str]
    max_values: Mapping[str, str]
    num_records: int | None


def live_files(snapshot: Snapshot, predicate: Predicate | None) -> list[Add]:
    """The live splits that may hold a matching row, by partition values and min/max; oldest first."""
    if predicate is None:
        return list(snapshot.files.values())
    return [add for add in snapshot.files.values() if _may_match(add, predicate, snapshot)]


def _may_match(add: Add, predicate: Predicate, snapshot: Snapshot) -> bool:
    stats = _Stats(add.partition_values, add.min_values or {}, add.max_values or {}, add.num_records)
    return may_match(predicate, stats, snapshot.schema, snapshot.partition_columns, trusted_bounds=is_our_split(add.path))


def partition_row(partition_values: Mapping[str, str], schema: pa.Schema) -> dict[str, Scalar]:
    """The partition values as values; a null has no entry. LogCorrupted names one that is not of its column's type."""
    try:
        return {name: decode_value(text, schema.field(name).type) for name, text in partition_values.items() if name in schema.names}
    except (ValueError, OverflowError) as error:
        raise LogCorrupted(f"a partition value of the log does not read: {error}") from error


def files_table(adds: Iterable[Add]) -> pa.Table:
    rows = [
        {
            "path": add.path,
            "size": add.size,
            "num_records": add.num_records,
            "modification_time": add.modification_time,
            "partition_values": list(add.partition_values.items()),
            "min_values": list((add.min_values or {}).items()),
            "max_values": list((add.max_values or {}).items()),
            "added_at_version": add.added_at_version,
            "num_merge_ops": add.num_merge_ops,
        }
        for add in adds
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)
