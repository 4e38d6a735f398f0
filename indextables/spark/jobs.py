"""The jobs. `jobs/<name>.py`, which spark-submit runs, calls `main` with the name of its job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from indextables.operations.verbs import Checkpoint, Health, MergeSplits, Purge, Write
from indextables.spark.failures import spark_errors_as_ours
from indextables.spark.job import Job, run
from indextables.spark.session import LazySession, SparkExecutor

if TYPE_CHECKING:
    import pyarrow as pa

    from indextables.operations import Report
    from indextables.table import TableContext


def main(name: str, argv: Sequence[str] | None = None) -> int:
    """Runs a job and returns its exit code."""
    return run(JOBS[name], argv)


def _write(request: Write, context: TableContext, session: LazySession) -> Report:
    """Checks the arguments, the table and the source before Spark starts. Executors write the splits, the driver commits them."""
    from indextables.operations.write import commit_write, prepare_from_source
    from indextables.spark.sources import check_source, format_of, open_frame

    def open_rows(table: pa.Schema | None, warn: Callable[[str], None]) -> tuple[tuple[str, Any], pa.Schema]:
        source = check_source(request.source or "")
        form = format_of(source, request.format)

        from indextables.spark.schema import arrow_schema, nullable

        frame = open_frame(session(), source, form, table, warn)
        return (source, frame), nullable(arrow_schema(frame.schema))

    prepared, rows = prepare_from_source(replace(request, create=True), context, open_rows, context.config.options)
    if rows is None:
        return commit_write(prepared, [])[0]  # commits nothing: reports no_action with the version of the first attempt

    from indextables.spark.distributed import write_prepared

    source, frame = rows
    with spark_errors_as_ours(source):
        return write_prepared(frame, prepared)


def _merge_splits(request: MergeSplits, context: TableContext, session: LazySession) -> Report:
    """Plans in the driver; Spark starts only if there are groups to merge."""
    from indextables.operations.merge import merge_splits

    return merge_splits(request, context, context.snapshot(), SparkExecutor(session, request.workload))[0]


def _checkpoint(request: Checkpoint, context: TableContext, session: LazySession) -> Report:
    from indextables.operations.checkpoint import checkpoint

    return checkpoint(request, context)


def _purge(request: Purge, context: TableContext, session: LazySession) -> Report:
    """Plans in the driver; Spark starts only if there are many files to delete."""
    from indextables.operations.expire import purge

    return purge(request, context, SparkExecutor(session, request.workload))


def _health(request: Health, context: TableContext, session: LazySession) -> Report:
    from indextables.operations.inspect import health_report

    return health_report(context)


_ALL = (Job(Write, _write), Job(MergeSplits, _merge_splits), Job(Checkpoint, _checkpoint), Job(Purge, _purge), Job(Health, _health))
JOBS = {job.name: job for job in _ALL}
