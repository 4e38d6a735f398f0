"""IndexTables: an open table format for full-text search on Spark.

    import indextables as it

    table = it.create("logs", schema, partition_by=["date"])
    table.append(rows)
    table.search("connection AND refused", limit=10)

Names are loaded when first used, so that a DAG file that imports `indextables.airflow` does not pay for Arrow and tantivy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from indextables import errors
from indextables.version import __version__

if TYPE_CHECKING:
    from indextables.api import Table, exists
    from indextables.api import create_table as create
    from indextables.api import drop_table as drop
    from indextables.api import open_table as open
    from indextables.api import repair_log as repair
    from indextables.commands.run import sql
    from indextables.errors import (
        CheckpointCorruptionError,
        CheckpointError,
        CheckpointValidationError,
        CheckpointWriteError,
        CommitUnknown,
        ConcurrentConflict,
        ConfigError,
        IndexTablesError,
        InvalidArgument,
        InvalidCommand,
        InvalidPredicate,
        InvalidQuery,
        LogCorrupted,
        ProtocolUnsupported,
        ReplaceWhereViolation,
        SchemaMismatch,
        SourceUnreadable,
        SplitCorrupted,
        StorageError,
        TableExists,
        TableNotFound,
        UnsafePath,
        VersionGap,
        VersionNotFound,
    )
    from indextables.operations.findings import Finding
    from indextables.operations.report import Report
    from indextables.table.explain import Explain

_LAZY = {
    "Explain": ("indextables.table.explain", "Explain"),
    "Report": ("indextables.operations.report", "Report"),
    "Table": ("indextables.api", "Table"),
    "Finding": ("indextables.operations.findings", "Finding"),
    "create": ("indextables.api", "create_table"),
    "drop": ("indextables.api", "drop_table"),
    "exists": ("indextables.api", "exists"),
    "open": ("indextables.api", "open_table"),
    "repair": ("indextables.api", "repair_log"),
    "sql": ("indextables.commands.run", "sql"),
}

__all__ = [
    "CheckpointCorruptionError",
    "CheckpointError",
    "CheckpointValidationError",
    "CheckpointWriteError",
    "CommitUnknown",
    "ConcurrentConflict",
    "ConfigError",
    "Explain",
    "Finding",
    "IndexTablesError",
    "InvalidArgument",
    "InvalidCommand",
    "InvalidPredicate",
    "InvalidQuery",
    "LogCorrupted",
    "ProtocolUnsupported",
    "ReplaceWhereViolation",
    "Report",
    "SchemaMismatch",
    "SourceUnreadable",
    "SplitCorrupted",
    "StorageError",
    "Table",
    "TableExists",
    "TableNotFound",
    "UnsafePath",
    "VersionGap",
    "VersionNotFound",
    "__version__",
    "create",
    "drop",
    "exists",
    "open",
    "repair",
    "sql",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(import_module(module), attribute)
    if name in __all__:
        return getattr(errors, name)
    raise AttributeError(f"module 'indextables' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
