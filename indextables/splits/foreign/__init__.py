"""Splits written by the upstream Scala program, decoded in a child process."""

from __future__ import annotations

from indextables.splits.foreign.split import UpstreamTable, fingerprint, is_upstream_split, translate, verified_rows

__all__ = [
    "UpstreamTable",
    "fingerprint",
    "is_upstream_split",
    "translate",
    "verified_rows",
]
