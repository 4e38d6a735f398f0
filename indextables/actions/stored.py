"""Live files that lie in a state's manifests, which are read when they are first needed, and only those that are.

Pure: how a manifest is read is handed in. What is known without reading are numbers of files, bytes and records, and the bounds of
partition values of every manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indextables.actions.live import Part, Segment
from indextables.actions.model import Add


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the values of a partition column in a manifest, in the log's spelling; None: not known."""

    low: str | None
    high: str | None
    has_null: bool  # whether a file may have no value
    by_type: bool  # whether low and high are those in the order of the column's type; others compare texts


class Sums(Protocol):
    """What is known of the paths in a manifest without reading it."""

    def among(self, paths: Collection[str]) -> Collection[str] | None:
        """Those that it may have; None: not known."""

    def keep(self, paths: pa.ChunkedArray) -> None:
        """It was read, and these are its paths."""


class StoredSegment(Segment):
    """The entries of one manifest. `load` may raise LogCorrupted, or UnsafePath."""

    def __init__(
        self, num_rows: int, load: Callable[[], pa.Table], bounds: Mapping[str, Bounds], label: Any = None, sums: Sums | None = None
    ) -> None:
        self._load = load
        self.sums = sums
        self._loaded: Any = None
        self._loading = RLock()
        super().__init__([])
        self.num_rows = num_rows
        self.bounds = bounds
        self.label = label  # the manifest's own description, for who writes the next state

    @property
    def _files(self) -> Any:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    @_files.setter
    def _files(self, files: Any) -> None:
        pass  # what is there is what the manifest says

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    @property
    def nbytes(self) -> int:
        return int(self._loaded.nbytes) if self.is_loaded else 0


@dataclass(frozen=True, eq=False)
class Stored:
    """The live files of a state."""

    version: int
    segments: tuple[StoredSegment, ...]
    tombstones: frozenset[str]
    num_files: int
    size: int
    num_records: int
    restore: Callable[[Add], Add]  # spells out what entries only refer to
    mappings: Mapping[str, str]  # which is this: doc mappings by their hash
    prefetch: Callable[[Sequence[StoredSegment]], None] | None = None  # reads several at a time

    def parts(self, gone: frozenset[str]) -> tuple[Part, ...]:
        """Everything is read; the paths of `gone` are dead too."""
        missing = [segment for segment in self.segments if not segment.is_loaded]
        if self.prefetch is not None and len(missing) > 1:
            self.prefetch(missing)
        hidden = self.tombstones | gone
        wanted = pa.array(sorted(hidden), pa.string())
        found = tuple(_part(segment, wanted) for segment in self.segments)
        for segment in self.segments if gone else ():  # who asks for that will ask again, when there are more
            if segment.sums is not None:
                segment.sums.keep(segment.rows.column("path"))
        return found

    def within(self, may: Callable[[Mapping[str, Bounds]], bool]) -> Stored:
        """Only the manifests of which `may` is true; the numbers are still those of all."""
        kept = tuple(segment for segment in self.segments if may(segment.bounds))
        return replace(self, segments=kept)

    def among(self, paths: frozenset[str]) -> frozenset[str]:
        """Those that these files may have; all of them, where nothing is known of a manifest."""
        kept: set[str] = set()
        for segment in self.segments if paths else ():
            found = None if segment.sums is None else segment.sums.among(paths)
            if found is None:
                return paths
            kept.update(found)
        return frozenset(kept)

    def hidden_by(self, gone: frozenset[str]) -> tuple[int, int, int]:
        """How many live files, bytes and records lie under these paths."""
        wanted = pa.array(sorted(gone - self.tombstones), pa.string())
        files = size = records = 0
        for segment in self.segments if len(wanted) else ():
            rows = pa.array(_rows_of(segment, wanted))
            files += len(rows)
            size += pc.sum(segment.rows.column("size").take(rows)).as_py() or 0
            records += pc.sum(segment.rows.column("num_records").take(rows)).as_py() or 0
        return files, size, records

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)


def _part(segment: StoredSegment, hidden: pa.Array) -> Part:
    if not segment.num_rows:
        return Part(segment)
    found = segment.rows.num_rows  # also where nothing is hidden: damage is to be found now
    if not found or not len(hidden):
        return Part(segment)
    dead = _rows_of(segment, hidden)
    return Part(segment, (frozenset(dead.tolist()),) if len(dead) else ())


def _rows_of(segment: StoredSegment, paths: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.flatnonzero(pc.is_in(segment.rows.column("path"), paths).to_numpy())
