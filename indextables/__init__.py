"""IndexTables: an open table format for full-text search on Spark.

    import indextables as it

    table = it.create("logs", schema, partition_by=["date"])
    table.append(rows)
    table.search("connection AND refused", limit=10)

Start with `create` and `open`, which return a `Table`. Names are loaded when first used, so that a DAG file that imports
`indextables.airflow` does not pay for Arrow and tantivy.
"""

from __future__ import annotations

from importlib import import_module

from indextables.version import __version__

TYPE_CHECKING = False  # type checkers take this for True; importing `typing` would take longer than the rest of this module
if TYPE_CHECKING:
    from typing import Any

    from indextables.api import Table, exists
    from indextables.api import create_table as create
    from indextables.api import drop_table as drop
    from indextables.api import open_table as open
    from indextables.api import repair_log as repair
    from indextables.commands import sql
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
        StorageRefused,
        TableExists,
        TableNotFound,
        UnsafePath,
        VersionGap,
        VersionNotFound,
    )
    from indextables.operations import Finding, Report
    from indextables.table import Explain

_LAZY = {
    "Explain": ("indextables.table", "Explain"),
    "Report": ("indextables.operations", "Report"),
    "Table": ("indextables.api", "Table"),
    "Finding": ("indextables.operations", "Finding"),
    "create": ("indextables.api", "create_table"),
    "drop": ("indextables.api", "drop_table"),
    "exists": ("indextables.api", "exists"),
    "open": ("indextables.api", "open_table"),
    "repair": ("indextables.api", "repair_log"),
    "sql": ("indextables.commands", "sql"),
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
    "StorageRefused",
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
        return getattr(import_module("indextables.errors"), name)
    if name == "errors":
        return import_module("indextables.errors")
    raise AttributeError(f"module 'indextables' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
