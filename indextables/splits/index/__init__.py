"""The tantivy index of a split: how columns map to fields, how text is tokenized, how segments are merged.

Start with `DocMapping`, which says how each column is indexed, and with `build_index` and `open_searcher`. `merge_segments` merges indexes
without re-indexing.
"""

from indextables.splits.index import mapping as kinds
from indextables.splits.index.analyzers import GRAM, analyzer, grams
from indextables.splits.index.documents import prepare_column, refuse_unindexable
from indextables.splits.index.mapping import DocMapping, without_invalid_column_options
from indextables.splits.index.schema import (
    NULLS,
    ROW,
    ColumnNumbers,
    all_rows,
    build_index,
    index_fields,
    index_schema,
    numbers_at,
    numbers_of_hits,
    open_searcher,
    tantivy_errors_as,
    top_hits,
)
from indextables.splits.index.segments import IndexMeta, Segment, combine_metas, index_files, load_meta, merge_segments, parse_meta
