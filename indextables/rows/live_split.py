"""`LiveSplit`: the only reader of the rows of a split. Scan, count, search, aggregate, merge and Spark's tasks read rows through it.

docs/architecture.md lists the decisions made here, each in one function. Searches and aggregations read no rows of `fully_matching_files`,
the splits whose rows are all selected according to the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables import limits
from indextables.actions import Add
from indextables.errors import SchemaMismatch, SplitCorrupted, VersionNotFound
from indextables.predicates import Predicate
from indextables.rows.foreign_splits import is_upstream, path_in_our_format
from indextables.splits import (
    ColumnNumbers,
    ParsedQuery,
    SplitPlace,
    SplitReader,
    SplitSettings,
    is_upstream_split,
    open_split,
    rewrite_upstream_split,
)
from indextables.storage import Store
from indextables.table import Snapshot, TableContext, describe_removal

CHUNK_ROWS = 65_536  # for `chunks`; with fewer rows the overhead of Arrow calls dominates
_CHUNK_BYTES = 16 * limits.MIB

RowNumbers = npt.NDArray[np.int64]  # positions in the file, from 0
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class LiveSplit:
    """A split that is live in a snapshot, with all that is needed to read it. Picklable; nothing is read before `open`."""

    add: Add  # the split's log entry
    version: int  # of the snapshot
    schema: pa.Schema  # of the snapshot

    @classmethod
    def of(cls, snapshot: Snapshot, add: Add) -> LiveSplit:
        return cls(add, snapshot.version, snapshot.schema)

    @property
    def known_rows(self) -> int | None:
        """The number of rows that count, if the log records it; no predicate is applied."""
        return self.add.num_records

    def open(self, context: TableContext) -> LiveRows:
        """The rows, from a reader shared within this process. Raises the errors of `find` and `rows_of`."""
        try:
            reader = open_split(self.find(context))
        except FileNotFoundError:
            raise self.missing(context) from None
        return self.rows_of(reader)

    def rows_of(self, reader: SplitReader) -> LiveRows:
        """The rows from a reader of this split's file. SplitCorrupted if the number of rows differs from the log."""
        if self.add.num_records is not None and reader.num_records != self.add.num_records:
            raise SplitCorrupted(f"split {self.add.path!r} has {reader.num_records} rows, but the log says {self.add.num_records}")
        return LiveRows(self, reader, reader.schema.equals(self.schema))

    def find(self, context: TableContext, partly: bool = True) -> SplitPlace:
        """The location of the split on this machine in our format; fetches or translates it if necessary.

        With `partly` it may be a remote file whose bytes are fetched when they are read. Raises `missing`.
        """
        add = self.add
        if partly and add.footer_start_offset is not None and add.footer_end_offset == add.size and not is_upstream(add):
            file = context.store.partial_file(add.path, add.size, add.footer_start_offset)
            if file is not None:
                return file
        try:
            path = context.store.local_path(add.path, add.size)
        except FileNotFoundError:
            raise self.missing(context) from None
        return path_in_our_format(context, self.version, add, path)

    def source_file(self, store: Store, settings: SplitSettings, target: Path) -> Path:
        """The complete split as a file in our format: the table's own file, or a file at or next to `target` that the caller deletes.

        SplitCorrupted if it is missing: a merge reads the newest version, whose splits must exist.
        """
        try:
            path = store.local_path(self.add.path, self.add.size)
        except FileNotFoundError:
            raise SplitCorrupted(f"split {self.add.path!r} is missing from the table") from None
        if not store.root.is_local:  # linked, because the cache may evict it before the merge ends
            with suppress(OSError):  # raised if the cache is on another file system
                os.link(path, fetched := target.with_suffix(".fetched"))
                path = fetched
        if not is_upstream(self.add) or not is_upstream_split(path):
            return path
        rewrite_upstream_split(path, target, settings, self.add.partition_values)
        return target

    def missing(self, context: TableContext) -> SplitCorrupted | VersionNotFound:
        """The error for a missing file: SplitCorrupted if the split is live in the newest version, otherwise it was purged."""
        newest = context.load(context.snapshot())
        if self.add.path in newest.files:
            return SplitCorrupted(f"split {self.add.path!r} is missing from the table")
        since = describe_removal(context.log, self.add.path, self.version)
        return VersionNotFound(
            f"version {self.version} can no longer be read in full: split {self.add.path!r} was removed {since}, and purged"
        )


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The selected rows of an open split in the schema of the snapshot. Thread-safe."""

    split: LiveSplit
    _reader: SplitReader
    _has_snapshot_schema: bool

    @property
    def num_rows(self) -> int:
        return self._reader.num_records

    @property
    def is_partial(self) -> bool:
        """Whether reading waits for a remote store."""
        return self._reader.is_partial

    def batches(self, columns: Sequence[str], predicate: Predicate | None = None) -> Iterator[pa.RecordBatch]:
        """The rows that match, in order, in the batches of the file; skips batches without matching rows."""
        needed = _needed(columns, predicate)
        for batch in self._reader.batches(needed):
            rows, _ = _selected(self._in_snapshot_schema(batch, needed), predicate)
            if rows.num_rows:
                yield rows if len(needed) == len(columns) else rows.select(columns)

    def chunks(self, columns: Sequence[str], predicate: Predicate | None = None) -> Iterator[pa.Table]:
        """Like `batches`, in tables of many batches; a table may be empty."""
        needed = _needed(columns, predicate)
        batches = (self._in_snapshot_schema(batch, needed) for batch in self._reader.batches(needed))
        for group in batch_groups(batches, CHUNK_ROWS, _CHUNK_BYTES):
            yield _selected(pa.Table.from_batches(group), predicate)[0].select(columns)

    def count(self, predicate: Predicate) -> int:
        """The number of rows that match. Reads only the predicate's columns."""
        names = sorted(predicate.columns)
        masks = (_selection(self._in_snapshot_schema(batch, names), predicate) for batch in self._reader.batches(names))
        return sum(pc.sum(mask).as_py() or 0 for mask in masks)

    def hits(
        self, query: ParsedQuery, columns: Sequence[str], predicate: Predicate | None = None, chunk_rows: int = CHUNK_ROWS
    ) -> Iterator[tuple[pa.Table, npt.NDArray[np.float64]]]:
        """All rows that match the query and the predicate, in order, with their scores; `chunk_rows` bounds the memory."""
        numbers, scores = self._reader.search(query)
        order = np.argsort(numbers, kind="stable")
        needed = _needed(columns, predicate)
        for start in range(0, len(order), chunk_rows):
            part = order[start : start + chunk_rows]
            rows, mask = _selected(self.take(numbers[part], needed), predicate)
            yield rows.select(columns), scores[part] if mask is None else scores[part][np.asarray(mask, dtype=bool)]

    def take(self, numbers: RowNumbers, columns: Sequence[str]) -> pa.Table:
        """The rows with these numbers, in the given order."""
        return self._in_snapshot_schema(self._reader.take(numbers, columns), columns)

    def matching(self, numbers: RowNumbers, predicate: Predicate) -> npt.NDArray[np.bool_]:
        """Which of the rows with these numbers match."""
        return np.asarray(_selection(self.take(numbers, sorted(predicate.columns)), predicate), dtype=bool)

    def numbers(self, query: ParsedQuery, columns: Sequence[str]) -> tuple[int, dict[str, ColumnNumbers]] | None:
        """The number of rows that match the query, and statistics of these columns over them; None if the index cannot compute them.

        Only valid for a split in `fully_matching_files`, because the index does not apply the selection of rows.
        """
        return self._reader.numbers(query, columns)

    def _in_snapshot_schema(self, rows: _Rows, columns: Sequence[str]) -> _Rows:
        """Converts rows with `columns` of the file to the schema of the snapshot. No other function does this."""
        if self._has_snapshot_schema:
            return rows
        try:
            return rows.cast(pa.schema([self.split.schema.field(name) for name in columns]))
        except pa.ArrowException as cause:
            raise SchemaMismatch(f"split {self.split.add.path!r} has other column types than the table: {cause}") from cause


def _selection(rows: pa.RecordBatch | pa.Table, predicate: Predicate | None) -> Any:
    """A mask of the selected rows, or None for all of them. No other function selects rows."""
    return None if predicate is None else predicate.mask(rows)


def _selected(rows: _Rows, predicate: Predicate | None) -> tuple[_Rows, Any]:
    """The selected rows, and the mask used."""
    mask = _selection(rows, predicate)
    return (rows, None) if mask is None else (rows.filter(mask), mask)


def _needed(columns: Sequence[str], predicate: Predicate | None) -> list[str]:
    return list(dict.fromkeys([*columns, *(sorted(predicate.columns) if predicate else ())]))


def batch_groups(batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    """Consecutive batches in groups that end with the batch that reaches either bound."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= max_rows or size >= max_bytes:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group
