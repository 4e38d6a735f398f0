"""Applies the adds and removes of a version to the live files of the version before."""

from __future__ import annotations

from types import MappingProxyType

import pyarrow as pa

from indextables.actions.add_patterns import AddBlock
from indextables.actions.layers import LayeredFiles
from indextables.actions.live import LiveFiles
from indextables.actions.model import Add
from indextables.actions.segments import Part, Segment, add_of, encoded

RECENT = 1000  # maximum number of adds kept outside segments
BATCH = 131_072  # maximum number of adds kept as objects during an edit: about 200 MB


class Edit:
    """Puts and removes files by path; `done()` returns the result. Its cost grows with the changes, not with the table."""

    def __init__(self, files: LayeredFiles) -> None:
        newer = files.newer
        self._parts = newer.parts
        self._dead: list[set[int]] = [set() for _ in newer.parts]
        self._recent = dict(newer.recent)
        self._flushed: list[Segment] = []  # `BATCH` rows each, made by this edit
        self._flushed_rows: dict[str, int] = {}  # the row of each live path in them
        self._flushed_dead: set[int] = set()
        self._num_records = newer.num_records
        self._size = newer.size
        self._mappings = newer.mappings
        self._base = files.base
        self._gone = files.gone
        self._newly_gone: set[str] = set()
        self.paths_are_new = False  # whether the base is known to have none of the paths that are put now

    def put(self, path: str, add: Add) -> None:
        """A path that is put again moves to the end, as in the log."""
        if self.paths_are_new or self._base is None:
            self._take_out(path)
        else:
            self.remove(path)
        self._recent[path] = add
        self._size += add.size
        self._num_records += add.num_records or 0
        if len(self._recent) >= BATCH:
            self._flush()

    def put_block(self, block: AddBlock) -> None:
        """Puts every add of the block; in bulk, without decoding them, where all paths are new."""
        paths = block.texts.keys()
        is_new = not self._parts and self._recent.keys().isdisjoint(paths) and self._flushed_rows.keys().isdisjoint(paths)
        if is_new and self._base is not None and not self.paths_are_new:
            self._newly_gone.update(paths)  # the base may have some of them: its loader drops those
        if not is_new or len(self._recent) + len(paths) >= BATCH:
            for path in paths:
                self.put(path, block.add(path))
            return
        self._recent.update(dict.fromkeys(paths, block))
        self._size += block.size
        self._num_records += block.num_records

    def remove(self, path: str) -> None:
        if not self._take_out(path) and self._base is not None and path not in self._gone:
            self._newly_gone.add(path)  # the base may have it: its loader drops it

    def _take_out(self, path: str) -> bool:
        """Removes a path from everything but the base; returns whether it was there."""
        found = self._recent.pop(path, None)
        if found is not None:
            add = add_of(path, found)
            self._uncount(add.size, add.num_records)
            return True
        row = self._flushed_rows.pop(path, None)
        if row is not None:
            self._flushed_dead.add(row)
            self._uncount(*self._flushed[row // BATCH].measures(row % BATCH))
            return True
        for part, dead in zip(self._parts, self._dead, strict=True):
            row = part.find(path, dead)
            if row is not None:
                dead.add(row)
                self._uncount(*part.segment.measures(row))
                return True
        return False

    def __len__(self) -> int:
        dead = len(self._flushed_dead) + sum(map(len, self._dead))
        base_files = 0 if self._base is None else self._base.num_files  # before anything was removed from it
        return base_files + sum(map(len, self._parts)) + BATCH * len(self._flushed) + len(self._recent) - dead

    def done(self) -> LayeredFiles:
        """The edited files. The edit must not be used afterwards."""
        parts = [p.without(frozenset(dead)) if dead else p for p, dead in zip(self._parts, self._dead, strict=True)]
        if self._flushed:
            part = Part(Segment(pa.concat_tables([segment.rows for segment in self._flushed])))
            parts.append(part.without(frozenset(self._flushed_dead)) if self._flushed_dead else part)
        if len(self._recent) > RECENT:
            parts.append(Part(Segment(list(self._recent.items()))))
            self._recent = {}
        gone = self._gone | self._newly_gone if self._newly_gone else self._gone
        newer = LiveFiles(_few_parts(parts), MappingProxyType(self._recent), self._num_records, self._size, self._mappings)
        return LayeredFiles(newer, self._base, gone)

    def _flush(self) -> None:
        """Encodes the `BATCH` recent adds as a segment."""
        start = BATCH * len(self._flushed)
        self._flushed_rows.update(zip(self._recent, range(start, start + BATCH), strict=True))
        self._flushed.append(Segment(encoded(list(self._recent.items()))))
        self._recent = {}

    def _uncount(self, size: int, num_records: int | None) -> None:
        self._size -= size
        self._num_records -= num_records or 0


def _few_parts(parts: list[Part]) -> tuple[Part, ...]:
    """Joins parts until each is at least twice as large as the next: few parts to search for a path, and rare joins."""
    joined: list[Part] = []
    for part in parts:
        if not len(part):
            continue
        last = part.compacted()
        while joined and len(joined[-1]) < 2 * len(last):
            last = joined.pop().followed_by(last)
        joined.append(last)
    return tuple(joined)
