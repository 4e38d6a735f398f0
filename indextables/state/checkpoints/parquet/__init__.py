"""Parquet checkpoints: one file or several parts."""

from __future__ import annotations

from indextables.state.checkpoints.parquet.checkpoint import parts_of, read_parquet, write_parquet

__all__ = [
    "parts_of",
    "read_parquet",
    "write_parquet",
]
