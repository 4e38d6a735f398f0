"""An LRU cache of decoded row blocks, shared by all open splits, because searches often return to the same blocks.

It holds at most `limits.BLOCK_CACHE_BYTES`. Closing a split does not remove its blocks; they are evicted like any others.
"""

from __future__ import annotations

import pyarrow as pa

from indextables import limits
from indextables.process_cache import ProcessCache

BlockKey = tuple[int, tuple[str, ...] | None, int]  # row store, columns, block number


def _bytes(block: pa.RecordBatch) -> tuple[int]:
    return (block.get_total_buffer_size(),)


_blocks: ProcessCache[BlockKey, pa.RecordBatch] = ProcessCache(lambda: (limits.BLOCK_CACHE_BYTES,), _bytes)


def cached_block(key: BlockKey) -> pa.RecordBatch | None:
    return _blocks.get(key)


def cache_block(key: BlockKey, block: pa.RecordBatch) -> None:
    """Caches a block, unless it is so large that it would evict many others."""
    if block.get_total_buffer_size() <= limits.BLOCK_CACHE_BYTES // 8:
        _blocks.put(key, block)
