"""The live splits of a snapshot: pruned by a predicate on columns, and as an Arrow table with the log's strings unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.actions import Add
from indextables.actions.columns import STRINGS, strings_of, without_nulls
from indextables.errors import LogCorrupted
from indextables.paths import is_our_split
from indextables.predicates import Predicate
from indextables.table.pruning import decided_by_partition, may_match
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


@dataclass(frozen=True, slots=True)
class _Stats:
    partition_values: Mapping[str, str]
    min_values: Mapping[str, str] = field(default_factory=dict)
    max_values: Mapping[str, str] = field(default_factory=dict)
    num_records: int | None = None


def live_files(snapshot: Snapshot, predicate: Predicate | None) -> list[Add]:
    """The live splits that may hold a matching row, by partition values and min/max; oldest first."""
    return list(snapshot.adds(None if predicate is None else matching_rows(snapshot, predicate)))


def matching_rows(snapshot: Snapshot, predicate: Predicate) -> Rows:
    """The rows of `files_table()` whose split may hold a matching row."""

    def may(values: Mapping[str, str]) -> bool:
        return may_match(predicate, _Stats(values), snapshot.schema, snapshot.partition_columns)

    rows = _rows_by_partition(snapshot, may)
    if decided_by_partition(predicate, snapshot.partition_columns):
        counts = snapshot.files_table().column("num_records").take(pa.array(rows)).to_pylist()
        return _chosen(rows, [count != 0 for count in counts])
    return _rows_by_bounds(snapshot, predicate, rows)


def rows_of_partitions(snapshot: Snapshot, predicate: Predicate | None) -> Rows:
    """The rows of `files_table()` in the partitions a predicate names, which uses partition columns only; by default all."""
    if predicate is None:
        return np.arange(len(snapshot.files), dtype=np.int64)
    return _rows_by_partition(snapshot, lambda values: predicate.matches(partition_row(values, snapshot.schema)))


def _rows_by_partition(snapshot: Snapshot, test: Callable[[Mapping[str, str]], bool]) -> Rows:
    """Asks once for each partition, however many files it has."""
    table = snapshot.files_table()
    names = snapshot.partition_columns
    codes = np.zeros(table.num_rows, np.int64)
    for name in names:
        coded = strings_of(table.column("partition_values"), name).dictionary_encode(null_encoding="encode")
        _, codes = np.unique(codes * max(1, len(coded.dictionary)) + coded.indices.to_numpy(zero_copy_only=False), return_inverse=True)
    _, first, partition = np.unique(codes, return_index=True, return_inverse=True)
    examples = table.column("partition_values").take(pa.array(first, pa.int64())).to_pylist()
    known = [{key: value for key, value in pairs or () if key in names} for pairs in examples]
    answers = np.fromiter((test(values) for values in known), bool, len(known))
    return np.flatnonzero(answers[partition])


def _rows_by_bounds(snapshot: Snapshot, predicate: Predicate, rows: Rows) -> Rows:
    """Of these rows, the ones whose min/max allow a match; only the columns that the predicate uses are looked at."""
    table = snapshot.files_table().select(["path", "num_records", "partition_values", "min_values", "max_values"]).take(pa.array(rows))
    partition, low, high = (
        _dicts(table.column(kind), sorted(predicate.columns)) for kind in ("partition_values", "min_values", "max_values")
    )
    paths, counts = table.column("path").to_pylist(), table.column("num_records").to_pylist()
    keep = [
        may_match(
            predicate,
            _Stats(partition[i], low[i], high[i], counts[i]),
            snapshot.schema,
            snapshot.partition_columns,
            trusted_bounds=is_our_split(paths[i]),
        )
        for i in range(len(paths))
    ]
    return _chosen(rows, keep)


def _chosen(rows: Rows, keep: list[bool]) -> Rows:
    found: Rows = rows[np.array(keep, bool)]
    return found


def _dicts(column: pa.ChunkedArray, keys: list[str]) -> list[dict[str, str]]:
    values = {key: strings_of(column, key).to_pylist() for key in keys}
    return [{key: texts[i] for key, texts in values.items() if texts[i] is not None} for i in range(len(column))]


def partition_row(partition_values: Mapping[str, str], schema: pa.Schema) -> dict[str, Scalar]:
    """The partition values as values; a null has no entry. LogCorrupted names one that is not of its column's type."""
    try:
        return {name: decode_value(text, schema.field(name).type) for name, text in partition_values.items() if name in schema.names}
    except (ValueError, OverflowError) as error:
        raise LogCorrupted(f"a partition value of the log does not read: {error}") from error


def public_table(snapshot: Snapshot, predicate: Predicate | None) -> pa.Table:
    """The live splits that may hold a matching row, as users see them."""
    rows = snapshot.files_table().select(SCHEMA.names)
    if predicate is not None:
        rows = rows.take(pa.array(matching_rows(snapshot, predicate), pa.int64()))
    columns = [without_nulls(rows.column(f.name)) if f.type == STRINGS else rows.column(f.name).cast(f.type) for f in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
