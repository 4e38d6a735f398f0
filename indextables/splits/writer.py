"""Writes rows as one split in bounded memory: rows stream to a row store on disk, from which the index is built at the end."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from indextables import limits
from indextables.config import Config
from indextables.errors import InvalidArgument, SchemaMismatch, StorageError
from indextables.schema import from_spark_json, to_spark_json
from indextables.splits.format import (
    FORMAT_VERSION,
    ROW_STORE,
    ColumnStatistics,
    Footer,
    Hotcache,
    RowStoreSections,
    RowStoreWriter,
    StatsCollector,
    map_split,
    read_footer,
    remove,
    write_bundle,
)
from indextables.splits.index import (
    DocMapping,
    all_rows,
    build_index,
    index_files,
    load_meta,
    merge_segments,
    open_searcher,
    tantivy_errors_as,
)


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """How the splits of a table are written. Picklable."""

    schema: pa.Schema
    mapping: DocMapping
    partition_columns: tuple[str, ...] = ()
    stats_length: int = limits.STATS_CHARACTERS
    compression: str = "lz4"  # of the row store

    @classmethod
    def of_config(cls, config: Config, schema: pa.Schema, partition_columns: Sequence[str]) -> SplitSettings:
        """The settings of a configuration that includes the table's own; raises like `DocMapping.for_table`."""
        mapping = DocMapping.of_config(config, schema, partition_columns)
        length, compression = config.get("stats.truncation.maxLength"), config.get("split.rowStore.compression")
        return cls(schema, mapping, tuple(partition_columns), int(length), str(compression))


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """The fields of the log's `add` action that describe the file, read back from the written file."""

    num_records: int
    size: int
    min_values: dict[str, str]  # in the log's notation; columns without bounds are missing
    max_values: dict[str, str]
    footer_start_offset: int
    footer_end_offset: int
    hotcache_start_offset: int
    hotcache_length: int
    uncompressed_size_bytes: int  # of the files before the footer
    time_range_start: str | None  # of the first timestamp column, if it has bounds; in the log's notation
    time_range_end: str | None
    doc_mapping_json: str


def split_info(footer: Footer) -> SplitInfo:
    statistics = footer.hotcache.statistics
    timestamps = [field.name for field in from_spark_json(footer.hotcache.schema) if pa.types.is_timestamp(field.type)]
    times = statistics.get(timestamps[0], ColumnStatistics(0)) if timestamps else ColumnStatistics(0)
    return SplitInfo(
        num_records=footer.hotcache.num_records,
        size=footer.footer_end,
        min_values={name: column.min for name, column in statistics.items() if column.min is not None},
        max_values={name: column.max for name, column in statistics.items() if column.max is not None},
        footer_start_offset=footer.footer_start,
        footer_end_offset=footer.footer_end,
        hotcache_start_offset=footer.hotcache_start,
        hotcache_length=footer.hotcache_length,
        uncompressed_size_bytes=footer.footer_start,
        time_range_start=times.min,
        time_range_end=times.max,
        doc_mapping_json=footer.hotcache.doc_mapping,
    )


class SplitWriter:
    """Writes one split. The destination appears when `finish` succeeds; `finish` and `discard` leave nothing in `work_dir`."""

    def __init__(self, settings: SplitSettings, work_dir: Path) -> None:
        self._settings = settings
        self._schema = settings.schema
        self._folder = work_dir / f"split-{uuid.uuid4().hex}"
        self._index = self._folder / "index"
        self._store = RowStoreWriter(self._folder / ROW_STORE, settings.schema, settings.compression)
        self._stats = StatsCollector(settings.schema, settings.stats_length, settings.partition_columns)
        self._data_bytes = 0

    @property
    def num_rows(self) -> int:
        return self._store.num_rows

    @property
    def num_bytes(self) -> int:
        """Bytes of the row store so far, without up to ROW_BATCH rows that are still in memory."""
        return self._store.num_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows; the batch has exactly the writer's schema."""
        if not batch.schema.equals(self._schema):
            raise SchemaMismatch(f"a batch has columns {_describe(batch.schema)}, but the split has {_describe(self._schema)}")
        self._stats.add(batch)
        self._data_bytes += batch.nbytes
        try:
            self._store.write(batch)
        except OSError as cause:
            raise StorageError(f"rows could not be written to {self._store.path}: {cause}") from cause

    def finish(self, destination: Path, statistics: dict[str, ColumnStatistics] | None = None) -> SplitInfo:
        """Builds the index and writes the split to `destination`, complete or not at all. `statistics` overrides those of the rows."""
        try:
            if self.num_rows == 0:
                raise InvalidArgument(f"split {destination} would have no rows")
            sections = self._store.finish()
            first_row = build_index(self._index, self._settings.mapping, self._store.rows(sections).batches(), self._data_bytes)
            last_row = first_row + self.num_rows - 1
            if len(load_meta(self._index).segments) > 1:
                sections, first_row, last_row = self._one_segment(sections, first_row)
            hotcache = Hotcache(
                format_version=FORMAT_VERSION,
                num_records=self.num_rows,
                first_row=first_row,
                last_row=last_row,
                schema=to_spark_json(self._schema),
                doc_mapping=self._settings.mapping.to_json(),
                stats_characters=self._settings.stats_length,
                partition_columns=list(self._settings.partition_columns),
                statistics=self._stats.result() if statistics is None else statistics,
                row_store=sections,
            )
            return bundle_split(self._index, self._store.path, hotcache, destination)
        except OSError as cause:
            raise StorageError(f"split {destination} could not be written: {cause}") from cause
        finally:
            self.discard()

    def discard(self) -> None:
        """Removes the temporary files. Idempotent."""
        self._store.discard()
        remove(self._folder)

    def _one_segment(self, sections: RowStoreSections, first_row: int) -> tuple[RowStoreSections, int, int]:
        """Merges the segments of an index that exceeded the heap, and rewrites the rows in the order of the merged documents."""
        if not merge_segments(self._index, load_meta(self._index)):
            raise StorageError(f"the index segments in {self._index} could not be merged")
        with tantivy_errors_as(StorageError, f"the merged index in {self._index} cannot be opened"):
            numbers = all_rows(open_searcher(self._index)) - first_row
        if not np.array_equal(np.sort(numbers), np.arange(self.num_rows)):
            raise StorageError(f"the merged index in {self._index} does not contain each of the {self.num_rows} rows exactly once")
        store = RowStoreWriter(self._folder / f"ordered-{ROW_STORE}", self._schema, self._settings.compression)
        rows = self._store.rows(sections)
        for start in range(0, len(numbers), limits.ROW_BATCH):
            for batch in rows.take(numbers[start : start + limits.ROW_BATCH]).to_batches():
                store.write(batch)
        ordered = store.finish()
        self._store.discard()
        self._store = store
        return ordered, first_row + int(numbers[0]), first_row + int(numbers[-1])


def bundle_split(index: Path, row_store: Path, hotcache: Hotcache, destination: Path) -> SplitInfo:
    """Writes the split from a one-segment index and its row store; the result is read back from disk."""
    files = [(path.name, path) for path in index_files(index)]
    write_bundle([*files, (ROW_STORE, row_store)], hotcache, destination)
    return split_info(read_footer(memoryview(map_split(destination)), destination))


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)
