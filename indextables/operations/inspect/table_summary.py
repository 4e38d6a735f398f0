"""Describe: what a table is, and the counters of this process for it."""

from __future__ import annotations

from typing import Any

import msgspec

from indextables.table import Snapshot, TableContext


def describe(context: TableContext, snapshot: Snapshot) -> dict[str, Any]:
    totals = context.totals(snapshot)
    return {
        "path": str(context.root),
        "version": snapshot.version,
        "num_files": totals.num_files,
        "num_records": totals.num_records,
        "size_bytes": totals.size,
        "partition_columns": list(snapshot.partition_columns),
        "schema": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in snapshot.schema],
        "protocol": msgspec.to_builtins(snapshot.protocol),
        "configuration": snapshot.options,
        "metrics": metrics(context),
    }


def metrics(context: TableContext) -> dict[str, int | float | None]:
    """Counters of this process for the table, hit rates of its cache, and the number of versions since the last checkpoint."""
    listing = context.log.listing()
    last = max(listing.bases, default=None)
    return {
        **context.metrics.to_dict(),
        **context.log.cache_stats(),
        "versions": len(listing.versions),
        "last_checkpoint": last,
        "versions_since_checkpoint": sum(version > (-1 if last is None else last) for version in listing.versions),
    }
