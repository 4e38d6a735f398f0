"""A version's changes to the live files of the version before."""

from __future__ import annotations

from types import MappingProxyType

import pyarrow as pa

from indextables.actions.add_patterns import AddBlock
from indextables.actions.layers import LayeredFiles
from indextables.actions.live import LiveFiles
from indextables.actions.model import Add
from indextables.actions.segments import Part, Segment, add_of, encoded

RECENT = 1000  # adds that are kept outside of segments
BATCH = 131_072  # adds that are kept as objects at most: about 200 MB


class Edit:
    """Puts and removes by path, then `done()`: the costs are those of the changes."""

    def __init__(self, files: LayeredFiles) -> None:
        newer = files.newer
        self._parts = newer.parts
        self._dead: list[set[int]] = [set() for _ in newer.parts]
        self._recent = dict(newer.recent)
        self._made: list[Segment] = []  # of this edit, with
        self._where: dict[str, int] = {}  # the row of each live path in them, and
        self._made_dead: set[int] = set()
        self._num_records = newer.num_records
        self._size = newer.size
        self._mappings = newer.mappings
        self._base = files.base
        self._gone = files.gone
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
            add = add_of(path, found)
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
        base_files = 0 if self._base is None else self._base.num_files  # before anything was removed from it
        return base_files + sum(map(len, self._parts)) + BATCH * len(self._made) + len(self._recent) - dead

    def done(self) -> LayeredFiles:
        """Everything as it is now; the edit ends with it."""
        parts = [p.without(frozenset(dead)) if dead else p for p, dead in zip(self._parts, self._dead, strict=True)]
        if self._made:
            part = Part(Segment(pa.concat_tables([segment.rows for segment in self._made])))
            parts.append(part.without(frozenset(self._made_dead)) if self._made_dead else part)
        if len(self._recent) > RECENT:
            parts.append(Part(Segment(list(self._recent.items()))))
            self._recent = {}
        gone = self._gone | self._newly_gone if self._newly_gone else self._gone
        newer = LiveFiles(_tidy(parts), MappingProxyType(self._recent), self._num_records, self._size, self._mappings)
        return LayeredFiles(newer, self._base, gone)

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
