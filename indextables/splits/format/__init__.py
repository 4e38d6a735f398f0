"""The split file: the bundle, its row store, its column statistics, and the footers of the tantivy files in it.

Start with `write_bundle` and `read_footer`; `RowStoreWriter` and `RowStore` write and read the rows. docs/protocol.md specifies the bytes.
"""

from indextables.splits.format.bundle import (
    FORMAT_VERSION,
    INDEX_META,
    ROW_STORE,
    ColumnStatistics,
    Footer,
    Hotcache,
    Range,
    RowStoreSections,
    check_ranges,
    has_our_hotcache,
    map_split,
    read_files,
    read_footer,
    write_bundle,
)
from indextables.splits.format.file_footers import FOOTER_MAGIC, body_end, check_body
from indextables.splits.format.rowstore import RowStore, RowStoreWriter
from indextables.splits.format.scratch import remove, scratch_folder
from indextables.splits.format.stats import StatsCollector, merge_statistics
