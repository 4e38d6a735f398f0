"""Open splits, shared within the process, because opening one copies its index and starts a tantivy thread."""

from __future__ import annotations

import os
from pathlib import Path

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.process_cache import ProcessCache
from indextables.splits.reader import SplitPlace, SplitReader

SplitKey = tuple[str, int, int, int]  # path, inode, size, mtime: a file that replaces another has a different key


_readers: ProcessCache[SplitKey, SplitReader] = ProcessCache(lambda: (limits.OPEN_SPLITS,))


def open_split(path: SplitPlace) -> SplitReader:
    """A reader from the cache of the OPEN_SPLITS used last. FileNotFoundError names a partial file that the store does not have."""
    key = split_key(path)
    reader = _readers.get(key)
    return _readers.put(key, SplitReader(path)) if reader is None else reader


def split_key(path: SplitPlace) -> SplitKey:
    if not isinstance(path, Path):  # no mtime, which changes with every fetch
        return str(path.local), path.inode, path.size, 0
    try:
        status = os.stat(path)
    except FileNotFoundError as cause:
        raise SplitCorrupted(f"split {path} is missing") from cause
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns
