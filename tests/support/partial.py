"""Partial reads of a split, with a count of the bytes that are read."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from indextables.storage.file_cache import FileCache
from indextables.storage.partial import PartialFile


@dataclass
class CountingStore:
    """Serves ranges of a local file as a store does, and records them."""

    source: Path
    requests: list[tuple[int, int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, start: int, end: int) -> bytes:
        with self._lock:
            self.requests.append((start, end))
        with self.source.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    @property
    def bytes_read(self) -> int:
        size = self.source.stat().st_size
        return sum(min(end, size) - start for start, end in self.requests)

    def open(self, cache: Path, footer_start: int, size: int | None = None) -> PartialFile:
        """`size` is the size in the log; default: the real size."""
        known = self.source.stat().st_size if size is None else size
        file = FileCache(cache, "here").partial(str(self.source), known, footer_start, self.read)
        assert file is not None  # the file is not in the cache as a whole
        return file
