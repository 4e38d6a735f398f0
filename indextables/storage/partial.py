"""A partly downloaded file of a remote store: a sparse local file of the full size that is filled on demand.

Nothing records which bytes are present. Readers verify a checksum before they use bytes, which detects bytes that were never fetched or
that a killed process wrote in part. So processes share the file without a lock: all of them write the same bytes.
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
    """Usable as long as it is referenced, even after the cache evicted it. Safe to use from several threads."""

    def __init__(
        self, name: str, local: Path, size: int, tail_start: int, read: Callable[[int, int], bytes], on_growth: Callable[[], None]
    ) -> None:
        """`read(start, end)` reads from the store; `on_growth` is called after every `CACHE_CHECK_BYTES` written to the disk."""
        self.name = name  # in the store
        self.local = local
        self.size = size
        self.tail_start = tail_start  # start of the tail, which readers need first
        self._read = read
        self._on_growth = on_growth
        self._written = 0
        try:
            self.descriptor = os.open(local, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            weakref.finalize(self, os.close, self.descriptor).atexit = False
            os.truncate(self.descriptor, size)
            self.inode = os.fstat(self.descriptor).st_ino
        except OSError as error:
            raise StorageError(f"{name!r} cannot be cached in {local.parent}: {error.strerror or error}") from error

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Reads ranges from the store in parallel, fewer bytes where the file ends; FileNotFoundError with the name."""
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
            self._on_growth()
        try:
            while data:
                written = os.pwrite(self.descriptor, data, start)
                start, data = start + written, data[written:]
        except OSError as error:
            raise StorageError(f"{self.name!r} cannot be cached in {self.local.parent}: {error.strerror or error}") from error
