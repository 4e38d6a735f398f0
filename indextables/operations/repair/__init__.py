"""Repair: a new log from the splits that are still valid."""

from __future__ import annotations

from indextables.operations.repair.run import repair

__all__ = [
    "repair",
]
