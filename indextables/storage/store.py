"""The interface of stores and its guarantees.

Paths are relative to the store's root and already checked (`indextables.paths`). A store may be used from many threads, and after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from indextables import limits
from indextables.config import Config, default_of, parse_duration
from indextables.paths import TableRoot
from indextables.storage.partial import PartialFile


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """Which store, and how to reach it: a picklable value with which executors open the same store.

    Contains no credentials: every process finds them in its own environment, profile or instance.
    """

    root: TableRoot
    endpoint: str = field(default="", repr=False)
    region: str = field(default="", repr=False)
    single_writer: bool = False
    timeout: float = parse_duration(default_of("storage.timeout")) / 1000  # seconds
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a listing."""

    path: str
    size: int
    modified_ms: int  # by the store's own clock


@dataclass(frozen=True, slots=True)
class Capabilities:
    """How stores differ, for callers that choose between strategies. The guarantees of all stores are listed in `Store`."""

    has_latency: bool  # reads wait for a server, so reading several files in parallel is faster
    needs_atomicity_probe: bool  # servers may claim an atomic create that they do not have, so `storage.probe` tests it


LOCAL_CAPABILITIES = Capabilities(has_latency=False, needs_atomicity_probe=False)


class Store(Protocol):
    """Errors other than the stated ones are StorageError, or its subclass StorageRefused if a retry will not help.

    No method waits longer than `storage.timeout` for an answer, retries included; the transfer of a split has that long for each part.
    """

    @property
    def spec(self) -> StoreSpec:
        """How to open the same store in another process."""

    @property
    def root(self) -> TableRoot: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        """Every regular file below `folder`, never from a cache, each folder in ascending order of names; with `after`, only greater paths.

        Symbolic links are neither followed nor listed. A missing folder is empty.
        """

    def read(self, path: str) -> bytes:
        """All bytes, never part of a file; FileNotFoundError."""

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Like `read` for each path, in the order given; in parallel where that is faster."""

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end` (exclusive), fewer where the file ends; FileNotFoundError."""

    def create(self, path: str, data: bytes) -> bool:
        """Atomic create-if-absent: True if this call created the file, False if it already existed; durable when it returns.

        If the answer was lost, the stored bytes decide, so `data` must differ from what any other writer writes.
        CommitUnknown if even that is not possible. ConfigError if the store has no atomic create and no single writer is declared.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Replaces or creates a file; readers see the old bytes or the new ones."""

    def upload(self, source: Path, path: str) -> int:
        """Moves a finished local file to `path`, completely or not at all; durable when it returns. Returns its modification time.

        The name must be new: no two writers may upload to the same path.
        """

    def local_path(self, path: str, size: int) -> Path:
        """A local file with the bytes of `path`, which must never change; FileNotFoundError. `size` is its size according to the log.

        UnsafePath if it is outside the root. SplitCorrupted if a file that had to be fetched has another size; a local file is returned
        whatever its size, and its own checksums tell whether it is complete.
        """

    def fresh_copy(self, path: str, size: int) -> AbstractContextManager[Path]:
        """A local file with the bytes that the store has now, past every cache, until the context ends. Raises what `local_path` raises."""

    def partial_file(self, path: str, size: int, tail_start: int) -> PartialFile | None:
        """Like `local_path`, but downloads only bytes that are used, those from `tail_start` on first; None if `local_path` is as cheap."""

    def delete(self, path: str) -> None:
        """Deletes a file; no error if it does not exist."""
