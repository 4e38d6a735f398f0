"""Splits: immutable files with rows and their full-text index. See bundle.py for the format."""

from __future__ import annotations

from indextables.splits.cache import open_split
from indextables.splits.documents import refuse_unindexable
from indextables.splits.index import Numbers
from indextables.splits.mapping import DocMapping
from indextables.splits.merge import BrokenSource, merge_splits
from indextables.splits.query import ParsedQuery, parse_query
from indextables.splits.reader import SplitPlace, SplitReader
from indextables.splits.view import Group, Hits, View, join_hits, known_view, open_view, parallel
from indextables.splits.writer import SplitInfo, SplitWriter

__all__ = [
    "BrokenSource",
    "DocMapping",
    "Group",
    "Hits",
    "Numbers",
    "ParsedQuery",
    "SplitInfo",
    "SplitPlace",
    "SplitReader",
    "SplitWriter",
    "View",
    "join_hits",
    "known_view",
    "merge_splits",
    "open_split",
    "open_view",
    "parallel",
    "parse_query",
    "refuse_unindexable",
]
