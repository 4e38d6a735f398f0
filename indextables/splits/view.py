"""Many splits searched as one index, so that BM25 scores are the same as in one split with all rows.

tantivy computes word frequencies and average lengths over the segments of an index. So the indexes of the splits are combined, each as one
segment, under one `meta.json`; scores are then exact, and a search costs little more than on a single index. (Except for phrases with `~`:
tantivy counts their occurrences starting from the word that is rarer in the segment, so that scores may differ from those of one split. The
matching rows do not.)
Splits with different doc mappings cannot be combined, nor can more than limits.VIEW_SPLITS splits or VIEW_BYTES of index: each group is
scored with its own statistics.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from indextables import limits
from indextables.errors import SplitCorrupted, StorageError
from indextables.process_cache import ProcessCache
from indextables.splits.format import INDEX_META, ROW_STORE, scratch_folder
from indextables.splits.index import IndexMeta, Segment, open_searcher, tantivy_errors_as, top_hits
from indextables.splits.query import IndexPart, ParsedQuery, Searchable
from indextables.splits.reader import SplitKey, SplitPlace, SplitReader, open_split, split_key

Item = TypeVar("Item")
Result = TypeVar("Result")
_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hits:
    """Matching rows, best first; ties by split, then by row."""

    splits: _Integers  # indices into the splits of the view
    rows: _Integers
    scores: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: npt.NDArray[Any]) -> Hits:
        return Hits(self.splits[chosen], self.rows[chosen], self.scores[chosen])

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """The hits of several groups as one list, best first."""
        if len(parts) == 1:
            return parts[0]
        splits, rows = (np.concatenate([np.empty(0, np.int64), *(getattr(p, name) for p in parts)]) for name in ("splits", "rows"))
        scores = np.concatenate([np.empty(0, np.float64), *(part.scores for part in parts)])
        return cls(splits, rows, scores).take(np.lexsort((rows, splits, -scores)))


class Group(Searchable):
    """Splits that share statistics. The index is opened by the first search and kept, or opened by each search."""

    def __init__(self, readers: Sequence[SplitReader], numbers: Sequence[int], kept: bool = True) -> None:
        super().__init__()
        self._readers = readers
        self._kept = kept  # whether the index stays open after a search
        self._numbers = np.array(numbers, np.int64)

    @cached_property
    def is_partial(self) -> bool:
        return any(reader.is_partial for reader in self._readers)

    @cached_property
    def num_records(self) -> int:
        return sum(reader.num_records for reader in self._readers)

    def search(self, query: ParsedQuery, limit: int, offset: int = 0) -> Hits:
        """The best `limit` rows after the best `offset`."""
        most = min(limit, self.num_records - offset)
        if most <= 0:
            return Hits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))
        first = self._readers[0]
        compiled = query.compile(first.schema, first.mapping)
        with nullcontext() if self._kept else _open_slot():
            found = top_hits(self._searcher(compiled.parts), compiled.query, query.text, most, offset)
        segments = np.fromiter((address.segment_ord for _, address in found), np.int64, len(found))
        rows = np.fromiter((address.doc for _, address in found), np.int64, len(found))
        return Hits(self._numbers[segments], rows, np.fromiter((score for score, _ in found), np.float64, len(found)))

    def pages(self, query: ParsedQuery, first: int) -> Iterator[Hits]:
        """All hits, best first, in pages that grow from `first` rows: memory is bounded by the page plus 16 bytes per hit in tantivy."""
        offset, size = 0, first
        while True:
            page = self.search(query, size, offset)
            if len(page):
                yield page
            offset += size
            if len(page) < size:
                return
            size = min(2 * size, max(first, limits.SEARCH_PAGE))

    def _searcher(self, parts: frozenset[IndexPart]) -> Any:
        return super()._searcher(parts) if self._kept else self._open_index(parts)

    def _open_index(self, parts: frozenset[IndexPart]) -> Any:
        """A searcher on copies of the index files, which are unlinked once they are mapped, as in SplitReader."""
        names = f"splits {self._readers[0].path} and {len(self._readers) - 1} more"
        try:
            with scratch_folder("indextables-index-") as folder:
                numbers = range(len(self._readers))
                metas = parallel(lambda number: _extracted(self._readers[number], folder, number, parts), numbers, self.is_partial)
                segments = [Segment(_segment_id(number), reader.num_records) for number, reader in enumerate(self._readers)]
                meta = msgspec.structs.replace(metas[0], segments=segments, opstamp=max(meta.opstamp for meta in metas))
                (folder / INDEX_META).write_bytes(msgspec.json.encode(meta))
                with tantivy_errors_as(SplitCorrupted, f"{names} are damaged: their indexes cannot be opened"):
                    searcher = open_searcher(folder)
        except OSError as cause:
            raise StorageError(f"the indexes of {names} could not be copied: {cause}") from cause
        if searcher.num_segments != len(self._readers) or searcher.num_docs != self.num_records:
            raise SplitCorrupted(f"{names} are damaged: their indexes have {searcher.num_docs} documents, not {self.num_records}")
        return searcher


def _segment_id(number: int) -> uuid.UUID:
    """A unique segment id by position, since a table may contain a split and a copy of it."""
    return uuid.UUID(int=number + 1)


def _extracted(reader: SplitReader, folder: Path, number: int, parts: frozenset[IndexPart]) -> IndexMeta:
    """Writes the verified files of a split's index into `folder` as segment `number`."""
    meta = reader.index_meta()
    own = folder / str(number)
    own.mkdir()
    reader.extract(own, parts)
    stem = meta.segments[0].stem
    for path in own.iterdir():
        if path.name.startswith(stem + "."):
            path.rename(folder / (_segment_id(number).hex + path.name.removeprefix(stem)))
    return meta


