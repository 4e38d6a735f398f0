"""Bounds and tuning values, so that they can be seen on one page. A detail of one algorithm may stay in its module.

Input beyond a bound is refused with an error that names it. A comment says what the value counts and, where it matters, why it was chosen.
"""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Log: hostile or damaged files must not exhaust the reader's memory.
VERSION_FILE_BYTES = 512 * MIB  # maximum size of one version file or checkpoint, uncompressed; other programs' readers have the same limit
EXPANDED_FLOOR = 32 * MIB  # every log file may expand to this size
EXPANDED_RATIO = 100  # maximum expansion factor of a log file beyond that size: real logs reach 30, bombs 1,000
LOG_LINES = 4_000_000  # lines of one version file or checkpoint: an action has at least 100 bytes, and every line takes microseconds
LINE_BYTES = 8 * MIB  # bytes of one action
LINE_VALUES = 200_000  # values in one action: small values take 30 times the size of their text in memory
LINE_CHECKED_BYTES = 64 * KIB  # shorter lines need no check against these two limits
STATE_EXPANDED_FLOOR = 2 * MIB  # every state manifest may expand to this size: its items take up to 100 times their bytes in memory
STATE_EXPANDED_RATIO = 20  # maximum expansion factor of a state manifest beyond that size
SPOT_CHECK_BYTES = MIB  # bytes of old manifests that a checkpoint re-reads as a spot check, at least one manifest
CHECKPOINT_PARTS = 10_000
PARQUET_ROWS_FLOOR = 100_000  # rows that every Parquet file may have; a larger file may have as many rows as bytes
AVRO_DEPTH = 8  # nesting of a schema
AVRO_FIELDS = 200  # fields of a record
AVRO_BRANCHES = 8  # types of a union
PATH_CHARACTERS = 4096
FOLDER_BYTES = 255  # maximum length of a file or folder name on local disks
JSON_DEPTH = 64  # our own JSON has at most 5 levels

# Cache of logs, in each process
CACHED_TABLES = 64
CACHED_VERSIONS = 1000  # versions per table
CACHED_ACTIONS = 50_000  # actions per table, in its cached versions
CACHED_STATE_BYTES = 512 * MIB  # bytes of live files, of all tables together

# Stores
OBJECT_BYTES = VERSION_FILE_BYTES  # maximum size of an object that is read or created in one request; splits are transferred in parts
PART_BYTES = 32 * MIB  # size of one part of a split
PARALLEL_PARTS = 4
WHOLE_BYTES = 4 * MIB  # a split up to this size is fetched whole: three requests in sequence take longer
RANGE_BYTES = 8 * MIB  # maximum size of one request for a part of a larger split
FETCH_AHEAD_BYTES = 4 * RANGE_BYTES  # bytes of rows that a scan fetches ahead
RANGE_GAP = 64 * KIB  # two ranges with at most this gap are fetched by one request, which is cheaper than two
PARTIAL_SPLITS = 128  # splits that one search fetches in part; each has two open files
PARALLEL_READS = 16  # parallel reads of small files; beyond that the event loop is the bottleneck
RETRY_FIRST_SECONDS = 0.1
RETRY_MOST_SECONDS = 2.0
CACHE_BYTES = 20 * GIB  # bytes of downloaded splits on this machine; the least recently used are evicted first
CACHE_CHECK_BYTES = 256 * MIB  # bytes downloaded into a partial split before the cache size is checked again
MANIFEST_CACHE_BYTES = 4 * GIB  # bytes of decoded manifests on this machine; the least recently used are evicted first
CACHE_GRACE_SECONDS = 120  # a file used this recently is not evicted: its user may be about to open it
PROBE_WRITERS = 16
PROBE_ROUNDS = 3
PROBE_DAYS = 30  # days for which a probe result is trusted

# Texts that callers write
PREDICATE_CHARACTERS = 100_000
PREDICATE_DEPTH = 200
LIKE_RUNS = 200  # `%` in one pattern: RE2 without its cache needs (pattern x text) steps, 90 s a row at 50,000
QUERY_CHARACTERS = 10_000
QUERY_DEPTH = 100  # nested parentheses: tantivy's parser overflows the stack between 2,000 and 20,000
QUERY_CLAUSES = 4096  # words times columns searched; prefixes, phrases and ranges count 16 each
SEARCH_LIMIT = 100_000  # rows of one search: tantivy allocates 40 bytes a row and split up front
AGGREGATE_GROUPS = 1_000_000  # groups of one aggregation, or distinct values that it counts
SEARCH_PAGE = 262_144  # hits that are processed together if `where` or `order_by` selects among them

# Splits
SPLIT_ROWS = 1_000_000
SPLIT_BYTES = 1 * GIB  # bytes of row store, before the index is added
ROW_BATCH = 1024  # rows of one compressed block: reading a single row decompresses the whole block
BLOCK_CACHE_BYTES = 64 * MIB  # bytes of decoded blocks that a process caches
INDEX_HEAP_MIN = 15_000_000  # tantivy's minimum
INDEX_HEAP_MAX = 1_000_000_000
OPEN_WRITERS = 200  # partitions that one write keeps open at a time, each with a file
MERGE_SECONDS = 3600  # time limit of the child process that merges segments; beyond that the rows are re-indexed
OPEN_SPLITS = 64  # open indexes; each has a watcher thread of tantivy
OPEN_VIEWS = 8  # sets of splits that are kept open as one index each
VIEW_SPLITS = 512  # splits searched as one such index, each with 6 mapped files
MAPPED_SPLITS = 4096  # splits in all open views, each with 7 maps: Linux allows 65,530 maps per process
VIEW_BYTES = 16 * GIB  # bytes of index files of one such index, which are copied to the temporary folder

# Merges
TARGET_SIZE_FLOOR = MIB  # minimum target size of merged splits
MERGE_BATCH_BYTES = 1 * GIB  # bytes of sources after which a batch that has a group per worker is committed
MERGE_BATCH_GROUPS = 1000  # maximum groups per batch
PARALLEL_FETCHES = 8  # sources that one merge fetches from an object store in parallel
MERGE_DISK_RATIO = 2.5  # bytes in the temporary folder per byte of sources: index files, merged ones, rows, result; 2.1 was measured
MERGE_MEMORY_FLOOR = 128 * MIB  # bytes of memory per merge: the child process takes 30 MB, this one about as much
MERGE_MEMORY_RATIO = 1 / 16  # additional bytes of memory per byte of sources; the rest is mapped and need not stay in memory

# Statistics
STATS_CHARACTERS = 32

# Purge
OLDER_THAN = "7d"  # default retention of removed splits; there is no table option for it
UNREFERENCED_HOURS = 24  # minimum age of a split that no version references: its writer may not have committed yet

# Splits of other writers
UPSTREAM_FORM = 1  # version of the converted splits in the cache: a new number converts them again
UPSTREAM_SECONDS = 3600  # time limit for decoding one split
UPSTREAM_MEMORY_FLOOR = 2 * GIB  # address space of the process that decodes one: mostly thread stacks and allocator pools
UPSTREAM_MEMORY_RATIO = 40  # additional address space per byte of the split
UPSTREAM_MEMORY = 6 * GIB  # maximum of both together: the index of a split takes up to 1 GB
