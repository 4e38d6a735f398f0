"""Runs a command through its verb. Errors are raised as by the verb itself, never returned as a row."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from indextables import limits
from indextables.clock import HOUR_MS
from indextables.commands import results
from indextables.commands.parse import Command, parse_command
from indextables.commands.results import command_status, merge_status, warnings_of
from indextables.config import parse_duration
from indextables.errors import PointedError
from indextables.log import cache
from indextables.operations import Executor, Workload, verbs
from indextables.operations.alter import drop_partitions
from indextables.operations.checkpoint import checkpoint, checkpoint_version
from indextables.operations.expire import purge, truncate_history
from indextables.operations.inspect import SCHEMA, describe_log, describe_state
from indextables.operations.merge import merge_splits
from indextables.operations.repair import repair
from indextables.state import Format, read_pointer
from indextables.table import TableContext


def sql(text: str, options: Mapping[str, Any] | None = None) -> pa.Table:
    """Runs one command, such as `MERGE SPLITS '/data/logs' TARGET SIZE 100M`, and returns its row.

    InvalidCommand points at the offending word; InvalidPredicate, for a predicate in the command, points into the command too.
    """
    return Runner(options or {}).run(text)


@dataclass(frozen=True, slots=True)
class Runner:
    options: Mapping[str, Any] = field(repr=False)
    executor_for: Callable[[Workload], Executor] = lambda workload: workload.threads  # runs the heavy part

    def run(self, text: str) -> pa.Table:
        command = parse_command(text)
        request, path = command.request, command.path
        run_verb: Callable[[Any, Any], pa.Table] = getattr(self, f"_{request.verb_name()}")
        with _predicate_errors_in_command(text, command):
            if path is None or isinstance(request, verbs.Repair | verbs.InvalidateCache):  # need no readable table
                return run_verb(request, path)
            return run_verb(request, TableContext.at(path, self.options))

    def _merge_splits(self, request: verbs.MergeSplits, context: TableContext) -> pa.Table:
        report, _ = merge_splits(request, context, context.snapshot(), self.executor_for(request.workload))
        counts = report.metrics
        metrics = {
            "status": merge_status(report),
            "merged_files": counts["files_removed"],
            "merge_groups": counts["groups"],
            "original_size_bytes": counts["bytes_removed"],
            "merged_size_bytes": counts["bytes_added"],
            "message": warnings_of(report),
        }
        return _row(results.MERGE, str(context.root), metrics, tempfile.gettempdir(), None)

    def _purge(self, request: verbs.Purge, context: TableContext) -> pa.Table:
        report = purge(request, context, self.executor_for(request.workload))
        counts = dict(report.metrics)
        done = dict.fromkeys(counts, 0) if request.dry_run else counts
        planned = f"would delete {counts['files_deleted']} splits and {counts['bytes_deleted']} bytes in all" if request.dry_run else None
        metrics = {
            "status": command_status(report),
            # After a partial purge the number found is not known: only the files deleted were counted.
            "orphaned_files_found": None if command_status(report) == "PARTIAL_SUCCESS" else counts["files_deleted"],
            "orphaned_files_deleted": done["files_deleted"],
            "size_mb_deleted": done["bytes_deleted"] / limits.MIB,
            "retention_hours": parse_duration(request.older_than) // HOUR_MS,
            "tx_log_files_deleted": done["versions_deleted"] + done["checkpoints_deleted"],
            "expired_states_found": counts["states_deleted"],
            "expired_states_deleted": done["states_deleted"],
            "dry_run": request.dry_run,
            "duration_ms": report.duration_ms,
            "message": "; ".join(text for text in (planned, warnings_of(report)) if text) or None,
        }
        return _row(results.PURGE, str(context.root), metrics)

    def _drop_partitions(self, request: verbs.DropPartitions, context: TableContext) -> pa.Table:
        report, _ = drop_partitions(request, context, context.snapshot())
        counts = (report.metrics[name] for name in ("partitions_dropped", "files_removed", "bytes_removed"))
        return _row(results.DROP_PARTITIONS, str(context.root), merge_status(report), *counts, warnings_of(report))

    def _checkpoint(self, request: verbs.Checkpoint, context: TableContext) -> pa.Table:
        report = checkpoint(request, context)
        snapshot = context.snapshot(checkpoint_version(report))
        pointer = read_pointer(context.store)
        if pointer is not None and pointer.version != snapshot.version:
            pointer = None
        live = context.totals(snapshot).num_files
        actions = live + 2 + len(snapshot.txns) if pointer is None else pointer.size
        return _row(
            results.CHECKPOINT,
            str(context.root),
            command_status(report),
            snapshot.version,
            actions,
            live,
            snapshot.protocol.min_reader_version,
            pointer is not None and pointer.format == Format.JSON_PARTS.value,
        )

    def _truncate_history(self, request: verbs.TruncateHistory, context: TableContext) -> pa.Table:
        report = truncate_history(request, context)
        counts = report.metrics
        return _row(
            results.TRUNCATE,
            str(context.root),
            command_status(report),
            counts["checkpoint_version"],
            counts["versions_deleted"],
            counts["checkpoints_deleted"] + counts["states_deleted"],
            counts["files_preserved"],
            warnings_of(report),
        )

    def _repair(self, request: verbs.Repair, source: str) -> pa.Table:
        report = repair(request, source, self.options)
        counts = (report.metrics[name] for name in ("source_version", "total_splits", "valid_splits", "missing_splits"))
        return _row(results.REPAIR, source, request.destination, *counts, command_status(report))

    def _describe_state(self, request: verbs.DescribeState, context: TableContext) -> pa.Table:
        return pa.Table.from_pylist([describe_state(context)], schema=SCHEMA)

    def _describe_log(self, request: verbs.DescribeLog, context: TableContext) -> pa.Table:
        return describe_log(context, include_all=request.include_all)

    def _invalidate_cache(self, request: verbs.InvalidateCache, path: str | None) -> pa.Table:
        context = None if path is None else TableContext.at(path, self.options)
        if context is not None:
            context.snapshot()  # raises TableNotFound if there is no table
        before = cache.counts(None if context is None else context.store.spec)
        cache.invalidate(None if context is None else context.store.spec)
        rate = before.hits / before.lookups if before.lookups else 0.0
        name = "all tables" if context is None else str(context.root)
        return _row(results.INVALIDATE, name, "success", before.hits, before.lookups - before.hits, rate)


def _row(schema: pa.Schema, *values: Any) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, values, strict=True))], schema=schema)


@contextmanager
def _predicate_errors_in_command(text: str, command: Command) -> Iterator[None]:
    """Makes an error in the predicate point into the whole command."""
    try:
        yield
    except PointedError as error:
        if command.where_position is not None and error.position is not None and error.text == getattr(command.request, "where", None):
            error.text, error.position = text, command.where_position + error.position
        raise
