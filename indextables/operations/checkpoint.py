"""Checkpoint: the table at its newest version in one file, so that readers need not replay the whole log."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from indextables.operations.report import Report, Status, reporter
from indextables.state.json_checkpoint import CheckpointDocument, write_checkpoint
from indextables.state.pointer import write_pointer
from indextables.table.context import TableContext
from indextables.table.protocol import LEGACY, check_owned
from indextables.table.snapshot import Snapshot

logger = logging.getLogger("indextables")


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    snapshot: Snapshot
    document: CheckpointDocument | None  # None: the newest version has a valid checkpoint


def plan(snapshot: Snapshot, now_ms: int, txn_retention_ms: int) -> CheckpointPlan:
    """Pure. The snapshot was read from the newest valid base, never from surviving versions alone."""
    remembered = [txn for txn in snapshot.txns.values() if (txn.last_updated or now_ms) >= now_ms - txn_retention_ms]
    if snapshot.checkpoint == snapshot.version:
        return CheckpointPlan(snapshot, None)
    document = CheckpointDocument(
        version=snapshot.version,
        protocol=None if snapshot.protocol is LEGACY else snapshot.protocol,
        meta_data=snapshot.metadata,
        add=list(snapshot.adds()),
        txn=remembered or None,
    )
    return CheckpointPlan(snapshot, document)


def run(context: TableContext, checkpoint_plan: CheckpointPlan) -> Report:
    report = reporter("checkpoint", str(context.root), context.clock)
    snapshot = checkpoint_plan.snapshot
    metrics = {"num_files": len(snapshot.files), "manifests_written": 0, "manifests_reused": 0, "bytes_written": 0}
    if checkpoint_plan.document is None:
        return report(Status.NO_ACTION, metrics, base_version=snapshot.version)
    compress = bool(context.config.get("transaction.compression.enabled"))
    written = write_checkpoint(context.store, checkpoint_plan.document, compress=compress)
    context.log.invalidate_cache()
    write_pointer(context.store, written, context.log.listing().bases, context.clock.now_ms())
    logger.info("Created checkpoint at version %s: %s entries, %.2fMB", written.version, written.num_actions, written.size / 1_000_000)
    return report(Status.SUCCESS, {**metrics, "bytes_written": written.size}, base_version=snapshot.version)


def checkpoint(context: TableContext) -> Report:
    """Of the newest version, read afresh, so that a broken checkpoint of it is seen and mended."""
    context.log.invalidate_cache()
    snapshot = context.snapshot()
    snapshot.require_no_gap()
    check_owned(snapshot.protocol)
    bound = context.for_table(snapshot)
    return run(bound, plan(snapshot, context.clock.now_ms(), int(bound.config.get("transaction.txnRetention"))))
