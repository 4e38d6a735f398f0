"""Every bound in one place. What exceeds one is refused by name, before it is worked on."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Log: hostile or broken files must not take the reader's memory with them.
VERSION_FILE_BYTES = 512 * MIB  # one version file or checkpoint, expanded (native readers have the same limit)
EXPANDED_FLOOR = 32 * MIB  # any log file may expand to this
EXPANDED_RATIO = 100  # and a larger one to so many times its size: real logs reach 30, bombs 1,000
LOG_LINES = 4_000_000  # of one of them: an action has 100 bytes and more, and each line takes microseconds whatever it says
LINE_BYTES = 8 * MIB  # one action
LINE_VALUES = 200_000  # one action: small values take 30 times their text in memory
LINE_CHECKED_BYTES = 64 * KIB  # shorter lines need no further check
STATE_EXPANDED_FLOOR = 2 * MIB  # a state manifest: its items take up to 100 times their bytes in memory
STATE_EXPANDED_RATIO = 20
SCRUBBED_BYTES = MIB  # of old manifests that a checkpoint reads to see whether they are still whole; the first of them is read in any case
CHECKPOINT_PARTS = 10_000
PARQUET_ROWS_FLOOR = 100_000  # of a file; a larger one may have as many rows as bytes
AVRO_DEPTH = 8  # of a schema
AVRO_FIELDS = 200  # of a record
AVRO_BRANCHES = 8  # of a union
PATH_CHARACTERS = 4096
FOLDER_BYTES = 255  # a name on local disks
JSON_DEPTH = 64  # the deepest JSON that is ours has 5 levels

# Cache of logs, in each process
CACHED_TABLES = 64
CACHED_VERSIONS = 1000  # of a table
CACHED_ACTIONS = 50_000  # of a table: versions differ in size
CACHED_STATE_BYTES = 512 * MIB  # live files of all tables together

# Stores
OBJECT_BYTES = VERSION_FILE_BYTES  # read or created in one piece; splits go by parts
PART_BYTES = 32 * MIB  # of a split on its way to or from an object store
PARALLEL_PARTS = 4
WHOLE_BYTES = 4 * MIB  # a split that small is fetched whole: three requests one after the other take longer than as many bytes
RANGE_BYTES = 8 * MIB  # fetched at once of a larger one
FETCH_AHEAD_BYTES = 4 * RANGE_BYTES  # of rows that a scan fetches at once
RANGE_GAP = 64 * KIB  # bytes fetched for nothing where that saves a request
PARTIAL_SPLITS = 128  # fetched in part by one search; each has two open files
PARALLEL_READS = 16  # small files read at once: one event loop is the limit beyond that
RETRY_FIRST_SECONDS = 0.1
RETRY_MOST_SECONDS = 2.0
CACHE_BYTES = 20 * GIB  # of downloaded splits on this machine, least recently used go first
CACHE_CHECK_BYTES = 256 * MIB  # by which a split that fills may grow before that is looked at
MANIFEST_CACHE_BYTES = 4 * GIB  # of decoded manifests on this machine, likewise
CACHE_GRACE_SECONDS = 120  # what was asked for within this time is about to be opened, and stays
PROBE_WRITERS = 16
PROBE_ROUNDS = 3
PROBE_DAYS = 30  # a store that was found to create atomically is believed this long

# Texts that callers write
PREDICATE_CHARACTERS = 100_000
PREDICATE_DEPTH = 200
LIKE_RUNS = 200  # `%` in one pattern: RE2 without its cache needs (pattern x text) steps, 90 s a row at 50,000
QUERY_CHARACTERS = 10_000
QUERY_DEPTH = 100  # tantivy's parser overflows the stack between 2,000 and 20,000 parentheses
QUERY_CLAUSES = 4096  # words times columns searched; prefixes, phrases and ranges count 16 each
SEARCH_LIMIT = 100_000  # rows of one search: tantivy allocates 40 bytes a row and split up front
AGGREGATE_GROUPS = 1_000_000  # of one aggregation, and distinct values that it counts
SEARCH_PAGE = 262_144  # hits that are looked at together where `where` or `order_by` choose among them

# Splits
SPLIT_ROWS = 1_000_000
SPLIT_BYTES = 1 * GIB  # of row store, before the index is added
ROW_BATCH = 1024  # rows of one compressed block: what a fetch of a single row has to decompress
BLOCK_CACHE_BYTES = 64 * MIB  # of such blocks, decoded, that a process keeps for the next search
INDEX_HEAP_MIN = 15_000_000  # tantivy refuses less
INDEX_HEAP_MAX = 1_000_000_000
OPEN_WRITERS = 200  # partitions one write keeps open at a time, each with a file
MERGE_SECONDS = 3600  # of the child process that merges segments; beyond that the rows are re-indexed
OPEN_SPLITS = 64  # each open index has a watcher thread of tantivy's
OPEN_VIEWS = 8  # sets of splits that are kept open as one index
VIEW_SPLITS = 512  # of one such index, each with 6 mapped files
MAPPED_SPLITS = 4096  # of all that are kept open, 7 maps each: Linux allows a process 65,530
VIEW_BYTES = 16 * GIB  # of index files, which are copied to the temporary folder

# Merges
TARGET_SIZE_FLOOR = MIB  # of merged splits
MERGE_BATCH_BYTES = 1 * GIB  # of sources, after which a batch that has a group for every worker is committed
MERGE_BATCH_GROUPS = 1000  # likewise
PARALLEL_FETCHES = 8  # sources of one merge that are fetched from an object store at a time
MERGE_DISK_RATIO = 2.5  # of the sources' bytes in the temporary folder: index files, merged ones, rows and the result; 2.1 was measured
MERGE_MEMORY_FLOOR = 128 * MIB  # of one merge: its process has 30 MB of its own, this one about as much
MERGE_MEMORY_RATIO = 1 / 16  # and of the sources' bytes; the rest is mapped, and need not stay in memory

# Statistics
STATS_CHARACTERS = 32

# Purge
OLDER_THAN = "7d"  # how long removed splits are kept where a purge does not say; a table has no option of its own for it
ORPHAN_HOURS = 24  # a split that no version knows may belong to a writer that has not committed yet

# Splits of other writers
UPSTREAM_FORM = 1  # of the splits that are made of theirs in the cache: a new number makes them anew
UPSTREAM_SECONDS = 3600  # for the documents of one split
UPSTREAM_MEMORY_FLOOR = 2 * GIB  # of address space for the process that decodes them: stacks of threads and pools of allocators take most
UPSTREAM_MEMORY_RATIO = 40  # and so many times the bytes of the split
UPSTREAM_MEMORY = 6 * GIB  # but no more: the index of a split takes up to 1 GB
