"""Runs a command through its verb, and shows its report as one row with the columns that other programs for this format use.

Errors are raised as by the verb itself, never returned as a row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from indextables import limits
from indextables.clock import HOUR_MS
from indextables.commands.parse import Command, parse_command
from indextables.config import parse_duration
from indextables.errors import PointedError
from indextables.log import cache
from indextables.operations import Executor, Report, Status, Workload, verbs
from indextables.operations.alter import drop_partitions
from indextables.operations.checkpoint import checkpoint, checkpoint_version
from indextables.operations.expire import purge, truncate_history
from indextables.operations.inspect import SCHEMA, describe_log, describe_state
from indextables.operations.merge import merge_splits
from indextables.operations.repair import repair
from indextables.state import Format, read_pointer
from indextables.table import TableContext


def _columns(text: str) -> pa.Schema:
    """A schema written as in SQL: `name type, …`, with Arrow's names of the types."""
    return pa.schema([tuple(column.split()) for column in text.split(", ")])


_MERGE_METRICS = _columns(
    "status string, merged_files int64, merge_groups int64, original_size_bytes int64, merged_size_bytes int64, message string"
)
_PURGE_METRICS = _columns(
    "status string, orphaned_files_found int64, orphaned_files_deleted int64, size_mb_deleted float64, retention_hours int64, "
    "tx_log_files_deleted int64, expired_states_found int64, expired_states_deleted int64, dry_run bool, duration_ms int64, message string"
)
_MERGE = pa.schema(
    [
        ("table_path", pa.string()),
        ("metrics", pa.struct(list(_MERGE_METRICS))),
        ("temp_directory_path", pa.string()),
        ("heap_size_bytes", pa.int64()),
    ]
)
_PURGE = pa.schema([("table_path", pa.string()), ("metrics", pa.struct(list(_PURGE_METRICS)))])
_DROP_PARTITIONS = _columns(
    "table_path string, status string, partitions_dropped int64, splits_removed int64, total_size_bytes int64, message string"
)
_CHECKPOINT = _columns(
    "table_path string, status string, checkpoint_version int64, num_actions int64, num_files int64, protocol_version int64, "
    "is_multi_part bool"
)
_TRUNCATE = _columns(
    "table_path string, status string, checkpoint_version int64, versions_deleted int64, checkpoints_deleted int64, "
    "files_preserved int64, message string"
)
_REPAIR = _columns(
    "source_path string, target_path string, source_version int64, total_splits int64, valid_splits int64, missing_splits int64, "
    "status string"
)
_INVALIDATE = _columns("table_path string, result string, cache_hits_before int64, cache_misses_before int64, hit_rate_before float64")


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
            "status": _merge_status(report),
            "merged_files": counts["files_removed"],
            "merge_groups": counts["groups"],
            "original_size_bytes": counts["bytes_removed"],
            "merged_size_bytes": counts["bytes_added"],
            "message": _warnings_of(report),
        }
        return _row(_MERGE, str(context.root), metrics, tempfile.gettempdir(), None)

    def _purge(self, request: verbs.Purge, context: TableContext) -> pa.Table:
        report = purge(request, context, self.executor_for(request.workload))
        counts = dict(report.metrics)
        done = dict.fromkeys(counts, 0) if request.dry_run else counts
        planned = f"would delete {counts['files_deleted']} splits and {counts['bytes_deleted']} bytes in all" if request.dry_run else None
        metrics = {
            "status": _command_status(report),
            # After a partial purge the number found is not known: only the files deleted were counted.
            "orphaned_files_found": None if _command_status(report) == "PARTIAL_SUCCESS" else counts["files_deleted"],
            "orphaned_files_deleted": done["files_deleted"],
            "size_mb_deleted": done["bytes_deleted"] / limits.MIB,
            "retention_hours": parse_duration(request.older_than) // HOUR_MS,
            "tx_log_files_deleted": done["versions_deleted"] + done["checkpoints_deleted"],
            "expired_states_found": counts["states_deleted"],
            "expired_states_deleted": done["states_deleted"],
            "dry_run": request.dry_run,
            "duration_ms": report.duration_ms,
            "message": "; ".join(text for text in (planned, _warnings_of(report)) if text) or None,
        }
        return _row(_PURGE, str(context.root), metrics)

    def _drop_partitions(self, request: verbs.DropPartitions, context: TableContext) -> pa.Table:
        report, _ = drop_partitions(request, context, context.snapshot())
        counts = (report.metrics[name] for name in ("partitions_dropped", "files_removed", "bytes_removed"))
        return _row(_DROP_PARTITIONS, str(context.root), _merge_status(report), *counts, _warnings_of(report))

    def _checkpoint(self, request: verbs.Checkpoint, context: TableContext) -> pa.Table:
        report = checkpoint(request, context)
        snapshot = context.snapshot(checkpoint_version(report))
        pointer = read_pointer(context.store)
        if pointer is not None and pointer.version != snapshot.version:
            pointer = None
        live = context.totals(snapshot).num_files
        actions = live + 2 + len(snapshot.txns) if pointer is None else pointer.size
        return _row(
            _CHECKPOINT,
            str(context.root),
            _command_status(report),
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
            _TRUNCATE,
            str(context.root),
            _command_status(report),
            counts["checkpoint_version"],
            counts["versions_deleted"],
            counts["checkpoints_deleted"] + counts["states_deleted"],
            counts["files_preserved"],
            _warnings_of(report),
        )

    def _repair(self, request: verbs.Repair, source: str) -> pa.Table:
        report = repair(request, source, self.options)
        counts = (report.metrics[name] for name in ("source_version", "total_splits", "valid_splits", "missing_splits"))
        return _row(_REPAIR, source, request.destination, *counts, _command_status(report))

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
        return _row(_INVALIDATE, name, "success", before.hits, before.lookups - before.hits, rate)


def _merge_status(report: Report) -> str:
    """The status column of merges and drops: success, partial_success or no_action."""
    return "partial_success" if report.status is Status.PARTIAL else str(report.status)


def _command_status(report: Report) -> str:
    """The status column of the other commands, which do not distinguish success from nothing to do."""
    if report.dry_run:
        return "DRY_RUN"
    return "PARTIAL_SUCCESS" if report.status is Status.PARTIAL else "SUCCESS"


def _warnings_of(report: Report) -> str | None:
    return "; ".join(report.warnings) or None


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
