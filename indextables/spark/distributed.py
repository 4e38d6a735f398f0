"""Writes a DataFrame into a table: executors write splits, and the driver commits them all at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote

from indextables.actions import Add, decode_action, encode_action
from indextables.operations import Report, in_threads, reporter
from indextables.operations.verbs import MergeSplits, Write, txn_options
from indextables.operations.write import PreparedWrite, commit_write, prepare_write
from indextables.rows import SplitTask, add_to_error, describe_uncommitted, find_uncommitted
from indextables.spark.failures import spark_errors_as_ours
from indextables.spark.options import split_size
from indextables.spark.schema import arrow_schema, nullable
from indextables.spark.session import SparkExecutor
from indextables.spark.source import OVERWRITE_MODE, attempt_number, overwriting, sized
from indextables.table import TableContext


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
    """Appends the rows, or overwrites the table (with `replace_where`, only the matching partitions); creates the table if there is none.

    An overwrite without `replace_where` honours the session's `spark.sql.sources.partitionOverwriteMode`.
    Every partition of the frame writes one split per combination of partition values, and starts another when a split reaches
    `target_split_size`. Arguments and schema are checked before any row is computed; bad rows leave the table unchanged.
    """
    request = Write(mode=mode, where=replace_where, partition_by=partition_by, create=True, **txn_options(txn))
    prepared = prepare_write(request, TableContext.at(path, options), nullable(arrow_schema(df.schema)), table_options=options)
    return write_prepared(df, sized(prepared, split_size(target_split_size)))


def write_prepared(df: DataFrame, prepared: PreparedWrite) -> Report:
    """Writes the frame's rows as splits on Spark's executors and commits them; the failure of a task names the splits it left."""
    report_of = reporter(prepared.mode, str(prepared.context.root), prepared.context.clock)
    if prepared.is_done:
        return commit_write(prepared, [], report_of)[0]  # commits nothing: reports no_action with the version of the first attempt
    prepared = overwriting(prepared, df.sparkSession.conf.get(OVERWRITE_MODE, "static"))
    store = prepared.context.store
    try:
        adds, is_clean = collect_adds(df, prepared.task)
    except Exception as error:
        if left := find_uncommitted(store, prepared.task.mark):
            add_to_error(error, describe_uncommitted(left))
        raise
    # Runs merge-on-write after the commit. A Connect session runs no tasks but those of frames.
    executor = in_threads if is_remote() else SparkExecutor(lambda: df.sparkSession, MergeSplits.workload)
    report, _ = commit_write(prepared, adds, report_of, executor)
    left = [] if is_clean else find_uncommitted(store, prepared.task.mark, [add.path for add in adds])
    return replace(report, warnings=[*report.warnings, describe_uncommitted(left)]) if left else report


def collect_adds(df: DataFrame, task: SplitTask) -> tuple[list[Add], bool]:
    """Writes the splits and returns those of successful task attempts; the log does not reference splits of failed attempts.

    The flag says whether every task ran only once, as far as is known, so that no failed attempt left splits behind.
    """
    names = df.columns

    def write_splits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = [encode_action(add).decode() for add in task.write(batch.rename_columns(names) for batch in batches)]
        attempts = pa.array([attempt_number()] * len(lines), pa.int32())
        yield pa.RecordBatch.from_pydict({"add": pa.array(lines, pa.string()), "attempt": attempts})

    numbered = df.toDF(*(f"c{number}" for number in range(len(names))))  # mapInArrow would read a dot in a name as a path
    with spark_errors_as_ours():
        rows = numbered.mapInArrow(write_splits, "add string, attempt int").collect()
    adds = [decode_action(row["add"]) for row in rows]
    speculates = df.sparkSession.conf.get("spark.speculation", "false") == "true"
    return [add for add in adds if isinstance(add, Add)], not speculates and not any(row["attempt"] for row in rows)
