"""Snapshots with all their files loaded."""

from __future__ import annotations

from typing import Any

import indextables as it
from indextables.log.log import TransactionLog
from indextables.table.loading import load
from indextables.table.opening import load_snapshot
from indextables.table.snapshot import LoadedSnapshot


def loaded(table: it.Table) -> LoadedSnapshot:
    """The loaded snapshot of a table handle."""
    return table._context.load(table._snapshot)


def read_all(log: TransactionLog, *given: Any, **arguments: Any) -> LoadedSnapshot:
    """`load_snapshot` with the files."""
    return load(log, load_snapshot(log, *given, **arguments))
