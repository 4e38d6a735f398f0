"""The checkpoint plan: the contents of a checkpoint, derived purely from a snapshot."""

from __future__ import annotations

from indextables.actions import Totals
from indextables.state import Contents
from indextables.table import LEGACY, Snapshot


def plan_checkpoint(snapshot: Snapshot, totals: Totals, now_ms: int, txn_retention_ms: int) -> Contents:
    """Pure. The contents of the checkpoint. `totals` are of the snapshot's files.

    The snapshot must be read from the newest valid base, never from the remaining version files alone.
    """
    return Contents.of(
        snapshot.version,
        None if snapshot.protocol is LEGACY else snapshot.protocol,
        snapshot.metadata,
        snapshot.layers,
        totals,
        snapshot.txns,
        snapshot.skips,
        now_ms=now_ms,
        txn_retention_ms=txn_retention_ms,
    )
