"""What a checkpoint is to hold, decided from values alone."""

from __future__ import annotations

from indextables.actions import Totals
from indextables.state import Contents
from indextables.table import LEGACY, Snapshot


def plan_checkpoint(snapshot: Snapshot, totals: Totals, now_ms: int, txn_retention_ms: int) -> Contents | None:
    """Pure. What the checkpoint is to hold; None where the newest version has a valid one. `totals` are those of the snapshot's files.

    The snapshot was read from the newest valid base, never from surviving versions alone.
    """
    return None if snapshot.checkpoint == snapshot.version else contents_at(snapshot, totals, now_ms, txn_retention_ms)


def contents_at(snapshot: Snapshot, totals: Totals, now_ms: int, txn_retention_ms: int) -> Contents:
    protocol = None if snapshot.protocol is LEGACY else snapshot.protocol
    return Contents.of(
        snapshot.version,
        protocol,
        snapshot.metadata,
        snapshot.layers,
        totals,
        snapshot.txns,
        snapshot.skips,
        now_ms=now_ms,
        txn_retention_ms=txn_retention_ms,
    )
