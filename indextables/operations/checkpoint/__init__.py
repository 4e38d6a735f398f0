"""Checkpoints, the clean-up after one, and the checkpoint that may be due after a commit."""

from __future__ import annotations

from indextables.operations.checkpoint.automatic import after_commit
from indextables.operations.checkpoint.cleanup import due, gather, is_leaning, named_manifests, stands_alone, with_bases, with_checkpoint
from indextables.operations.checkpoint.run import checkpoint, version_of, version_to_be

__all__ = [
    "after_commit",
    "checkpoint",
    "due",
    "gather",
    "is_leaning",
    "named_manifests",
    "stands_alone",
    "version_of",
    "version_to_be",
    "with_bases",
    "with_checkpoint",
]
