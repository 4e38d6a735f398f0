"""Carrying out a command by the verb it stands for. Errors are raised as by the verb itself; none becomes a row."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from indextables.commands import model, results
from indextables.commands.model import Where
from indextables.commands.parse import parse_command
from indextables.commands.results import loud, quiet, said
from indextables.errors import PointedError
from indextables.log import cache
from indextables.operations import Executor, in_threads
from indextables.operations.alter import drop_partitions
from indextables.operations.checkpoint import checkpoint, version_of
from indextables.operations.expire import purge, truncate_history
from indextables.operations.inspect import SCHEMA, describe_log, describe_state
from indextables.operations.merge import merge_splits
from indextables.operations.repair import repair
from indextables.state import Format, read_pointer
from indextables.table import TableContext

_MIB = 1024 * 1024


def sql(text: str, options: Mapping[str, Any] | None = None) -> pa.Table:
    """Runs one command, such as `MERGE SPLITS '/data/logs' TARGET SIZE 100M`, and gives what it shows.

    InvalidCommand points at the word that is wrong; a predicate in it raises InvalidPredicate, which points into the command too.
    """
    return Runner(options or {}).run(text)


@dataclass(frozen=True, slots=True)
class Runner:
    options: Mapping[str, Any] = field(repr=False)
    merging: Executor = in_threads  # who does the heavy part
    deleting: Executor = in_threads

    def run(self, text: str) -> pa.Table:
        command = parse_command(text)
        show: Callable[[Any], pa.Table] = _VERBS[type(command)].__get__(self)
        where: Where | None = getattr(command, "where", None)
        with _pointing(text, where):
            return show(command)

    def _at(self, path: str) -> TableContext:
        return TableContext.at(path, self.options)

    def _merge(self, command: model.MergeSplits) -> pa.Table:
        context = self._at(command.path)
        report, _ = merge_splits(
            context,
            context.snapshot(),
            command.target_size,
            None if command.where is None else command.where.text,
            command.max_dest_splits,
            command.max_source_splits,
            executor=self.merging,
        )
        counts = report.metrics
        metrics = {
            "status": quiet(report),
            "merged_files": counts["files_removed"],
            "merge_groups": counts["groups"],
            "original_size_bytes": counts["bytes_removed"],
            "merged_size_bytes": counts["bytes_added"],
            "message": said(report),
        }
        return _row(results.MERGE, str(context.root), metrics, tempfile.gettempdir(), None)

    def _purge(self, command: model.Purge) -> pa.Table:
        context = self._at(command.path)
        log = None if command.log_retention_hours is None else f"{command.log_retention_hours}h"
        report = purge(context, f"{command.older_than_hours}h", log, command.dry_run, executor=self.deleting)
        counts = dict(report.metrics)
        done = dict.fromkeys(counts, 0) if command.dry_run else counts
        planned = f"would delete {counts['files_deleted']} splits and {counts['bytes_deleted']} bytes in all" if command.dry_run else None
        metrics = {
            "status": loud(report),
            "orphaned_files_found": counts["files_deleted"] if loud(report) != "PARTIAL_SUCCESS" else None,  # more than were deleted
            "orphaned_files_deleted": done["files_deleted"],
            "size_mb_deleted": done["bytes_deleted"] / _MIB,
            "retention_hours": command.older_than_hours,
            "tx_log_files_deleted": done["versions_deleted"] + done["checkpoints_deleted"],
            "expired_states_found": counts["states_deleted"],
            "expired_states_deleted": done["states_deleted"],
            "dry_run": command.dry_run,
            "duration_ms": report.duration_ms,
            "message": "; ".join(text for text in (planned, said(report)) if text) or None,
        }
        return _row(results.PURGE, str(context.root), metrics)

    def _drop_partitions(self, command: model.DropPartitions) -> pa.Table:
        context = self._at(command.path)
        report, _ = drop_partitions(context, context.snapshot(), command.where.text)
        counts = (report.metrics[name] for name in ("partitions_dropped", "files_removed", "bytes_removed"))
        return _row(results.DROP_PARTITIONS, str(context.root), quiet(report), *counts, said(report))

    def _checkpoint(self, command: model.Checkpoint) -> pa.Table:
        context = self._at(command.path)
        report = checkpoint(context, compact=command.compact)
        snapshot = context.snapshot(version_of(report))
        pointer = read_pointer(context.store)
        known = pointer if pointer is not None and pointer.version == snapshot.version else None
        live = context.totals(snapshot).num_files
        actions = live + 2 + len(snapshot.txns) if known is None else known.size
        return _row(
            results.CHECKPOINT,
            str(context.root),
            loud(report),
            snapshot.version,
            actions,
            live,
            snapshot.protocol.min_reader_version,
            known is not None and known.format == Format.JSON_PARTS.value,
        )

    def _truncate(self, command: model.TruncateHistory) -> pa.Table:
        context = self._at(command.path)
        report = truncate_history(context, command.dry_run)
        counts = report.metrics
        return _row(
            results.TRUNCATE,
            str(context.root),
            loud(report),
            counts["checkpoint_version"],
            counts["versions_deleted"],
            counts["checkpoints_deleted"] + counts["states_deleted"],
            counts["files_preserved"],
            said(report),
        )

    def _repair(self, command: model.Repair) -> pa.Table:
        report = repair(command.source, command.destination, self.options)
        counts = (report.metrics[name] for name in ("source_version", "total_splits", "valid_splits", "missing_splits"))
        return _row(results.REPAIR, command.source, command.destination, *counts, loud(report))

    def _describe_state(self, command: model.DescribeState) -> pa.Table:
        return pa.Table.from_pylist([describe_state(self._at(command.path))], schema=SCHEMA)

    def _describe_log(self, command: model.DescribeLog) -> pa.Table:
        return describe_log(self._at(command.path), include_all=command.include_all)

    def _invalidate(self, command: model.InvalidateCache) -> pa.Table:
        context = None if command.path is None else self._at(command.path)
        if context is not None:
            context.snapshot()  # TableNotFound, where there is none
        found = cache.counts(None if context is None else context.store.spec)
        cache.invalidate(None if context is None else context.store.spec)
        rate = found.hits / found.asked if found.asked else 0.0
        name = "all tables" if context is None else str(context.root)
        return _row(results.INVALIDATE, name, "success", found.hits, found.asked - found.hits, rate)


_VERBS: dict[type, Any] = {
    model.MergeSplits: Runner._merge,
    model.Purge: Runner._purge,
    model.DropPartitions: Runner._drop_partitions,
    model.Checkpoint: Runner._checkpoint,
    model.TruncateHistory: Runner._truncate,
    model.Repair: Runner._repair,
    model.DescribeState: Runner._describe_state,
    model.DescribeLog: Runner._describe_log,
    model.InvalidateCache: Runner._invalidate,
}


def _row(schema: pa.Schema, *values: Any) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, values, strict=True))], schema=schema)


@contextmanager
def _pointing(text: str, where: Where | None) -> Iterator[None]:
    """An error in the predicate points into the whole command."""
    try:
        yield
    except PointedError as error:
        if where is not None and error.position is not None and error.text == where.text:
            error.text, error.position = text, where.position + error.position
        raise
