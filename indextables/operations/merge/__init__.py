"""Merging small splits into larger ones.

Start with `merge_splits`. A pure plan (`plan_merge`) groups the splits, picklable tasks merge one group each on any machine, and each batch
of groups is one commit.
"""

from __future__ import annotations

from indextables.operations.merge.plan import merge_options, plan_merge
from indextables.operations.merge.run import merge_splits, run_merge
