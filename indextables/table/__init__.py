"""A table at one version: loading, pruning, history and transactions.

Start with `TableContext`, which gives a `Snapshot` of a version and loads its files, and with `transact`, which commits actions on top of
one. `live_files` prunes by a predicate (pure).
"""

from __future__ import annotations

from indextables.table import cooldown
from indextables.table.base import newest_base
from indextables.table.changes import read_changes
from indextables.table.context import TableContext
from indextables.table.cooldown import files_in_cooldown, log_left_out, log_new_skips, new_skip, protocol_for_skips
from indextables.table.declared import refuse_unsupported
from indextables.table.explanation import Explain, explain
from indextables.table.files import Rows, fully_matching_files, live_files, partition_row, public_table, rows_of_partitions
from indextables.table.history import HistoryEntry, commit_time, describe_removal, history_table, read_history, version_at, version_of
from indextables.table.loading import on_undamaged_base
from indextables.table.opening import on_newest_state, snapshot_after_commit, without_broken_states
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
    taken_over,
    upgraded,
    upgraded_to,
)
from indextables.table.snapshot import LoadedSnapshot, Snapshot
from indextables.table.transaction import Draft, Outcome, transact
