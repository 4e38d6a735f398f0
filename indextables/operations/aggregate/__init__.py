"""Aggregation over a snapshot: groups, measures, and what the log answers without reading rows."""

from __future__ import annotations

from indextables.operations.aggregate.run import aggregate

__all__ = [
    "aggregate",
]
