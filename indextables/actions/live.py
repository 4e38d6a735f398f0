"""The live files of a table at one version: columns that versions share, and the few changes since.

Files lie in segments that never change, so a version that follows another costs what it says and not what the table holds. A file that
is removed stays in its segment as a dead row. The newest files are kept as they are until there are enough of them for a segment.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indextables.actions import columns
from indextables.actions.model import Add

RECENT = 1000  # adds that are kept outside of segments
BATCH = 131_072  # adds that are kept as objects at most: about 200 MB
SLICE = 4096
SMALL = 65_536  # rows: chunks of a smaller segment are joined when it grows
_ADD_BYTES = 1500  # of an add as an object, roughly

Index = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # hashes of paths ascending, and the row of each
Dead = tuple[frozenset[int], ...]  # row numbers, in layers that grow: adding one copies few others


class Segment:
    """Files that never change, as columns. Columns and the index of paths are made when first asked for, and live as long as the segment.

    Until then it holds the adds themselves: a commit needs neither of both, and reading a log to append to it costs half as much.
    """

    def __init__(self, files: pa.Table | list[Add], index: Index | None = None) -> None:
        self.num_rows: int = len(files) if isinstance(files, list) else files.num_rows
        self._files = files
        self._index = index
        self._nbytes: int | None = None

    @property
    def rows(self) -> pa.Table:
        files = self._files
        if isinstance(files, list):
            files = self._files = encoded(files)
        return files

    def find(self, path: str) -> Iterator[int]:
        """The rows of a path: more than one where it was removed and added again."""
        hashes, order = self.index
        wanted = hash(path)
        for at in range(int(hashes.searchsorted(wanted)), len(hashes)):
            if hashes[at] != wanted:
                break
            row = int(order[at])
            if self._at(row, "path") == path:
                yield row

    def measures(self, row: int) -> tuple[int, int | None]:
        """The size of a file, and its number of records where it is known."""
        return self._at(row, "size"), self._at(row, "num_records")

    def add(self, row: int) -> Add:
        files = self._files
        return files[row] if isinstance(files, list) else next(columns.decode(files.slice(row, 1)))

    def _at(self, row: int, name: str) -> Any:
        files = self._files
        return getattr(files[row], name) if isinstance(files, list) else files.column(name)[row].as_py()

    @property
    def index(self) -> Index:
        if self._index is None:
            files = self._files
            paths = [add.path for add in files] if isinstance(files, list) else files.column("path").to_pylist()
            self._index = _sorted(np.fromiter(map(hash, paths), np.int64, len(paths)))
        return self._index

    @property
    def nbytes(self) -> int:
        files = self._files
        if isinstance(files, list):
            return _ADD_BYTES * len(files)
        if self._nbytes is None:
            self._nbytes = int(files.nbytes)
        return self._nbytes

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


def encoded(adds: list[Add]) -> pa.Table:
    """In slices that stay in the processor's cache while their fields are picked."""
    slices = [columns.encode(adds[start : start + SLICE]) for start in range(0, len(adds), SLICE)]
    return pa.concat_tables(slices).combine_chunks()


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

    def table(self) -> pa.Table:
        rows = self.segment.rows
        if not self.dead:
            return rows
        alive = np.ones(rows.num_rows, bool)
        for layer in self.dead:
            alive[np.fromiter(layer, np.int64, len(layer))] = False
        return rows.filter(pa.array(alive))

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


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """Immutable. Paths are relative to the table and each appears once; the order is that of the log, oldest first."""

    parts: tuple[Part, ...] = ()
    recent: Mapping[str, Add] = field(default_factory=lambda: MappingProxyType({}))
    num_records: int = 0  # where they are known
    size: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.parts)) + len(self.recent)

    def __contains__(self, path: object) -> bool:
        return path in self.recent or (isinstance(path, str) and any(part.find(path) is not None for part in self.parts))

    def get(self, path: str) -> Add | None:
        if path in self.recent:
            return self.recent[path]
        for part in self.parts:
            row = part.find(path)
            if row is not None:
                return part.segment.add(row)
        return None

    def paths(self) -> list[str]:
        found: list[str] = self.table().column("path").to_pylist()
        return found

    @cached_property
    def _table(self) -> pa.Table:
        recent = [columns.encode(list(self.recent.values()))] if self.recent else []
        return pa.concat_tables([columns.SCHEMA.empty_table(), *(part.table() for part in self.parts), *recent])

    def table(self) -> pa.Table:
        """Everything adds hold, in columns (`columns.SCHEMA`)."""
        return self._table

    def adds(self, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Add]:
        """The adds of these rows of `table()`, by default of all; each is made when it is asked for."""
        if rows is None and not self.parts:
            return iter(self.recent.values())
        return columns.decode(self.table() if rows is None else self.table().take(pa.array(rows, pa.int64())))

    @property
    def nbytes(self) -> int:
        """Roughly what this version keeps in memory, shared or not."""
        return sum(part.segment.nbytes for part in self.parts) + _ADD_BYTES * len(self.recent)

    def edit(self) -> Edit:
        return Edit(self)

    def __getstate__(self) -> dict[str, object]:
        return {"parts": self.parts, "recent": dict(self.recent), "num_records": self.num_records, "size": self.size}


