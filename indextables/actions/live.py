"""The live files of a table at one version: columns that versions share, and the few changes since.

Files lie in segments that never change, so a version that follows another costs what it says and not what the table holds. A file that
is removed stays in its segment as a dead row. The newest files are kept as they are until there are enough of them for a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import starmap
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions import columns
from indextables.actions.model import Add
from indextables.actions.spellings import AddBlock, Source, decoded
from indextables.errors import LogCorrupted, UnsafePath

if TYPE_CHECKING:
    from indextables.actions.stored import Bounds, Stored

RECENT = 1000  # adds that are kept outside of segments
BATCH = 131_072  # adds that are kept as objects at most: about 200 MB
SLICE = 4096
SMALL = 65_536  # rows: chunks of a smaller segment are joined when it grows
_ADD_BYTES = 1500  # of an add as an object, roughly
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
        return _add(*files[row]) if isinstance(files, list) else next(columns.decode(files.slice(row, 1)))

    def _path(self, row: int) -> Any:
        files = self._files
        return files[row][0] if isinstance(files, list) else files.column("path")[row].as_py()

    def _at(self, row: int, name: str) -> Any:
        files = self._files
        return getattr(_add(*files[row]), name) if isinstance(files, list) else files.column(name)[row].as_py()

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
            return _ADD_BYTES * len(files)
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


def _add(path: str, source: Source) -> Add:
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


@dataclass(frozen=True, eq=False)
class LiveFiles:
    """Immutable. Paths are relative to the table and each appears once; in the order of the log, oldest first, but for those of a state.

    What lies in a state's manifests comes first, and is read when it is needed. Where that fails, `rescue` gives the same files from
    elsewhere, or raises LogCorrupted: a damaged manifest never makes an answer smaller.
    """

    parts: tuple[Part, ...] = ()
    recent: Mapping[str, Source] = field(default_factory=lambda: MappingProxyType({}))
    counted_records: int = 0  # of parts and recent, where they are known
    counted_size: int = 0
    base: Stored | None = None
    gone: frozenset[str] = frozenset()  # paths that are no longer those of the base, if it ever had them
    rescue: Callable[[str], LiveFiles] | None = None

    def __len__(self) -> int:
        return sum(map(len, self.parts)) + len(self.recent) + self._stored[0]

    @property
    def size(self) -> int:
        return self.counted_size + self._stored[1]

    @property
    def num_records(self) -> int:
        """Where they are known."""
        return self.counted_records + self._stored[2]

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Those of `gone` that the base may have. A new file is usually known to be none of it."""
        return self.gone if self.base is None else self.base.among(self.gone)

    @cached_property
    def _stored(self) -> tuple[int, int, int]:
        """Files, bytes and records of the base. Nothing is read for it as long as nothing was removed."""
        if self.base is None:
            return 0, 0, 0
        total = self.base.num_files, self.base.size, self.base.num_records
        if not self.hidden:
            return total
        if (sound := self.checked) is not self:  # as many as are left of them all
            others = sum(map(len, self.parts)) + len(self.recent)
            return len(sound) - others, sound.size - self.counted_size, sound.num_records - self.counted_records
        less = self.base.hidden_by(self.hidden)
        return total[0] - less[0], total[1] - less[1], total[2] - less[2]

    @cached_property
    def checked(self) -> LiveFiles:
        """These files with all manifests of the base read and found whole, or the same files from elsewhere."""
        if self.base is None:
            return self
        try:
            len(self.stored_parts)
        except LogCorrupted as error:
            return self._elsewhere(error)
        return self

    def _elsewhere(self, error: LogCorrupted) -> LiveFiles:
        """The same files without the help of a base that turned out to be damaged."""
        if self.rescue is None or isinstance(error, UnsafePath):
            raise error
        return self.rescue(str(error)).checked

    def newer(self) -> pa.Table:
        """What came after the base, in the order of the log."""
        return pa.concat_tables([columns.SCHEMA.empty_table(), *(part.table() for part in self.newer_parts)])

    @property
    def newer_parts(self) -> tuple[Part, ...]:
        return (*self.parts, *self._recent_part)

    @cached_property
    def _recent_part(self) -> tuple[Part, ...]:
        return (Part(Segment(list(self.recent.items()))),) if self.recent else ()

    @cached_property
    def stored_parts(self) -> tuple[Part, ...]:
        """What lives of the base, manifest by manifest; of files that were `checked`."""
        return () if self.base is None else self.base.parts(self.hidden)

    def within(self, may: Callable[[Mapping[str, Bounds]], bool]) -> LiveFiles:
        """Without the files of manifests whose bounds `may` rules out: those manifests are not read."""
        kept = None if self.base is None else self.base.within(may)
        if self.base is None or kept is None or len(kept.segments) == len(self.base.segments):
            return self
        try:
            parts = kept.parts(self.hidden)
        except LogCorrupted as error:
            return self._elsewhere(error)
        size, records = (sum(part.total(name) for part in parts) for name in ("size", "num_records"))
        nothing = replace(self.base, segments=(), num_files=0, size=0, num_records=0)
        return LiveFiles((*parts, *self.parts), self.recent, self.counted_records + records, self.counted_size + size, nothing)

    def __contains__(self, path: object) -> bool:
        return path in self.recent or (isinstance(path, str) and any(part.find(path) is not None for part in self.all_parts))

    def get(self, path: str) -> Add | None:
        if path in self.recent:
            return _add(path, self.recent[path])
        for part in self.all_parts:
            row = part.find(path)
            if row is not None:
                return self._restored(part.segment.add(row))
        return None

    def _restored(self, add: Add) -> Add:
        return add if self.base is None else self.base.restore(add)

    def paths(self) -> list[str]:
        found: list[str] = self.table().column("path").to_pylist()
        return found

    @cached_property
    def all_parts(self) -> tuple[Part, ...]:
        """Those of the base, which is read now, the others, and the newest files as one more; their rows are those of `table()`."""
        if self.checked is not self:
            return self.checked.all_parts
        return (*self.stored_parts, *self.newer_parts)

    @cached_property
    def _table(self) -> pa.Table:
        return pa.concat_tables([columns.SCHEMA.empty_table(), *(part.table() for part in self.all_parts)])

    def table(self) -> pa.Table:
        """Everything adds hold, in columns (`columns.SCHEMA`)."""
        return self._table

    def take(self, rows: Rows, names: Sequence[str] = columns.SCHEMA.names) -> pa.Table:
        """These columns of these rows of `table()`, which ascend, without making all of it."""
        if len(rows) == sum(map(len, self.all_parts)):
            return self.table().select(names)
        start, taken = 0, [columns.SCHEMA.empty_table().select(names)]
        for part in self.all_parts:
            here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + len(part))]
            taken.append(part.take(here - start, names))
            start += len(part)
        return pa.concat_tables(taken)

    def adds(self, rows: Rows | None = None) -> Iterator[Add]:
        """The adds of these rows of `table()`, which ascend, by default of all; each is made when it is asked for."""
        if rows is None and not self.parts and self.base is None:
            return starmap(_add, self.recent.items())
        found = columns.decode(self.table() if rows is None else self.take(rows))
        return found if self.base is None else map(self.base.restore, found)

    @property
    def nbytes(self) -> int:
        """Roughly what this version keeps in memory, shared or not."""
        stored = 0 if self.base is None else self.base.nbytes
        return stored + sum(part.segment.nbytes for part in self.parts) + _ADD_BYTES * len(self.recent)

    def edit(self) -> Edit:
        return Edit(self)

    def __getstate__(self) -> dict[str, object]:
        """With everything in it: where it is opened again there may be no store."""
        # What lies in a state is spelt out: whatever its entries refer to stays behind.
        parts = self.all_parts if self.base is None else (Part(Segment([(add.path, add) for add in self.adds()])),)
        state = {"parts": parts, "recent": {}, "counted_records": self.num_records, "counted_size": self.size}
        return {**state, "base": None, "gone": frozenset(), "rescue": None}


