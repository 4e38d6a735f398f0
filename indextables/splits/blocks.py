"""Decoded blocks of rows that were read last, of all open splits together: searches come back to the same ones.

At most `limits.BLOCK_CACHE_BYTES` are kept, least recently used go first. Those of a split that was closed go the same way.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

import pyarrow as pa

from indextables import limits

BlockKey = tuple[int, tuple[str, ...] | None, int]  # row store, columns, number of the block

_lock = threading.Lock()
_blocks: OrderedDict[BlockKey, tuple[pa.RecordBatch, int]] = OrderedDict()  # with their bytes
_total = 0


def known_block(key: BlockKey) -> pa.RecordBatch | None:
    with _lock:
        found = _blocks.get(key)
        if found is None:
            return None
        _blocks.move_to_end(key)
        return found[0]


def keep_block(key: BlockKey, block: pa.RecordBatch) -> None:
    global _total
    size = block.get_total_buffer_size()
    if size > limits.BLOCK_CACHE_BYTES // 8:
        return
    dropped = []
    with _lock:
        if key not in _blocks:
            _blocks[key] = block, size
            _total += size
        while _total > limits.BLOCK_CACHE_BYTES:
            _, oldest = _blocks.popitem(last=False)
            _total -= oldest[1]
            dropped.append(oldest)
    del dropped  # outside the lock: that frees memory


def _after_fork() -> None:
    """A thread that held the lock did not come along."""
    global _lock, _blocks, _total
    _lock, _blocks, _total = threading.Lock(), OrderedDict(), 0


os.register_at_fork(after_in_child=_after_fork)
