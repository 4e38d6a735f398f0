"""The checkpoint plan: the contents of a checkpoint, derived purely from a snapshot."""

from __future__ import annotations

from indextables.actions import Totals
from indextables.state import Contents
from indextables.table import LEGACY, Snapshot


def plan_checkpoint(snapshot: Snapshot, totals: Totals, now_ms: int, txn_retention_ms: int) -> Contents:
    """Pure. The contents of the checkpoint. `totals` are of the snapshot's files.

    The snapshot must be read from the newest valid base, never from the remaining version files alone.
    """
    protocol = None if snapshot.protocol is LEGACY else snapshot.protocol
    remembered = [txn for txn in snapshot.txns.values() if (txn.last_updated or now_ms) >= now_ms - txn_retention_ms]
    cooling = [skip for skip in snapshot.skips.values() if skip.is_cooling(now_ms)]
    return Contents(snapshot.version, protocol, snapshot.metadata, snapshot.layers, totals, remembered, cooling)
