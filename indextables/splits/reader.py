"""One open split: rows come from the memory-mapped file, the index from a private copy, because tantivy needs separate files.

For a split in a remote store the mapped file is sparse, and bytes are fetched before they are read (remote/partial.py, remote/sparse.py).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from indextables import limits
from indextables.errors import InvalidArgument, LogCorrupted, SchemaMismatch, SplitCorrupted, StorageError
from indextables.process_cache import ProcessCache
from indextables.schema import from_spark_json
from indextables.splits.format import (
    INDEX_META,
    ROW_STORE,
    ColumnStatistics,
    RowStore,
    StatsCollector,
    map_split,
    read_footer,
    scratch_folder,
)
from indextables.splits.index import (
    ROW,
    ColumnNumbers,
    DocMapping,
    IndexMeta,
    index_fields,
    kinds,
    numbers_of_hits,
    open_searcher,
    parse_meta,
    tantivy_errors_as,
    top_hits,
)
from indextables.splits.query import FAST, IndexPart, ParsedQuery, Searchable
from indextables.splits.remote import PartialSplit, Piece, write_sparse
from indextables.splits.writer import SplitInfo, split_info
from indextables.storage import PartialFile

SplitPlace = Path | PartialFile


class SplitReader(Searchable):
    """A split whose envelope and footer are verified. All other data is verified against its checksum before use.

    Thread-safe. The first search opens the index. `close`, or leaving the `with` block, frees it.
    """

    def __init__(self, where: SplitPlace) -> None:
        super().__init__()
        path = where if isinstance(where, Path) else where.local
        self.path = path
        self._partial = None if isinstance(where, Path) else PartialSplit(where)
        self._data = map_split(path) if self._partial is None else self._partial.data
        self.footer = read_footer(memoryview(self._data), path) if self._partial is None else self._partial.footer()
        hotcache = self.footer.hotcache
        try:
            self.schema: pa.Schema = from_spark_json(hotcache.schema)
            self.mapping = DocMapping.from_json(hotcache.doc_mapping)
        except (LogCorrupted, SchemaMismatch, ValueError) as cause:
            raise SplitCorrupted(f"split {path} is damaged: {cause}") from cause
        self.num_records = hotcache.num_records
        self.info: SplitInfo = split_info(self.footer)
        place = self.footer.files[ROW_STORE]
        rows = self._data.slice(place.start, place.end - place.start)
        provide = self._provide_rows if self._partial is not None else None
        self._rows = RowStore(rows, self.schema, hotcache.row_store, hotcache.num_records, path, provide)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Frees the index. Idempotent; the reader still works afterwards, and opens the index again if needed."""
        with self._lock:
            self._open_searcher = None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in order, in batches; only `columns` are decompressed."""
        return self._rows.batches(columns)

    def take(self, rows: Sequence[int] | np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these numbers, in the given order."""
        return self._rows.take(rows, columns)

    def search(self, query: ParsedQuery) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers (int64) and scores (float64) of all matching rows, best first, ties by row."""
        compiled = query.compile(self.schema, self.mapping)
        hits = top_hits(self._searcher(compiled.parts), compiled.query, query.text, self.num_records)
        rows = np.fromiter((address.doc for _, address in hits), np.int64, len(hits))
        return rows, np.fromiter((score for score, _ in hits), np.float64, len(hits))

    def numbers(self, query: ParsedQuery, columns: Sequence[str]) -> tuple[int, dict[str, ColumnNumbers]] | None:
        """The number of matching rows and the statistics of these columns over them; None if a column is not indexed as a number."""
        fields = dict(self.mapping.fields)
        if any(fields.get(name) not in (kinds.INTEGER, kinds.FLOAT) or not name.isidentifier() for name in columns):
            return None
        compiled = query.compile(self.schema, self.mapping)
        searcher = self._searcher(compiled.parts | {IndexPart(name, FAST) for name in (ROW, *columns)})
        return numbers_of_hits(searcher, compiled.query, query.text, columns)

    def verify(self) -> None:
        """Verifies the checksums of all files, that only zeros are between them, and `index_meta`; SplitCorrupted says what is damaged."""
        if self._partial is not None:
            raise InvalidArgument(f"split {self.path} is only partially fetched and cannot be verified")
        position = 0
        for name, where in self.footer.files.items():
            if any(memoryview(self._data)[position : where.start]):
                raise SplitCorrupted(f"split {self.path} is damaged: there are bytes before its file {name}")
            self._checked_file(name)
            position = where.end
        self.index_meta()
        self._rows.verify()

    def decoded(self) -> tuple[int, dict[str, ColumnStatistics]]:
        """The number of rows and their statistics, computed from the rows, for comparison with the footer."""
        hotcache = self.footer.hotcache
        found = StatsCollector(self.schema, hotcache.stats_characters, hotcache.partition_columns)
        rows = 0
        for batch in self.batches():
            rows += batch.num_rows
            found.add(batch)
        return rows, found.result()

    @property
    def is_partial(self) -> bool:
        return self._partial is not None

    def extract(self, folder: Path, parts: frozenset[IndexPart] = frozenset()) -> None:
        """Writes the verified files of the index into `folder`; for a partial split, only what a query that reads `parts` needs."""
        if self._partial is not None:
            fields = [str(field.get("name")) for field in self.index_meta().schema]
            write_sparse(self._partial, self.footer, fields, parts, folder)
            return
        for name in self.footer.files:
            if name != ROW_STORE:
                (folder / name).write_bytes(self._checked_file(name))

    def index_meta(self) -> IndexMeta:
        """The verified `meta.json` of the index, which has one segment and the fields of the doc mapping."""
        meta = parse_meta(self._checked_file(INDEX_META), self.path)
        if [segment.max_doc for segment in meta.segments] != [self.num_records]:
            raise SplitCorrupted(f"split {self.path} is damaged: its index is not one segment of {self.num_records} documents")
        if tuple((field.get("name"), field.get("type")) for field in meta.schema) != index_fields(self.mapping):
            raise SplitCorrupted(f"split {self.path} is damaged: the fields of its index are not in the order and types of its doc mapping")
        return meta

    def _checked_file(self, name: str) -> memoryview:
        where = self.footer.files[name]
        data = memoryview(self._data)[where.start : where.end]
        if self._partial is not None:  # only meta.json is read completely, and its tail holds all of it
            data = memoryview(self.footer.hotcache.tails.get(name, b""))
        if zlib.crc32(data) != self.footer.hotcache.files[name]:
            raise SplitCorrupted(f"split {self.path} is damaged: the checksum of its file {name} does not match")
        return data

    def _provide_rows(self, sections: Sequence[int]) -> None:
        assert self._partial is not None  # only the row store of a partial split calls this
        start, store = self.footer.files[ROW_STORE].start, self.footer.hotcache.row_store
        ends = [0, *store.ends]
        self._partial.provide(Piece(start + ends[n], start + ends[n + 1], store.crc32[n]) for n in sections)

    def _open_index(self, parts: frozenset[IndexPart]) -> Any:
        """A searcher on copies of the index files, which are unlinked once tantivy has mapped them: no process leaves any behind."""
        self.index_meta()
        try:
            with scratch_folder("indextables-index-") as folder:
                self.extract(folder, parts)
                with tantivy_errors_as(SplitCorrupted, f"split {self.path} is damaged: its index cannot be opened"):
                    searcher = open_searcher(folder)
        except OSError as cause:
            raise StorageError(f"the index of split {self.path} could not be copied: {cause}") from cause
        if searcher.num_segments != 1 or searcher.num_docs != self.num_records:
            raise SplitCorrupted(f"split {self.path} is damaged: its index has {searcher.num_docs} documents, not {self.num_records}")
        return searcher


SplitKey = tuple[str, int, int, int]  # path, inode, size, mtime: a file that replaces another has a different key
# Open splits, shared within the process, because opening one copies its index and starts a tantivy thread.
_readers: ProcessCache[SplitKey, SplitReader] = ProcessCache(lambda: (limits.OPEN_SPLITS,))


def open_split(path: SplitPlace) -> SplitReader:
    """A reader from the cache of the OPEN_SPLITS used last. FileNotFoundError names a partial file that the store does not have."""
    key = split_key(path)
    reader = _readers.get(key)
    return _readers.put(key, SplitReader(path)) if reader is None else reader


def split_key(path: SplitPlace) -> SplitKey:
    if not isinstance(path, Path):  # no mtime, which changes with every fetch
        return str(path.local), path.inode, path.size, 0
    try:
        status = os.stat(path)
    except FileNotFoundError as cause:
        raise SplitCorrupted(f"split {path} is missing") from cause
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns
