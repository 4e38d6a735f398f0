"""Every bound in one place. What exceeds one is refused by name, before it is worked on."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Log: hostile or broken files must not take the reader's memory with them.
VERSION_FILE_BYTES = 512 * MIB  # one version file or checkpoint, expanded (native readers have the same limit)
PATH_CHARACTERS = 4096
FOLDER_BYTES = 255  # a name on local disks
JSON_DEPTH = 64  # the deepest JSON that is ours has 5 levels

# Cache of logs, in each process
CACHED_TABLES = 64
CACHED_VERSIONS = 1000  # of a table
CACHED_ACTIONS = 50_000  # of a table: versions differ in size
CACHED_STATE_BYTES = 512 * MIB  # live files of all tables together

# Texts that callers write
PREDICATE_CHARACTERS = 100_000
PREDICATE_DEPTH = 200
LIKE_RUNS = 200  # `%` in one pattern: RE2 without its cache needs (pattern x text) steps, 90 s a row at 50,000
QUERY_CHARACTERS = 10_000
QUERY_DEPTH = 100  # tantivy's parser overflows the stack between 2,000 and 20,000 parentheses
QUERY_CLAUSES = 4096  # words times columns searched; prefixes, phrases and ranges count 16 each
SEARCH_LIMIT = 100_000  # rows of one search: tantivy allocates 40 bytes a row and split up front

# Splits
SPLIT_ROWS = 1_000_000
SPLIT_BYTES = 1 * GIB  # of row store, before the index is added
ROW_BATCH = 1024  # rows of one compressed block: what a fetch of a single row has to decompress
INDEX_HEAP_MIN = 15_000_000  # tantivy refuses less
INDEX_HEAP_MAX = 1_000_000_000
OPEN_WRITERS = 200  # partitions one write keeps open at a time, each with a file
MERGE_SECONDS = 3600  # of the child process that merges segments; after it rows are indexed again
OPEN_SPLITS = 64  # each open index has a watcher thread of tantivy's

MERGE_SKIP_RATIO = 0.45  # of the target size: a split that large is not merged again

# Statistics
STATS_CHARACTERS = 32

# Purge
ORPHAN_HOURS = 24  # a split that no version knows may belong to a writer that has not committed yet
