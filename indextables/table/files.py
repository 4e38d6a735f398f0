"""The live splits of a snapshot as an Arrow table, the log's strings unchanged."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from indextables.actions import Add

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
