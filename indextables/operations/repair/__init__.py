"""Repair: writes a new log from the valid splits of a damaged table.

The damaged table is only read; the user replaces its log with the new one.
"""

from __future__ import annotations

from indextables.operations.repair.run import repair

__all__ = ["repair"]
