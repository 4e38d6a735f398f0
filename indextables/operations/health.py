"""Health: what doctor finds and the figures of the table, as one document that dashboards read."""

from __future__ import annotations

from typing import Any

from indextables.clock import iso_ms
from indextables.errors import IndexTablesError
from indextables.operations import doctor
from indextables.operations.findings import worst
from indextables.table.context import TableContext
from indextables.table.history import read_history


def health(context: TableContext) -> dict[str, Any]:
    """`status` is ok, info, warning or error; figures are null where the table cannot be read."""
    findings = doctor.doctor(context)
    document: dict[str, Any] = {"table": str(context.root), "checked_at": iso_ms(context.clock.now_ms()), "status": worst(findings)}
    return {**document, **_figures(context), "findings": [finding.to_dict() for finding in findings]}


def _figures(context: TableContext) -> dict[str, Any]:
    names = ("version", "num_files", "num_records", "size_bytes", "num_small_files", "small_file_ratio", "num_versions", "last_checkpoint")
    try:
        snapshot = context.snapshot()
        history = read_history(context.log)
    except IndexTablesError:
        return dict.fromkeys((*names, "versions_since_checkpoint", "last_commit_at", "last_operation"))
    config = context.for_table(snapshot).config
    sizes = snapshot.files_table().column("size").to_numpy()
    small = int((sizes < config.get("merge.skipSplitThreshold") * config.get("merge.targetSize")).sum())
    last = history[-1] if history else None
    values = (
        snapshot.version,
        len(snapshot.files),
        snapshot.num_records,
        snapshot.size,
        small,
        round(small / len(sizes), 4) if len(sizes) else 0.0,
        len(context.log.listing().versions),
        snapshot.checkpoint,
    )
    return {
        **dict(zip(names, values, strict=True)),
        "versions_since_checkpoint": snapshot.version - (snapshot.checkpoint or 0),
        "last_commit_at": iso_ms(last.timestamp_ms) if last else None,
        "last_operation": last.operation if last else None,
    }
