"""Which store, and how to reach it: a picklable value with which executors open the same store."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from indextables import limits
from indextables.config import Config
from indextables.paths import TableRoot


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """Contains no credentials: every process finds them in its own environment, profile or instance."""

    root: TableRoot
    endpoint: str = field(default="", repr=False)
    region: str = field(default="", repr=False)
    single_writer: bool = False
    timeout: float = 30.0  # seconds
    cache_bytes: int = limits.CACHE_BYTES  # maximum size of cached splits on this machine
    process: int | None = None  # the process id of a memory:// table, which exists in one process only

    @classmethod
    def of(cls, root: TableRoot, config: Config) -> StoreSpec:
        is_s3 = root.scheme == "s3"
        return cls(
            root,
            endpoint=config.get("s3.endpoint") if is_s3 else "",
            region=config.get("s3.region") if is_s3 else "",
            single_writer=config.get("storage.singleWriter"),
            timeout=config.get("storage.timeout"),
            cache_bytes=config.get("cache.maxSize"),
            process=os.getpid() if root.scheme == "memory" else None,
        )
