"""Merges splits into one: their indexes are merged without re-indexing, and their rows are written in the resulting document order."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from indextables.errors import InvalidArgument, SchemaMismatch, SplitCorrupted, StorageError
from indextables.logs import logger
from indextables.splits.format import ROW_STORE, Hotcache, RowStore, RowStoreWriter, merge_statistics, remove
from indextables.splits.index import (
    ROW,
    DocMapping,
    IndexMeta,
    combine_metas,
    kinds,
    merge_segments,
    numbers_at,
    open_searcher,
    prepare_column,
    tantivy_errors_as,
)
from indextables.splits.reader import SplitReader
from indextables.splits.writer import SplitInfo, SplitSettings, SplitWriter, bundle_split

_SAMPLE = 64  # documents of a merged index to compare with their rows
_NUMERIC = (kinds.INTEGER, kinds.FLOAT, kinds.DECIMAL, kinds.DATE)


class BrokenSource(SplitCorrupted):
    """A source of a merge is damaged; the others may be merged without it."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    schema: pa.Schema
    hotcache: Hotcache
    index_meta: IndexMeta


def merge_splits(sources: Sequence[Path], destination: Path, work_dir: Path, compression: str = "lz4") -> SplitInfo:
    """Writes one split with exactly the rows of `sources`. All sources are verified first; BrokenSource names a damaged one.

    `destination` exists only on success, and nothing is left in `work_dir`. If the indexes cannot be merged (different mappings, the same
    split twice, a failed child process, documents that do not match their rows), the rows are re-indexed with the mapping of the first
    source. The result always has one segment: keeping several would avoid that rare work at the expense of every reader.
    """
    if not sources:
        raise InvalidArgument(f"a merge needs at least one split, but there are none to merge into {destination}")
    folder = work_dir / f"merge-{uuid.uuid4().hex}"
    index = folder / "index"
    try:
        index.mkdir(parents=True)
        parts = [_verified(path, index) for path in sources]
        for part in parts:
            if not part.schema.equals(parts[0].schema):
                raise SchemaMismatch(f"splits {parts[0].path} and {part.path} have different columns and cannot be merged")
        ordered = _merge_indexes(index, parts)
        merged = None if ordered is None else _assemble(index, ordered, destination, folder, compression)
        return _reindex(parts, destination, folder, compression) if merged is None else merged
    except OSError as cause:
        raise StorageError(f"splits could not be merged into {destination}: {cause}") from cause
    finally:
        remove(folder)


def _verified(path: Path, index: Path) -> _Source:
    """Verifies a source and copies its index files, whose names are unique, into the common folder. One source is open at a time."""
    try:
        with SplitReader(path) as reader:
            reader.verify()
            reader.extract(index)
            return _Source(path, reader.schema, reader.footer.hotcache, reader.index_meta())
    except SplitCorrupted as error:
        raise BrokenSource(str(error), path) from error


def _merge_indexes(index: Path, parts: list[_Source]) -> list[_Source] | None:
    """Merges the index files in the folder; returns the sources in the order of their documents, or None if the merge failed."""
    meta = combine_metas([part.index_meta for part in parts])
    alike = all(part.hotcache.doc_mapping == parts[0].hotcache.doc_mapping for part in parts)
    if meta is None or not alike or not merge_segments(index, meta):
        return None
    with tantivy_errors_as(StorageError, f"the merged index in {index} cannot be opened"):
        return _document_order(open_searcher(index), parts)


def _document_order(searcher: Any, parts: list[_Source]) -> list[_Source] | None:
    """The sources in the order in which tantivy concatenated their segments (by size, ties in any order), or None on a mismatch."""
    remaining = {part.hotcache.first_row: part for part in parts}
    ordered: list[_Source] = []
    start = 0
    while remaining:
        part = remaining.pop(numbers_at(searcher, ROW, [start])[0], None) if start < searcher.num_docs else None
        if part is None or numbers_at(searcher, ROW, [start + part.hotcache.num_records - 1]) != [part.hotcache.last_row]:
            return None
        ordered.append(part)
        start += part.hotcache.num_records
    return ordered if len(ordered) == len(parts) and start == searcher.num_docs else None


def _rows(parts: Sequence[_Source]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        with SplitReader(part.path) as reader:
            yield from reader.batches()


def _assemble(index: Path, parts: Sequence[_Source], destination: Path, folder: Path, compression: str) -> SplitInfo | None:
    """Writes the split of the merged index; None if its documents do not match the rows."""
    store = RowStoreWriter(folder / ROW_STORE, parts[0].schema, compression)
    for batch in _rows(parts):
        store.write(batch)
    merged = msgspec.structs.replace(
        parts[0].hotcache,
        num_records=store.num_rows,
        first_row=parts[0].hotcache.first_row,
        last_row=parts[-1].hotcache.last_row,
        statistics=_statistics(parts),
        row_store=store.finish(),
    )
    if not _sample_agrees(index, store.rows(merged.row_store), merged):
        return None
    return bundle_split(index, store.path, merged, destination)


def _sample_agrees(index: Path, rows: RowStore, merged: Hotcache) -> bool:
    """Whether randomly picked documents have the same numeric values as their rows."""
    picked = sorted(random.sample(range(merged.num_records), min(_SAMPLE, merged.num_records)))
    numeric = [(name, kind) for name, kind in DocMapping.from_json(merged.doc_mapping).fields if kind in _NUMERIC]
    sample = rows.take(picked, [name for name, _ in numeric])
    with tantivy_errors_as(StorageError, f"the merged index in {index} cannot be read"):
        searcher = open_searcher(index)
        return all(
            [repr(value) for value in numbers_at(searcher, name, picked)]  # repr, so that NaN equals NaN
            == [repr(value) for value in prepare_column(sample.column(name).combine_chunks(), kind, kinds.DEFAULT)[1]]
            for name, kind in numeric
        )


def _reindex(parts: Sequence[_Source], destination: Path, folder: Path, compression: str) -> SplitInfo:
    logger.info("Re-indexing the rows of %s splits: their indexes cannot be merged", len(parts), extra={"event": "rows_reindexed"})
    first = parts[0].hotcache
    mapping, partition_columns = DocMapping.from_json(first.doc_mapping), tuple(first.partition_columns)
    writer = SplitWriter(SplitSettings(parts[0].schema, mapping, partition_columns, first.stats_characters, compression), folder)
    for batch in _rows(parts):
        writer.write(batch)
    return writer.finish(destination, _statistics(parts))


def _statistics(parts: Sequence[_Source]) -> dict[str, Any]:
    return merge_statistics(parts[0].schema, [(part.hotcache.num_records, part.hotcache.statistics) for part in parts])