class View:
    """Open splits in a fixed order, divided into groups that are each searched as one index."""

    def __init__(self, readers: Sequence[SplitReader]) -> None:
        self.readers = readers
        self.index_bytes = sum(_index_bytes(reader) for reader in readers)
        kept = len(readers) <= limits.MAPPED_SPLITS
        self.groups = [Group([readers[n] for n in numbers], numbers, kept) for numbers in _grouped(readers)]

    def search(self, query: ParsedQuery, limit: int) -> Hits:
        """The best `limit` rows of all splits."""
        best = Hits.joined(parallel(lambda group: group.search(query, limit), self.groups))
        return best.take(np.arange(min(limit, len(best))))


def _grouped(readers: Sequence[SplitReader]) -> list[list[int]]:
    """Indices of the splits of each group, in order."""
    groups: list[list[int]] = []
    filling: dict[Any, tuple[list[int], int]] = {}  # by kind of index: the last group and its bytes
    for number, reader in enumerate(readers):
        kind = (reader.mapping, tuple((field.name, str(field.type)) for field in reader.schema), reader.footer.hotcache.format_version)
        group, size = filling.get(kind, ([], 0))
        size += _index_bytes(reader)
        if not group or len(group) >= limits.VIEW_SPLITS or size > limits.VIEW_BYTES:
            group, size = [], _index_bytes(reader)
            groups.append(group)
        group.append(number)
        filling[kind] = (group, size)
    return groups


def _index_bytes(reader: SplitReader) -> int:
    return sum(where.end - where.start for name, where in reader.footer.files.items() if name != ROW_STORE)


def parallel(work: Callable[[Item], Result], items: Sequence[Item], waits: bool = False) -> list[Result]:
    """The results of `work` for all items, with one thread per processor, or with more threads if `waits` (for a remote store)."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), limits.PARALLEL_READS if waits else os.cpu_count() or 2)) as pool:
        return list(pool.map(work, items))


_views: ProcessCache[tuple[SplitKey, ...], View] = ProcessCache(
    lambda: (limits.OPEN_VIEWS, limits.MAPPED_SPLITS, limits.VIEW_BYTES), lambda view: (1, len(view.readers), view.index_bytes)
)
_semaphores: ProcessCache[str, threading.BoundedSemaphore] = ProcessCache()


def _open_slot() -> threading.BoundedSemaphore:
    """Limits how many groups whose index is not kept are open at the same time."""
    return _semaphores.get_or_make("groups", lambda: threading.BoundedSemaphore(limits.MAPPED_SPLITS // limits.VIEW_SPLITS))


def open_view(paths: Sequence[SplitPlace]) -> View:
    """The view of these splits, from the cache if it is open."""
    key = tuple(map(split_key, paths))
    if (known := _views.get(key)) is not None:
        return known
    return _views.put(key, View(parallel(open_split, paths, any(not isinstance(path, Path) for path in paths))))


def cached_view(paths: Sequence[SplitPlace]) -> View | None:
    """The view of these splits if it is open and their files are still the same."""
    try:
        key = tuple(map(split_key, paths))
    except SplitCorrupted:
        return None
    return _views.get(key)
