"""The live splits of a snapshot: pruned by a predicate on columns, and as an Arrow table with the log's strings unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.actions import Add
from indextables.actions.columns import STRINGS, without_nulls
from indextables.actions.stored import Bounds
from indextables.errors import LogCorrupted, SchemaMismatch
from indextables.predicates import Predicate
from indextables.predicates.spellings import has_keys
from indextables.table.explain import NO_MANIFESTS, ManifestCounts
from indextables.table.pruning import may_match_bounds, partition_column, prune
from indextables.table.snapshot import Snapshot
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


def live_files(snapshot: Snapshot, predicate: Predicate | None) -> list[Add]:
    """The live splits that may hold a matching row, by partition values and min/max; oldest first."""
    if predicate is None:
        return list(snapshot.adds())
    narrowed = narrow(snapshot, predicate)
    return list(narrowed.adds(matching_rows(narrowed, predicate)))


def narrow(snapshot: Snapshot, predicate: Predicate | None) -> Snapshot:
    """Without files that lie in manifests which the bounds of partition values rule out; those manifests are not read (AVR-13)."""
    if predicate is None or snapshot.files.base is None:
        return snapshot
    files = snapshot.files.within(_by_bounds(snapshot, predicate))
    return snapshot if files is snapshot.files else replace(snapshot, files=files)


def manifests_of(snapshot: Snapshot, predicate: Predicate | None) -> ManifestCounts:
    """How many manifests the live files lie in, and how many of them `narrow` leaves to be read."""
    base = snapshot.files.base
    if base is None:
        return NO_MANIFESTS
    kept = base if predicate is None else base.within(_by_bounds(snapshot, predicate))
    return ManifestCounts(len(base.segments), len(kept.segments))


def _by_bounds(snapshot: Snapshot, predicate: Predicate) -> Callable[[Mapping[str, Bounds]], bool]:
    def may(bounds: Mapping[str, Bounds]) -> bool:
        texts = {name: (one.low, one.high) for name, one in bounds.items()}
        by_type = all(one.by_type for one in bounds.values())
        filled = [name for name, one in bounds.items() if not one.has_null]
        return may_match_bounds(predicate, texts, snapshot.schema, snapshot.partition_columns, by_type=by_type, without_null=filled)

    return may


def matching_rows(snapshot: Snapshot, predicate: Predicate) -> Rows:
    """The rows of `files_table()` whose split may hold a matching row."""
    return np.flatnonzero(prune(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns).remaining)


def rows_of_partitions(snapshot: Snapshot, predicate: Predicate | None) -> Rows:
    """The rows of `files_table()` in the partitions a predicate names, which uses partition columns only; by default all.

    What is rewritten must be known exactly: LogCorrupted names a partition value that is not of its column's type, SchemaMismatch a column
    whose type has no order here.
    """
    if predicate is None:
        return np.arange(len(snapshot.files), dtype=np.int64)
    for name in sorted(predicate.columns):
        _require_readable(snapshot, name)
    return np.flatnonzero(prune(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns).in_partitions)


def _require_readable(snapshot: Snapshot, name: str) -> None:
    kind = snapshot.schema.field(name).type
    if not has_keys(kind):
        raise SchemaMismatch(f"partitions cannot be chosen by column {name!r} of type {kind}")
    for part in snapshot.files.all_parts:
        found = partition_column(part.segment, name, kind)
        doubtful = np.flatnonzero(found.null & found.value)
        for row in doubtful if part.live is None else np.intersect1d(doubtful, part.live):
            partition_row(part.segment.add(int(row)).partition_values, snapshot.schema)


def partition_row(partition_values: Mapping[str, str], schema: pa.Schema) -> dict[str, Scalar]:
    """The partition values as values; a null has no entry. LogCorrupted names one that is not of its column's type."""
    try:
        return {name: decode_value(text, schema.field(name).type) for name, text in partition_values.items() if name in schema.names}
    except (ValueError, OverflowError) as error:
        raise LogCorrupted(f"a partition value of the log does not read: {error}") from error


def public_table(snapshot: Snapshot, predicate: Predicate | None) -> pa.Table:
    """The live splits that may hold a matching row, as users see them."""
    if predicate is None:
        rows = snapshot.files_table()
    else:
        narrowed = narrow(snapshot, predicate)
        rows = narrowed.files.take(matching_rows(narrowed, predicate), SCHEMA.names)
    columns = [without_nulls(rows.column(f.name)) if f.type == STRINGS else rows.column(f.name).cast(f.type) for f in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
