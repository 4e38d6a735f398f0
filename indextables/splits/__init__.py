"""Splits: immutable files that hold rows and their full-text index.

`SplitWriter` writes one, `open_split` reads one, and `open_view` searches many as one index. `parse_query` has the query language and
`merge_splits` combines splits; `foreign` rewrites splits of other programs.
"""

from indextables.splits.foreign import fingerprint, is_upstream_split, rewrite_upstream_split, verified_rows
from indextables.splits.format import ColumnStatistics
from indextables.splits.index import ColumnNumbers, DocMapping, refuse_unindexable, without_invalid_column_options
from indextables.splits.merge import BrokenSource, merge_splits
from indextables.splits.query import Highlighter, ParsedQuery, best_snippet, parse_query
from indextables.splits.reader import SplitPlace, SplitReader, open_split
from indextables.splits.view import Group, Hits, View, cached_view, open_view, parallel
from indextables.splits.writer import SplitInfo, SplitSettings, SplitWriter
