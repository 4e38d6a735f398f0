"""The automatic checkpoint after a commit, written once enough versions have been committed since the last one."""

from __future__ import annotations

from dataclasses import replace

from indextables import interrupts, logs
from indextables.config import Config
from indextables.operations.checkpoint import run as checkpoint_run
from indextables.table import Snapshot, TableContext, is_foreign


def checkpoint_if_due(context: TableContext, snapshot: Snapshot, *, merged: bool = False) -> tuple[Snapshot, list[str]]:
    """Writes a checkpoint if one is due; returns the snapshot and warnings. A failure does not affect the commit (CON-11).

    After a merge (`merged`), an Avro state is compacted, so that it no longer holds the source splits (CMP-05).
    """
    with interrupts.naming_commit(snapshot.version):
        bound = context.for_table(snapshot)
        try:
            compact = merged and _should_compact(bound, snapshot)
            if not compact and not _is_due(bound, snapshot):
                return snapshot, []
            ready, _ = checkpoint_run.prepare(bound, snapshot)
            report = checkpoint_run.run(bound, ready, compact=compact)
        except Exception as error:
            what = f"the checkpoint after version {snapshot.version} failed"
            logs.log_failure(error, what)
            return snapshot, [f"{what}: {error}"]
        return replace(ready, checkpoint=ready.version), list(report.warnings)


def is_reached(config: Config, version: int, last: int | None) -> bool:
    """Pure. Whether the checkpoint interval has passed since the last checkpoint; a missed checkpoint is due at the next commit (C-16)."""
    return bool(config.get("checkpoint.enabled")) and version - (last or 0) >= config.get("checkpoint.interval")


def _is_due(context: TableContext, snapshot: Snapshot) -> bool:
    """Lists the folder only if the snapshot's base is old enough, because another writer may have written a newer checkpoint."""
    if not is_reached(context.config, snapshot.version, snapshot.checkpoint) or is_foreign(snapshot.protocol):
        return False
    return is_reached(context.config, snapshot.version, max(context.log.uncached_listing(snapshot.checkpoint).bases, default=None))


def _should_compact(context: TableContext, snapshot: Snapshot) -> bool:
    config = context.config
    is_enabled = config.get("checkpoint.enabled") and config.get("state.compaction.afterMerge") and config.get("state.format") == "avro"
    return bool(is_enabled) and bool(context.log.uncached_listing(snapshot.checkpoint).states)