class Edit:
    """Puts and removes by path, then `done()`: the costs are those of the changes."""

    def __init__(self, base: LiveFiles) -> None:
        self._parts = base.parts
        self._dead: list[set[int]] = [set() for _ in base.parts]
        self._recent = dict(base.recent)
        self._made: list[Segment] = []  # of this edit, with
        self._where: dict[str, int] = {}  # the row of each live path in them, and
        self._made_dead: set[int] = set()
        self._num_records = base.num_records
        self._size = base.size

    def put(self, path: str, add: Add) -> None:
        """A path that is put again goes to the end, as in the log."""
        if self._parts or path in self._recent or path in self._where:
            self.remove(path)
        self._recent[path] = add
        self._size += add.size
        self._num_records += add.num_records or 0
        if len(self._recent) >= BATCH:
            self._flush()

    def remove(self, path: str) -> None:
        add = self._recent.pop(path, None)
        if add is not None:
            self._uncount(add.size, add.num_records)
            return
        row = self._where.pop(path, None)
        if row is not None:
            self._made_dead.add(row)
            self._uncount(*self._made[row // BATCH].measures(row % BATCH))
            return
        for part, dead in zip(self._parts, self._dead, strict=True):
            row = part.find(path, dead)
            if row is not None:
                dead.add(row)
                self._uncount(*part.segment.measures(row))
                return

    def __len__(self) -> int:
        dead = len(self._made_dead) + sum(map(len, self._dead))
        return sum(map(len, self._parts)) + BATCH * len(self._made) + len(self._recent) - dead

    def done(self) -> LiveFiles:
        """Everything as it is now; the edit ends with it."""
        parts = [p.without(frozenset(dead)) if dead else p for p, dead in zip(self._parts, self._dead, strict=True)]
        if self._made:
            part = Part(Segment(pa.concat_tables([segment.rows for segment in self._made])))
            parts.append(part.without(frozenset(self._made_dead)) if self._made_dead else part)
        if len(self._recent) > RECENT:
            parts.append(Part(Segment(list(self._recent.values()))))
            self._recent = {}
        return LiveFiles(_tidy(parts), MappingProxyType(self._recent), self._num_records, self._size)

    def _flush(self) -> None:
        """What is recent becomes columns: `BATCH` rows each time."""
        self._where.update(zip(self._recent, range(BATCH * len(self._made), BATCH * (len(self._made) + 1)), strict=True))
        self._made.append(Segment(encoded(list(self._recent.values()))))
        self._recent = {}

    def _uncount(self, size: int, num_records: int | None) -> None:
        self._size -= size
        self._num_records -= num_records or 0


def _tidy(parts: list[Part]) -> tuple[Part, ...]:
    """Few parts, each at least twice as large as the next: so that finding a path takes few steps, and joining is rare."""
    tidy: list[Part] = []
    for part in parts:
        if not len(part):
            continue
        last = part.swept()
        while tidy and len(tidy[-1]) < 2 * len(last):
            last = tidy.pop().followed_by(last)
        tidy.append(last)
    return tuple(tidy)


EMPTY = LiveFiles()
