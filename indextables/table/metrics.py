"""Counters of what this process did with the log of a table: checkpoints written, their size and duration, how states were loaded."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from indextables import limits
from indextables.process_cache import ProcessCache


class Metrics:
    """Thread-safe counters of one table in this process. All are integers; those without `last` in their name are sums."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = {
            "checkpoints_created": 0,
            "checkpoint_ms": 0,
            "last_checkpoint_ms": 0,
            "last_checkpoint_bytes": 0,
            "last_checkpoint_compression_percent": 0,  # stored bytes relative to uncompressed bytes; 0 if unknown
            "loads_from_checkpoint": 0,
            "load_from_checkpoint_ms": 0,
            "loads_from_log": 0,
            "load_from_log_ms": 0,
            "log_files_cleaned_up": 0,
        }

    def checkpoint_created(self, ms: int, size: int, compression_percent: int) -> None:
        with self._lock:
            self._numbers["checkpoints_created"] += 1
            self._numbers["checkpoint_ms"] += ms
            self._numbers["last_checkpoint_ms"] = ms
            self._numbers["last_checkpoint_bytes"] = size
            self._numbers["last_checkpoint_compression_percent"] = compression_percent

    def state_loaded(self, ms: int, *, from_checkpoint: bool) -> None:
        source = "checkpoint" if from_checkpoint else "log"
        with self._lock:
            self._numbers[f"loads_from_{source}"] += 1
            self._numbers[f"load_from_{source}_ms"] += ms

    def cleaned_up(self, files: int) -> None:
        with self._lock:
            self._numbers["log_files_cleaned_up"] += files

    def to_dict(self) -> dict[str, int]:
        with self._lock:
            return dict(self._numbers)


_TABLES: ProcessCache[Hashable, Metrics] = ProcessCache(lambda: (limits.CACHED_TABLES,))


def metrics_of(key: Hashable) -> Metrics:
    """The counters of one table in this process. Those of the least recently used tables are evicted."""
    return _TABLES.get_or_make(key, Metrics)
