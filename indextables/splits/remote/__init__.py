"""Partial reads: for a split in an object store, only the bytes that a query needs are fetched."""

from indextables.splits.remote.partial import PartialSplit, Piece
from indextables.splits.remote.sparse import write_sparse
