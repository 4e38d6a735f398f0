"""Decoded blocks of rows that were read last, of all open splits together: searches come back to the same ones.

At most `limits.BLOCK_CACHE_BYTES` are kept, least recently used go first. Those of a split that was closed go the same way.
"""

from __future__ import annotations

import pyarrow as pa

from indextables import limits
from indextables.process_cache import ProcessCache

BlockKey = tuple[int, tuple[str, ...] | None, int]  # row store, columns, number of the block


def _bytes(block: pa.RecordBatch) -> tuple[int]:
    return (block.get_total_buffer_size(),)


_blocks: ProcessCache[BlockKey, pa.RecordBatch] = ProcessCache(lambda: (limits.BLOCK_CACHE_BYTES,), _bytes)


def known_block(key: BlockKey) -> pa.RecordBatch | None:
    return _blocks.get(key)


def keep_block(key: BlockKey, block: pa.RecordBatch) -> None:
    """Unless it is so large that it would replace many others."""
    if block.get_total_buffer_size() <= limits.BLOCK_CACHE_BYTES // 8:
        _blocks.put(key, block)
