"""The result of each command: one row, with the column names and order that other programs for this format use."""

from __future__ import annotations

import pyarrow as pa

from indextables.operations import Report, Status


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
MERGE = pa.schema(
    [
        ("table_path", pa.string()),
        ("metrics", pa.struct(list(_MERGE_METRICS))),
        ("temp_directory_path", pa.string()),
        ("heap_size_bytes", pa.int64()),
    ]
)
PURGE = pa.schema([("table_path", pa.string()), ("metrics", pa.struct(list(_PURGE_METRICS)))])
DROP_PARTITIONS = _columns(
    "table_path string, status string, partitions_dropped int64, splits_removed int64, total_size_bytes int64, message string"
)
CHECKPOINT = _columns(
    "table_path string, status string, checkpoint_version int64, num_actions int64, num_files int64, protocol_version int64, "
    "is_multi_part bool"
)
TRUNCATE = _columns(
    "table_path string, status string, checkpoint_version int64, versions_deleted int64, checkpoints_deleted int64, "
    "files_preserved int64, message string"
)
REPAIR = _columns(
    "source_path string, target_path string, source_version int64, total_splits int64, valid_splits int64, missing_splits int64, "
    "status string"
)
INVALIDATE = _columns("table_path string, result string, cache_hits_before int64, cache_misses_before int64, hit_rate_before float64")


def merge_status(report: Report) -> str:
    """The status column of merges and drops: success, partial_success or no_action."""
    return "partial_success" if report.status is Status.PARTIAL else str(report.status)


def command_status(report: Report) -> str:
    """The status column of the other commands, which do not distinguish success from nothing to do."""
    if report.dry_run:
        return "DRY_RUN"
    return "PARTIAL_SUCCESS" if report.status is Status.PARTIAL else "SUCCESS"


def warnings_of(report: Report) -> str | None:
    return "; ".join(report.warnings) or None
