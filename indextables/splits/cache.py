"""Open splits, shared by the whole process: opening one costs a copy of its index and a thread of tantivy's."""

from __future__ import annotations

import os
from pathlib import Path

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.process_cache import ProcessCache
from indextables.splits.reader import SplitPlace, SplitReader

SplitKey = tuple[str, int, int, int]  # path, inode, size, time: another file under the same name is another split


class _SharedReader(SplitReader):
    """A reader that others use too: it is freed when the last of them has let go of it."""

    def close(self) -> None:
        pass


_readers: ProcessCache[SplitKey, _SharedReader] = ProcessCache(lambda: (limits.OPEN_SPLITS,))


def open_split(path: SplitPlace) -> SplitReader:
    """A reader from the cache of the OPEN_SPLITS last used. It need not be closed: that does nothing.

    FileNotFoundError with the name of a partial file that the store does not have.
    """
    key = split_key(path)
    reader = _readers.get(key)
    return _readers.put(key, _SharedReader(path)) if reader is None else reader


def split_key(path: SplitPlace) -> SplitKey:
    if not isinstance(path, Path):  # it changes while it fills
        return str(path.local), path.inode, path.size, 0
    try:
        status = os.stat(path)
    except FileNotFoundError as cause:
        raise SplitCorrupted(f"split {path} is missing") from cause
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns
