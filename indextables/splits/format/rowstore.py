"""The rows of a split: an Arrow IPC file, lz4 or zstd, in batches of exactly ROW_BATCH rows (the last may be shorter)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import numpy as np
import pyarrow as pa

from indextables import limits
from indextables.errors import InvalidArgument, SplitCorrupted, StorageError
from indextables.process_cache import ProcessCache
from indextables.splits.format.bundle import RowStoreSections

_FEW = 16  # `take` slices batches for at most this many rows
_PROJECTIONS = 100  # cached per row store
_NUMBERS = count()  # identify row stores in the cache of blocks
_BlockKey = tuple[int, tuple[str, ...] | None, int]  # row store, columns, block number
# Decoded blocks of all open splits, because searches often return to the same blocks. Those of a closed split are evicted like others.
_blocks: ProcessCache[_BlockKey, pa.RecordBatch] = ProcessCache(
    lambda: (limits.BLOCK_CACHE_BYTES,), lambda block: (block.get_total_buffer_size(),)
)


class RowStoreWriter:
    """Rewrites batches of any size as batches of ROW_BATCH rows. Opens its file at the first full batch, so that many can be idle."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str = "lz4") -> None:
        self.path = path
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self.num_rows = 0
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._sink: pa.NativeFile | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._ends: list[int] = []

    @property
    def num_bytes(self) -> int:
        """Bytes written so far, without the rows buffered for the next batch."""
        return self._ends[-1] if self._ends else 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.num_rows += batch.num_rows
        offset = 0
        while self._pending_rows + batch.num_rows - offset >= limits.ROW_BATCH:
            length = limits.ROW_BATCH - self._pending_rows
            self._pending.append(batch.slice(offset, length))
            offset += length
            self._flush()
        if offset < batch.num_rows:
            self._pending.append(batch.slice(offset))
            self._pending_rows += batch.num_rows - offset

    def finish(self) -> RowStoreSections:
        """Completes the file and returns its checksummed sections."""
        self._flush()
        writer, sink = self._open()
        writer.close()
        sink.close()
        self._ends.append(self.path.stat().st_size)
        data = memoryview(pa.memory_map(str(self.path)).read_buffer())
        starts = [0, *self._ends[:-1]]
        sums = [zlib.crc32(data[start:end]) for start, end in zip(starts, self._ends, strict=True)]
        return RowStoreSections(limits.ROW_BATCH, self._ends, sums)

    def rows(self, sections: RowStoreSections) -> RowStore:
        """The rows of the completed file."""
        return RowStore(pa.memory_map(str(self.path)).read_buffer(), self._schema, sections, self.num_rows, self.path)

    def discard(self) -> None:
        """Closes and removes the file. Idempotent."""
        self._pending.clear()
        if self._sink is not None:
            self._sink.close()
        self.path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if not self._pending:
            return
        writer, sink = self._open()
        batch = self._pending[0] if len(self._pending) == 1 else pa.concat_batches(self._pending)
        writer.write_batch(batch)
        self._ends.append(sink.tell())
        self._pending = []
        self._pending_rows = 0

    def _open(self) -> tuple[pa.RecordBatchFileWriter, pa.NativeFile]:
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = pa.OSFile(str(self.path), "wb")
            self._writer = pa.ipc.new_file(self._sink, self._schema, options=self._options)
            self._ends.append(self._sink.tell())
        return self._writer, self._sink


@dataclass(frozen=True, slots=True)
class _Projection:
    included: list[int]  # indices of the columns to decode, ascending; empty means all
    schema: pa.Schema  # of the decoded columns
    in_order: bool  # whether the decoded columns are already in the requested order


