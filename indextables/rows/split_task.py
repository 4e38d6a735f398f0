"""The task of a write: turns rows into splits, in this process or on a Spark executor."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from indextables import limits
from indextables.actions import Add
from indextables.errors import ReplaceWhereViolation, SchemaMismatch, UnsafePath
from indextables.paths import NULL_PARTITION, partition_folder, split_path
from indextables.predicates import Predicate
from indextables.rows.ingest import conform
from indextables.rows.uncommitted_splits import uncommitted_splits_in_errors
from indextables.splits import SplitInfo, SplitSettings, SplitWriter, refuse_unindexable
from indextables.storage import Store, StoreSpec, open_store
from indextables.values import Scalar, encode_value

_STEP_ROWS = 16 * limits.ROW_BATCH
PartitionKey = tuple[Scalar | None, ...]


@dataclass(frozen=True, slots=True)
class SplitTask:
    """The settings that a process needs to turn rows into splits of a table; picklable."""

    store: StoreSpec
    settings: SplitSettings
    split_bytes: int = limits.SPLIT_BYTES  # row store bytes after which a new split is started
    split_rows: int = limits.SPLIT_ROWS  # rows after which a new split is started
    within: Predicate | None = None  # on partition columns; a row that does not match is refused
    mark: str = ""  # prefix of the names of all splits of one write, up to 8 hex digits

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Add]:
        """Writes the rows as splits under unique names; returns the adds to commit.

        Splits are published only after every row has been accepted, so invalid rows leave the table's folder unchanged.
        """
        with tempfile.TemporaryDirectory(prefix="indextables-write-") as folder:
            router = _Router(self, Path(folder))
            try:
                row = 0
                for batch in batches:
                    checked = conform(batch, self.settings.schema, row)
                    refuse_unindexable(checked, self.settings.mapping, row)
                    router.write(checked)
                    row += batch.num_rows
                router.finish_all()
                self._check_places(router)
            finally:
                router.discard()
            store = open_store(self.store)
            adds: list[Add] = []
            paths: list[str] = []
            with uncommitted_splits_in_errors(paths):
                for key, file, info in router.finished:
                    values = self.partition_values(key)
                    adds.append(publish_split(store, self.settings.partition_columns, values, file, info, mark=self.mark))
                    paths.append(adds[-1].path)
            return adds

    def _check_places(self, router: _Router) -> None:
        """Refuses partitions that have no valid folder name or may not be written to, before anything is published."""
        names = self.settings.partition_columns
        for key in dict.fromkeys(key for key, _, _ in router.finished):
            values = self.partition_values(key)
            if self.within is not None and not self.within.matches(dict(zip(names, key, strict=True))):
                shown = ", ".join(f"{name} = {values[name]!r}" if name in values else f"{name} null" for name in names)
                raise ReplaceWhereViolation(f"a row with {shown} does not match {self.within.text!r}; the table is unchanged")
            folders = [partition_folder(name, values.get(name)) for name in names]
            try:
                split_path(folders, "0")
            except UnsafePath:
                raise SchemaMismatch(f"the decoded name of partition {'/'.join(folders)[:200]!r} is a path outside of the table") from None
            long = [folder for folder in folders if len(folder.encode()) > limits.FOLDER_BYTES]
            if long:
                raise SchemaMismatch(f"the folder name of partition {long[0][:40]!r} … exceeds {limits.FOLDER_BYTES} bytes")

    def partition_values(self, key: PartitionKey) -> dict[str, str]:
        """The partition values in the log's string form; a null has no entry."""
        named = zip(self.settings.partition_columns, key, strict=True)
        return {name: encode_value(value, self.settings.schema.field(name).type) for name, value in named if value is not None}


def publish_split(
    store: Store,
    partition_columns: tuple[str, ...],
    values: dict[str, str],
    file: Path,
    info: SplitInfo,
    *,
    num_merge_ops: int = 0,
    mark: str = "",
) -> Add:
    """Uploads a finished split to the table's folder and returns its add action."""
    unique = mark + str(uuid.uuid4())[len(mark) :]
    path = split_path([partition_folder(name, values.get(name)) for name in partition_columns], unique)
    modified = store.upload(file, path)
    return Add(
        path=path,
        partition_values=values,
        modification_time=modified,
        data_change=num_merge_ops == 0,
        has_footer_offsets=True,
        num_merge_ops=num_merge_ops,
        **asdict(info),
    )


@dataclass(slots=True)
class _Router:
    """Routes rows to the writer of their partition. Starts a new split when one is full; finishes the largest when too many are open."""

    task: SplitTask
    folder: Path
    open: dict[PartitionKey, SplitWriter] = field(default_factory=dict)
    finished: list[tuple[PartitionKey, Path, SplitInfo]] = field(default_factory=list)

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes in steps, so that no split exceeds its row limit, or its byte limit by much, however large the batch."""
        for key, part in _by_partition(batch, self.task.settings.partition_columns):
            rows = part
            while rows.num_rows:
                writer = self._writer(key)
                step = min(self.task.split_rows - writer.num_rows, _STEP_ROWS)
                writer.write(rows.slice(0, step))
                rows = rows.slice(step)
                if writer.num_rows >= self.task.split_rows or writer.num_bytes >= self.task.split_bytes:
                    self._finish(key)

    def finish_all(self) -> None:
        for key in list(self.open):
            self._finish(key)

    def discard(self) -> None:
        for writer in self.open.values():
            writer.discard()
        self.open.clear()

    def _writer(self, key: PartitionKey) -> SplitWriter:
        if key not in self.open:
            if len(self.open) >= limits.OPEN_WRITERS:
                self._finish(max(self.open, key=lambda k: self.open[k].num_rows))
            self.open[key] = SplitWriter(self.task.settings, self.folder)
        return self.open[key]

    def _finish(self, key: PartitionKey) -> None:
        target = self.folder / f"{len(self.finished)}.split"
        self.finished.append((key, target, self.open[key].finish(target)))
        del self.open[key]


def _by_partition(batch: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
    """The rows of each combination of partition values, in order; nothing for an empty batch."""
    if batch.num_rows == 0:
        return
    if not columns:
        yield (), batch
        return
    codes = np.zeros(batch.num_rows, dtype=np.int64)
    for name in columns:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        part = batch.take(pa.array(rows))
        yield tuple(_partition_value(part, name) for name in columns), part


def _partition_value(part: pa.RecordBatch, name: str) -> Scalar | None:
    value = part.column(name)[0]
    try:
        found: Scalar | None = value.as_py()
    except (OverflowError, ValueError):
        raise SchemaMismatch(
            f"partition column {name!r} has {value.value} as {value.type}; the log supports only the years 1 to 9999"
        ) from None
    if found == NULL_PARTITION:
        raise SchemaMismatch(f"partition column {name!r} has the value {found!r}, which stands for null; write null instead")
    return found
