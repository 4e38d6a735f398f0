"""Open splits, shared by the whole process: opening one costs a copy of its index and a thread of tantivy's."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path

from indextables import limits
from indextables.errors import SplitCorrupted
from indextables.splits.reader import SplitPlace, SplitReader

SplitKey = tuple[str, int, int, int]  # path, inode, size, time: another file under the same name is another split


class _SharedReader(SplitReader):
    """A reader that others use too: it is freed when the last of them has let go of it."""

    def close(self) -> None:
        pass


_lock = threading.Lock()
_readers: OrderedDict[SplitKey, _SharedReader] = OrderedDict()


def open_split(path: SplitPlace) -> SplitReader:
    """A reader from the cache of the OPEN_SPLITS last used. It need not be closed: that does nothing.

    FileNotFoundError with the name of a partial file that the store does not have.
    """
    key = split_key(path)
    with _lock:
        if key in _readers:
            _readers.move_to_end(key)
            return _readers[key]
    reader = _SharedReader(path)
    with _lock:
        reader = _readers.setdefault(key, reader)
        _readers.move_to_end(key)
        dropped = [_readers.popitem(last=False) for _ in range(len(_readers) - limits.OPEN_SPLITS)]
    del dropped  # outside the lock: freeing a reader unmaps files
    return reader


def split_key(path: SplitPlace) -> SplitKey:
    if not isinstance(path, Path):  # it changes while it fills
        return str(path.local), path.inode, path.size, 0
    try:
        status = os.stat(path)
    except FileNotFoundError as cause:
        raise SplitCorrupted(f"split {path} is missing") from cause
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns


def _after_fork() -> None:
    """A child starts with no readers: the threads that hold their locks, and tantivy's own, did not come along."""
    global _lock, _readers
    _lock = threading.Lock()
    _inherited.append(_readers)  # not freed, which might wait for those threads
    _readers = OrderedDict()


_inherited: list[OrderedDict[SplitKey, _SharedReader]] = []
os.register_at_fork(after_in_child=_after_fork)
