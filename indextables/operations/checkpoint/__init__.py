"""Checkpoints: writes them on request or when one is due after a commit, and cleans up expired log files afterwards.

Start with `checkpoint` and `checkpoint_if_due`. Other verbs use its checks of which checkpoints and states are complete, and its facts of
the log (`gather_log_facts`).
"""

from __future__ import annotations

from indextables.operations.checkpoint.automatic import checkpoint_if_due
from indextables.operations.checkpoint.cleanup import (
    expired_files,
    gather_log_facts,
    is_incomplete_state,
    is_self_contained,
    referenced_manifests,
    with_checked_bases,
    with_checkpoint,
)
from indextables.operations.checkpoint.run import checkpoint, checkpoint_version, next_checkpoint_version
