"""`LiveSplit`: the one reader of the rows of a split. Scan, count, search, aggregate, merge and Spark's tasks read rows only through it.

Four decisions are made here, each in one function:

- where the file is, whole or in part, and in our form: `LiveSplit.find` for reading, `LiveSplit.source_file` for a merge;
- whether the file has as many rows as the log says: `LiveSplit.rows_of`;
- which rows count: `_counting`, and for their number alone `LiveSplit.known_rows`. Today every row of a live split counts, unless the
  reader asks for those that match a predicate: the log removes whole splits only;
- how a split appears in the schema of the snapshot: `LiveRows._in_snapshot_schema`. Today both schemas have the same columns.

`fully_matching_files` names the splits all of whose rows count by the log alone; searches and aggregations that need not look at rows
rely on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
from indextables.rows.foreign_splits import is_upstream, native_split_path
from indextables.splits import Numbers, ParsedQuery, SplitPlace, SplitReader, UpstreamTable, is_upstream_split, open_split, translate
from indextables.storage import Store
from indextables.table import Snapshot, TableContext, describe_removal

CHUNK_ROWS = 65_536  # of `chunks`: fewer cost more calls of Arrow's than work
_CHUNK_BYTES = 16 * limits.MIB

RowNumbers = npt.NDArray[np.int64]  # positions in the file, from 0
_Rows = TypeVar("_Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True, slots=True)
class LiveSplit:
    """A split that is live in a snapshot, and all that its reading depends on. A picklable value: nothing is read before `open`."""

    add: Add  # what the log says of the split
    version: int  # of the snapshot
    schema: pa.Schema  # of the snapshot

    @classmethod
    def of(cls, snapshot: Snapshot, add: Add) -> LiveSplit:
        return cls(add, snapshot.version, snapshot.schema)

    @property
    def known_rows(self) -> int | None:
        """The number of rows that count, if the log has it."""
        return self.add.num_records

    def num_rows(self, context: TableContext) -> int:
        """The number of rows that count; the split is opened only where the log does not have it."""
        known = self.known_rows
        return self.open(context).num_rows if known is None else known

    def open(self, context: TableContext) -> LiveRows:
        """The rows, from a reader that this process shares. Raises what `find` and `rows_of` raise."""
        try:
            reader = open_split(self.find(context))
        except FileNotFoundError:
            raise self.missing(context) from None
        return self.rows_of(reader)

    def rows_of(self, reader: SplitReader) -> LiveRows:
        """The rows from a reader of this split's file. SplitCorrupted unless it has as many rows as the log says."""
        if self.add.num_records is not None and reader.num_records != self.add.num_records:
            raise SplitCorrupted(f"split {self.add.path!r} has {reader.num_records} rows and the log says {self.add.num_records}")
        return LiveRows(self, reader, reader.schema.equals(self.schema))

    def find(self, context: TableContext, partly: bool = True) -> SplitPlace:
        """Where the split is on this machine, in our form; it is fetched or translated if need be.

        With `partly` it may be a file of a remote store whose bytes are fetched as they are read. Raises `missing`.
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
        return native_split_path(context, self.version, add, path)

    def source_file(self, store: Store, table: UpstreamTable, target: Path) -> Path:
        """The whole split as a file in our form that stays until the caller deletes it, at `target` or beside it, or in the table itself.

        SplitCorrupted where it is missing: a merge reads the newest version, whose splits must be there.
        """
        try:
            path = store.local_path(self.add.path, self.add.size)
        except FileNotFoundError:
            raise SplitCorrupted(f"split {self.add.path!r} is missing from the table") from None
        if not store.root.is_local:
            path = _linked(path, target.with_suffix(".fetched"))
        if not is_upstream(self.add) or not is_upstream_split(path):
            return path
        translate(path, target, table, self.add.partition_values)
        return target

    def missing(self, context: TableContext) -> SplitCorrupted | VersionNotFound:
        """Why the file is not there: damage if the newest version still has the split, else a purge since this version."""
        newest = context.load(context.snapshot())
        if self.add.path in newest.files:
            return SplitCorrupted(f"split {self.add.path!r} is missing from the table")
        since = describe_removal(context.log, self.add.path, self.version)
        return VersionNotFound(
            f"version {self.version} can no longer be read in full: split {self.add.path!r} was removed {since}, and purged"
        )


def _linked(path: Path, target: Path) -> Path:
    """The file under another name: the cache may let go of its own before the last source has come. On other disks that is its grace."""
    try:
        os.link(path, target)
    except OSError:
        return path
    return target


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The rows of an open split: those that count, with columns of the snapshot. Safe to use from several threads."""

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
        """The rows that match, in their order, as the file's batches hold them; batches without any are left out."""
        needed = _needed(columns, predicate)
        for batch in self._reader.batches(needed):
            rows, _ = _counted(self._in_snapshot_schema(batch, needed), predicate)
            if rows.num_rows:
                yield rows if len(needed) == len(columns) else rows.select(columns)

    def chunks(self, columns: Sequence[str], predicate: Predicate | None = None) -> Iterator[pa.Table]:
        """The same in pieces of many batches; a piece may be empty."""
        needed = _needed(columns, predicate)
        for piece in _collected(self._in_snapshot_schema(batch, needed) for batch in self._reader.batches(needed)):
            yield _counted(piece, predicate)[0].select(columns)

    def count(self, predicate: Predicate) -> int:
        """The number of rows that match; only the predicate's columns are read."""
        names = sorted(predicate.columns)
        masks = (_counting(self._in_snapshot_schema(batch, names), predicate) for batch in self._reader.batches(names))
        return sum(pc.sum(mask).as_py() or 0 for mask in masks)

    def hits(
        self, query: ParsedQuery, columns: Sequence[str], predicate: Predicate | None = None, chunk_rows: int = CHUNK_ROWS
    ) -> Iterator[tuple[pa.Table, npt.NDArray[np.float64]]]:
        """All rows that match the query and the predicate, in their order, with their scores; memory is bounded by `chunk_rows`."""
        numbers, scores = self._reader.search(query, None)
        order = np.argsort(numbers, kind="stable")
        needed = _needed(columns, predicate)
        for start in range(0, len(order), chunk_rows):
            part = order[start : start + chunk_rows]
            rows, mask = _counted(self.take(numbers[part], needed), predicate)
            yield rows.select(columns), scores[part] if mask is None else scores[part][np.asarray(mask, dtype=bool)]

    def take(self, numbers: RowNumbers, columns: Sequence[str]) -> pa.Table:
        """The rows with these numbers, which an index gave, in the given order."""
        return self._in_snapshot_schema(self._reader.take(numbers, columns), columns)

    def matching(self, numbers: RowNumbers, predicate: Predicate) -> npt.NDArray[np.bool_]:
        """Which of the rows with these numbers match."""
        return np.asarray(_counting(self.take(numbers, sorted(predicate.columns)), predicate), dtype=bool)

    def numbers(self, query: ParsedQuery, columns: Sequence[str]) -> tuple[int, dict[str, Numbers]] | None:
        """The number of rows that match the query, and what the index knows of these columns in them; None where it does not know it.

        For a split all of whose rows count, as `fully_matching_files` says: the index does not know which rows do.
        """
        return self._reader.numbers(query, columns)

    def _in_snapshot_schema(self, rows: _Rows, columns: Sequence[str]) -> _Rows:
        """The only place that decides how a split appears in the schema of the snapshot; `rows` has `columns` as the file has them."""
        if self._has_snapshot_schema:
            return rows
        try:
            return rows.cast(pa.schema([self.split.schema.field(name) for name in columns]))
        except pa.ArrowException as cause:
            raise SchemaMismatch(f"split {self.split.add.path!r} has other column types than the table: {cause}") from cause


def _counting(rows: pa.RecordBatch | pa.Table, predicate: Predicate | None) -> Any:
    """The only place that decides which rows count: a mask of those that do, or None for all of them."""
    return None if predicate is None else predicate.mask(rows)


def _counted(rows: _Rows, predicate: Predicate | None) -> tuple[_Rows, Any]:
    """The rows that count, and the mask that chose them."""
    mask = _counting(rows, predicate)
    return (rows, None) if mask is None else (rows.filter(mask), mask)


def _needed(columns: Sequence[str], predicate: Predicate | None) -> list[str]:
    return list(dict.fromkeys([*columns, *(sorted(predicate.columns) if predicate else ())]))


def _collected(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
