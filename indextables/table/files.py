"""The live splits of a snapshot, pruned by a predicate, as actions or as an Arrow table (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.actions import STRINGS, Add, without_nulls
from indextables.errors import LogCorrupted, SchemaMismatch
from indextables.predicates import FALSE, NULL, Predicate, Ranges, has_keys, outcomes
from indextables.table.pruning import partition_column, partition_ranges, prune
from indextables.table.snapshot import LoadedSnapshot, Snapshot
from indextables.values import Scalar, decode_value

SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("num_records", pa.int64()),
        ("modification_time", pa.timestamp("ms", tz="UTC")),
        ("partition_values", STRINGS),
        ("min_values", STRINGS),
        ("max_values", STRINGS),
        ("added_at_version", pa.int64()),
        ("num_merge_ops", pa.int64()),
    ]
)
Rows = npt.NDArray[np.int64]


def live_files(snapshot: LoadedSnapshot, predicate: Predicate | None) -> list[Add]:
    """The live splits that may contain a matching row, judged by partition values and min/max; oldest first."""
    return list(snapshot.adds(None if predicate is None else matching_rows(snapshot, predicate)))


def matching_rows(snapshot: LoadedSnapshot, predicate: Predicate) -> Rows:
    """The rows of `files_table()` whose split may contain a matching row."""
    return np.flatnonzero(prune(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns).remaining)


def rows_of_partitions(snapshot: LoadedSnapshot, predicate: Predicate | None) -> Rows:
    """The rows of `files_table()` in the partitions that match a predicate on partition columns; None matches all.

    The result is exact, because callers rewrite these files: LogCorrupted names a partition value that does not have the type of its
    column, SchemaMismatch a column whose type has no order.
    """
    if predicate is None:
        return np.arange(len(snapshot.files), dtype=np.int64)
    for name in sorted(predicate.columns):
        _require_readable(snapshot, name)
    return np.flatnonzero(prune(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns).in_partitions)


def _require_readable(snapshot: LoadedSnapshot, name: str) -> None:
    kind = snapshot.schema.field(name).type
    if not has_keys(kind):
        raise SchemaMismatch(f"partitions cannot be chosen by column {name!r} of type {kind}")
    for part in snapshot.files.all_parts:
        found = partition_column(part.segment, name, kind)
        doubtful = np.flatnonzero(found.null & found.value)
        for row in doubtful if part.live is None else np.intersect1d(doubtful, part.live):
            partition_row(part.segment.add(int(row)).partition_values, snapshot.schema)


def partition_row(partition_values: Mapping[str, str], schema: pa.Schema) -> dict[str, Scalar]:
    """The decoded partition values, without those that are null. LogCorrupted names a value that does not have the type of its column."""
    try:
        return {name: decode_value(text, schema.field(name).type) for name, text in partition_values.items() if name in schema.names}
    except (ValueError, OverflowError) as error:
        raise LogCorrupted(f"a partition value in the log cannot be decoded: {error}") from error


def public_table(snapshot: LoadedSnapshot, predicate: Predicate | None) -> pa.Table:
    """The live splits that may contain a matching row, with the columns of `Table.files()`."""
    rows = snapshot.files_table() if predicate is None else snapshot.files.take(matching_rows(snapshot, predicate), SCHEMA.names)
    columns = [without_nulls(rows.column(f.name)) if f.type == STRINGS else rows.column(f.name).cast(f.type) for f in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def fully_matching_files(predicate: Predicate | None, adds: Sequence[Add], snapshot: Snapshot) -> frozenset[str]:
    """Paths of the files of which every row matches. Min/max cannot prove that: a row within the bounds may still be null."""
    if predicate is None or not adds:
        return frozenset(add.path for add in adds)

    @cache
    def ranges(name: str) -> Ranges:
        kind = snapshot.schema.field(name).type
        if name not in snapshot.partition_columns or kind != predicate.schema.field(name).type or not has_keys(kind):
            return Ranges(kind)
        return partition_ranges(pa.array([add.partition_values.get(name) for add in adds], pa.string()), kind)

    found = outcomes(predicate.expression, ranges, FALSE | NULL)
    matching = np.broadcast_to(~(found.false | found.null), (len(adds),))
    return frozenset(add.path for add, matches_fully in zip(adds, matching, strict=True) if matches_fully)
