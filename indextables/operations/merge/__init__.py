"""Merge small splits into larger ones: a pure plan, tasks that run anywhere, and one commit per batch."""

from __future__ import annotations

from indextables.operations.merge.plan import merge_options, plan_merge
from indextables.operations.merge.run import merge_splits, run_merge

__all__ = [
    "merge_options",
    "merge_splits",
    "plan_merge",
    "run_merge",
]
