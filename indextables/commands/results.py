"""The result of each command: one row, with the column names and order that other programs for this format use."""

from __future__ import annotations

import pyarrow as pa

from indextables.operations import Report, Status

_TEXT, _LONG, _FLAG = pa.string(), pa.int64(), pa.bool_()

MERGE = pa.schema(
    [
        ("table_path", _TEXT),
        (
            "metrics",
            pa.struct(
                [
                    ("status", _TEXT),
                    ("merged_files", _LONG),
                    ("merge_groups", _LONG),
                    ("original_size_bytes", _LONG),
                    ("merged_size_bytes", _LONG),
                    ("message", _TEXT),
                ]
            ),
        ),
        ("temp_directory_path", _TEXT),
        ("heap_size_bytes", _LONG),
    ]
)
PURGE = pa.schema(
    [
        ("table_path", _TEXT),
        (
            "metrics",
            pa.struct(
                [
                    ("status", _TEXT),
                    ("orphaned_files_found", _LONG),
                    ("orphaned_files_deleted", _LONG),
                    ("size_mb_deleted", pa.float64()),
                    ("retention_hours", _LONG),
                    ("tx_log_files_deleted", _LONG),
                    ("expired_states_found", _LONG),
                    ("expired_states_deleted", _LONG),
                    ("dry_run", _FLAG),
                    ("duration_ms", _LONG),
                    ("message", _TEXT),
                ]
            ),
        ),
    ]
)
DROP_PARTITIONS = pa.schema(
    [
        ("table_path", _TEXT),
        ("status", _TEXT),
        ("partitions_dropped", _LONG),
        ("splits_removed", _LONG),
        ("total_size_bytes", _LONG),
        ("message", _TEXT),
    ]
)
CHECKPOINT = pa.schema(
    [
        ("table_path", _TEXT),
        ("status", _TEXT),
        ("checkpoint_version", _LONG),
        ("num_actions", _LONG),
        ("num_files", _LONG),
        ("protocol_version", _LONG),
        ("is_multi_part", _FLAG),
    ]
)
TRUNCATE = pa.schema(
    [
        ("table_path", _TEXT),
        ("status", _TEXT),
        ("checkpoint_version", _LONG),
        ("versions_deleted", _LONG),
        ("checkpoints_deleted", _LONG),
        ("files_preserved", _LONG),
        ("message", _TEXT),
    ]
)
REPAIR = pa.schema(
    [
        ("source_path", _TEXT),
        ("target_path", _TEXT),
        ("source_version", _LONG),
        ("total_splits", _LONG),
        ("valid_splits", _LONG),
        ("missing_splits", _LONG),
        ("status", _TEXT),
    ]
)
INVALIDATE = pa.schema(
    [
        ("table_path", _TEXT),
        ("result", _TEXT),
        ("cache_hits_before", _LONG),
        ("cache_misses_before", _LONG),
        ("hit_rate_before", pa.float64()),
    ]
)


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
