"""Files as Arrow columns that versions share: a segment never changes, and a version says which of its rows are dead."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import columns
from indextables.actions.add_patterns import AddBlock, Source, decoded
from indextables.actions.model import Add

SLICE = 4096
SMALL = 65_536  # rows: chunks of a smaller segment are joined when it grows
ADD_BYTES = 1500  # of an add as an object, roughly
DERIVED_BYTES = 128  # for each row: what is kept of what was derived from a segment, least recently used goes first

Index = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # hashes of paths ascending, and the row of each
Dead = tuple[frozenset[int], ...]  # row numbers, in layers that grow: adding one copies few others
Rows = npt.NDArray[np.int64]


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


Derived = TypeVar("Derived", bound=Sized)


class Segment:
    """Files that never change, as columns. Columns and the index of paths are made when first asked for, and live as long as the segment.

    Until then it holds where the adds are: a commit needs neither of both, and reading a log to append to it costs half as much.
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
        """What `make` makes of the rows, made once and kept under `key` while there is room."""
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
        """The rows of a path: more than one where it was removed and added again."""
        hashes, order = self.index
        wanted = hash(path)
        for at in range(int(hashes.searchsorted(wanted)), len(hashes)):
            if hashes[at] != wanted:
                break
            row = int(order[at])
            if self._path(row) == path:
                yield row

    def measures(self, row: int) -> tuple[int, int | None]:
        """The size of a file, and its number of records where it is known."""
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
        """Both, this one's rows first."""
        rows = pa.concat_tables([self.rows, other.rows])
        if rows.num_rows < SMALL:
            rows = rows.combine_chunks()
        if self._index is None and other._index is None:
            return Segment(rows)
        hashes = np.empty(rows.num_rows, np.int64)
        for (known, order), start in ((self.index, 0), (other.index, self.num_rows)):
            hashes[order + start] = known
        return Segment(rows, _sorted(hashes))

    def __reduce__(self) -> tuple[type[Segment], tuple[pa.Table]]:
        return Segment, (self.rows,)  # hashes of texts differ between processes


def encoded(files: list[tuple[str, Source]]) -> pa.Table:
    """In slices that stay in the processor's cache while their fields are picked."""
    slices = [columns.encode(decoded(files[start : start + SLICE])) for start in range(0, len(files), SLICE)]
    return pa.concat_tables(slices).combine_chunks()


def add_of(path: str, source: Source) -> Add:
    return source.add(path) if isinstance(source, AddBlock) else source


def _sorted(hashes: npt.NDArray[np.int64]) -> Index:
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order


@dataclass(frozen=True)
class Part:
    """A segment, and which of its rows are dead in this version."""

    segment: Segment
    dead: Dead = ()

    def __len__(self) -> int:
        return self.segment.num_rows - sum(map(len, self.dead))

    def find(self, path: str, removed: Container[int] = ()) -> int | None:
        """The one row of a live path."""
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
        """The rows of the segment that live, in order; None: all."""
        if not self.dead:
            return None
        alive = np.ones(self.segment.num_rows, bool)
        for layer in self.dead:
            alive[np.fromiter(layer, np.int64, len(layer))] = False
        return np.flatnonzero(alive)

    def table(self) -> pa.Table:
        return self.segment.rows if self.live is None else self.take(np.arange(len(self)))

    def take(self, rows: Rows, names: Sequence[str] = columns.SCHEMA.names) -> pa.Table:
        """Some of the live rows, ascending, by their number among the live ones."""
        wanted = rows if self.live is None else self.live[rows]
        table = self.segment.rows.select(names)
        start, taken = 0, []
        for batch in table.to_batches():  # joining chunks first, as Table.take does, would copy all of them
            here = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + batch.num_rows)]
            if len(here):
                taken.append(batch.take(pa.array(here - start)))
            start += batch.num_rows
        return pa.Table.from_batches(taken, table.schema)

    def total(self, name: str) -> int:
        """Of a column of numbers."""
        found: int | None = pc.sum(self.take(np.arange(len(self)), [name]).column(0)).as_py()
        return found or 0

    def swept(self) -> Part:
        """Without its dead rows, where they have become many."""
        if 2 * len(self) > self.segment.num_rows:
            return self
        return Part(Segment(self.table().combine_chunks()))

    def followed_by(self, other: Part) -> Part:
        start = self.segment.num_rows
        part = Part(self.segment.followed_by(other.segment), self.dead)
        moved = frozenset(start + row for layer in other.dead for row in layer)
        return part.without(moved) if moved else part
