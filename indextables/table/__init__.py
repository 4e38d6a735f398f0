"""A table at one version, and transactions on it."""

from __future__ import annotations

from indextables.table import cooldown
from indextables.table.base import newest_base
from indextables.table.changes import read_changes
from indextables.table.context import TableContext
from indextables.table.cooldown import files_in_cooldown, log_recorded, new_skip, not_cooling, protocol_for_skips
from indextables.table.explanation import Explain, explain, explain_all
from indextables.table.files import Rows, live_files, public_table, rows_of_partitions
from indextables.table.full_matches import whole_files
from indextables.table.history import HistoryEntry, commit_time, describe_removal, read_history, version_at, version_of
from indextables.table.loading import manifests_of, on_sound_base
from indextables.table.opening import created, on_newest_state, without_broken_states
from indextables.table.protocol import (
    CURRENT,
    LEGACY,
    SUPPORTED,
    WITH_STATES,
    check_owned,
    check_readable,
    check_writable,
    has_registry,
    is_foreign,
    raised,
    taken_over,
    upgraded,
)
from indextables.table.snapshot import LoadedSnapshot, Snapshot
from indextables.table.transaction import Draft, Outcome, transact

__all__ = [
    "CURRENT",
    "LEGACY",
    "SUPPORTED",
    "WITH_STATES",
    "Draft",
    "Explain",
    "HistoryEntry",
    "LoadedSnapshot",
    "Outcome",
    "Rows",
    "Snapshot",
    "TableContext",
    "check_owned",
    "check_readable",
    "check_writable",
    "commit_time",
    "cooldown",
    "created",
    "describe_removal",
    "explain",
    "explain_all",
    "files_in_cooldown",
    "has_registry",
    "is_foreign",
    "live_files",
    "log_recorded",
    "manifests_of",
    "new_skip",
    "newest_base",
    "not_cooling",
    "on_newest_state",
    "on_sound_base",
    "protocol_for_skips",
    "public_table",
    "raised",
    "read_changes",
    "read_history",
    "rows_of_partitions",
    "taken_over",
    "transact",
    "upgraded",
    "version_at",
    "version_of",
    "whole_files",
    "without_broken_states",
]
