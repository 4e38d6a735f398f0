"""A file of a remote store of which only some bytes are on the local disk: a sparse file of its full size, which fills as they are needed.

Nothing records which bytes are there. Whoever uses them compares a checksum before, which tells bytes that were never fetched, or of which
a killed process wrote a part, from those that may be used. So processes share such a file without a lock: all write the same bytes.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from indextables import limits
from indextables.errors import StorageError


class PartialFile:
    """Usable while it is referenced, also after the cache dropped its name. Safe to use from several threads."""

    def __init__(
        self, name: str, local: Path, size: int, tail_start: int, read: Callable[[int, int], bytes], grown: Callable[[], None]
    ) -> None:
        """`read` gives bytes of the store; `grown` is called each time that many more bytes of it are on the disk."""
        self.name = name  # in the store
        self.local = local
        self.size = size
        self.tail_start = tail_start  # where its end begins, which is wanted first
        self._read = read
        self._grown = grown
        self._written = 0
        try:
            self.descriptor = os.open(local, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            weakref.finalize(self, os.close, self.descriptor).atexit = False
            os.truncate(self.descriptor, size)
            self.inode = os.fstat(self.descriptor).st_ino
        except OSError as error:
            raise StorageError(f"{name!r} cannot be kept in {local.parent}: {error.strerror or error}") from error

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of the store, in parallel, fewer where the file ends; FileNotFoundError with the name."""
        try:
            if len(ranges) == 1:
                return [self._read(*ranges[0])]
            with ThreadPoolExecutor(min(limits.PARALLEL_READS, max(1, len(ranges)))) as pool:
                return list(pool.map(lambda bounds: self._read(*bounds), ranges))
        except FileNotFoundError:
            raise FileNotFoundError(self.name) from None

    def write(self, start: int, data: memoryview) -> None:
        self._written += len(data)
        if self._written > limits.CACHE_CHECK_BYTES:
            self._written = 0
            self._grown()
        try:
            while data:
                written = os.pwrite(self.descriptor, data, start)
                start, data = start + written, data[written:]
        except OSError as error:
            raise StorageError(f"{self.name!r} cannot be kept in {self.local.parent}: {error.strerror or error}") from error
