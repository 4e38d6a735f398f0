"""Files as Arrow columns that versions share: a segment never changes; each version records which of its rows are dead."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import columns
from indextables.actions.add_patterns import AddBlock, Source, decoded
from indextables.actions.model import Add

SLICE = 4096
SMALL = 65_536  # rows: chunks of a smaller segment are combined when it grows
ADD_BYTES = 1500  # approximate memory of an add as an object
DERIVED_BYTES = 128  # per row: maximum memory of values cached with a segment; the least recently used are dropped first

Index = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # hashes of paths ascending, and the row of each
Dead = tuple[frozenset[int], ...]  # row numbers in layers, largest first: adding some copies only the smaller layers
Rows = npt.NDArray[np.int64]


Derived = TypeVar("Derived")  # with an attribute `nbytes`


class Segment:
    """An immutable set of files. Its columns and its index of paths are built on first use and kept with the segment.

    Until then it holds the adds: a commit needs neither columns nor index, so opening a log for an append takes half the time.
    """

    def __init__(self, files: pa.Table | list[tuple[str, Source]], index: Index | None = None) -> None:
        self.num_rows: int = len(files) if isinstance(files, list) else files.num_rows
        self._files = files
        self._index = index
        self._nbytes: int | None = None
        self._derived: dict[Hashable, Any] = {}
        self._lock = Lock()

    @property
    def rows(self) -> pa.Table:
        files = self._files
        if isinstance(files, list):
            files = self._files = encoded(files)
        return files

    def derived(self, key: Hashable, make: Callable[[pa.Table], Derived]) -> Derived:
        """`make(rows)`, cached under `key` within the bound of `DERIVED_BYTES`."""
        with self._lock:
            found: Derived | None = self._derived.pop(key, None)
        made = make(self.rows) if found is None else found
        with self._lock:
            self._derived[key] = made
            while len(self._derived) > 1 and self._derived_bytes > DERIVED_BYTES * self.num_rows:
                del self._derived[next(iter(self._derived))]
        return made

    @property
    def _derived_bytes(self) -> int:
        return sum(value.nbytes for value in self._derived.values())

    def find(self, path: str) -> Iterator[int]:
        """Yields the rows of a path; several if it was removed and added again."""
        hashes, order = self.index
        wanted = hash(path)
        for at in range(int(hashes.searchsorted(wanted)), len(hashes)):
            if hashes[at] != wanted:
                break
            row = int(order[at])
            if self._path(row) == path:
                yield row

    def measures(self, row: int) -> tuple[int, int | None]:
        """The size of a file, and its number of records if stated."""
        return self._at(row, "size"), self._at(row, "num_records")

    def add(self, row: int) -> Add:
        files = self._files
        return add_of(*files[row]) if isinstance(files, list) else next(columns.decode(files.slice(row, 1)))

    def _path(self, row: int) -> Any:
        files = self._files
        return files[row][0] if isinstance(files, list) else files.column("path")[row].as_py()

    def _at(self, row: int, name: str) -> Any:
        files = self._files
        return getattr(add_of(*files[row]), name) if isinstance(files, list) else files.column(name)[row].as_py()

    @property
    def index(self) -> Index:
        if self._index is None:
            files = self._files
            paths = [path for path, _ in files] if isinstance(files, list) else files.column("path").to_pylist()
            self._index = _sorted(np.fromiter(map(hash, paths), np.int64, len(paths)))
        return self._index

    @property
    def nbytes(self) -> int:
        files = self._files
        if isinstance(files, list):
            return ADD_BYTES * len(files)
        if self._nbytes is None:
            self._nbytes = int(files.nbytes)
        with self._lock:
            return self._nbytes + self._derived_bytes

    def followed_by(self, other: Segment) -> Segment:
        """A segment with the rows of this one, then those of `other`."""
        rows = pa.concat_tables([self.rows, other.rows])
        if rows.num_rows < SMALL:
            rows = rows.combine_chunks()
        if self._index is None and other._index is None:
            return Segment(rows)
        hashes = np.empty(rows.num_rows, np.int64)
        for (sorted_hashes, order), start in ((self.index, 0), (other.index, self.num_rows)):
            hashes[order + start] = sorted_hashes
        return Segment(rows, _sorted(hashes))

    def __reduce__(self) -> tuple[type[Segment], tuple[pa.Table]]:
        return Segment, (self.rows,)  # without the index: hashes of strings differ between processes


def encoded(files: list[tuple[str, Source]]) -> pa.Table:
    """Encodes files in slices that fit the processor's cache."""
    slices = [columns.encode(decoded(files[start : start + SLICE])) for start in range(0, len(files), SLICE)]
    return pa.concat_tables(slices).combine_chunks()


def add_of(path: str, source: Source) -> Add:
    return source.add(path) if isinstance(source, AddBlock) else source


def take_rows(table: pa.Table, rows: Rows) -> pa.Table:
    """The rows with these ascending numbers, batch by batch: Table.take would first copy all chunks into one."""
    start, taken = 0, []
    for batch in table.to_batches():
        in_batch = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + batch.num_rows)]
        if len(in_batch):
            taken.append(batch.take(pa.array(in_batch - start)))
        start += batch.num_rows
    return pa.Table.from_batches(taken, table.schema)


def _sorted(hashes: npt.NDArray[np.int64]) -> Index:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order


@dataclass(frozen=True)
class Part:
    """A segment with the rows that are dead in this version."""

    segment: Segment
    dead: Dead = ()

    def __len__(self) -> int:
        return self.segment.num_rows - sum(map(len, self.dead))

    def find(self, path: str, removed: Container[int] = ()) -> int | None:
        """The row of a live path; None if it is not live here."""
        rows = self.segment.find(path)
        return next((row for row in rows if row not in removed and not any(row in layer for layer in self.dead)), None)

    def without(self, rows: frozenset[int]) -> Part:
        layers = self.dead
        while layers and len(layers[-1]) <= len(rows):
            rows |= layers[-1]
            layers = layers[:-1]
        return Part(self.segment, (*layers, rows))

    @cached_property
    def live(self) -> Rows | None:
        """The live rows of the segment, ascending; None: all."""
        if not self.dead:
            return None
        alive = np.ones(self.segment.num_rows, bool)
        for layer in self.dead:
            alive[np.fromiter(layer, np.int64, len(layer))] = False
        return np.flatnonzero(alive)

    def table(self) -> pa.Table:
        return self.segment.rows if self.live is None else self.take(np.arange(len(self)))

    def take(self, rows: Rows, names: Sequence[str] = columns.SCHEMA.names) -> pa.Table:
        """Some of the live rows, given in ascending order as positions among the live rows."""
        return take_rows(self.segment.rows.select(names), rows if self.live is None else self.live[rows])

    def total(self, name: str) -> int:
        """The sum of a column of numbers over the live rows."""
        found: int | None = pc.sum(self.take(np.arange(len(self)), [name]).column(0)).as_py()
        return found or 0

    def compacted(self) -> Part:
        """The part without its dead rows once they are half of the segment or more; otherwise unchanged."""
        if 2 * len(self) > self.segment.num_rows:
            return self
        return Part(Segment(self.table().combine_chunks()))

    def followed_by(self, other: Part) -> Part:
        start = self.segment.num_rows
        part = Part(self.segment.followed_by(other.segment), self.dead)
        moved = frozenset(start + row for layer in other.dead for row in layer)
        return part.without(moved) if moved else part
