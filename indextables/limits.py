"""Every bound in one place. What exceeds one is refused by name, before it is worked on."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Log: hostile or broken files must not take the reader's memory with them.
VERSION_FILE_BYTES = 512 * MIB  # one version file or checkpoint, expanded (native readers have the same limit)
PATH_CHARACTERS = 4096
JSON_DEPTH = 64  # the deepest JSON that is ours has 5 levels

# Texts that callers write
PREDICATE_CHARACTERS = 100_000
PREDICATE_DEPTH = 200
LIKE_RUNS = 200  # `%` in one pattern: RE2 without its cache needs (pattern x text) steps, 90 s a row at 50,000
QUERY_CHARACTERS = 10_000
QUERY_DEPTH = 100  # tantivy's parser overflows the stack between 2,000 and 20,000 parentheses
SEARCH_LIMIT = 100_000  # rows of one search: tantivy allocates 40 bytes a row and split up front

# Splits
SPLIT_ROWS = 1_000_000
SPLIT_BYTES = 1 * GIB  # of row store, before the index is added
ROW_BATCH = 1024  # rows of one compressed block: what a fetch of a single row has to decompress
INDEX_HEAP_MIN = 15_000_000  # tantivy refuses less
INDEX_HEAP_MAX = 1_000_000_000
PARTITIONS_PER_WRITE = 10_000  # open row-store files of one write
OPEN_SPLITS = 64  # each open index has a watcher thread of tantivy's

# Statistics
STATS_CHARACTERS = 32