class RowStore:
    """Reads a row store from a buffer (normally a slice of a memory-mapped split). Thread-safe.

    Each section's checksum is verified before the section is first decoded; SplitCorrupted names the file.
    """

    def __init__(
        self,
        data: pa.Buffer,
        schema: pa.Schema,
        sections: RowStoreSections,
        num_rows: int,
        path: Path,
        provide: Callable[[Sequence[int]], None] | None = None,
    ) -> None:
        """`provide` fetches the sections that are about to be read, if the buffer does not hold all of them."""
        self._data = data
        self._provide = provide
        self._schema = schema
        self._sections = sections
        self._num_rows = num_rows
        self._path = path
        self._number = next(_NUMBERS)
        self._checked: set[int] = set()
        self._projections: dict[tuple[str, ...] | None, _Projection] = {}

    @property
    def num_batches(self) -> int:
        return len(self._sections.ends) - 2

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order; only `columns` are decompressed, and they come in the given order."""
        return self._read(range(self.num_batches), columns)

    def take(self, rows: Sequence[int] | np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these numbers, in the given order; a number may occur twice."""
        if columns is not None and not columns:  # Arrow's take of no columns loses the number of rows
            return self.take(rows, self._schema.names[:1]).select([])
        requested = np.asarray(rows, dtype=np.int64)
        if not requested.size:
            return self._selected(columns).empty_table()
        low, high = int(requested.min()), int(requested.max())
        if low < 0 or high >= self._num_rows:
            raise InvalidArgument(f"split {self._path} has rows 0 to {self._num_rows - 1}; row {low if low < 0 else high} does not exist")
        if requested.size <= _FEW:
            return self._take_few(requested.tolist(), columns)
        order = np.argsort(requested, kind="stable")
        ascending = requested[order]
        numbers, starts = np.unique(ascending // self._sections.batch_rows, return_index=True)
        ends = [*starts[1:], len(ascending)]
        parts = [
            batch.take(pa.array(ascending[start:end] - number * self._sections.batch_rows))
            for number, start, end, batch in zip(numbers, starts, ends, self._read(numbers.tolist(), columns), strict=True)
        ]
        inverse = np.empty(len(order), dtype=np.int64)
        inverse[order] = np.arange(len(order))
        return pa.Table.from_batches(parts, self._selected(columns)).take(pa.array(inverse))

    def _take_few(self, rows: list[int], columns: Sequence[str] | None) -> pa.Table:
        """Slices of the batches: for few rows cheaper than Arrow's take."""
        size = self._sections.batch_rows
        numbers = sorted({row // size for row in rows})
        names = None if columns is None else tuple(columns)
        batches = {number: block for number in numbers if (block := _blocks.get((self._number, names, number))) is not None}
        missing = [number for number in numbers if number not in batches]
        for number, block in zip(missing, self._read(missing, columns, threads=False) if missing else (), strict=True):
            if block.get_total_buffer_size() <= limits.BLOCK_CACHE_BYTES // 8:  # a larger one would evict many others
                _blocks.put((self._number, names, number), block)
            batches[number] = block
        return pa.Table.from_batches([batches[row // size].slice(row % size, 1) for row in rows])

    def verify(self) -> None:
        for section in range(len(self._sections.ends)):
            self._check(section)

    def _selected(self, columns: Sequence[str] | None) -> pa.Schema:
        return self._schema if columns is None else pa.schema([self._schema.field(self._index(name)) for name in columns])

    def _index(self, name: str) -> int:
        index = self._schema.get_field_index(name)
        if index < 0:
            raise InvalidArgument(f"split {self._path} has no column {name!r}")
        return int(index)

    def _projection(self, columns: Sequence[str] | None) -> _Projection:
        """How to read these columns; cached, because a search reads few rows at a time from each split."""
        key = None if columns is None else tuple(columns)
        projection = self._projections.get(key)
        if projection is None:
            # Arrow treats an empty list of fields as all fields: to read no columns, decode one and drop it.
            included = [] if columns is None else sorted({self._index(name) for name in columns}) or [0]
            schema = pa.schema([self._schema.field(index) for index in included]) if included else self._schema
            projection = _Projection(included, schema, columns is None or schema.names == list(columns))
            if len(self._projections) < _PROJECTIONS:
                self._projections[key] = projection
        return projection

    def _read(self, numbers: Iterable[int], columns: Sequence[str] | None, threads: bool = True) -> Iterator[pa.RecordBatch]:
        ends = (0, len(self._sections.ends) - 1)
        ahead = self._ahead(numbers, ends)
        first = next(ahead, [])
        for section in ends:
            self._check(section)
        projection = self._projection(columns)
        options = pa.ipc.IpcReadOptions(included_fields=projection.included, use_threads=threads)
        try:
            reader = pa.ipc.open_file(pa.BufferReader(self._data), options=options)
            if reader.num_record_batches != self.num_batches:
                raise SplitCorrupted(f"split {self._path} is damaged: it has {reader.num_record_batches} batches, not {self.num_batches}")
            for number in chain(first, chain.from_iterable(ahead)):
                self._check(1 + number)
                batch = reader.get_batch(number)
                self._check_shape(number, batch, projection.schema)
                batch.validate(full=True)  # 4 % of a scan; forged offsets under a valid checksum would crash the process
                yield batch if columns is None or projection.in_order else batch.select(list(columns))
        except MemoryError as cause:
            raise StorageError(f"not enough memory for {limits.ROW_BATCH} rows of split {self._path}: {cause}") from cause
        except (pa.ArrowException, OSError) as cause:
            raise SplitCorrupted(f"split {self._path} is damaged: its rows cannot be decoded: {cause}") from cause

    def _ahead(self, numbers: Iterable[int], ends: Sequence[int]) -> Iterator[Iterable[int]]:
        """Batches in groups to fetch together, the first group with the file's header and footer; one group if the split is complete."""
        if self._provide is None:
            yield numbers
            return
        group: list[int] = []
        size = 0
        needed = list(ends)
        for number in numbers:
            size += self._sections.ends[1 + number] - self._sections.ends[number]
            group.append(number)
            if size >= limits.FETCH_AHEAD_BYTES:
                self._provide([*needed, *(1 + n for n in group)])
                yield group
                group, size, needed = [], 0, []
        self._provide([*needed, *(1 + n for n in group)])
        yield group

    def _check_shape(self, number: int, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        rows = min(self._sections.batch_rows, self._num_rows - number * self._sections.batch_rows)
        if batch.num_rows != rows or not batch.schema.equals(schema):
            raise SplitCorrupted(f"split {self._path} is damaged: batch {number} of its rows does not match the footer")

    def _check(self, section: int) -> None:
        if section in self._checked:
            return
        start = self._sections.ends[section - 1] if section else 0
        data = memoryview(self._data)[start : self._sections.ends[section]]
        if zlib.crc32(data) != self._sections.crc32[section]:
            raise SplitCorrupted(f"split {self._path} is damaged: the checksum of its rows (section {section}) does not match")
        self._checked.add(section)
