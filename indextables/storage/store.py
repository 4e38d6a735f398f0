"""What the rest of the product may rely on from a store, whatever it is.

Paths are relative to the store's root and already checked (`indextables.paths`). A store may be used from many threads, and after a fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from indextables.paths import TableRoot
from indextables.storage.partial import PartialFile
from indextables.storage.spec import StoreSpec


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as a listing shows it."""

    path: str
    size: int
    modified_ms: int  # by the store's own clock


@dataclass(frozen=True, slots=True)
class Capabilities:
    """How stores differ, for callers that choose between two ways of working. What every store guarantees is said at `Store`."""

    has_latency: bool  # every read waits for an answer, so that reading several files at a time takes less time than one after the other
    atomic_create_needs_proof: bool  # the atomic create rests on the server's word, which `storage.probe` puts to the test


LOCAL = Capabilities(has_latency=False, atomic_create_needs_proof=False)


class Store(Protocol):
    """Errors other than the stated ones are StorageError, or its child StorageRefused where trying again is of no use.

    No verb waits longer than `storage.timeout` for an answer, retries included; a transfer of a split has that long for each of its parts.
    """

    @property
    def spec(self) -> StoreSpec:
        """How to open the same store in another process."""

    @property
    def root(self) -> TableRoot: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def list(self, folder: str, after: str | None = None) -> Iterator[Entry]:
        """Every plain file below `folder`, fresh, the names of a folder in ascending order; with `after` only paths beyond it.

        Symbolic links are neither followed nor shown. Nothing there: empty.
        """

    def read(self, path: str) -> bytes:
        """All bytes, never half a file; FileNotFoundError if it is not there."""

    def read_many(self, paths: Sequence[str]) -> Sequence[bytes]:
        """Like `read` of each, in the order given, in parallel."""

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`, fewer where the file ends; FileNotFoundError."""

    def create(self, path: str, data: bytes) -> bool:
        """Atomic create-if-absent: True if this call made the file, False if it was there; durable when it returns.

        Where the answer was lost, the bytes that are there decide: so `data` must be unlike what any other writer gives.
        CommitUnknown if it cannot be decided. ConfigError if the store has no such thing and no single writer was declared.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Readers see the old bytes or the new ones."""

    def upload(self, source: Path, path: str) -> int:
        """Moves a finished local file to `path`; complete or not there at all, durable when it returns. Gives its modification time.

        The name must be new: no two writers upload to the same.
        """

    def local_path(self, path: str, size: int) -> Path:
        """A local file with the bytes of `path`, which never change; FileNotFoundError. `size` is what the log says it has.

        UnsafePath if it would lie outside of the root, SplitCorrupted if its size is another.
        """

    def fresh_copy(self, path: str, size: int) -> AbstractContextManager[Path]:
        """A local file with the bytes that the store has now, past every cache, until the context ends. Raises what `local_path` raises."""

    def partial_file(self, path: str, size: int, tail_start: int) -> PartialFile | None:
        """The same for who needs some of the bytes, and those from `tail_start` on first; None where `local_path` is no more work."""

    def delete(self, path: str) -> None:
        """It is gone afterwards, or was before."""
