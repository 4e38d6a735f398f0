"""Partial reads: for a split in an object store, only the bytes that a query needs are fetched.

Start with `PartialSplit`, which fetches and verifies pieces of the file; `write_sparse` writes the index files with the parts that a query
reads.
"""

from indextables.splits.remote.partial import PartialSplit, Piece
from indextables.splits.remote.sparse import write_sparse
