"""Splits: immutable files with rows and their full-text index. See bundle.py for the format."""

from __future__ import annotations

from indextables.splits.cache import open_split
from indextables.splits.mapping import DocMapping
from indextables.splits.merge import merge_splits
from indextables.splits.query import ParsedQuery, parse_query
from indextables.splits.reader import SplitReader
from indextables.splits.writer import SplitInfo, SplitWriter

__all__ = ["DocMapping", "ParsedQuery", "SplitInfo", "SplitReader", "SplitWriter", "merge_splits", "open_split", "parse_query"]
