"""Describe state: metrics of a table's newest checkpoint, read from the store instead of the cache."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from indextables.errors import LogCorrupted
from indextables.state import (
    CheckpointOptions,
    Format,
    StateFigures,
    StateManifest,
    compaction_reason,
    read_checkpoint,
    read_pointer,
    read_state_manifest,
)
from indextables.table import TableContext

SCHEMA = pa.schema(
    [
        ("table_path", pa.string()),
        ("format", pa.string()),
        ("version", pa.int64()),
        ("num_files", pa.int64()),
        ("num_manifests", pa.int64()),
        ("num_tombstones", pa.int64()),
        ("tombstone_ratio", pa.float64()),
        ("total_bytes", pa.int64()),
        ("needs_compaction", pa.bool_()),
        ("status", pa.string()),
    ]
)


def describe_state(context: TableContext) -> dict[str, Any]:
    """The values for `SCHEMA`. Version, files and bytes are of the checkpoint, or of the table if it has none.

    Manifests and tombstones are those of an Avro state; the ratio is tombstones to live files (C-47).
    """
    context.log.invalidate_cache()
    newest = context.snapshot()
    base = newest.checkpoint
    found = newest if base in (None, newest.version) else context.snapshot(base)
    form, state = ("none", None) if base is None else _form(context, base)
    manifests, tombstones = (0, 0) if state is None else (len(state.manifests), len(state.tombstones or ()))
    totals = context.totals(found)
    live = totals.num_files
    options = CheckpointOptions.of(context.for_table(newest).config)
    due = manifests > 0 and compaction_reason(StateFigures(live, tombstones, 0, manifests, readded=False), options) is not None
    return {
        "table_path": str(context.root),
        "format": form,
        "version": found.version,
        "num_files": live,
        "num_manifests": manifests,
        "num_tombstones": tombstones,
        "tombstone_ratio": tombstones / max(live, 1),
        "total_bytes": totals.size,
        "needs_compaction": due,
        "status": "; ".join(newest.warnings) or ("no checkpoint" if base is None else "OK"),
    }


def _form(context: TableContext, version: int) -> tuple[str, StateManifest | None]:
    """The format of the checkpoint, and its manifest if it is an Avro state. With several formats, the pointer decides."""
    pointer, listing = read_pointer(context.store), context.log.uncached_listing()
    try:
        _, form = read_checkpoint(context.log, listing, version, pointer.family if pointer and pointer.version == version else None)
    except LogCorrupted:
        _, form = read_checkpoint(context.log, listing, version)
    return form.value, read_state_manifest(context.store, version) if form is Format.AVRO else None