class Edit:
    """Puts and removes by path, then `done()`: the costs are those of the changes."""

    def __init__(self, base: LiveFiles) -> None:
        self._parts = base.parts
        self._dead: list[set[int]] = [set() for _ in base.parts]
        self._recent = dict(base.recent)
        self._made: list[Segment] = []  # of this edit, with
        self._where: dict[str, int] = {}  # the row of each live path in them, and
        self._made_dead: set[int] = set()
        self._num_records = base.counted_records
        self._size = base.counted_size
        self._base = base.base
        self._gone = base.gone
        self._newly_gone: set[str] = set()
        self.are_new = False  # whether the paths that are put now are known to be none of the base's

    def put(self, path: str, add: Add) -> None:
        """A path that is put again goes to the end, as in the log."""
        if self.are_new or self._base is None:
            self._take_out(path)
        else:
            self.remove(path)
        self._recent[path] = add
        self._size += add.size
        self._num_records += add.num_records or 0
        if len(self._recent) >= BATCH:
            self._flush()

    def put_block(self, block: AddBlock) -> None:
        """The same for each of its adds, in one go where all their paths are new."""
        paths = block.texts.keys()
        is_new = not self._parts and self._recent.keys().isdisjoint(paths) and self._where.keys().isdisjoint(paths)
        if is_new and self._base is not None and not self.are_new:
            self._newly_gone.update(paths)  # whether the base has one of them shows when it is read
        if not is_new or len(self._recent) + len(paths) >= BATCH:
            for path in paths:
                self.put(path, block.add(path))
            return
        self._recent.update(dict.fromkeys(paths, block))
        self._size += block.size
        self._num_records += block.num_records

    def remove(self, path: str) -> None:
        if not self._take_out(path) and self._base is not None and path not in self._gone:
            self._newly_gone.add(path)  # whether the base has it shows when it is read

    def _take_out(self, path: str) -> bool:
        """Whether it was there, outside of the base."""
        found = self._recent.pop(path, None)
        if found is not None:
            add = _add(path, found)
            self._uncount(add.size, add.num_records)
            return True
        row = self._where.pop(path, None)
        if row is not None:
            self._made_dead.add(row)
            self._uncount(*self._made[row // BATCH].measures(row % BATCH))
            return True
        for part, dead in zip(self._parts, self._dead, strict=True):
            row = part.find(path, dead)
            if row is not None:
                dead.add(row)
                self._uncount(*part.segment.measures(row))
                return True
        return False

    def __len__(self) -> int:
        dead = len(self._made_dead) + sum(map(len, self._dead))
        stored = 0 if self._base is None else self._base.num_files  # before anything was removed from it
        return stored + sum(map(len, self._parts)) + BATCH * len(self._made) + len(self._recent) - dead

    def done(self) -> LiveFiles:
        """Everything as it is now; the edit ends with it."""
        parts = [p.without(frozenset(dead)) if dead else p for p, dead in zip(self._parts, self._dead, strict=True)]
        if self._made:
            part = Part(Segment(pa.concat_tables([segment.rows for segment in self._made])))
            parts.append(part.without(frozenset(self._made_dead)) if self._made_dead else part)
        if len(self._recent) > RECENT:
            parts.append(Part(Segment(list(self._recent.items()))))
            self._recent = {}
        gone = self._gone | self._newly_gone if self._newly_gone else self._gone
        return LiveFiles(_tidy(parts), MappingProxyType(self._recent), self._num_records, self._size, self._base, gone)

    def _flush(self) -> None:
        """What is recent becomes columns: `BATCH` rows each time."""
        self._where.update(zip(self._recent, range(BATCH * len(self._made), BATCH * (len(self._made) + 1)), strict=True))
        self._made.append(Segment(encoded(list(self._recent.items()))))
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
