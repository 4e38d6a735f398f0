"""A DataFrame into a table: executors write splits, the driver commits what they report. One action, one commit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from indextables.actions import Add
from indextables.actions.codec import decode_action, encode_action
from indextables.errors import InvalidArgument
from indextables.operations import write as writing
from indextables.operations.report import Report, reporter
from indextables.operations.split_task import SplitTask
from indextables.operations.write import PreparedWrite
from indextables.spark.failures import translated
from indextables.spark.options import split_size
from indextables.spark.schema import arrow_schema, nullable
from indextables.spark.source import sized
from indextables.table.context import TableContext


def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    mode: str = "append",
    partition_by: Sequence[str] | None = None,
    target_split_size: str | int | None = None,
    replace_where: str | None = None,
    txn: tuple[str, int] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Report:
    """Appends the rows, or overwrites with them (`replace_where`: only those partitions); makes the table if there is none.

    Every partition of the frame writes splits of its own, one per combination of partition values; one whose rows take `target_split_size`
    is finished and the next begun. What can be checked is checked before a row is computed, and bad rows leave the table as it was.
    """
    if isinstance(partition_by, str):
        raise InvalidArgument(f"partition_by {partition_by!r} is not a list of column names")
    context = TableContext.at(path, options)
    prepared = writing.prepare(
        context,
        nullable(arrow_schema(df.schema)),
        mode=mode,
        where=replace_where,
        txn=txn,
        create=True,
        partition_by=partition_by,
        table_options=options,
    )
    return run(df, sized(prepared, split_size(target_split_size)))


def run(df: DataFrame, prepared: PreparedWrite) -> Report:
    started = reporter(prepared.mode, str(prepared.context.root), prepared.context.clock)
    adds = [] if prepared.is_done else collect_adds(df, prepared.task)
    report, _ = writing.commit(prepared, adds, started)
    return report


def collect_adds(df: DataFrame, task: SplitTask) -> list[Add]:
    """Writes the splits. Only what successful attempts of tasks report comes back; splits of others stay behind, unknown to the log."""
    with translated():
        rows = df.mapInArrow(_writer(task), "add string").collect()
    adds = [decode_action(row["add"]) for row in rows]
    return [add for add in adds if isinstance(add, Add)]


def _writer(task: SplitTask) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_splits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = [encode_action(add).decode() for add in task.write(batches)]
        yield pa.RecordBatch.from_pydict({"add": pa.array(lines, pa.string())})

    return write_splits
