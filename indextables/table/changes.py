"""The change feed: which splits were added and removed between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from indextables.actions import Add, Remove
from indextables.errors import InvalidArgument, VersionNotFound
from indextables.log import TransactionLog, VersionFile
from indextables.table.context import TableContext
from indextables.table.snapshot import Snapshot

SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("change", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("num_records", pa.int64()),
        ("partition_values", pa.map_(pa.string(), pa.string())),
        ("data_change", pa.bool_()),
    ]
)


def read_changes(context: TableContext, snapshot: Snapshot, start: int, end: int | None) -> pa.Table:
    """Every add and remove of the versions after `start` up to and including `end` (default: the snapshot's), in the order of the log.

    Looks for newer versions than that of the snapshot only if `end` is one of them.
    """
    newest = context.newest(snapshot) if isinstance(end, int) and end > snapshot.version else snapshot
    return _changes(context.log, start, snapshot.version if end is None else end, newest.version)


def _changes(log: TransactionLog, start: int, end: int, newest: int) -> pa.Table:
    for name, version in (("start", start), ("end", end)):
        if isinstance(version, bool) or not isinstance(version, int) or version < -1:
            raise InvalidArgument(f"{name} {version!r} is not a version")
    if end > newest:
        raise VersionNotFound(f"version {end} of {log.store.root} does not exist; the newest is {newest}")
    if start > end:
        raise InvalidArgument(f"start {start} is after end {end}")
    versions = range(start + 1, end + 1)
    listing = log.listing()
    missing = sorted(set(versions) - set(listing.versions))
    if missing:
        why = "was committed as a state without a version file" if missing[0] in listing.states else "has expired"
        raise VersionNotFound(f"version {missing[0]} of {log.store.root} {why}, so the changes since {start} are unknown")
    rows = [row for file in log.read_many(versions) for row in _rows(file, log)]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows(file: VersionFile, log: TransactionLog) -> Iterator[dict[str, Any]]:
    for action in file.actions:
        if isinstance(action, Add | Remove):
            yield {
                "version": file.version,
                "change": "add" if isinstance(action, Add) else "remove",
                "path": log.store.root.relative(action.path),
                "size": action.size,
                "num_records": action.num_records if isinstance(action, Add) else None,
                "partition_values": list((action.partition_values or {}).items()),
                "data_change": action.data_change,
            }
