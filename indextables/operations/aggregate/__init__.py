"""Aggregation over a snapshot: groups rows and computes measures such as count, sum and max.

Start with `aggregate`. It uses the log and the full-text index instead of reading rows where their values are exact.
"""

from __future__ import annotations

from indextables.operations.aggregate.run import aggregate
