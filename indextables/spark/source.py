"""`spark.read.format("indextables")` and `df.write.format("indextables")`, by Spark's Python Data Source API.

Reading: options `version`, `where`, `query` (adds `_score`), `columns`; a schema given by the user selects columns. A query reads the
version that is newest when it is planned. Spark does not tell sources which columns a query needs: set `columns` or a schema to read fewer.
Only `where` filters rows in the source. The reader takes no filters from Spark, even with `spark.sql.python.filterPushdown.enabled`:
Spark 4.2 keeps the filters of one query with the relation, and later queries on the same DataFrame or view would miss rows.

Writing: modes append and overwrite; options `partition_by`, `replace_where`, `partitionOverwriteMode`, `target_split_size`, `txn_app` (or
`txnAppId`) with `txn_version`. The table is created if there is none. Both take keys of `spark.indextables.*` as options. Python sources
are planned without the session's settings, but tasks have them as local properties: each returns
`spark.sql.sources.partitionOverwriteMode` with its splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from indextables.actions import Add
from indextables.errors import ConcurrentConflict
from indextables.logs import logger
from indextables.operations.search import bind, bound_query
from indextables.operations.verbs import Write, txn_options
from indextables.operations.write import PreparedWrite, commit_write, prepare_write
from indextables.rows import describe_uncommitted, find_uncommitted, uncommitted_splits_in_errors
from indextables.spark.options import READING, WRITING, SourceOptions
from indextables.spark.scan import Scan, check_given_schema, grouped, open_snapshot, output_schema
from indextables.spark.schema import arrow_schema, nullable, struct_type
from indextables.storage import open_store
from indextables.table import Snapshot, TableContext, live_files

NAME = "indextables"
OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class IndexTablesSource(DataSource):
    """Checks its options on construction, and opens the table only in `schema`, `reader` and `writer`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.parsed = SourceOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        _, snapshot = open_snapshot(self.parsed)
        return struct_type(output_schema(snapshot, self.parsed))

    def reader(self, schema: StructType) -> DataSourceReader:
        self.parsed.refuse(WRITING, "reading")
        return TableReader(self.parsed, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        self.parsed.refuse(READING, "writing")
        return TableWriter(self.parsed, nullable(arrow_schema(schema)), "overwrite" if overwrite else "append")


class TableReader(DataSourceReader):
    """Is sent to executors without the snapshot that the read was planned on."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        context, snapshot = open_snapshot(options)
        check_given_schema(arrow_schema(schema), snapshot, scored=options.query is not None)
        self.planned_on: tuple[TableContext, Snapshot] | None = (context, snapshot)
        self.scan = Scan(
            store=context.store.spec,
            version=snapshot.version,
            table_schema=snapshot.schema,
            schema=to_arrow_schema(schema, timezone="UTC"),
            predicate=bind(snapshot, options.where),
            query=None if options.query is None else bound_query(context, snapshot, options.query)[0],
        )

    def partitions(self) -> Sequence[InputPartition]:
        assert self.planned_on is not None, "partitions are planned only by the reader that was not pickled"
        context, snapshot = self.planned_on
        return [InputPartition(adds) for adds in grouped(live_files(context.load(snapshot, self.scan.predicate), self.scan.predicate))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.scan.batches(partition.value or ())  # if there is nothing to read, Spark passes a partition without a value

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "planned_on": None}


@dataclass
class TaskResult(WriterCommitMessage):
    """The result of one task."""

    adds: tuple[Add, ...]
    attempt: int
    overwrite_mode: str | None  # of the session


class TableWriter(DataSourceArrowWriter):
    """Executors write splits, which the driver commits all at once. Options and schema are checked before the first row."""

    def __init__(self, options: SourceOptions, schema: pa.Schema, mode: str) -> None:
        self.options = options
        self.schema = schema
        self.mode = mode
        prepared = self._prepare()
        self.task = prepared.task
        self.is_done = prepared.is_done

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        adds = () if self.is_done else tuple(self.task.write(iterator))
        return TaskResult(adds, attempt_number(), local_property(OVERWRITE_MODE))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits on the newest version; runs in a separate process and checks that the table still fits the splits."""
        done = [message for message in messages if isinstance(message, TaskResult)]
        adds = [add for message in done for add in message.adds]
        with uncommitted_splits_in_errors([add.path for add in adds]):
            prepared = self._prepare()
            if replace(prepared.task, mark=self.task.mark) != self.task:
                raise ConcurrentConflict(f"the table at {self.options.path} was recreated while rows were written; nothing was committed")
        mode = self.options.partition_overwrite_mode or next((message.overwrite_mode for message in done), None)
        commit_write(overwriting(prepared, mode), adds)
        if any(message.attempt for message in done):
            self._warn_of_leftovers({add.path for add in adds})

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes nothing: a commit may have succeeded, and tasks may still be writing. Purge deletes splits that no version references."""
        self._warn_of_leftovers(set())

    def _warn_of_leftovers(self, committed: set[str]) -> None:
        if left := find_uncommitted(open_store(self.task.store), self.task.mark, committed):
            logger.warning("%s", describe_uncommitted(left), extra={"event": "splits_left"})

    def _prepare(self) -> PreparedWrite:
        options = self.options
        config = options.config_for(self.schema)
        request = Write(
            mode=self.mode, where=options.replace_where, partition_by=options.partition_by, create=True, **txn_options(options.txn)
        )
        prepared = prepare_write(request, TableContext.at(options.path, config), self.schema, table_options=config)
        return sized(prepared, options.target_split_size)


def attempt_number() -> int:
    """The attempt number of the current task; 0 for the first."""
    context = TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())


def local_property(key: str) -> str | None:
    """A setting of the session that runs the current task; None if it is not set."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(key)


def overwriting(prepared: PreparedWrite, mode: str | None) -> PreparedWrite:
    """The write with Spark's partition overwrite mode: `dynamic` replaces only the partitions that get rows.

    An explicit `replace_where` takes precedence. As in Spark's own sources, the mode does not affect appends or tables without partition
    columns.
    """
    task = prepared.task
    applies = prepared.mode == "overwrite" and task.within is None and bool(task.settings.partition_columns)
    return replace(prepared, touched_only=applies and (mode or "").lower() == "dynamic")


def sized(prepared: PreparedWrite, split_bytes: int | None) -> PreparedWrite:
    """The write with another target size of its splits, if given."""
    return prepared if split_bytes is None else replace(prepared, task=replace(prepared.task, split_bytes=split_bytes))
